package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/xray-tools/xray/cmd/xray/internal/cli"
	"github.com/xray-tools/xray/internal/fileio"
	"github.com/xray-tools/xray/recorder"
)

// recordFlags are the flags of record.
type recordFlags struct {
	recordingFlags
	ring     int64
	memory   int64
	output   string
	piped    bool // the trace goes to standard output
	running  bool // a process still ran at the end
	noFollow bool
	noOffCPU bool
	drop     bool
	compress bool
	sched    schedFlag
	quiet    bool
	pid      string
	duration time.Duration
	budget   cli.Share
}

// callFlag selects sets of libc functions. "" selects none.
type callFlag string

func (c *callFlag) add(f *pflag.FlagSet) {
	f.StringVar((*string)(c), "libcalls", "", "also record C library calls; `LIST` selects the sets locks, io, sleep, alloc, copy, or all (default "+recorder.DefaultCallSets+")")
	f.Lookup("libcalls").NoOptDefVal = recorder.DefaultCallSets
}

// addLibcalls adds --libcalls and --no-libcalls.
func (r *recordingFlags) addLibcalls(f *pflag.FlagSet) {
	r.libcalls.add(f)
	f.BoolVar(&r.noLibcalls, "no-libcalls", false, "do not record C library calls, which is the default")
}

// callSets returns the sets of libc functions to record.
func (r *recordingFlags) callSets() ([]recorder.CallSet, error) {
	if r.noLibcalls && r.libcalls != "" {
		return nil, cli.Usagef("--libcalls cannot be used with --no-libcalls")
	}
	return r.libcalls.sets()
}

func (c callFlag) sets() ([]recorder.CallSet, error) {
	if c == "" {
		return nil, nil
	}
	sets, err := recorder.ParseCallSets(string(c))
	if err != nil {
		return nil, cli.Usagef("--libcalls: %w", err)
	}
	return sets, nil
}

// schedFlag selects events of the kernel; "" is none.
type schedFlag string

const (
	schedSwitches = "switches"
	schedIRQ      = "irq"
)

func (s *schedFlag) add(f *pflag.FlagSet) {
	f.StringVar((*string)(s), "sched", "", "also record which tasks ran instead of the program's threads and which tasks woke them; with irq as `LIST`, also record interrupts; requires root")
	f.Lookup("sched").NoOptDefVal = schedSwitches
}

// interrupts reports whether the flag asks for interrupts, too.
func (s schedFlag) interrupts() (irq bool, err error) {
	if s == "" {
		return false, nil
	}
	for word := range strings.SplitSeq(string(s), ",") {
		switch strings.TrimSpace(word) {
		case schedSwitches:
		case schedIRQ:
			irq = true
		default:
			return false, cli.Usagef("--sched: %q is neither %s nor %s", word, schedSwitches, schedIRQ)
		}
	}
	return irq, nil
}

// defaultTrace is the default template for names of traces.
const defaultTrace = "xray-%e.%p.xray"

func (a *app) recordCommand() *cobra.Command {
	var r recordFlags
	cmd := &cobra.Command{
		Use:   "record [flags] [--] PROGRAM [ARGUMENT...]",
		Short: "Run a program and record its calls",
		Long: `Run a program built with clang -fxray-instrument and record its function calls. The
recorder is preloaded, so the program needs no relinking. The first run compiles the
recorder and needs a C compiler. The trace identifies its binaries, so other commands
need no -m.

With -p, record a running process. If the process has no recorder, xray injects it with
ptrace.

Ctrl-C stops the program and finishes the trace. The exit status is that of the program,
or 128 plus the signal number if a signal killed it.

With -o -, xray writes the trace to standard output when the program exits. The program's
own standard output goes to standard error.`,
		Example: `  xray record -- ./server --port 8080
  xray record --prune 5us --ring 64M -- ./server
  xray record --func '^db::' -o db.xray -- ./server
  xray record -o - -- ./server | zstd | aws s3 cp - s3://traces/server.xray.zst
  xray record -p 1234 --duration 10s
  xray record --window 1s/60s -- ./server`,
		Annotations: map[string]string{cli.Verbatim: "true"},
		Args: func(_ *cobra.Command, args []string) error {
			switch {
			case r.pid != "" && len(args) > 0:
				return cli.Usagef("unexpected argument %q: -p records a running process", args[0])
			case r.pid == "" && len(args) == 0:
				return cli.Usagef("pass a PROGRAM to run, or a process ID with -p")
			case r.pid == "" && args[0] == "":
				return cli.Usagef("the program name is empty")
			}
			return r.check(a)
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := recorder.Supported(); err != nil {
				return err
			}
			if r.pid != "" {
				return a.recordProcess(cmd.Context(), &r)
			}
			if r.output == "-" {
				return a.recordPiped(cmd.Context(), &r, args)
			}
			return a.recordProgram(cmd.Context(), &r, args)
		},
	}
	f := cmd.Flags()
	f.SetInterspersed(false) // arguments after the program's name belong to the program
	r.add(f)
	cli.AddBudget(f, &r.budget, "limit the overhead to `PERCENT` of the program's CPU time: record the most informative calls and estimate the rest")
	cli.AddSize(f, &r.ring, "ring", "keep only the last `SIZE` of records per thread, and write them when the recording ends")
	cli.AddSize(f, &r.memory, "memory", "keep at most `SIZE` of records in memory, for all threads of a process together: rings (--ring), or what is not written yet")
	f.StringVarP(&r.output, "output", "o", defaultTrace, "write to `FILE`; %p is the process ID, %e the program name, %% a percent sign; - is standard output")
	f.BoolVar(&r.noFollow, "no-follow", false, "do not record child processes")
	f.BoolVar(&r.noOffCPU, "no-offcpu", false, "do not record off-CPU time")
	f.BoolVar(&r.drop, "drop", false, "drop records instead of blocking threads if xray cannot write the trace fast enough")
	f.BoolVar(&r.compress, "compress", false, "compress the trace to about a fifth of its size")
	r.sched.add(f)
	f.StringVarP(&r.pid, "pid", "p", "", "record the running process `PID`")
	cli.AddDuration(f, &r.duration, "duration", "with -p, stop after `TIME`")
	f.BoolVarP(&r.quiet, "quiet", "q", false, "print only errors")
	r.addLibcalls(f)
	addCompiler(cmd, &r.cc)
	cli.Spellings(f, map[string]string{"threshold": "prune"})
	return cmd
}

// check rejects flags that contradict each other.
func (r *recordFlags) check(a *app) error {
	if _, err := r.recording(); err != nil {
		return err
	}
	if _, err := r.filter(a); err != nil {
		return err
	}
	if _, err := r.callSets(); err != nil {
		return err
	}
	if _, err := r.sched.interrupts(); err != nil {
		return err
	}
	if err := recorder.CheckTemplate(r.output); err != nil {
		return cli.Usagef("--output: %w", err)
	}
	if r.pid != "" {
		r.within = r.budget
	}
	switch {
	case r.output == "" || r.output == "-" && r.pid != "":
		return cli.Usagef("-o - cannot be used with -p: pass a file name")
	case (r.ring > 0 || r.drop) && r.sums():
		return cli.Usagef("--ring and --drop cannot be used with --count or --profile")
	case r.memory > 0 && r.sums():
		return cli.Usagef("--memory cannot be used with --count or --profile, which keep no records")
	case r.memory > 0 && r.memory < recorder.LeastMemory:
		return cli.Usagef("--memory: must be at least %dM, not %d bytes", recorder.LeastMemory>>20, r.memory)
	case r.ring > 0 && r.drop:
		return cli.Usagef("--drop cannot be used with --ring")
	case r.window.Every > 0 && r.budget > 0:
		return cli.Usagef("--window cannot be used with --budget: the budget needs call counts from outside the windows")
	case r.window.Every > 0 && r.sched != "":
		return cli.Usagef("--window cannot be used with --sched, which records the kernel's events all the time")
	case r.budget > 0 && (r.sums() || r.depth > 0):
		return cli.Usagef("--budget cannot be used with --count, --profile or --depth")
	case r.ring > 0 && r.ring < leastRing:
		return cli.Usagef("--ring: must be at least %[2]dK, not %[1]d bytes", r.ring, leastRing>>10)
	case r.pid == "" && r.duration > 0:
		return cli.Usagef("--duration requires -p; to limit a program that xray starts, use timeout(1)")
	case r.pid != "" && r.compress:
		return cli.Usagef("--compress cannot be used with -p: the process itself writes the trace")
	case r.pid != "" && (r.ring > 0 || r.memory > 0 || r.noFollow || r.noOffCPU || r.drop):
		return cli.Usagef("--ring, --memory, --no-follow, --no-offcpu and --drop must be given when the program starts: they cannot be used with -p")
	}
	return nil
}

// leastRing is the size of two chunks: the one being written and a complete one.
const leastRing = 128 << 10

// recordProgram runs a program with the recorder.
func (a *app) recordProgram(ctx context.Context, r *recordFlags, args []string) error {
	l, err := a.prepare(ctx, r, args)
	if err != nil {
		return err
	}
	status, err := l.run(ctx)
	if err != nil {
		return a.cannotRun(err)
	}
	observed, err := l.observer.settle()
	if err != nil {
		return err
	}
	r.running = len(observed.Running) > 0
	return a.reportRecorded(l, observed, r, status)
}

// sigsys ends programs that make a system call that a seccomp filter forbids, on Linux.
const sigsys = 31

// reportRecorded reports failures, and then what was recorded. It returns the exit status.
func (a *app) reportRecorded(l *launch, observed *recorder.Observed, r *recordFlags, status int) error {
	refused := false
	for _, t := range observed.Traces {
		if t.Problem != "" {
			refused = true
			fmt.Fprintf(a.Stderr, "xray: error: the trace is incomplete: %s\n", t.Problem)
		}
	}
	for _, problem := range observed.Problems {
		fmt.Fprintf(a.Stderr, "xray: warning: %s\n", problem)
	}
	if status == 128+sigsys {
		fmt.Fprintln(a.Stderr, "xray: SIGSYS killed the program: a seccomp filter forbids a system call. If the program works without the recorder, "+
			"allow the system calls that the recorder needs: see \"seccomp\" in docs/recorder.md")
	}
	for _, why := range observed.Left {
		fmt.Fprintf(a.Stderr, "xray: not recorded: %s\n", why)
	}
	report, err := readRecorded(l.written(observed))
	if err != nil {
		return err
	}
	report.running, report.left = observed.Running, len(observed.Left) > 0
	if none := observed.Unselected; len(none) > 0 {
		filter, err := r.filter(a)
		if err != nil {
			return err
		}
		a.Say("%s", nothingSelected(filter, none))
	}
	if !r.quiet {
		fmt.Fprintf(a.Stderr, "xray: %s\n", report.summary(l.sleds))
	}
	switch {
	case status != 0:
		return exitStatus(status)
	case refused:
		return exitStatus(1)
	}
	return nil
}

// launch is a program to be recorded.
type launch struct {
	cmd      *exec.Cmd
	template string // path template of the traces, absolute
	session  uint64 // marks the traces of this launch
	observer *observer
	onStart  func(pid int) // called when the program runs
	before   map[string]bool
	objects  []string // those that the program is known to load
	sleds    bool     // whether the program or an object of it is instrumented
	started  int      // process ID
}

// prepare determines whether and how a program can be recorded.
func (a *app) prepare(ctx context.Context, r *recordFlags, args []string) (*launch, error) {
	path, err := exec.LookPath(args[0])
	if err != nil {
		return nil, a.cannotRun(err)
	}
	program, err := recorder.Inspect(path)
	switch {
	case errors.Is(err, fs.ErrPermission):
		program = &recorder.Program{Path: path} // not readable, but it may run
	case err != nil:
		return nil, err
	}
	what, err := r.recording()
	if err != nil {
		return nil, err
	}
	l := &launch{cmd: exec.Command(path, args[1:]...)}
	l.cmd.Args[0] = args[0]
	l.cmd.Stdin, l.cmd.Stdout, l.cmd.Stderr = a.Stdin, a.Stdout.Raw, a.Stderr.Raw
	if r.piped {
		l.cmd.Stdout = a.Stderr.Raw
	}
	if l.template, err = absoluteTemplate(r.output); err != nil {
		return nil, err
	}
	l.session = 1 + rand.Uint64N(1<<53-1) // JSON numbers are exact up to 1<<53
	observing := observing{Func: r.function, Exclude: r.exclude, Symbols: r.Symbols}
	observing.ObserverOptions = recorder.ObserverOptions{
		Session: l.session, Key: recorder.NewKey(), Output: l.template, Rings: r.ring > 0, Drop: r.drop, Limit: what.Limit, Compress: r.compress,
		Sched: r.sched != "", Budget: float64(r.budget),
	}
	if observing.Interrupts, err = r.sched.interrupts(); err != nil {
		return nil, err
	}
	options := recorder.Options{
		Recording: what, Output: l.template, Ring: r.ring, Memory: r.memory, Observer: observing.Address(),
		NoFollow: r.noFollow, NoOffCPU: r.noOffCPU, Session: l.session, Quiet: r.quiet, Limited: r.budget > 0,
	}
	if l.cmd.Env, err = a.preload(ctx, l, program, r, &options); err != nil {
		return nil, err
	}
	observing.Libcalls = slices.Clone(l.objects)
	a.findSleds(ctx, l, r, program)
	options.Select, options.SelectAll = r.selects(), r.function == ""
	l.cmd.Env = append(l.cmd.Env, options.Environment())
	if err := removeOld(l.template); err != nil {
		return l, err
	}
	if l.before, err = l.listing(); err != nil {
		return l, err
	}
	if l.observer, err = a.startObserver(observing); err == nil {
		l.onStart = l.observer.started
		a.warnOfSched(l.observer.noSched)
	}
	return l, err
}

// preload returns the environment for a program. It preloads the recorder unless the program
// contains it, and for --libcalls the objects that record functions of libc. It adds these objects
// to l.objects.
func (a *app) preload(ctx context.Context, l *launch, program *recorder.Program, r *recordFlags, options *recorder.Options) ([]string, error) {
	env := os.Environ()
	sets, err := r.callSets()
	if err != nil || program.Linked && len(sets) == 0 {
		return env, err
	}
	if err := program.CheckPreload(); err != nil {
		return nil, err
	}
	library, err := a.buildRecorder(ctx, r.cc)
	if err != nil {
		return nil, err
	}
	for _, path := range library.PreloadCalls(sets...) {
		l.objects = append(l.objects, recorder.RealPath(path))
	}
	preload := recorder.PreloadEnvironment
	if program.Linked {
		preload = recorder.PreloadCallsEnvironment
	}
	already := os.Getenv("LD_PRELOAD")
	entry, added, err := preload(library, already, sets...)
	if err != nil {
		return nil, err
	}
	options.Preload = added
	if s := program.Sanitizer; s != "" && !strings.Contains(already, s) {
		options.Given = strings.TrimPrefix(entry, "LD_PRELOAD=")
		if entry, _, err = preload(library, s+":"+already, sets...); err != nil {
			return nil, err
		}
	}
	return append(env, entry), nil
}

// findSleds finds out whether the program and its objects are instrumented.
func (a *app) findSleds(ctx context.Context, l *launch, r *recordFlags, program *recorder.Program) {
	shared, _ := program.Objects(ctx) // without them, the summary knows less
	for _, path := range append([]string{program.Path}, shared...) {
		l.objects = append(l.objects, recorder.RealPath(path))
	}
	l.sleds = slices.ContainsFunc(l.objects, recorder.HasSleds)
	if slices.ContainsFunc(l.objects, recorder.HasHooks) || program.Linked && !l.sleds {
		a.warnOfHooks(r, program)
	}
	if !r.quiet {
		a.warnOfMarks(r.prune, max(r.budget, r.within), program.Path)
	}
}

// warnOfMarks warns of flags that have little effect on a program with only functions that are never
// left out.
func (a *app) warnOfMarks(prune time.Duration, budget cli.Share, program string) {
	flag := ""
	switch {
	case prune > 0:
		flag = "--prune drops no calls"
	case budget > 0:
		flag = "--budget leaves out no calls"
	}
	if flag != "" && recorder.AlwaysInstrumented(program) {
		fmt.Fprintf(a.Stderr, "xray: warning: %s: %s, because %s\n", program, flag, marksText)
	}
}

// marksText says why no function is left out, and what to do.
const marksText = "the functions are marked as always instrumented. " +
	"Compile with -fxray-instruction-threshold=1, and Rust with -Z instrument-xray=instruction-threshold=1 instead of always"

// warnOfSched warns that --sched has no effect, and why.
func (a *app) warnOfSched(why string) {
	if why != "" {
		fmt.Fprintf(a.Stderr, "xray: --sched: %s. The recording continues without scheduler events\n", why)
	}
}

// warnOfHooks warns of flags that do not apply to functions without sleds.
func (a *app) warnOfHooks(r *recordFlags, program *recorder.Program) {
	const functions = "xray: %s: functions instrumented by GCC are %s\n"
	if r.selects() && r.depth == 0 {
		fmt.Fprintf(a.Stderr, functions, program.Path, "all recorded: --func and --exclude apply only to functions instrumented by clang")
	}
	if r.depth > 0 {
		fmt.Fprintf(a.Stderr, functions, program.Path, "not recorded: --depth applies only to functions instrumented by clang")
	}
}

// cannotRun reports why a program cannot run, and returns the exit status that shells use for
// that.
func (a *app) cannotRun(err error) error {
	fmt.Fprintf(a.Stderr, "xray: %v\n", err)
	if errors.Is(err, exec.ErrNotFound) || errors.Is(err, fs.ErrNotExist) {
		return exitStatus(127)
	}
	return exitStatus(126)
}

// absoluteTemplate makes a template independent of the working directory of the program.
func absoluteTemplate(template string) (string, error) {
	if filepath.IsAbs(template) {
		return template, nil
	}
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	return filepath.Join(recorder.EscapeTemplate(dir), template), nil
}

// removeOld removes a trace that the user asked to replace.
func removeOld(template string) error {
	if strings.Contains(strings.ReplaceAll(template, "%%", ""), "%") {
		return nil // if the file exists, the recorder takes another name
	}
	path := recorder.ExpandTemplate(template, 0, "")
	if err := fileio.Replaceable(path); err != nil {
		return err
	}
	if err := os.Remove(path); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// run runs the program to its end, and returns the exit status for xray.
func (l *launch) run(ctx context.Context) (status int, err error) {
	signals := make(chan os.Signal, 16)
	// xray ignores SIGPIPE, which the program would inherit. It does not inherit a notification.
	signal.Notify(signals, append(unignored(os.Interrupt, syscall.SIGQUIT, syscall.SIGTERM, syscall.SIGHUP), syscall.SIGPIPE)...)
	defer signal.Stop(signals)
	if err := l.cmd.Start(); err != nil {
		return 0, err
	}
	l.started = l.cmd.Process.Pid
	l.onStart(l.started)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go l.forward(ctx, signals)
	var exit *exec.ExitError
	if err := l.cmd.Wait(); err != nil && !errors.As(err, &exit) {
		return 0, err
	}
	if ws, ok := l.cmd.ProcessState.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
		return 128 + int(ws.Signal()), nil
	}
	return l.cmd.ProcessState.ExitCode(), nil
}

// unignored drops the signals that xray's parent told it to ignore, for example nohup. The
// program should ignore them too.
func unignored(signals ...os.Signal) []os.Signal { return slices.DeleteFunc(signals, signal.Ignored) }

// untilInterrupted returns a context that ends when a signal tells xray to end. NotifyContext
// without signals would wait for all of them.
func untilInterrupted(ctx context.Context) (context.Context, context.CancelFunc) {
	signals := unignored(os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	if len(signals) == 0 {
		return context.WithCancel(ctx)
	}
	return signal.NotifyContext(ctx, signals...)
}

// forward sends the program the signals that only xray received.
func (l *launch) forward(ctx context.Context, signals <-chan os.Signal) {
	for {
		select {
		case <-ctx.Done():
			return
		case s := <-signals:
			switch s {
			case syscall.SIGPIPE:
			case os.Interrupt, syscall.SIGQUIT:
				// The terminal sends these to the program too.
				if !inForeground() {
					_ = l.cmd.Process.Signal(s) // it may have ended in the meantime
				}
			default:
				_ = l.cmd.Process.Signal(s)
			}
		}
	}
}

// listing is the set of traces that are in the folder of the template.
func (l *launch) listing() (map[string]bool, error) {
	dir := filepath.Dir(l.template)
	names := make(map[string]bool)
	if strings.Contains(strings.ReplaceAll(dir, "%%", ""), "%") {
		return names, nil // written searches the folders in which the program itself writes
	}
	dir = recorder.ExpandTemplate(dir, 0, "")
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	pattern := templatePattern(filepath.Base(l.template))
	for _, e := range entries {
		if e.Type().IsRegular() && pattern.MatchString(e.Name()) {
			names[filepath.Join(dir, e.Name())] = true
		}
	}
	return names, nil
}

// written lists the new traces of processes that have ended.
func (l *launch) written(observed *recorder.Observed) []string {
	after, err := l.listing()
	if err != nil {
		after = make(map[string]bool)
	}
	for _, t := range observed.Traces {
		after[t.Path] = true
	}
	for _, p := range observed.Running {
		delete(after, p.Trace)
	}
	first := recorder.ExpandTemplate(l.template, l.started, filepath.Base(l.cmd.Path))
	if _, err := os.Stat(first); err == nil {
		after[first] = true
	}
	var paths []string
	for path := range after {
		if l.before[path] {
			continue
		}
		recording, err := recordingOf(path)
		if err != nil && path == first || recording != nil && l.isOwn(recording.Process.Session) {
			paths = append(paths, path)
		}
	}
	sortPaths(paths)
	return paths
}

// isOwn reports whether a process belongs to this run, and not to another one at the same time.
// A recorder that is linked into a program may be too old to know sessions.
func (l *launch) isOwn(session uint64) bool { return session == 0 || session == l.session }

// sortPaths sorts paths by length first, so that numbers in them ascend.
func sortPaths(paths []string) {
	slices.SortFunc(paths, func(a, b string) int {
		return cmp.Or(cmp.Compare(len(a), len(b)), cmp.Compare(a, b))
	})
}
