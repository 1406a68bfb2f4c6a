package recorder

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
)

// leftMagic begins the packet by which a process says that it executes a program that cannot load the
// runtime. The rest is as in a question which functions to record.
const leftMagic = "XRAY-LEFT-1\x00\x00\x00\x00\x00"

// leave reports a program that cannot load the runtime, if it is instrumented.
func (ob *Observer) leave(pid int, packet []byte) {
	f := fields(packet)
	path := f.text(questionPathAt, questionPathSize)
	if f.u64(questionSessionAt) != ob.options.Session || path == "" {
		return
	}
	if _, known := ob.left.LoadOrStore(path, ""); known {
		return
	}
	if err := whyLeft(pid, path); err != nil {
		ob.left.Store(path, err.Error())
	}
}

// whyLeft returns why a program that a process executes cannot load the runtime, or nil if there is nothing
// to record.
func whyLeft(pid int, path string) error {
	for _, file := range filesOf(pid, path) {
		if info, err := os.Stat(file); err != nil || !info.Mode().IsRegular() || !HasSleds(file) {
			continue
		}
		p, err := Inspect(file)
		if err != nil {
			return err
		}
		p.Path = path
		if p.Linked {
			return nil
		}
		if err := p.CheckPreload(); err != nil {
			return err
		}
		return fmt.Errorf("%s uses the loader %s, which cannot load the recorder. Link the recorder in with the flags that `xray runtime flags` prints", path, p.Interpreter)
	}
	return nil
}

// filesOf returns where the file may be that a process, which may see other files than this one, has at a path.
func filesOf(pid int, path string) []string {
	return []string{filepath.Join("/proc", strconv.Itoa(pid), "root", path), path}
}
