package attach

import (
	"bytes"
	"cmp"
	"context"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Options says which object to load and which function to call.
type Options struct {
	Object   string // file of the shared object
	Late     string // an int32_t that the object exports, in its data: it becomes 1
	Function string // that the object exports: void f(const char *argument, int32_t *result)
	Argument string
	// Wait limits the wait for a safe moment. 0 means 10 seconds.
	Wait time.Duration
}

// Load makes a process load the object, unless it has loaded it before, and call the function. It
// returns the result of the function. The process is unchanged after an error, unless that is a
// [*FailedError].
func Load(ctx context.Context, pid int, o Options) (result int32, err error) {
	// The kernel knows the tracer as a thread.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	l, err := newLoader(pid, o)
	if err != nil {
		return 0, fmt.Errorf("process %d: %w", pid, err)
	}
	defer l.mem.Close()
	if result, err = l.load(ctx); err != nil {
		return 0, fmt.Errorf("process %d: %w", pid, err)
	}
	return result, nil
}

// FailedError is an error after the process was changed. The process continues as before, perhaps
// with an idle object loaded.
type FailedError struct{ Err error }

func (e *FailedError) Error() string { return e.Err.Error() }
func (e *FailedError) Unwrap() error { return e.Err }

// loader loads an object into a process.
type loader struct {
	Options
	pid    int
	mem    *os.File
	object []byte // the object to load
	entry  uint64 // address of the function in the object
	*process
	ways
	missing *image         // whose frames are needed next
	unsafe  map[int]string // where threads were that could not load the object, by ID
}

func newLoader(pid int, o Options) (*loader, error) {
	if o.Wait == 0 {
		o.Wait = 10 * time.Second
	}
	l := &loader{Options: o, pid: pid}
	if err := CheckStatus(pid); err != nil {
		return nil, err
	}
	object, err := os.ReadFile(o.Object)
	if err != nil {
		return nil, err
	}
	l.object = object
	if err := l.prepare(); err != nil {
		return nil, fmt.Errorf("%s: %w", o.Object, err)
	}
	if l.mem, err = os.OpenFile(l.proc("mem"), os.O_RDWR, 0); err != nil {
		return nil, explain(err)
	}
	if err := l.findImages(); err != nil {
		l.mem.Close()
		return nil, err
	}
	return l, nil
}

func (l *loader) proc(elem ...string) string {
	return filepath.Join(append([]string{"/proc", strconv.Itoa(l.pid)}, elem...)...)
}

// prepare finds the symbols of the object, and sets its flag for late loading.
func (l *loader) prepare() error {
	f, err := elf.NewFile(bytes.NewReader(l.object))
	if err != nil {
		return err
	}
	symbols, err := f.DynamicSymbols()
	if err != nil {
		return err
	}
	find := func(name string) (elf.Symbol, error) {
		i := slices.IndexFunc(symbols, func(s elf.Symbol) bool { return s.Name == name && s.Section != elf.SHN_UNDEF })
		if i < 0 || int(symbols[i].Section) >= len(f.Sections) {
			return elf.Symbol{}, fmt.Errorf("it does not export %s", name)
		}
		return symbols[i], nil
	}
	function, err := find(l.Function)
	if err != nil {
		return err
	}
	late, err := find(l.Late)
	if err != nil {
		return err
	}
	section := f.Sections[late.Section]
	at := late.Value - section.Addr + section.Offset
	if section.Type != elf.SHT_PROGBITS || late.Value < section.Addr || at+4 > uint64(len(l.object)) {
		return fmt.Errorf("%s is not in its data", l.Late)
	}
	binary.LittleEndian.PutUint32(l.object[at:], 1)
	l.entry = function.Value
	return nil
}

// CheckStatus rejects processes whose status in /proc shows that loading is impossible.
func CheckStatus(pid int) error {
	text, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "status"))
	if err != nil {
		return err
	}
	for line := range strings.Lines(string(text)) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		value = strings.TrimSpace(value)
		switch {
		case name == "TracerPid" && value != "0":
			return fmt.Errorf("process %s debugs it: end that first", value)
		case name == "Seccomp" && value != "0":
			return errors.New("a seccomp filter restricts its system calls, so nothing can be loaded into it safely: start it with `xray record` or `xray watch`")
		case name == "State" && strings.HasPrefix(value, "T"):
			return errors.New("it is stopped: continue it first (kill -CONT)")
		case name == "State" && strings.HasPrefix(value, "Z"):
			return errors.New("it has ended")
		}
	}
	return nil
}

// explain adds a remedy to the kernel's error.
func explain(err error) error {
	if !errors.Is(err, unix.EPERM) && !errors.Is(err, unix.EACCES) {
		return err
	}
	if os.Geteuid() == 0 {
		return fmt.Errorf("the kernel does not allow attaching: run xray with the capability CAP_SYS_PTRACE (docker run --cap-add SYS_PTRACE): %w", err)
	}
	scope, _ := os.ReadFile("/proc/sys/kernel/yama/ptrace_scope")
	if v := strings.TrimSpace(string(scope)); v != "" && v != "0" {
		return fmt.Errorf("the kernel does not allow attaching: run as root, or set kernel.yama.ptrace_scope, which is %s, to 0: %w", v, err)
	}
	return fmt.Errorf("the kernel does not allow attaching: run as the user of the process or as root: %w", err)
}

// findImages finds the images in the memory of the process.
func (l *loader) findImages() error {
	maps, err := mapsOf(l.pid)
	if err != nil {
		return explain(err)
	}
	exe, err := os.Readlink(l.proc("exe"))
	if err != nil {
		return explain(err)
	}
	l.process = newProcess(readImages(l.mem, maps), exe)
	switch {
	case l.libc != nil:
	case slices.ContainsFunc(l.images, func(i image) bool { return strings.HasPrefix(i.name(), "ld-musl") }):
		return errors.New("its C library is musl, but xray builds the recorder for glibc: link it in; `xray runtime flags` says how")
	case len(l.images) == 0:
		return errors.New("it is not a 64-bit x86 program")
	default:
		return errors.New("it is linked statically, so nothing can be loaded into it: link the recorder in; `xray runtime flags` says how")
	}
	if l.find("dlopen") == 0 && l.find("__libc_dlopen_mode") == 0 {
		return errors.New("its C library has no dlopen")
	}
	for _, t := range l.libc.text {
		text := make([]byte, min(t[1]-t[0], 16<<20))
		n, _ := l.mem.ReadAt(text, int64(t[0]))
		find := func(at *uint64, code []byte) {
			if i := bytes.Index(text[:n], code); i >= 0 && *at == 0 {
				*at = t[0] + uint64(i)
			}
		}
		find(&l.signalReturn, returnsFromSignal)
		find(&l.systemCall, makesSystemCall)
	}
	if l.signalReturn == 0 || l.systemCall == 0 {
		return errors.New("its C library is not supported")
	}
	return nil
}

// waits are system calls in which idle threads wait. Neither allocators nor the loader make
// them.
var waits = []int{
	unix.SYS_EPOLL_WAIT, unix.SYS_EPOLL_PWAIT, unix.SYS_EPOLL_PWAIT2, unix.SYS_POLL, unix.SYS_PPOLL, unix.SYS_SELECT, unix.SYS_PSELECT6,
	unix.SYS_ACCEPT, unix.SYS_ACCEPT4, unix.SYS_RECVFROM, unix.SYS_RECVMSG, unix.SYS_NANOSLEEP, unix.SYS_CLOCK_NANOSLEEP, unix.SYS_READ,
	unix.SYS_PAUSE, unix.SYS_WAIT4, unix.SYS_RT_SIGTIMEDWAIT, unix.SYS_RT_SIGSUSPEND, unix.SYS_FUTEX,
}

// load stops one thread after the other until one is at a safe place.
func (l *loader) load(ctx context.Context) (int32, error) {
	for end, began := time.Now().Add(l.Wait), time.Now(); ; {
		threads, err := l.threads(time.Since(began) > 300*time.Millisecond)
		if err != nil {
			return 0, err
		}
		for _, tid := range threads {
			result, err := l.try(tid)
			// Read frames while no thread is stopped.
			for l.missing != nil {
				l.missing.readFrames(l.mem)
				l.missing = nil
				result, err = l.try(tid)
			}
			if !errors.Is(err, errUnsafe) && !errors.Is(err, errGone) {
				return result, err
			}
		}
		if err := ctx.Err(); err != nil {
			return 0, err
		}
		if time.Now().After(end) {
			return 0, fmt.Errorf("no thread reached a safe place to load an object within %v: outside of allocators, the loader, libc and signal handlers%s", l.Wait, l.places())
		}
		time.Sleep(time.Duration(1+rand.IntN(4)) * time.Millisecond)
	}
}

// places says where threads were when they were last examined.
func (l *loader) places() string {
	var b strings.Builder
	const most = 4
	tids := slices.Sorted(maps.Keys(l.unsafe))
	for i, tid := range tids {
		if i == most {
			fmt.Fprintf(&b, ", and %d others", len(tids)-most)
			break
		}
		separator := ", "
		if i == 0 {
			separator = ". When last examined, "
		}
		fmt.Fprintf(&b, "%sthread %d was %s", separator, tid, l.unsafe[tid])
	}
	return b.String()
}

// threads returns the waiting threads, the best first. With all, the others follow.
func (l *loader) threads(all bool) ([]int, error) {
	dirs, err := os.ReadDir(l.proc("task"))
	if err != nil {
		return nil, err
	}
	type candidate struct{ tid, rank int }
	var list []candidate
	for _, d := range dirs {
		tid, err := strconv.Atoi(d.Name())
		if err != nil {
			continue
		}
		call, err := os.ReadFile(l.proc("task", d.Name(), "syscall"))
		if errors.Is(err, unix.EPERM) || errors.Is(err, unix.EACCES) {
			return nil, explain(err)
		}
		number := -1
		if fields := strings.Fields(string(call)); err == nil && len(fields) > 1 {
			number, _ = strconv.Atoi(fields[0])
		}
		if rank := slices.Index(waits, number); rank >= 0 {
			list = append(list, candidate{tid, rank})
		} else if all {
			list = append(list, candidate{tid, len(waits)})
		}
	}
	slices.SortFunc(list, func(a, b candidate) int { return a.rank - b.rank })
	const most = 16 // at a time
	tids := make([]int, 0, most)
	for _, c := range list[:min(most, len(list))] {
		tids = append(tids, c.tid)
	}
	return tids, nil
}

// errUnsafe says that a thread is at a place where it must not load anything.
var errUnsafe = errors.New("not at a safe place")

// try loads the object in a thread if that is at a safe place.
func (l *loader) try(tid int) (result int32, err error) {
	t := &thread{tid: tid, mem: l.mem}
	if err := t.stop(); err != nil {
		return 0, cmp.Or(CheckStatus(l.pid), explain(err))
	}
	defer func() { err = errors.Join(err, gone(t.release())) }()
	home, err := t.state()
	if err != nil {
		return 0, err
	}
	signals := t.hasSignals(l.pid, home.mask)
	if err = errUnsafe; l.safe(t, home) {
		frame := *home
		frame.interrupted()
		v := &visit{loader: l, thread: t, home: home, frame: &frame}
		result, err = v.run()
	}
	if !errors.Is(err, errSlow) { // otherwise it continues through its frame
		home.resumed(t.slept, signals)
		err = errors.Join(err, t.restore(home))
	}
	return result, err
}

// safe reports whether a stopped thread is at a place where it may load an object.
func (l *loader) safe(t *thread, s *state) bool {
	var r registers
	regs := &s.regs
	for i, v := range []uint64{regs.Rax, regs.Rdx, regs.Rcx, regs.Rbx, regs.Rsi, regs.Rdi, regs.Rbp, regs.Rsp,
		regs.R8, regs.R9, regs.R10, regs.R11, regs.R12, regs.R13, regs.R14, regs.R15, regs.Rip} {
		r.set(i, v)
	}
	stack, missing, err := l.unwind(l.mem, r)
	if missing != nil {
		l.missing = missing
	}
	why := ""
	switch number := int64(regs.Orig_rax); {
	case err != nil:
		why = "in " + l.where(regs.Rip) + ", and " + err.Error()
	case number >= 0 && !slices.Contains(waits, int(number)):
		why = fmt.Sprintf("in system call %d", number)
	case number >= 0:
		why = l.whyUnsafe(stack, true)
	case t.inSequence():
		why = "in a restartable sequence"
	default:
		why = l.whyUnsafe(stack, false)
	}
	if l.unsafe == nil {
		l.unsafe = make(map[int]string)
	}
	l.unsafe[t.tid] = why
	return why == ""
}

// visit is the work on a stopped thread.
type visit struct {
	*loader
	*thread
	home, frame *state
	stack       uint64 // from here on
	// frameAt is the address of the frame by which the thread continues if this process ends.
	frameAt uint64
}

// Layout of the memory for the thread: a stack, the signal frame at its end, the vector registers,
// and the arguments.
const (
	stackSize   = 1 << 20
	vectorsAt   = stackSize
	argumentsAt = vectorsAt + 32<<10
	textAt      = argumentsAt + 64
	memorySize  = argumentsAt + 32<<10
	ownFrameAt  = stackSize - 1024 + 8 // aligns the stack as after a call
)

// firstRoom is the room for a signal frame on the thread's own stack, as for any signal.
const firstRoom = 24 << 10

func (v *visit) run() (result int32, err error) {
	// Below the red zone.
	below := (v.home.regs.Rsp - 128 - firstRoom) &^ 63
	if v.frameAt, err = v.putFrame(below+8, below+1024); err != nil {
		return 0, errUnsafe // the stack is full
	}
	const private, protection = unix.MAP_PRIVATE | unix.MAP_ANONYMOUS | unix.MAP_NORESERVE, unix.PROT_READ | unix.PROT_WRITE
	if v.stack, err = v.kernel(unix.SYS_MMAP, 0, memorySize, protection, private, ^uint64(0), 0); err != nil {
		return 0, fmt.Errorf("memory for loading: %w", err)
	}
	first := v.frameAt
	defer func() {
		if !errors.Is(err, errSlow) && !errors.Is(err, errGone) {
			v.frameAt = first
			_, unmapErr := v.kernel(unix.SYS_MUNMAP, v.stack, memorySize)
			err = errors.Join(err, unmapErr)
		}
	}()
	if v.frameAt, err = v.putFrame(v.stack+ownFrameAt, v.stack+vectorsAt); err != nil {
		v.frameAt = first
		return 0, err
	}
	base, err := v.findObject()
	if err != nil {
		return 0, err
	}
	if base == 0 {
		if base, err = v.bring(); err != nil {
			return 0, &FailedError{err}
		}
	}
	if err := v.write(textAt, append([]byte(v.Argument), 0)); err != nil {
		return 0, &FailedError{err}
	}
	if err := v.call(base+v.entry, v.stack+textAt, v.stack+argumentsAt); err != nil {
		return 0, &FailedError{fmt.Errorf("%s: %w", v.Function, err)}
	}
	b, err := v.read(v.stack+argumentsAt, 4)
	if err != nil {
		return 0, &FailedError{err}
	}
	return int32(binary.LittleEndian.Uint32(b)), nil
}

// putFrame writes a signal frame into the process, and returns its address.
func (v *visit) putFrame(at, vectors uint64) (uint64, error) {
	frame, vector := signalFrame(v.frame, v.signalReturn, vectors)
	_, err := v.loader.mem.WriteAt(frame, int64(at))
	if err == nil {
		_, err = v.loader.mem.WriteAt(vector, int64(vectors))
	}
	return at, err
}

func (v *visit) kernel(number uint64, args ...uint64) (uint64, error) {
	return v.systemCall(v.home, &v.ways, v.frameAt, number, args...)
}

func (v *visit) write(at uint64, data []byte) error {
	if at+uint64(len(data)) > memorySize {
		return errors.New("the options are too long")
	}
	_, err := v.loader.mem.WriteAt(data, int64(v.stack+at))
	return err
}

// call calls a function on its separate stack.
func (v *visit) call(function uint64, args ...uint64) error {
	// The previous call may have overwritten it.
	if _, err := v.putFrame(v.stack+ownFrameAt, v.stack+vectorsAt); err != nil {
		return err
	}
	return v.thread.call(v.home, &v.ways, v.frameAt, function, args...)
}

// objectName is the name of the object in the maps of the process.
const objectName = "xray-recorder"

// findObject returns the address of the object in the process, or 0.
func (v *visit) findObject() (uint64, error) {
	maps, err := mapsOf(v.pid)
	if err != nil {
		return 0, err
	}
	for _, m := range maps {
		if !strings.HasPrefix(m.path, "/memfd:"+objectName) || m.offset != 0 {
			continue
		}
		// Another version can neither be used nor loaded next to this one.
		head := make([]byte, m.end-m.start)
		if _, err := v.loader.mem.ReadAt(head, int64(m.start)); err == nil && bytes.HasPrefix(v.object, head) {
			return m.start, nil
		}
		return 0, errors.New("another version of the recorder was loaded into it before: use the same version of xray, or restart the process")
	}
	return 0, nil
}

// bring loads the object.
func (v *visit) bring() (uint64, error) {
	const closeOnExec, executable = 1, 0x10
	if err := v.write(textAt, append([]byte(objectName), 0)); err != nil {
		return 0, err
	}
	fd, err := v.kernel(unix.SYS_MEMFD_CREATE, v.stack+textAt, closeOnExec|executable)
	if errors.Is(err, unix.EINVAL) { // the kernel does not know the second flag
		fd, err = v.kernel(unix.SYS_MEMFD_CREATE, v.stack+textAt, closeOnExec)
	}
	if err != nil {
		return 0, fmt.Errorf("memory for the object: %w", err)
	}
	base, err := v.open(fd)
	if !errors.Is(err, errSlow) && !errors.Is(err, errGone) {
		_, closeErr := v.kernel(unix.SYS_CLOSE, fd)
		err = errors.Join(err, closeErr)
	}
	return base, err
}

// open fills the file and makes the process load it.
func (v *visit) open(fd uint64) (uint64, error) {
	file, err := os.OpenFile(v.proc("fd", strconv.FormatUint(fd, 10)), os.O_WRONLY, 0)
	if err != nil {
		return 0, err
	}
	_, err = io.Copy(file, bytes.NewReader(v.object))
	if err = errors.Join(err, file.Close()); err != nil {
		return 0, err
	}
	path := fmt.Sprintf("/proc/self/fd/%d", fd)
	if _, err := os.Stat(v.proc("root", "proc/filesystems")); err != nil {
		return 0, errors.New("it does not see /proc")
	}
	if err := v.write(textAt, append([]byte(path), 0)); err != nil {
		return 0, err
	}
	const now, private = 2, 0x80000000 // RTLD_NOW, __RTLD_DLOPEN
	if f := v.find("dlopen"); f != 0 {
		err = v.call(f, v.stack+textAt, now)
	} else {
		err = v.call(v.find("__libc_dlopen_mode"), v.stack+textAt, now|private)
	}
	if err != nil {
		return 0, fmt.Errorf("loading the recorder: %w", err)
	}
	base, err := v.findObject()
	if err == nil && base == 0 {
		err = errors.New("its loader refuses the recorder: its C library may be older than the one that the recorder was built with; start it with `xray record`, " +
			"or link the recorder in")
	}
	return base, err
}

// Files returns the files that a process has mapped as code, by paths that this process can open.
func Files(pid int) ([]string, error) {
	maps, err := mapsOf(pid)
	if err != nil {
		return nil, explain(err)
	}
	files := []string{fmt.Sprintf("/proc/%d/exe", pid)}
	for _, m := range maps {
		if path := fmt.Sprintf("/proc/%d/root%s", pid, m.path); m.executable() && strings.HasPrefix(m.path, "/") && !slices.Contains(files, path) {
			files = append(files, path)
		}
	}
	return files, nil
}
