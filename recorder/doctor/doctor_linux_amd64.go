package doctor

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/xray-tools/xray/recorder/attach"
	"github.com/xray-tools/xray/recorder/build"
	"github.com/xray-tools/xray/recorder/client"
	"github.com/xray-tools/xray/recorder/proc"
	"github.com/xray-tools/xray/sched/kernel"
)

// Machine looks at the machine, and at what this user may do on it.
func Machine(ctx context.Context) []Check {
	c := &checks{subject: "machine"}
	c.kernel()
	c.clock()
	c.permissions()
	c.limits()
	c.compilers(ctx)
	if urls := os.Getenv("DEBUGINFOD_URLS"); urls != "" {
		c.ok("debuginfod", "%s", urls)
	} else {
		c.note("debuginfod", "export DEBUGINFOD_URLS=https://debuginfod.debian.net (or your distribution's)", "no server is set: names come from local files only")
	}
	return c.list
}

func (c *checks) kernel() {
	var u unix.Utsname
	if err := unix.Uname(&u); err == nil {
		c.ok("system", "Linux %s on x86-64", unix.ByteSliceToString(u.Release[:]))
	}
	// The kernel refuses the arguments, unless it does not know the call.
	if _, _, err := unix.RawSyscall(unix.SYS_RSEQ, 0, 0, 0); err == unix.ENOSYS || err == unix.EPERM {
		c.missing("rseq", "use Linux 4.18 or later, and permit the system call rseq", "times off the CPU are not recorded, and a call costs more: %v", err)
	} else {
		c.ok("rseq", "times off the CPU are recorded")
	}
}

func (c *checks) clock() {
	source, _ := os.ReadFile("/sys/devices/system/clocksource/clocksource0/current_clocksource")
	info, _ := os.ReadFile("/proc/cpuinfo")
	name := strings.TrimSpace(string(source))
	trusted := name == "" || strings.HasPrefix(name, "tsc") || name == "kvm-clock"
	switch {
	case !bytes.Contains(info, []byte(" constant_tsc")) || !bytes.Contains(info, []byte(" nonstop_tsc")):
		c.missing("clock", "", "the processor's TSC is not invariant: times may be wrong when its frequency changes")
	case !trusted:
		c.missing("clock", "boot with clocksource=tsc", "the kernel does not trust the TSC, and uses %s: times of different CPUs may not agree", name)
	default:
		c.ok("clock", "the TSC is invariant")
	}
}

func (c *checks) permissions() {
	if err := kernel.Check(); err != nil {
		c.missing("switches", "sudo xray record --sched ...", "--sched has no events: %v", err)
	} else {
		c.ok("switches", "scheduler events can be recorded with --sched")
	}
	scope, _ := os.ReadFile("/proc/sys/kernel/yama/ptrace_scope")
	status, _ := proc.StatusFields(os.Getpid())
	const sysPtrace = 1 << 19 // CAP_SYS_PTRACE
	capable := false
	if set := status["CapEff"]; len(set) > 0 {
		bits, err := strconv.ParseUint(set[0], 16, 64)
		capable = err == nil && bits&sysPtrace != 0
	}
	switch value := strings.TrimSpace(string(scope)); {
	case value == "3":
		c.missing("attaching", "restart with kernel.yama.ptrace_scope below 3", "the kernel forbids all attaching: record -p works only for processes that have the recorder")
	case capable:
		c.ok("attaching", "xray may attach to processes of all users")
	case value == "" || value == "0":
		c.ok("attaching", "xray may attach to your processes")
	default:
		c.missing("attaching", "sudo sysctl kernel.yama.ptrace_scope=0, or sudo xray record -p ...", "xray may not attach to processes that it did not start: kernel.yama.ptrace_scope is %s", value)
	}
	if mode := status["Seccomp"]; len(mode) > 0 && mode[0] != "0" {
		c.note("seccomp", "", "a filter restricts system calls here, as in a container")
	}
	from, to := []byte("?"), make([]byte, 1)
	local := []unix.Iovec{{Base: &to[0], Len: 1}}
	remote := []unix.RemoteIovec{{Base: uintptr(unsafe.Pointer(&from[0])), Len: 1}}
	if _, err := unix.ProcessVMReadv(os.Getpid(), local, remote, 0); err != nil {
		c.missing("values", "permit the system call process_vm_readv (docker run --cap-add SYS_PTRACE)", "--args cannot read values in memory: %v; those in registers are recorded", err)
	} else {
		c.ok("values", "--args can read values in memory")
	}
	if name := container(); name != "" {
		c.note("container", "", "this is a container (%s): processes outside are not visible", name)
	}
}

// container returns what shows that this is a container, or "".
func container() string {
	for _, path := range []string{"/.dockerenv", "/run/.containerenv"} {
		if _, err := os.Stat(path); err == nil {
			return path
		}
	}
	return os.Getenv("container") // systemd's and others' convention
}

func (c *checks) limits() {
	for _, l := range []struct {
		resource     int
		flag, effect string
	}{
		{unix.RLIMIT_FSIZE, "-f", "traces cannot be larger than %d bytes"},
		{unix.RLIMIT_AS, "-v", "a process has at most %d bytes of address space, and a ring takes 1 MB of a thread"},
	} {
		var limit unix.Rlimit
		if err := unix.Getrlimit(l.resource, &limit); err == nil && limit.Cur != unix.RLIM_INFINITY {
			c.note("limits", "ulimit "+l.flag+" unlimited", l.effect, limit.Cur)
		}
	}
}

// compilers looks at those in PATH: what compiles the recorder, and what instruments.
func (c *checks) compilers(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	if cc := firstOf("cc", "gcc", "clang"); cc != "" {
		c.ok("C compiler", "%s compiles the recorder at its first use", cc)
	} else {
		c.missing("C compiler", "apt install gcc", "xray must compile the recorder once")
	}
	found := false
	for _, name := range instrumenting() {
		err := build.Instruments(ctx, name)
		if found = found || err == nil; err == nil {
			c.ok(name, "it instruments")
		} else if !errors.Is(err, exec.ErrNotFound) {
			c.note(name, "", "it does not instrument: %v", err)
		}
	}
	if !found {
		c.missing("clang", "apt install clang", "no compiler that has -fxray-instrument is installed")
	}
	if gcc := firstOf("gcc"); gcc != "" {
		c.ok("gcc", "it instruments with -finstrument-functions")
	}
	if rustc := firstOf("rustc"); rustc != "" {
		c.ok("rustc", "it instruments with -Z instrument-xray, stable compilers with RUSTC_BOOTSTRAP=1")
	}
}

func firstOf(names ...string) string {
	for _, name := range names {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	return ""
}

// instrumenting lists the clangs in PATH, with and without a version.
func instrumenting() (names []string) {
	for _, dir := range filepath.SplitList(os.Getenv("PATH")) {
		paths, _ := filepath.Glob(filepath.Join(dir, "clang*"))
		for _, path := range paths {
			name := filepath.Base(path)
			if version := strings.TrimPrefix(name, "clang-"); name == "clang" || version != name && strings.Trim(version, "0123456789.") == "" {
				names = append(names, name)
			}
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// Process looks at a running process. It returns an error if there is none.
func Process(ctx context.Context, pid int) ([]Check, error) {
	exe := filepath.Join("/proc", strconv.Itoa(pid), "exe")
	status, err := proc.StatusFields(pid)
	if errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("no process has the ID %d", pid)
	} else if err != nil {
		return nil, err
	}
	path, err := os.Readlink(exe)
	if err != nil {
		path = strings.Join(status["Name"], " ")
	}
	c := &checks{subject: fmt.Sprintf("process %d (%s)", pid, path)}
	recording := false
	if _, err := client.Dial(strconv.Itoa(pid)); err == nil {
		recording = true
		c.ok("recorder", "it listens: use xray ctl, top, watch and record -p")
	}
	switch mem, err := os.Open(filepath.Join("/proc", strconv.Itoa(pid), "mem")); {
	case err == nil:
		mem.Close()
		if err := attach.CheckStatus(pid); err != nil && !recording {
			c.missing("attaching", "", "xray cannot attach: %v", err)
		} else {
			c.ok("attaching", "xray may attach to it")
		}
	case !recording:
		c.missing("attaching", "run xray as root, or as the process's user with kernel.yama.ptrace_scope=0", "xray may not attach: %v", err)
	}
	if files, all := client.InstrumentedFiles(pid); len(files) > 0 {
		for i := range files {
			files[i] = filepath.Base(files[i])
		}
		c.ok("sleds", "in %s", strings.Join(files, ", "))
	} else if all {
		c.missing("sleds", "xray build make, then start the program anew", "no object of the process is instrumented")
	}
	more, err := Program(ctx, exe)
	if err != nil {
		c.note("program", "", "%v", err)
	}
	for _, check := range more {
		if check.Name == "debug information" || check.Name == "sleds" && check.State == OK {
			check.Subject = c.subject
			c.list = append(c.list, check)
		}
	}
	return c.list, nil
}
