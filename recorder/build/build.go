package build

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/xray-tools/xray/internal/fileio"
	"github.com/xray-tools/xray/recorder"
)

// Library is the compiled runtime: a folder laid out as for installation.
type Library struct{ dir string }

// Preload returns the path of the shared object for LD_PRELOAD.
func (l Library) Preload() string { return filepath.Join(l.dir, "lib", PreloadName) }

// Archive returns the path of the archive, to be linked with --whole-archive.
func (l Library) Archive() string { return filepath.Join(l.dir, "lib", archiveName) }

// Include returns the folder that holds xray/recorder.h.
func (l Library) Include() string { return filepath.Join(l.dir, "include") }

const (
	PreloadName = "libxray-recorder.so"
	archiveName = "libxray-recorder.a"
	// sourceDir is the folder of the runtime's sources during compilation.
	sourceDir = "src"
)

// linkFlags create the shared object. It must not be unloaded, because sleds jump into it.
var linkFlags = []string{
	"-shared", "-Wl,-soname," + PreloadName, "-Wl,-z,nodelete,-z,now,-z,noexecstack", "-pthread", "-ldl",
}

// systemCache is root's cache for the compiled recorder. Programs that root starts may change to
// another user and execute other programs. That user must be able to read the recorder.
const systemCache = "/var/cache/xray"

// caches returns the directories in which compiled recorders may be, and the permissions of new
// ones. New recorders go to the first directory.
func caches() (dirs []string, perm os.FileMode, err error) {
	perm = 0o700
	if os.Geteuid() == 0 && os.Getenv("XDG_CACHE_HOME") == "" {
		dirs, perm = append(dirs, systemCache), 0o755
	}
	cache, err := os.UserCacheDir()
	if err == nil {
		dirs = append(dirs, filepath.Join(cache, "xray"))
	} else if len(dirs) == 0 {
		return nil, 0, fmt.Errorf("no cache directory for the compiled recorder: %w; set XDG_CACHE_HOME", err)
	}
	return dirs, perm, nil
}

// Runtime compiles the runtime with the C compiler cc into a cache, unless it is already there. That is
// the user's cache, but for root /var/cache/xray, unless XDG_CACHE_HOME is set. If cc is empty, the
// compiler is $CC, or the first of cc, gcc and clang that is installed. If none is installed, Runtime uses
// what one of these compilers has built earlier for this version of xray. If several processes build at
// once, one compiles and the others wait. A new recorder makes room: see removeUnused.
func Runtime(ctx context.Context, cc string) (Library, error) {
	if err := recorder.Supported(); err != nil {
		return Library{}, err
	}
	parents, perm, err := caches()
	if err != nil {
		return Library{}, err
	}
	name := "recorder-" + sourcesKey()
	c, err := findCompiler(ctx, cc)
	if errors.Is(err, errNoCompiler) {
		for _, parent := range parents {
			dir, linkErr := filepath.EvalSymlinks(filepath.Join(parent, name))
			if linkErr != nil {
				continue
			}
			noteUse(ctx, dir)
			if err := checkBuilt(dir); err != nil {
				return Library{}, err
			}
			return Library{dir}, nil
		}
	}
	if err != nil {
		return Library{}, err
	}
	// If the user named a compiler, do not use a library from another one: its libc may differ.
	named := cc != "" || os.Getenv("CC") != ""
	for i, parent := range parents {
		l, err := c.buildIn(ctx, parent, name, perm, named)
		if err == nil || i == len(parents)-1 || !errors.Is(err, errReadOnly) {
			return l, err
		}
	}
	return Library{}, nil // there is at least one
}

var errReadOnly = errors.New("set XDG_CACHE_HOME to a writable directory")

// buildIn builds the runtime in a directory of parent, unless it is already there. If no compiler was
// named, a link named name to the directory is how machines without a compiler find it.
func (c *compiler) buildIn(ctx context.Context, parent, name string, perm os.FileMode, named bool) (Library, error) {
	usual := filepath.Join(parent, name)
	dir := usual + "-" + c.key()
	if !named {
		defer func() { _ = os.Symlink(filepath.Base(dir), usual) }()
	}
	noteUse(ctx, dir)
	err := checkBuilt(dir)
	if err == nil || !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, errDamaged) {
		return Library{dir}, err
	}
	if err := os.MkdirAll(parent, perm); err != nil {
		return Library{}, fmt.Errorf("%w; %w", err, errReadOnly)
	}
	if err := private(parent); err != nil {
		return Library{}, err
	}
	temp, err := os.MkdirTemp(parent, "build-*")
	if err != nil {
		return Library{}, fmt.Errorf("%w; %w", err, errReadOnly)
	}
	defer os.RemoveAll(temp)
	unlock, err := lockFolder(ctx, parent)
	if err != nil {
		return Library{}, err
	}
	defer unlock()
	switch err := checkBuilt(dir); {
	case err == nil:
		return Library{dir}, nil // another process has built it meanwhile
	case errors.Is(err, errDamaged):
		if err := os.RemoveAll(dir); err != nil {
			return Library{}, err
		}
	}
	if err := errors.Join(c.build(ctx, temp), writeSums(temp)); err != nil {
		return Library{}, err
	}
	if err := os.Chmod(temp, perm); err != nil {
		return Library{}, err
	}
	// Not every file system has locks. A rename replaces only an empty folder, so the first complete
	// build stays.
	if err := os.Rename(temp, dir); err != nil {
		if checkBuilt(dir) != nil {
			return Library{}, err
		}
	}
	removeUnused(ctx, parent)
	return Library{dir}, nil
}

// private returns an error if other users could change what is in a folder of compiled recorders, which
// programs of this user load.
func private(dir string) error {
	if err := fileio.Private(dir); err != nil {
		return fmt.Errorf("the folder for compiled recorders is not safe: %w; or set XDG_CACHE_HOME to a directory of your own", err)
	}
	return nil
}

// sumsName is the file with the checksums of a compiled recorder.
const sumsName = "sums"

// errDamaged means that a compiled recorder is not what the compiler wrote.
var errDamaged = errors.New("damaged")

// checkBuilt checks that a folder has a compiled recorder as the compiler wrote it, that others cannot change.
func checkBuilt(dir string) error {
	if _, err := os.Lstat(dir); err != nil {
		return err
	}
	if err := private(dir); err != nil {
		return err
	}
	sums, err := sumsOf(dir, private)
	if err != nil {
		return err
	}
	want, err := os.ReadFile(filepath.Join(dir, sumsName))
	if err != nil || !bytes.Equal(sums, want) {
		return fmt.Errorf("%s: the compiled recorder is %w: remove this folder", dir, errDamaged)
	}
	return nil
}

// writeSums writes the checksums of a compiled recorder, which others must not change, whatever the umask is.
func writeSums(dir string) error {
	sums, err := sumsOf(dir, func(path string) error {
		info, err := os.Lstat(path)
		if err != nil {
			return err
		}
		return os.Chmod(path, info.Mode().Perm()&^0o022)
	})
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, sumsName), sums, 0o644)
}

// sumsOf returns the checksums of the files below a folder. It calls check for each file and folder.
func sumsOf(dir string, check func(path string) error) ([]byte, error) {
	var sums bytes.Buffer
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil {
			err = check(path)
		}
		name, relErr := filepath.Rel(dir, path)
		if err = errors.Join(err, relErr); err != nil || d.IsDir() || name == sumsName {
			return err
		}
		data, err := os.ReadFile(path)
		fmt.Fprintf(&sums, "%x  %s\n", sha256.Sum256(data), name)
		return err
	})
	return sums.Bytes(), err
}

// compiler is a C compiler: its command and its version text.
type compiler struct {
	command []string
	version string
}

func (c *compiler) gcc() bool { return !strings.Contains(c.version, "clang") }

func (c *compiler) String() string { return strings.Join(c.command, " ") }

// findCompiler finds the compiler that cc or the environment names.
func findCompiler(ctx context.Context, cc string) (*compiler, error) {
	if cc == "" {
		cc = os.Getenv("CC")
	}
	if command := strings.Fields(cc); len(command) > 0 {
		return newCompiler(ctx, command)
	}
	for _, name := range []string{"cc", "gcc", "clang"} {
		if _, err := exec.LookPath(name); err == nil {
			return newCompiler(ctx, []string{name})
		}
	}
	return nil, errNoCompiler
}

var errNoCompiler = errors.New("no C compiler found, but xray must compile the recorder once: " +
	"install cc, gcc or clang (on Debian and Ubuntu: apt install gcc), set CC to a compiler, or copy ~/.cache/xray (root's is " + systemCache + ") from a machine where this version of xray has recorded")

func newCompiler(ctx context.Context, command []string) (*compiler, error) {
	path, err := exec.LookPath(command[0])
	if err == nil {
		path, err = filepath.Abs(path) // it runs in another folder
	}
	if err != nil {
		return nil, fmt.Errorf("C compiler: %w", err)
	}
	command = slices.Concat([]string{path}, command[1:])
	out, err := run(ctx, "", command, "--version")
	if err != nil {
		return nil, fmt.Errorf("C compiler: %w", err)
	}
	return &compiler{command, string(out)}, nil
}

func (c *compiler) flags() []string { return recorder.CompileFlags(c.gcc()) }

// key identifies the compiler and its flags. Two names of one program have the same key, for example
// cc and gcc.
func (c *compiler) key() string {
	h := sha256.New()
	program := c.command[0]
	if target, err := filepath.EvalSymlinks(program); err == nil {
		program = target
	}
	_, version, _ := strings.Cut(c.version, " ") // GCC first prints the name by which it was called
	fmt.Fprintf(h, "%q %q %q %q %q\n", program, c.command[1:], version, c.flags(), linkFlags)
	return hex.EncodeToString(h.Sum(nil)[:8])
}

// sourcesKey identifies the sources of the runtime.
func sourcesKey() string {
	h := sha256.New()
	// Embedded files can always be read.
	_ = fs.WalkDir(recorder.Sources(), ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := fs.ReadFile(recorder.Sources(), path)
		fmt.Fprintf(h, "%s %d\n%s", path, len(data), data)
		return err
	})
	return hex.EncodeToString(h.Sum(nil)[:8])
}

// build compiles into dir.
func (c *compiler) build(ctx context.Context, dir string) error {
	src, lib := filepath.Join(dir, sourceDir), filepath.Join(dir, "lib")
	if err := os.CopyFS(src, recorder.Sources()); err != nil {
		return err
	}
	if err := errors.Join(os.Mkdir(lib, 0o777), copyHeader(dir)); err != nil {
		return err
	}
	objects, err := c.compile(ctx, src)
	if err != nil {
		return err
	}
	link := slices.Concat([]string{"-o", filepath.Join("..", "lib", PreloadName)}, objects, linkFlags)
	if _, err := run(ctx, src, c.command, link...); err != nil {
		return fmt.Errorf("cannot link the recorder: %w", err)
	}
	linked := slices.DeleteFunc(slices.Clone(objects), isInterposed)
	archive := slices.Concat([]string{"rcs", filepath.Join("..", "lib", archiveName)}, linked)
	if _, err := run(ctx, src, archiver(), archive...); err != nil {
		return fmt.Errorf("cannot archive the recorder: %w", err)
	}
	if err := c.buildCalls(ctx, filepath.Join(src, callsDir)); err != nil {
		return err
	}
	return os.RemoveAll(src)
}

// isInterposed reports whether an object file replaces functions of libc. Only the shared object
// can do that: linked-in code cannot find libc's functions after its own.
func isInterposed(object string) bool {
	return strings.HasPrefix(object, "interpose") || object == "jumps.o"
}

// compile compiles each source file in src to an object file in the same folder.
func (c *compiler) compile(ctx context.Context, src string) ([]string, error) {
	var files []string
	for _, pattern := range []string{"*.c", "*.S"} {
		found, err := fs.Glob(recorder.Sources(), pattern)
		if err != nil {
			return nil, err
		}
		files = append(files, found...)
	}
	return c.compileFiles(ctx, src, files)
}

func (c *compiler) compileFiles(ctx context.Context, src string, files []string) ([]string, error) {
	var objects []string
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(runtime.GOMAXPROCS(0))
	for _, f := range files {
		o := strings.TrimSuffix(f, filepath.Ext(f)) + ".o"
		objects = append(objects, o)
		g.Go(func() error {
			args := slices.Concat(c.flags(), []string{"-c", "-o", o, f})
			if _, err := run(ctx, src, c.command, args...); err != nil {
				return fmt.Errorf("cannot compile the recorder: %w", err)
			}
			return nil
		})
	}
	return objects, g.Wait()
}

// copyHeader writes the public header to the include folder of dir.
func copyHeader(dir string) error {
	headers, err := fs.Sub(recorder.Sources(), "xray")
	if err != nil {
		return err
	}
	return os.CopyFS(filepath.Join(dir, "include", "xray"), headers)
}

// archiver is the command that makes archives.
func archiver() []string {
	if ar := strings.Fields(os.Getenv("AR")); len(ar) > 0 {
		return ar
	}
	for _, name := range []string{"ar", "gcc-ar", "llvm-ar"} {
		if _, err := exec.LookPath(name); err == nil {
			return []string{name}
		}
	}
	return []string{"ar"} // running it reports that it is missing
}

// maxDiagnostics limits how much of a tool's output becomes part of an error.
const maxDiagnostics = 4096

// run runs a tool in dir and returns its output. If the tool fails, the error includes its
// messages.
func run(ctx context.Context, dir string, command []string, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, command[0], slices.Concat(command[1:], args)...)
	cmd.Dir = dir
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err == nil {
		return out, nil
	}
	if said := bytes.TrimSpace(stderr.Bytes()); len(said) > 0 {
		said = said[:min(len(said), maxDiagnostics)]
		return out, fmt.Errorf("%s: %w\n%s", strings.Join(command, " "), err, said)
	}
	return out, fmt.Errorf("%s: %w", strings.Join(command, " "), err)
}

// Shared compiles a C file into a shared object for programs of this machine. It ignores $CC, which may be for
// another one.
func Shared(ctx context.Context, library, source string) error {
	for _, name := range []string{"cc", "gcc", "clang"} {
		if _, err := exec.LookPath(name); err == nil {
			_, err := run(ctx, "", []string{name}, "-O2", "-fPIC", "-shared", "-Wl,-z,noexecstack", "-o", library, source, "-ldl")
			return err
		}
	}
	return errors.New("no C compiler found: install cc, gcc or clang (on Debian and Ubuntu: apt install gcc)")
}
