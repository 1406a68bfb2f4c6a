package elftest

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// Compiler output is kept in a folder of the user's cache, by a hash of everything that it depends
// on. Output that no test has used for a week is removed.

// findKept returns the folder, or "" if nothing can be kept.
func findKept() string {
	cache, err := os.UserCacheDir()
	if err != nil {
		return ""
	}
	dir := filepath.Join(cache, "xray-tests", "compiled")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return ""
	}
	entries, _ := os.ReadDir(dir)
	for _, e := range entries {
		if info, err := e.Info(); err == nil && time.Since(info.ModTime()) > 7*24*time.Hour {
			_ = os.RemoveAll(filepath.Join(dir, e.Name()))
		}
	}
	return dir
}

// restore copies the file kept under a key to a file.
func restore(key, file string) bool {
	if built.kept == "" || key == "" {
		return false
	}
	kept := filepath.Join(built.kept, key)
	now := time.Now()
	return os.Chtimes(kept, now, now) == nil && copyProgram(kept, file) == nil
}

// keep keeps a file under a key, if that is possible.
func keep(key, file string) {
	if built.kept == "" || key == "" {
		return
	}
	temp, err := os.MkdirTemp(built.kept, "new-*")
	if err != nil {
		return
	}
	defer os.RemoveAll(temp)
	// Another process may see the file only when it is complete.
	if copied := filepath.Join(temp, key); copyProgram(file, copied) == nil {
		_ = os.Rename(copied, filepath.Join(built.kept, key))
	}
}

// copyProgram copies a file that can be executed at once. If this process wrote it, another goroutine
// that starts a program might pass the open file on, and a file open for writing cannot be
// executed.
func copyProgram(from, to string) error { return exec.Command("cp", from, to).Run() }

// installed changes with every package of the system: compilers, linkers, libraries and headers.
const installed = "/var/lib/dpkg/status"

// keyOf returns the name under which the result of a command is kept, or "" if its dependencies
// are unknown. It expects files as separate arguments, and folders of headers as -I.
func keyOf(compiler string, args []string) string {
	h := sha256.New()
	for _, name := range []string{"CPATH", "C_INCLUDE_PATH", "CPLUS_INCLUDE_PATH", "LIBRARY_PATH"} {
		fmt.Fprintf(h, "%q\n", os.Getenv(name))
	}
	path, err := exec.LookPath(compiler)
	errs := []error{err, addStamp(h, path), addStamp(h, installed)}
	for _, arg := range args {
		if strings.HasPrefix(arg, "-g") { // debug information names the folder
			here, err := os.Getwd()
			errs = append(errs, err)
			fmt.Fprintf(h, "%q\n", here)
		}
		if dir, ok := strings.CutPrefix(arg, "-I"); ok {
			errs = append(errs, addSources(h, dir), addSources(h, filepath.Join(dir, "xray")))
		}
		if info, err := os.Stat(arg); err == nil && info.Mode().IsRegular() {
			errs = append(errs, addFile(h, arg))
			if ext := filepath.Ext(arg); ext == ".a" || ext == ".o" {
				continue // whatever its name
			}
			errs = append(errs, addSources(h, filepath.Dir(arg)))
		}
		if strings.Contains(arg, os.TempDir()) || strings.HasPrefix(arg, "@") {
			return "" // the next run has other paths
		}
		fmt.Fprintf(h, "%q\n", arg)
	}
	if errors.Join(errs...) != nil {
		return ""
	}
	return hex.EncodeToString(h.Sum(nil))
}

// keyOfText is keyOf for a compiler that reads a text, and no file of its folder. With debug information,
// which names that folder, it returns "".
func keyOfText(compiler, text string, args []string) string {
	if slices.ContainsFunc(args, func(arg string) bool { return strings.HasPrefix(arg, "-g") }) {
		return ""
	}
	key := keyOf(compiler, args)
	if key == "" {
		return ""
	}
	sum := sha256.Sum256([]byte(key + "\x00" + text))
	return hex.EncodeToString(sum[:])
}

// addStamp adds what identifies a version of a file.
func addStamp(h hash.Hash, path string) error {
	info, err := os.Stat(path)
	if err == nil {
		fmt.Fprintf(h, "%q %d %d\n", path, info.Size(), info.ModTime().UnixNano())
	}
	return err
}

func addFile(h hash.Hash, path string) error {
	data, err := os.ReadFile(path)
	fmt.Fprintf(h, "%d\n", len(data))
	h.Write(data)
	return err
}

// addSources adds the files of a folder, if it exists, that sources may include.
func addSources(h hash.Hash, dir string) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	for _, e := range entries {
		if ext := filepath.Ext(e.Name()); e.Type().IsRegular() && slices.Contains([]string{".h", ".c", ".cc", ".cpp", ".S"}, ext) {
			fmt.Fprintf(h, "%q\n", e.Name())
			err = errors.Join(err, addFile(h, filepath.Join(dir, e.Name())))
		}
	}
	return err
}
