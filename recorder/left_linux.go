package recorder

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"
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
	if err := whyLeft(pid, path, ""); err != nil {
		ob.left.Store(path, err.Error())
	}
}

// execution identifies the program that a process executes, or is 0 if this is unknown: it is where the stack began,
// which is random, and the file.
type execution struct {
	stack uint64
	path  string
}

func executionOf(pid int) execution {
	path, err := os.Readlink(filepath.Join("/proc", strconv.Itoa(pid), "exe"))
	if err != nil {
		return execution{}
	}
	const startStack = 28
	return execution{statField(pid, startStack), path}
}

// watchExecution notices that a process has executed a program. If that has the runtime, it gets an arena of its
// own, and this entry of the process ends.
func (p *observedProcess) watchExecution(of execution) {
	const often = 100 * time.Millisecond
	if p.host <= 0 || time.Since(p.compared) < often {
		return
	}
	p.compared = time.Now()
	if now := executionOf(p.host); now != of && now != (execution{}) && of != (execution{}) {
		p.executes = now.path
	}
}

// reportExecuted reports the program that a process has executed without the runtime, if it is instrumented.
func (ob *Observer) reportExecuted(p *observedProcess) {
	path := p.executes
	if path == "" {
		return
	}
	if _, known := ob.left.LoadOrStore(path, ""); known {
		return
	}
	const how = "was executed by a system call, and not by the C library, without the recorder in its environment. To record it, run it with xray record, or attach with -p"
	if err := whyLeft(p.host, path, how); err != nil {
		ob.left.Store(path, err.Error())
	}
}

// whyLeft returns why a program that a process executes cannot load the runtime, or nil if there is nothing
// to record. how is the reason if it could have loaded it.
func whyLeft(pid int, path, how string) error {
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
		if how != "" {
			return fmt.Errorf("%s %s", path, how)
		}
		return fmt.Errorf("%s uses the loader %s, which cannot load the recorder. Link the recorder in with the flags that `xray runtime flags` prints", path, p.Interpreter)
	}
	return nil
}

// filesOf returns where the file may be that a process, which may see other files than this one, has at a path.
func filesOf(pid int, path string) []string {
	return []string{filepath.Join("/proc", strconv.Itoa(pid), "root", path), path}
}
