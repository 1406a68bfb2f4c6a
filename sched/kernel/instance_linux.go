package kernel

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/xray-tools/xray/internal/fileio"
)

// Instance is a separate instance of the kernel's tracer. It records scheduler events with the TSC
// as clock. It is not safe for concurrent use, but one goroutine may be in Wait meanwhile.
type Instance struct {
	*pageDecoder
	name      string
	instances *os.File // the directory
	dir       *os.File
	cpus      []int // descriptors by number of the CPU; -1 if there is none
	page      []byte
	full      *os.File // an epoll file, ready when a CPU has fullPercent of its buffer to read
	fullPages int      // as many pages; 0 if full watches no CPU
	woken     atomic.Bool
	early     int // how often in succession Wait returned before there were that many pages
}

// Clock is the name of the TSC among the tracer's clocks.
const Clock = "x86-tsc"

const (
	// bufferKB is the size of the buffer of each CPU. totalKB limits the total size.
	bufferKB = 4 << 10
	totalKB  = 256 << 10
	leastKB  = 512
)

// Open creates an instance. With interrupts, it also has the events of interrupts while any
// task but the idle ones runs. Open removes instances that killed processes left behind. So
// does Close, because a process may have been killed only just before Open. The error says in
// one line what is missing and how to get it.
func Open(interrupts bool) (*Instance, error) {
	if !initialPIDs() {
		return nil, errInnerPIDs
	}
	root, err := openRoot()
	if err != nil {
		return nil, err
	}
	defer root.Close()
	in := &Instance{name: instanceName(os.Getpid())}
	if in.instances, err = openAt(root, "instances", unix.O_RDONLY|unix.O_DIRECTORY); err != nil {
		return nil, explain(err)
	}
	in.removeStale()
	if err := unix.Mkdirat(int(in.instances.Fd()), in.name, 0o700); err != nil {
		in.instances.Close()
		return nil, explain(&fs.PathError{Op: "mkdir", Path: "instances/" + in.name, Err: err})
	}
	if err := in.begin(root, interrupts); err != nil {
		return nil, errors.Join(err, in.Close())
	}
	return in, nil
}

var errInnerPIDs = errors.New("xray runs in a PID namespace, where the kernel's events have different IDs: run it outside the container")

// initialPIDs reports whether this process has the IDs that the kernel knows it by.
func initialPIDs() bool {
	const initial = "pid:[4026531836]" // PROC_PID_INIT_INO
	ns, err := os.Readlink("/proc/self/ns/pid")
	return err != nil || ns == initial
}

// explain adds how to get a missing permission.
func explain(err error) error {
	if errors.Is(err, fs.ErrPermission) {
		return fmt.Errorf("%w: run xray as root (with CAP_SYS_ADMIN), or let your user write to /sys/kernel/tracing", err)
	}
	return err
}

// openRoot opens the file system where it is mounted. If it is not mounted, openRoot makes a
// private mount, which disappears when its last file is closed.
func openRoot() (*os.File, error) {
	var denied error
	for _, path := range mounts() {
		f, err := os.Open(path)
		if err != nil {
			denied = explain(err)
			continue
		}
		if probe, err := openAt(f, "instances", unix.O_RDONLY|unix.O_DIRECTORY); err != nil {
			denied = explain(err)
			f.Close()
			continue
		} else {
			probe.Close()
		}
		return f, nil
	}
	if denied != nil {
		return nil, denied
	}
	return mountPrivately()
}

// mounts are the directories where the file system may be.
func mounts() []string {
	var list []string
	data, _ := os.ReadFile("/proc/self/mounts")
	for line := range strings.Lines(string(data)) {
		f := strings.Fields(line)
		if len(f) >= 3 && f[2] == "tracefs" {
			list = append(list, unescape(f[1]))
		}
	}
	for line := range strings.Lines(string(data)) {
		f := strings.Fields(line)
		if len(f) >= 3 && f[2] == "debugfs" {
			// The kernel mounts it there on first access.
			list = append(list, filepath.Join(unescape(f[1]), "tracing"))
		}
	}
	return slices.Compact(list)
}

// unescape undoes the escapes of /proc/self/mounts.
func unescape(path string) string {
	return strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`).Replace(path)
}

func mountPrivately() (*os.File, error) {
	const how = "mount tracefs first: mount -t tracefs nodev /sys/kernel/tracing"
	context, err := unix.Fsopen("tracefs", unix.FSOPEN_CLOEXEC)
	switch {
	case errors.Is(err, unix.EPERM):
		return nil, errors.New("tracefs is not mounted, and xray may not mount it: run xray as root (with CAP_SYS_ADMIN), or " + how)
	case errors.Is(err, unix.ENODEV):
		return nil, errors.New("the kernel has no tracefs (CONFIG_FTRACE)")
	case err != nil:
		return nil, fmt.Errorf("tracefs is not mounted (%w): %s", err, how)
	}
	defer unix.Close(context)
	if err := unix.FsconfigCreate(context); err != nil {
		return nil, fmt.Errorf("tracefs is not mounted (%w): %s", err, how)
	}
	mount, err := unix.Fsmount(context, unix.FSMOUNT_CLOEXEC, unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NODEV|unix.MOUNT_ATTR_NOEXEC)
	if err != nil {
		return nil, fmt.Errorf("tracefs is not mounted (%w): %s", err, how)
	}
	return os.NewFile(uintptr(mount), "tracefs"), nil
}

func openAt(dir *os.File, path string, flags int) (*os.File, error) {
	fd, err := unix.Openat(int(dir.Fd()), path, flags|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: filepath.Join(dir.Name(), path), Err: err}
	}
	return os.NewFile(uintptr(fd), filepath.Join(dir.Name(), path)), nil
}

func readAt(dir *os.File, path string) (string, error) {
	f, err := openAt(dir, path, unix.O_RDONLY)
	if err != nil {
		return "", err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, 1<<20))
	return string(data), err
}

func writeAt(dir *os.File, path, text string) error {
	f, err := openAt(dir, path, unix.O_WRONLY|unix.O_TRUNC)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	return errors.Join(err, f.Close())
}

var events = [...]string{"sched_switch", "sched_waking", "sched_process_fork"}

// begin sets the instance up, and starts it.
func (in *Instance) begin(root *os.File, interrupts bool) error {
	var err error
	if in.dir, err = openAt(in.instances, in.name, unix.O_RDONLY|unix.O_DIRECTORY); err != nil {
		return err
	}
	clocks, err := readAt(in.dir, "trace_clock")
	if err != nil {
		return explain(err)
	}
	if !slices.Contains(strings.Fields(clocks), Clock) {
		return errors.New("the kernel's tracer has no clock " + Clock)
	}
	if err := writeAt(in.dir, "trace_clock", Clock); err != nil {
		return explain(err)
	}
	texts := make([]string, 1+len(events))
	if texts[0], err = readAt(root, "events/header_page"); err != nil {
		return explain(err)
	}
	for i, name := range events {
		if texts[i+1], err = readAt(root, "events/sched/"+name+"/format"); err != nil {
			return explain(err)
		}
	}
	if in.pageDecoder, err = newPageDecoder(texts[0], texts[1], texts[2], texts[3]); err != nil {
		return fmt.Errorf("tracefs: %w", err)
	}
	header, err := parseFormat("ID: 1\n" + texts[0])
	if err != nil {
		return err
	}
	in.page = make([]byte, max(4096, header.fields["data"].offset+header.fields["data"].size))
	if err := in.openCPUs(); err != nil {
		return err
	}
	size := max(leastKB, min(bufferKB, totalKB/max(1, len(in.cpus))))
	if err := writeAt(in.dir, "buffer_size_kb", strconv.Itoa(size)); err != nil {
		return err
	}
	if err := in.watch(size << 10 / len(in.page)); err != nil {
		return err
	}
	for _, name := range events {
		if err := writeAt(in.dir, "events/sched/"+name+"/enable", "1"); err != nil {
			return explain(err)
		}
	}
	if interrupts {
		return in.beginInterrupts(root)
	}
	return nil
}

// beginInterrupts enables those interrupt events that the kernel has.
func (in *Instance) beginInterrupts(root *os.File) error {
	var none error
	for index := range interruptEvents {
		path := "events/" + interruptEvents[index].path
		for kind, suffix := range map[Kind]string{Interrupted: "_entry", Resumed: "_exit"} {
			text, err := readAt(root, path+suffix+"/format")
			if errors.Is(err, fs.ErrNotExist) {
				none = err
				continue
			}
			if err != nil {
				return explain(err)
			}
			if err := in.addInterrupt(index, kind, text); err != nil {
				return fmt.Errorf("tracefs: %s%s: %w", path, suffix, err)
			}
			// Interrupts of idle CPUs concern no task. Without the filter, they only cost time.
			_ = writeAt(in.dir, path+suffix+"/filter", "common_pid != 0")
			if err := writeAt(in.dir, path+suffix+"/enable", "1"); err != nil {
				return explain(err)
			}
		}
	}
	if in.interrupts == nil {
		return fmt.Errorf("the kernel's tracer has no interrupt events (%w): use --sched without irq", none)
	}
	return nil
}

func (in *Instance) openCPUs() error {
	dir, err := openAt(in.dir, "per_cpu", unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		return err
	}
	defer dir.Close()
	names, err := dir.Readdirnames(-1)
	if err != nil {
		return err
	}
	for _, name := range names {
		number, ok := strings.CutPrefix(name, "cpu")
		cpu, err := strconv.ParseUint(number, 10, 16)
		if !ok || err != nil {
			continue
		}
		path := name + "/trace_pipe_raw"
		fd, err := unix.Openat(int(dir.Fd()), path, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
		if err != nil {
			return explain(&fs.PathError{Op: "open", Path: filepath.Join(dir.Name(), path), Err: err})
		}
		for len(in.cpus) <= int(cpu) {
			in.cpus = append(in.cpus, -1)
		}
		in.cpus[cpu] = fd
	}
	return nil
}

// fullPercent is the part of a CPU's buffer that wakes Wait.
const fullPercent = 25

// watch prepares Wait. pages is the size of the buffer of a CPU.
func (in *Instance) watch(pages int) error {
	fd, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return fmt.Errorf("epoll_create: %w", err)
	}
	err = unix.SetNonblock(fd, true)
	in.full = os.NewFile(uintptr(fd), "epoll") // Go's poller waits for it, so that no thread does
	if err := errors.Join(err, in.full.SetReadDeadline(time.Time{})); err != nil {
		return fmt.Errorf("cannot wait for events: %w", err)
	}
	if writeAt(in.dir, "buffer_percent", strconv.Itoa(fullPercent)) != nil {
		return nil // an old kernel, which wakes for each event
	}
	for _, cpu := range in.cpus {
		if cpu >= 0 && unix.EpollCtl(fd, unix.EPOLL_CTL_ADD, cpu, &unix.EpollEvent{Events: unix.EPOLLIN, Fd: int32(cpu)}) != nil {
			in.unwatch()
			return nil
		}
	}
	in.fullPages = pages * fullPercent / 100
	return nil
}

// unwatch makes Wait wait for the time only.
func (in *Instance) unwatch() {
	in.fullPages = 0
	if raw, err := in.full.SyscallConn(); err == nil {
		_ = raw.Control(func(fd uintptr) {
			for _, cpu := range in.cpus {
				_ = unix.EpollCtl(int(fd), unix.EPOLL_CTL_DEL, cpu, nil)
			}
		})
	}
}

// Watches reports whether Wait returns before a buffer is full. Otherwise, call Read often enough.
func (in *Instance) Watches() bool { return in.fullPages > 0 }

// Wait waits until a quarter of the buffer of a CPU can be read, but at most d. Wake ends it.
func (in *Instance) Wait(d time.Duration) (full bool) {
	defer in.woken.Store(false)
	if in.full.SetReadDeadline(time.Now().Add(d)) != nil || in.woken.Load() {
		return false
	}
	raw, err := in.full.SyscallConn()
	if err != nil {
		return false
	}
	var ready [1]unix.EpollEvent
	return raw.Read(func(fd uintptr) bool {
		n, _ := unix.EpollWait(int(fd), ready[:], 0)
		return n > 0
	}) == nil
}

// Wake ends the current Wait, or the next one. Any goroutine may call it before Close.
func (in *Instance) Wake() {
	in.woken.Store(true)
	_ = in.full.SetReadDeadline(time.Unix(1, 0))
}

// maxEarly is how often in succession Wait may return too early. Some kernels ignore buffer_percent.
const maxEarly = 8

// Woken says how many pages could be read after Wait returned true.
func (in *Instance) Woken(pages int) {
	if pages >= in.fullPages/2 {
		in.early = 0
	} else if in.early++; in.early > maxEarly {
		in.unwatch()
	}
}

// Stop stops recording. Recorded events can still be read.
func (in *Instance) Stop() error { return writeAt(in.dir, "tracing_on", "0") }

// Read calls each with the available events. Events of one CPU are in order. It returns the number
// of pages, and of events that were overwritten before they were read.
func (in *Instance) Read(each func(*Event)) (pages int, lost uint64, err error) {
	for cpu, fd := range in.cpus {
		if fd < 0 {
			continue
		}
		for range maxPages {
			var n int
			err := fileio.Uninterrupted(func() (err error) { n, err = unix.Read(fd, in.page); return err })
			if n <= 0 {
				if err != nil && !errors.Is(err, unix.EAGAIN) {
					return pages, lost, fmt.Errorf("events of CPU %d: %w", cpu, err)
				}
				break
			}
			pages++
			missing, err := in.Page(in.page[:n], uint16(cpu), each)
			lost += missing
			if err != nil {
				return pages, lost + 1, fmt.Errorf("events of CPU %d: %w", cpu, err)
			}
		}
	}
	return pages, lost, nil
}

// maxPages limits the pages that one call of Read takes from one CPU.
const maxPages = 4 * bufferKB / 4

// Close stops and removes the instance. Wait must have returned.
func (in *Instance) Close() error {
	if in.dir != nil {
		_ = in.Stop()
		in.dir.Close()
	}
	if in.full != nil {
		in.full.Close()
	}
	for _, fd := range in.cpus {
		if fd >= 0 {
			unix.Close(fd)
		}
	}
	in.cpus = nil
	in.removeStale()
	err := unix.Unlinkat(int(in.instances.Fd()), in.name, unix.AT_REMOVEDIR)
	if err != nil {
		err = &fs.PathError{Op: "rmdir", Path: in.instances.Name() + "/" + in.name, Err: err}
	}
	return errors.Join(err, in.instances.Close())
}

const prefix = "xray-"

// instanceName names the instance of a process: by its ID and by when it started.
func instanceName(pid int) string {
	return fmt.Sprintf("%s%d-%s", prefix, pid, startTime(pid))
}

// startTime is when a process started, in clock ticks since the start of the system, or "" if
// it is gone.
func startTime(pid int) string {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return ""
	}
	// The name, in parentheses, may contain anything.
	f := strings.Fields(string(data[strings.LastIndexByte(string(data), ')')+1:]))
	const start = 22 - 3 // the third field comes first
	if len(f) <= start || f[0] == "Z" || f[0] == "X" {
		return ""
	}
	return f[start]
}

// removeStale removes instances whose process is gone.
func (in *Instance) removeStale() {
	if _, err := in.instances.Seek(0, io.SeekStart); err != nil {
		return
	}
	names, err := in.instances.Readdirnames(-1)
	if err != nil {
		return
	}
	for _, name := range names {
		rest, ok := strings.CutPrefix(name, prefix)
		number, _, _ := strings.Cut(rest, "-")
		if pid, err := strconv.Atoi(number); ok && err == nil && name != instanceName(pid) {
			_ = unix.Unlinkat(int(in.instances.Fd()), name, unix.AT_REMOVEDIR)
		}
	}
}
