package observe

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/xray-tools/xray/recorder/build"
	"github.com/xray-tools/xray/recorder/proc"
	"github.com/xray-tools/xray/recorder/ring"
)

// leftPrograms are programs that processes executed without the runtime.
type leftPrograms struct {
	mu     sync.Mutex
	why    map[string]string // by path; "" if there is nothing to report, or not yet
	missed int               // executions of others, when there were mostLeft
}

// mostLeft limits the paths that are kept. A program may name any path.
const mostLeft = 4096

// begin reports whether a program is to be looked at. Each is once.
func (l *leftPrograms) begin(path string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, known := l.why[path]; known {
		return false
	}
	if len(l.why) == mostLeft {
		l.missed++
		return false
	}
	if l.why == nil {
		l.why = make(map[string]string)
	}
	l.why[path] = ""
	return true
}

// settle says why a program was not recorded, or nil if there was nothing to record.
func (l *leftPrograms) settle(path string, why error) {
	if why == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.why[path] = why.Error()
}

// list returns what was not recorded, and why.
func (l *leftPrograms) list() (list []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, why := range l.why {
		if why != "" {
			list = append(list, why)
		}
	}
	slices.Sort(list)
	if l.missed > 0 {
		list = append(list, fmt.Sprintf("%d executions of further programs, if these are instrumented: xray looks only at the first %d programs that are executed without the recorder", l.missed, mostLeft))
	}
	return list
}

// leave reports a program that cannot load the runtime, if it is instrumented.
func (ob *Observer) leave(pid int, packet []byte) {
	f := ring.Fields(packet)
	path := f.Text(ring.QuestionPathAt, ring.QuestionPathSize)
	if f.U64(ring.QuestionSessionAt) == ob.options.Session && path != "" && ob.left.begin(path) {
		ob.naming.Go(func() { ob.left.settle(path, whyLeft(pid, path, "")) })
	}
}

// execution identifies what a process executes: where its stack began, which is random, and its file.
type execution struct {
	stack uint64
	file  string
}

// executionOf returns what a process executes, or an execution without a stack if that is unknown. A process
// that ends has no stack any more, and its file may be read before.
func executionOf(pid int) (e execution) {
	const startStack = 28
	if e.file, _ = os.Readlink(filepath.Join("/proc", strconv.Itoa(pid), "exe")); e.file != "" {
		e.stack = proc.StatField(pid, startStack)
	}
	return e
}

// watchExecution notices that a process has executed a program. If that has the runtime, it gets an arena of its
// own, and this entry of the process ends.
func (p *observedProcess) watchExecution(a *arenaObserver) {
	const often = 100 * time.Millisecond
	if p.handle < 0 || time.Since(p.compared) < often {
		return
	}
	p.compared = time.Now()
	if now := executionOf(p.host); now != a.execution && p.executes != now.file && p.hasLeft(a, now) {
		p.executes = now.file
	}
}

// hasLeft reports whether a process executes this, and no longer what it shared the arena for. The file of
// that may have another name by now. Nothing that /proc says of a process that has ended meanwhile counts.
func (p *observedProcess) hasLeft(a *arenaObserver, now execution) bool {
	return now.stack != 0 && a.execution.stack != 0 && a.isOther(p.host) && executionOf(p.host) == now && !hasEnded(p.handle)
}

// reportExecuted reports the program that a process has executed without the runtime, if it is instrumented.
func (ob *Observer) reportExecuted(p *observedProcess) {
	if p.executes == "" || !ob.left.begin(p.executes) {
		return
	}
	const how = "was executed by a system call, and not by the C library, without the recorder in its environment. To record it, run it with xray record, or attach with -p"
	ob.left.settle(p.executes, whyLeft(p.host, p.executes, how))
}

// whyLeft returns why a program that a process executes cannot load the runtime, or nil if there is nothing
// to record. how is the reason if it could have loaded it.
func whyLeft(pid int, path, how string) error {
	for _, file := range filesOf(pid, path) {
		p, err := build.Inspect(file)
		if !p.Instrumented {
			continue
		} else if err != nil {
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
