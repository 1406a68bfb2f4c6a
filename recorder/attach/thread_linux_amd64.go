package attach

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// thread is a traced thread of another process. Only the thread of this process that seized it may
// call its methods.
type thread struct {
	tid   int
	mem   *os.File // of the process
	slept bool     // it made a system call that may have slept
}

// Requests and numbers of ptrace(2) that package unix does not have.
const (
	ptraceGetSigmask = 0x420a
	ptraceSetSigmask = 0x420b
	ptraceGetRseq    = 0x420f
	eventStop        = 128 // PTRACE_EVENT_STOP
	xstateNote       = 0x202
)

func ptrace(request, tid int, address, data uintptr) error {
	if _, _, errno := unix.Syscall6(unix.SYS_PTRACE, uintptr(request), uintptr(tid), address, data, 0, 0); errno != 0 {
		return errno
	}
	return nil
}

// errGone says that the thread has ended.
var errGone = errors.New("the thread has ended")

func gone(err error) error {
	if errors.Is(err, unix.ESRCH) || errors.Is(err, unix.ECHILD) {
		return errGone
	}
	return err
}

// stop seizes the thread and stops it, where it is.
func (t *thread) stop() error {
	if err := ptrace(unix.PTRACE_SEIZE, t.tid, 0, unix.PTRACE_O_TRACESYSGOOD); err != nil {
		return gone(err)
	}
	if err := unix.PtraceInterrupt(t.tid); err != nil {
		return gone(err)
	}
	for {
		status, err := t.wait(2 * time.Second)
		if err != nil {
			return err
		}
		if status.TrapCause() == eventStop {
			return nil
		}
		// A signal came first. It belongs to the program.
		if err := unix.PtraceCont(t.tid, int(status.StopSignal())); err != nil {
			return gone(err)
		}
	}
}

// shortly is the time to wait for a stop without sleeping. Most stops come sooner, and each sleep
// stops the thread for longer.
const shortly = time.Millisecond

// wait waits until the thread is stopped.
func (t *thread) wait(limit time.Duration) (unix.WaitStatus, error) {
	var status unix.WaitStatus
	for began := time.Now(); ; {
		n, err := unix.Wait4(t.tid, &status, unix.WALL|unix.WNOHANG, nil)
		switch {
		case err == unix.EINTR:
		case err != nil:
			return 0, gone(err)
		case n == t.tid && status.Stopped():
			return status, nil
		case n == t.tid:
			return 0, errGone
		case time.Since(began) > limit:
			return 0, errSlow
		case time.Since(began) < shortly:
			_, _, _ = unix.RawSyscall(unix.SYS_SCHED_YIELD, 0, 0, 0)
		default:
			time.Sleep(50 * time.Microsecond)
		}
	}
}

// errSlow says that a thread did not arrive in time.
var errSlow = errors.New("it takes too long")

// release lets the thread continue.
func (t *thread) release() error { return ptrace(unix.PTRACE_DETACH, t.tid, 0, 0) }

// state is the state to restore before a thread continues.
type state struct {
	regs   unix.PtraceRegs
	xstate []byte
	mask   uint64 // blocked signals
}

func (t *thread) state() (*state, error) {
	s := &state{xstate: make([]byte, 16<<10)}
	if err := unix.PtraceGetRegs(t.tid, &s.regs); err != nil {
		return nil, gone(err)
	}
	v := unix.Iovec{Base: &s.xstate[0], Len: uint64(len(s.xstate))}
	if err := ptrace(unix.PTRACE_GETREGSET, t.tid, xstateNote, uintptr(unsafe.Pointer(&v))); err != nil {
		return nil, gone(err)
	}
	s.xstate = s.xstate[:v.Len]
	return s, gone(ptrace(ptraceGetSigmask, t.tid, 8, uintptr(unsafe.Pointer(&s.mask))))
}

// restore sets all of a state.
func (t *thread) restore(s *state) error {
	v := unix.Iovec{Base: &s.xstate[0], Len: uint64(len(s.xstate))}
	// Until the registers are set, the thread would return through its frame.
	return errors.Join(
		ptrace(unix.PTRACE_SETREGSET, t.tid, xstateNote, uintptr(unsafe.Pointer(&v))),
		t.block(s.mask),
		unix.PtraceSetRegs(t.tid, &s.regs))
}

// block sets which signals are blocked.
func (t *thread) block(mask uint64) error {
	return gone(ptrace(ptraceSetSigmask, t.tid, 8, uintptr(unsafe.Pointer(&mask))))
}

// inSequence reports whether the thread is in a restartable sequence.
func (t *thread) inSequence() bool {
	var rseq struct {
		pointer         uint64
		size, signature uint32
		flags, pad      uint32
	}
	if ptrace(ptraceGetRseq, t.tid, unsafe.Sizeof(rseq), uintptr(unsafe.Pointer(&rseq))) != nil || rseq.pointer == 0 {
		return false
	}
	word, err := t.read(rseq.pointer+8, 8)
	return err != nil || binary.LittleEndian.Uint64(word) != 0
}

func (t *thread) read(address uint64, n int) ([]byte, error) {
	b := make([]byte, n)
	k, err := t.mem.ReadAt(b, int64(address))
	if k < n {
		return nil, err
	}
	return b, nil
}

// Errors of system calls that tell the kernel what to do when the thread runs again.
const (
	restartSys     = 512
	restartNoIntr  = 513
	restartNoHand  = 514
	restartByBlock = 516
)

// resumed changes the state of a thread that was stopped in a system call, so that the call
// restarts where the program would otherwise see the interruption. The kernel itself restarts
// most calls. For that, it remembers the end of a wait, which is lost if the thread slept in
// the meantime. Then the wait begins anew.
func (s *state) resumed(slept, signals bool) {
	if int64(s.regs.Orig_rax) < 0 {
		return
	}
	switch -int64(s.regs.Rax) {
	case int64(unix.EINTR):
		if !signals {
			s.again()
		}
	case restartByBlock:
		if slept {
			s.again()
		}
	}
}

// interrupted changes the state so that it can be the state of a signal frame: the kernel
// restarts no call after one.
func (s *state) interrupted() {
	if int64(s.regs.Orig_rax) < 0 {
		return
	}
	switch -int64(s.regs.Rax) {
	case restartSys, restartNoIntr, restartNoHand, restartByBlock, int64(unix.EINTR):
		s.again()
	}
}

// again makes the thread repeat its system call.
func (s *state) again() {
	s.regs.Rax, s.regs.Orig_rax = s.regs.Orig_rax, ^uint64(0)
	s.regs.Rip -= 2
}

// hasSignals reports whether signals wait for the thread that it has not blocked.
func (t *thread) hasSignals(pid int, mask uint64) bool {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/status", pid, t.tid))
	if err != nil {
		return true
	}
	for line := range strings.Lines(string(text)) {
		name, value, _ := strings.Cut(line, ":")
		var pending uint64
		if name == "SigPnd" || name == "ShdPnd" {
			if _, err := fmt.Sscanf(strings.TrimSpace(value), "%x", &pending); err != nil || pending&^mask != 0 {
				return true
			}
		}
	}
	return false
}

// ways are places in the code of libc.
type ways struct {
	signalReturn uint64 // returnsFromSignal
	systemCall   uint64 // makesSystemCall
}

// makesSystemCall is the code syscall; ret. A thread that executes it returns through the
// signal frame on its stack once it is no longer traced.
var makesSystemCall = []byte{0x0f, 0x05, 0xc3}

// systemCall makes the stopped thread execute a system call. Its stack pointer points to a signal
// frame, through which it continues if this process ends.
func (t *thread) systemCall(home *state, w *ways, frame, number uint64, args ...uint64) (uint64, error) {
	regs := home.regs
	regs.Rax = number
	pass(args, &regs.Rdi, &regs.Rsi, &regs.Rdx, &regs.R10, &regs.R8, &regs.R9)
	if err := t.direct(&regs, w.systemCall, frame); err != nil {
		return 0, err
	}
	// The frame has the previous mask.
	if err := t.block(^uint64(0)); err != nil {
		return 0, err
	}
	for range 2 { // before and after the call
		if err := t.toSystemCall(time.Now().Add(10 * time.Second)); err != nil {
			return 0, err
		}
	}
	if err := unix.PtraceGetRegs(t.tid, &regs); err != nil {
		return 0, gone(err)
	}
	if e := -int64(regs.Rax); e > 0 && e < 4096 {
		return 0, unix.Errno(e)
	}
	return regs.Rax, nil
}

// pass puts arguments into registers, and 0 into the others.
func pass(args []uint64, registers ...*uint64) {
	for i, to := range registers {
		*to = 0
		if i < len(args) {
			*to = args[i]
		}
	}
}

// direct makes a stopped thread continue at an address with a stack and the other registers.
func (t *thread) direct(regs *unix.PtraceRegs, at, stack uint64) error {
	regs.Rip, regs.Rsp, regs.Orig_rax = at, stack, ^uint64(0)
	regs.Eflags &^= 1 << 10
	return gone(unix.PtraceSetRegs(t.tid, regs))
}

// toSystemCall lets the thread run to the next beginning or end of a system call.
func (t *thread) toSystemCall(end time.Time) error {
	for {
		if err := unix.PtraceSyscall(t.tid, 0); err != nil {
			return gone(err)
		}
		status, err := t.wait(time.Until(end))
		switch {
		case err != nil:
			return err
		case status.StopSignal() == unix.SIGTRAP|0x80:
			return nil
		case status.TrapCause() != eventStop: // else the process was stopped
			return fmt.Errorf("it ended in signal %v", status.StopSignal())
		}
	}
}

// patience limits the time of a function that a thread calls for this package. Loading waits for
// the loader's lock, which another thread may hold.
const patience = 30 * time.Second

// call makes the stopped thread call a function with up to three arguments, on a stack that ends
// with a signal frame. It returns when the function has returned.
func (t *thread) call(home *state, w *ways, frame, function uint64, args ...uint64) error {
	regs := home.regs
	regs.Rax = 0
	pass(args, &regs.Rdi, &regs.Rsi, &regs.Rdx)
	if err := t.direct(&regs, function, frame); err != nil {
		return err
	}
	atReturn := w.signalReturn + uint64(len(returnsFromSignal))
	for end := time.Now().Add(patience); ; {
		if err := t.toSystemCall(end); err != nil {
			return err
		}
		if err := unix.PtraceGetRegs(t.tid, &regs); err != nil {
			return gone(err)
		}
		switch regs.Orig_rax {
		case unix.SYS_NANOSLEEP, unix.SYS_CLOCK_NANOSLEEP, unix.SYS_POLL:
			t.slept = true
		case unix.SYS_FUTEX:
			t.slept = t.slept || regs.R10 != 0 // has a timeout
		case unix.SYS_RT_SIGRETURN:
			if regs.Rip == atReturn {
				return t.stay(&regs, w, frame)
			}
		}
	}
}

// stay keeps a traced thread from returning through the signal frame. The thread asks for its
// process ID instead.
func (t *thread) stay(regs *unix.PtraceRegs, w *ways, frame uint64) error {
	regs.Orig_rax, regs.Rip, regs.Rsp = unix.SYS_GETPID, w.systemCall+2, frame
	if err := unix.PtraceSetRegs(t.tid, regs); err != nil {
		return gone(err)
	}
	return t.toSystemCall(time.Now().Add(10 * time.Second))
}

// Offsets in a signal frame, as the kernel has it at the return address of a handler
// (struct rt_sigframe): the saved registers, the pointer to the vector registers, the blocked
// signals; and in these registers, of the area where the kernel says how large they are.
const (
	frameRegs   = 8 + 40
	frameFPU    = frameRegs + 23*8
	frameMask   = frameRegs + 32*8
	frameSize   = 512
	xstateSizes = 464
)

// signalFrame is a frame through which a thread continues from a state. The frame and the vector
// registers have separate addresses.
func signalFrame(s *state, signalReturn, vectors uint64) (frame, vector []byte) {
	le := binary.LittleEndian
	frame = make([]byte, frameSize)
	le.PutUint64(frame, signalReturn)
	le.PutUint64(frame[8:], 1|2|4) // UC_FP_XSTATE, UC_SIGCONTEXT_SS, UC_STRICT_RESTORE_SS
	r := &s.regs
	for i, v := range []uint64{r.R8, r.R9, r.R10, r.R11, r.R12, r.R13, r.R14, r.R15, r.Rdi, r.Rsi, r.Rbp, r.Rbx, r.Rdx, r.Rax, r.Rcx,
		r.Rsp, r.Rip, r.Eflags, r.Cs&0xffff | r.Ss&0xffff<<48} {
		le.PutUint64(frame[frameRegs+8*i:], v)
	}
	le.PutUint64(frame[frameFPU:], vectors)
	le.PutUint64(frame[frameMask:], s.mask)
	const magic1, magic2 = 0x46505853, 0x46505845
	vector = append([]byte(nil), s.xstate...)
	size := uint32(len(vector))
	le.PutUint32(vector[xstateSizes:], magic1)
	le.PutUint32(vector[xstateSizes+4:], size+4)
	le.PutUint64(vector[xstateSizes+8:], le.Uint64(vector[512:])) // the features in it
	le.PutUint32(vector[xstateSizes+16:], size)
	return frame, le.AppendUint32(vector, magic2)
}
