//go:build unix

package fileio

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// Append opens the file at path to append to it. If create is set and there is none, it creates one that only
// this user may read. Otherwise the file must be [Own].
func Append(path string, create bool) (*os.File, error) {
	if create {
		file, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND|os.O_CREATE|os.O_EXCL, 0o600)
		if !errors.Is(err, fs.ErrExist) {
			return file, err
		}
	}
	return open(path, os.O_WRONLY|os.O_APPEND)
}

// Own opens the file at path to read it. It must be a regular file of this user or root, without another name,
// and not behind a symbolic link: in a folder where others may write, any other file can be theirs, or a link
// of theirs to a file of this user.
func Own(path string) (*os.File, error) { return open(path, os.O_RDONLY) }

func open(path string, flags int) (*os.File, error) {
	file, err := os.OpenFile(path, flags|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if errors.Is(err, syscall.ELOOP) {
		return nil, fmt.Errorf("%s is a symbolic link, which xray does not follow here", path)
	}
	if err != nil {
		return nil, err
	}
	if err := isOwn(file, path); err != nil {
		file.Close()
		return nil, err
	}
	return file, nil
}

func isOwn(file *os.File, path string) error {
	info, err := file.Stat()
	if err != nil {
		return err
	}
	st := info.Sys().(*syscall.Stat_t)
	switch {
	case !info.Mode().IsRegular():
		return fmt.Errorf("%s is not a regular file", path)
	case !isOurs(st.Uid):
		return fmt.Errorf("%s belongs to user %d", path, st.Uid)
	case st.Nlink > 1:
		return fmt.Errorf("%s has another name (a hard link), so it may be another file", path)
	}
	return nil
}

// isPlanted returns an error if a link, a FIFO or a device is another user's, in a sticky folder where all may
// write, such as /tmp. The kernel does not follow such links, or open such FIFOs to create files: see
// protected_symlinks and protected_fifos in proc(5).
func isPlanted(path string) error {
	info, err := os.Lstat(path)
	folder, folderErr := os.Stat(filepath.Dir(path))
	if err != nil || folderErr != nil || folder.Mode()&fs.ModeSticky == 0 || folder.Mode().Perm()&0o002 == 0 {
		return nil
	}
	uid := info.Sys().(*syscall.Stat_t).Uid
	if int(uid) == os.Geteuid() || uid == folder.Sys().(*syscall.Stat_t).Uid {
		return nil
	}
	return fmt.Errorf("%s is of user %d, in a folder where all may write", path, uid)
}

func isOurs(uid uint32) bool { return uid == 0 || int(uid) == os.Geteuid() }

// Private returns an error unless only this user and root can change what is at path. So path, each folder
// above it, and each symbolic link on the way belong to one of them, and others cannot write there. Folders
// above may be sticky, such as /tmp: there, others cannot replace what is not theirs.
func Private(path string) error {
	path, err := filepath.Abs(path)
	if err != nil {
		return err
	}
	at, rest := string(filepath.Separator), strings.Split(path, string(filepath.Separator))
	if err := isPrivate(at, len(rest) > 0); err != nil {
		return err
	}
	for links := 0; len(rest) > 0; {
		name := rest[0]
		if rest = rest[1:]; name == "" || name == "." {
			continue
		}
		if at = filepath.Join(at, name); name == ".." {
			continue // the links before it were resolved
		}
		target, err := os.Readlink(at)
		if err := isPrivate(at, len(rest) > 0 || err == nil); err != nil {
			return err
		}
		if err != nil {
			continue // not a link
		}
		if links++; links > 40 {
			return fmt.Errorf("%s: too many symbolic links", path)
		}
		if at = filepath.Dir(at); filepath.IsAbs(target) {
			at = string(filepath.Separator)
		}
		rest = append(strings.Split(target, string(filepath.Separator)), rest...)
	}
	return nil
}

// isPrivate checks one file or folder on the way. above means that the path goes on.
func isPrivate(path string, above bool) error {
	info, err := os.Lstat(path)
	if err != nil {
		return err
	}
	uid, mode := info.Sys().(*syscall.Stat_t).Uid, info.Mode()
	switch {
	case !isOurs(uid) && (!above || !isUnmapped(uid)):
		return fmt.Errorf("%s belongs to user %d, who could change what this user runs", path, uid)
	case mode&fs.ModeSymlink != 0 || above && mode&fs.ModeSticky != 0:
		return nil
	case mode.Perm()&0o022 != 0:
		return fmt.Errorf("others may write to %s, and could change what this user runs; to prevent that: chmod go-w %[1]s", path)
	}
	return nil
}

// isUnmapped reports whether a user may be one that the user namespace does not know. In a container without
// root, that is the owner of / and /home.
func isUnmapped(uid uint32) bool {
	const overflow, all = 65534, "         0          0 4294967295\n"
	users, err := os.ReadFile("/proc/self/uid_map")
	return uid == overflow && err == nil && string(users) != all
}
