//go:build linux && amd64

package args

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"unsafe"

	"github.com/xray-tools/xray/symbolize/debuginfo"
)

// traced is a program whose functions are stopped at their entries.
type traced struct {
	pid    int
	bias   uint64
	memory *os.File
	saved  map[uint64]byte // bytes under breakpoints
}

// stop is a call or a return of a function.
type stop struct {
	function int // index
	exit     bool
	m        *machine
}

// trace runs a program and calls f whenever it enters one of the functions, or returns from it. It returns
// what the program wrote to standard output.
func trace(t *testing.T, path string, functions []uint64, f func(s stop)) string {
	t.Helper()
	runtime.LockOSThread() // a tracer is a thread
	defer runtime.UnlockOSThread()
	out := filepath.Join(t.TempDir(), "out")
	file, err := os.Create(out)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	cmd := exec.Command(path)
	cmd.Dir, cmd.Stdout = filepath.Dir(out), file
	cmd.SysProcAttr = &syscall.SysProcAttr{Ptrace: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	p := &traced{pid: cmd.Process.Pid, saved: map[uint64]byte{}}
	defer syscall.Kill(p.pid, syscall.SIGKILL)
	var status syscall.WaitStatus
	if _, err := syscall.Wait4(p.pid, &status, 0, nil); err != nil || !status.Stopped() {
		t.Fatalf("the program did not stop: %v %v", status, err)
	}
	if p.memory, err = os.OpenFile(fmt.Sprintf("/proc/%d/mem", p.pid), os.O_RDWR, 0); err != nil {
		t.Fatal(err)
	}
	defer p.memory.Close()
	maps, err := os.ReadFile(fmt.Sprintf("/proc/%d/maps", p.pid))
	if err != nil {
		t.Fatal(err)
	}
	p.bias = bias(t, path, string(maps))
	at := map[uint64]int{}
	for i, a := range functions {
		at[a+p.bias] = i
		p.breakpoint(t, a+p.bias)
	}
	type frame struct {
		function int
		sp       uint64
	}
	waiting := map[uint64][]frame{} // by return address
	for {
		if err := syscall.PtraceCont(p.pid, 0); err != nil {
			t.Fatal(err)
		}
		if _, err := syscall.Wait4(p.pid, &status, 0, nil); err != nil {
			t.Fatal(err)
		}
		if status.Exited() || status.Signaled() {
			if status.ExitStatus() != 0 {
				t.Fatalf("the program ended with %v", status)
			}
			break
		}
		if status.StopSignal() == syscall.SIGPROF {
			continue // of programs with -pg, which need not get it
		}
		if status.StopSignal() != syscall.SIGTRAP {
			t.Fatalf("the program got %v", status.StopSignal())
		}
		var regs syscall.PtraceRegs
		if err := syscall.PtraceGetRegs(p.pid, &regs); err != nil {
			t.Fatal(err)
		}
		regs.Rip--
		m := p.machine(t, &regs)
		if i, ok := at[regs.Rip]; ok {
			f(stop{function: i, m: m})
			var b [8]byte
			if !m.read(regs.Rsp, b[:]) {
				t.Fatal("no stack")
			}
			back := binary.LittleEndian.Uint64(b[:])
			waiting[back] = append(waiting[back], frame{i, regs.Rsp})
			p.breakpoint(t, back)
		} else if list := waiting[regs.Rip]; len(list) > 0 && list[len(list)-1].sp+8 == regs.Rsp {
			waiting[regs.Rip] = list[:len(list)-1]
			f(stop{function: list[len(list)-1].function, exit: true, m: m})
		}
		p.over(t, &regs)
	}
	b, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// bias returns how far a program is from its link-time addresses.
func bias(t *testing.T, path, maps string) uint64 {
	f, err := elf.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if f.Type != elf.ET_DYN {
		return 0
	}
	for line := range strings.Lines(maps) {
		if strings.Contains(line, filepath.Base(path)) {
			var start uint64
			fmt.Sscanf(line, "%x-", &start)
			return start
		}
	}
	t.Fatal("the program is not in its memory")
	return 0
}

func (p *traced) breakpoint(t *testing.T, address uint64) {
	if _, ok := p.saved[address]; ok {
		return
	}
	var b [1]byte
	if _, err := p.memory.ReadAt(b[:], int64(address)); err != nil {
		t.Fatal(err)
	}
	p.saved[address] = b[0]
	p.poke(t, address, 0xCC)
}

func (p *traced) poke(t *testing.T, address uint64, b byte) {
	if _, err := p.memory.WriteAt([]byte{b}, int64(address)); err != nil {
		t.Fatal(err)
	}
}

// over runs the instruction under a breakpoint.
func (p *traced) over(t *testing.T, regs *syscall.PtraceRegs) {
	saved, ok := p.saved[regs.Rip]
	if !ok {
		t.Fatalf("stopped at %#x", regs.Rip)
	}
	p.poke(t, regs.Rip, saved)
	if err := syscall.PtraceSetRegs(p.pid, regs); err != nil {
		t.Fatal(err)
	}
	for status := syscall.WaitStatus(0); status.StopSignal() != syscall.SIGTRAP; { // SIGPROF can come first
		if err := syscall.PtraceSingleStep(p.pid); err != nil {
			t.Fatal(err)
		}
		if _, err := syscall.Wait4(p.pid, &status, 0, nil); err != nil || !status.Stopped() {
			t.Fatalf("single step: %v %v", status, err)
		}
	}
	p.poke(t, regs.Rip, 0xCC)
}

// machine returns the registers and the memory of the program.
func (p *traced) machine(t *testing.T, r *syscall.PtraceRegs) *machine {
	m := &machine{general: [16]uint64{r.Rax, r.Rdx, r.Rcx, r.Rbx, r.Rsi, r.Rdi, r.Rbp, r.Rsp, r.R8, r.R9, r.R10, r.R11, r.R12, r.R13, r.R14, r.R15}}
	var fp [512]byte // as fxsave writes it
	const getFPRegs = 14
	if _, _, errno := syscall.Syscall6(syscall.SYS_PTRACE, getFPRegs, uintptr(p.pid), 0, uintptr(unsafe.Pointer(&fp)), 0, 0); errno != 0 {
		t.Fatal(errno)
	}
	for i := range m.vectors {
		at := fp[160+16*i:]
		m.vectors[i] = [2]uint64{binary.LittleEndian.Uint64(at), binary.LittleEndian.Uint64(at[8:])}
	}
	m.read = func(address uint64, b []byte) bool {
		if len(b) == 0 {
			return true
		}
		if address >= 1<<47 {
			return false
		}
		_, err := p.memory.ReadAt(b, int64(address))
		return err == nil
	}
	return m
}

// program is a program whose functions have values.
type program struct {
	path      string
	names     []string
	addresses []uint64
	binary    *debuginfo.Binary
}

// open finds functions of a program by their symbols, or by the part of a symbol before "(", demangled.
func open(t *testing.T, path string, wanted func(symbol string) bool) *program {
	t.Helper()
	f, err := elf.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	symbols, err := f.Symbols()
	if err != nil {
		t.Fatal(err)
	}
	p := &program{path: path}
	seen := map[uint64]bool{}
	for _, s := range symbols {
		if elf.ST_TYPE(s.Info) == elf.STT_FUNC && s.Section != elf.SHN_UNDEF && wanted(s.Name) && !seen[s.Value] {
			seen[s.Value] = true
			p.names, p.addresses = append(p.names, s.Name), append(p.addresses, s.Value)
		}
	}
	e, err := debuginfo.OpenELF(path)
	if err != nil {
		t.Fatal(err)
	}
	if p.binary, err = debuginfo.NewBinary(e, path, slices.Clone(p.addresses), debuginfo.Options{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.binary.Close(); e.Close() })
	return p
}

// values runs the program with expressions for the functions, and returns a line for each entry and exit:
// the name of the function and its values, and what the program printed.
func (p *program) values(t *testing.T, entry, exit func(name string) []*Expression) (lines []string, refused []string, printed string) {
	t.Helper()
	type compiled struct{ entry, exit []Value }
	list := make([]compiled, len(p.names))
	for i, address := range p.addresses {
		f, err := NewFunction(p.binary, address, p.names[i])
		if err != nil {
			t.Fatalf("%s: %v", p.names[i], err)
		}
		note := func(r []Refused) {
			for _, r := range r {
				refused = append(refused, fmt.Sprintf("%s %s: %s", p.names[i], r.Expression, r.Why))
			}
		}
		var r []Refused
		if entry != nil {
			if want := entry(p.names[i]); want != nil {
				list[i].entry, r = f.Entry(want)
				note(r)
			}
		}
		if exit != nil {
			if want := exit(p.names[i]); want != nil {
				list[i].exit, r = f.Exit(want)
				note(r)
			}
		}
		for _, v := range slices.Concat(list[i].entry, list[i].exit) {
			if err := Validate(v.Program); err != nil {
				t.Errorf("%s %s: %v", p.names[i], v.Description.Expression, err)
			}
		}
	}
	printed = trace(t, p.path, p.addresses, func(s stop) {
		values, mark := list[s.function].entry, ""
		if s.exit {
			values, mark = list[s.function].exit, "~"
		}
		if len(values) == 0 {
			return
		}
		var b bytes.Buffer
		b.WriteString(mark + p.names[s.function])
		for _, v := range values {
			fmt.Fprintf(&b, " %s=%s", v.Description.Expression, v.Description.Text(s.m.run(v.Program)))
		}
		lines = append(lines, strings.ReplaceAll(b.String(), "... (", "...("))
	})
	return lines, refused, printed
}
