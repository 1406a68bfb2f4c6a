package launch

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/xray-tools/xray/cmd/xray/internal/cli"
	"github.com/xray-tools/xray/internal/fileio"
	"github.com/xray-tools/xray/recorder"
	"github.com/xray-tools/xray/recorder/build"
	"github.com/xray-tools/xray/recorder/observe"
)

// Program runs a program with the recorder, and reports what was recorded.
func (plan *Plan) Program(ctx context.Context, args []string) error {
	_, err := plan.program(ctx, args, plan.Stdout.Raw)
	return err
}

// program is Program with a standard output for the program. It reports whether a process still runs.
func (plan *Plan) program(ctx context.Context, args []string, stdout io.Writer) (running bool, err error) {
	l, err := plan.prepare(ctx, args, stdout)
	if err != nil {
		return false, err
	}
	status, err := l.run(ctx)
	if err != nil {
		return false, plan.cannotRun(err)
	}
	observed, err := l.observer.settle()
	if err != nil {
		return false, err
	}
	return len(observed.Running) > 0, plan.report(l, observed, status)
}

// sigsys ends programs that make a system call that a seccomp filter forbids, on Linux.
const sigsys = 31

// report reports failures, and then what was recorded. It returns the exit status.
func (plan *Plan) report(l *launch, observed *observe.Result, status int) error {
	refused := false
	for _, t := range observed.Traces {
		if t.Problem != "" {
			refused = true
			fmt.Fprintf(plan.Stderr, "xray: error: the trace is incomplete: %s\n", t.Problem)
		}
	}
	for _, problem := range observed.Problems {
		fmt.Fprintf(plan.Stderr, "xray: warning: %s\n", problem)
	}
	if status == 128+sigsys {
		plan.Say("SIGSYS killed the program: a seccomp filter forbids a system call. If the program works without the recorder, " +
			"allow the system calls that the recorder needs: see \"seccomp\" in docs/recorder.md")
	}
	for _, why := range observed.Left {
		fmt.Fprintf(plan.Stderr, "xray: not recorded: %s\n", why)
	}
	report, err := Read(l.written(observed))
	if err != nil {
		return err
	}
	report.running, report.left = observed.Running, len(observed.Left) > 0
	if none := observed.Unselected; len(none) > 0 {
		filter, err := plan.filter(plan.Streams)
		if err != nil {
			return err
		}
		plan.Say("%s", nothingSelected(filter, none))
	}
	plan.sayUnused(observed.Unused)
	if !plan.Quiet {
		fmt.Fprintf(plan.Stderr, "xray: %s\n", report.Summary(l.sleds))
	}
	switch {
	case status != 0:
		return cli.ExitStatus(status)
	case refused:
		return cli.ExitStatus(1)
	}
	return nil
}

// launch is a program to be recorded.
type launch struct {
	cmd      *exec.Cmd
	options  recorder.Options // with absolute paths
	observer *observer
	onStart  func(pid int) // called when the program runs
	before   map[string]bool
	objects  []string // those that the program is known to load
	sleds    bool     // whether the program or an object of it is instrumented
	started  int      // process ID
}

// command returns a program to be started with the streams of xray.
func (plan *Plan) command(path string, args []string, stdout io.Writer) *launch {
	l := &launch{cmd: exec.Command(path, args[1:]...), options: plan.Options}
	l.cmd.Args[0] = args[0]
	l.cmd.Stdin, l.cmd.Stdout, l.cmd.Stderr = plan.Stdin, stdout, plan.Stderr.Raw
	return l
}

// prepare determines whether and how a program can be recorded.
func (plan *Plan) prepare(ctx context.Context, args []string, stdout io.Writer) (*launch, error) {
	path, err := exec.LookPath(args[0])
	if err != nil {
		return nil, plan.cannotRun(err)
	}
	program, err := build.Inspect(path)
	switch {
	case errors.Is(err, fs.ErrPermission):
		program = &build.Program{Path: path} // not readable, but it may run
	case err != nil:
		return nil, err
	}
	l := plan.command(path, args, stdout)
	o := &l.options
	if o.Output, err = absoluteTemplate(plan.Output); err != nil {
		return nil, err
	}
	o.Session = 1 + rand.Uint64N(1<<53-1) // JSON numbers are exact up to 1<<53
	observing := observing{Selection: plan.Selection, Options: observe.For(o)}
	o.Observer = observing.Address()
	if err := plan.preload(ctx, l, program); err != nil {
		return nil, err
	}
	observing.Libcalls = slices.Clone(l.objects)
	if sets, err := plan.Libcalls.Sets(); err == nil {
		observing.IO = slices.Contains(sets, "io")
	}
	plan.findSleds(ctx, l, program)
	o.Select, o.SelectAll = plan.selects(), plan.Func == ""
	l.cmd.Env = append(l.cmd.Env, o.Environment())
	if err := removeOld(o.Output); err != nil {
		return l, err
	}
	if l.before, err = l.listing(); err != nil {
		return l, err
	}
	if l.observer, err = startObserver(observing); err == nil {
		l.onStart = l.observer.started
		plan.warnOfSched(l.observer.noSched)
	}
	return l, err
}

// Run runs a program with the recorder to its end, without an observer, and returns the exit status.
// onStart is called when it runs.
func (plan *Plan) Run(ctx context.Context, args []string, onStart func(pid int)) (status int, err error) {
	path, err := exec.LookPath(args[0])
	if err != nil {
		return 0, plan.cannotRun(err)
	}
	program, err := build.Inspect(path)
	if err != nil {
		return 0, err
	}
	l := plan.command(path, args, plan.Stdout.Raw)
	if err := plan.preload(ctx, l, program); err != nil {
		return 0, err
	}
	l.cmd.Env = append(l.cmd.Env, l.options.Environment())
	l.onStart = onStart
	if status, err = l.run(ctx); err != nil {
		err = plan.cannotRun(err)
	}
	return status, err
}

// preload sets the environment of a program. It preloads the recorder unless the program contains it,
// and for --libcalls the objects that record functions of libc. It adds these objects to l.objects.
func (plan *Plan) preload(ctx context.Context, l *launch, program *build.Program) error {
	l.cmd.Env = os.Environ()
	sets, err := plan.Libcalls.Sets()
	if err != nil || program.Linked && len(sets) == 0 {
		return err
	}
	if err := program.CheckPreload(); err != nil {
		return err
	}
	library, err := Build(ctx, plan.Streams, plan.Compiler)
	if err != nil {
		return err
	}
	for _, path := range library.PreloadCalls(sets...) {
		l.objects = append(l.objects, observe.RealPath(path))
	}
	preload := build.PreloadEnvironment
	if program.Linked {
		preload = build.PreloadCallsEnvironment
	}
	already := os.Getenv("LD_PRELOAD")
	entry, added, err := preload(library, already, sets...)
	if err != nil {
		return err
	}
	l.options.Preload = added
	if s := program.Sanitizer; s != "" && !strings.Contains(already, s) {
		l.options.Given = strings.TrimPrefix(entry, "LD_PRELOAD=")
		if entry, _, err = preload(library, s+":"+already, sets...); err != nil {
			return err
		}
	}
	l.cmd.Env = append(l.cmd.Env, entry)
	return nil
}

// findSleds finds out whether the program and its objects are instrumented.
func (plan *Plan) findSleds(ctx context.Context, l *launch, program *build.Program) {
	shared, _ := program.Objects(ctx) // without them, the summary knows less
	for _, path := range append([]string{program.Path}, shared...) {
		l.objects = append(l.objects, observe.RealPath(path))
	}
	l.sleds = slices.ContainsFunc(l.objects, build.HasSleds)
	if slices.ContainsFunc(l.objects, build.HasHooks) || program.Linked && !l.sleds {
		plan.warnOfHooks(program)
	}
	plan.WarnOfMarks(program.Path)
}

// WarnOfMarks warns of flags that have little effect on a program with only functions that are never
// left out.
func (plan *Plan) WarnOfMarks(program string) {
	flag := ""
	switch {
	case plan.Quiet:
	case plan.Threshold > 0:
		flag = "--prune drops no calls"
	case plan.Budget > 0:
		flag = "--budget leaves out no calls"
	}
	if flag != "" && build.AlwaysInstrumented(program) {
		plan.Say("warning: %s: %s, because %s", program, flag, MarksText)
	}
}

// MarksText says why no function is left out, and what to do.
const MarksText = "the functions are marked as always instrumented. " +
	"Compile with -fxray-instruction-threshold=1, and Rust with -Z instrument-xray=instruction-threshold=1 instead of always"

// warnOfSched warns that --sched has no effect, and why.
func (plan *Plan) warnOfSched(why string) {
	if why != "" {
		plan.Say("--sched: %s. The recording continues without scheduler events", why)
	}
}

// warnOfHooks warns of flags that do not apply to functions without sleds.
func (plan *Plan) warnOfHooks(program *build.Program) {
	const functions = "%s: functions instrumented by GCC are %s"
	if (plan.Func != "" || plan.Exclude != "") && plan.Depth == 0 {
		plan.Say(functions, program.Path, "all recorded: --func and --exclude apply only to functions instrumented by clang")
	}
	if plan.Depth > 0 {
		plan.Say(functions, program.Path, "not recorded: --depth and --when apply only to functions instrumented by clang")
	}
}

// cannotRun reports why a program cannot run, and returns the exit status that shells use for
// that.
func (plan *Plan) cannotRun(err error) error {
	fmt.Fprintf(plan.Stderr, "xray: %v\n", err)
	if errors.Is(err, exec.ErrNotFound) || errors.Is(err, fs.ErrNotExist) {
		return cli.ExitStatus(127)
	}
	return cli.ExitStatus(126)
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
	dir := filepath.Dir(l.options.Output)
	names := make(map[string]bool)
	if strings.Contains(strings.ReplaceAll(dir, "%%", ""), "%") {
		return names, nil // written searches the folders in which the program itself writes
	}
	dir = recorder.ExpandTemplate(dir, 0, "")
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	pattern := templatePattern(filepath.Base(l.options.Output))
	for _, e := range entries {
		if e.Type().IsRegular() && pattern.MatchString(e.Name()) {
			names[filepath.Join(dir, e.Name())] = true
		}
	}
	return names, nil
}

// written lists the new traces of processes that have ended.
func (l *launch) written(observed *observe.Result) []string {
	after, err := l.listing()
	if err != nil {
		after = make(map[string]bool)
	}
	sound := make(map[string]bool) // which the observer has written, so they are of this run
	for _, t := range observed.Traces {
		after[t.Path] = true
		sound[t.Path] = t.Problem == ""
	}
	for _, p := range observed.Running {
		delete(after, p.Trace)
	}
	first := recorder.ExpandTemplate(l.options.Output, l.started, filepath.Base(l.cmd.Path))
	if _, err := os.Stat(first); err == nil {
		after[first] = true
	}
	var paths []string
	for path := range after {
		if l.before[path] {
			continue
		}
		if sound[path] {
			paths = append(paths, path)
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
func (l *launch) isOwn(session uint64) bool { return session == 0 || session == l.options.Session }

// sortPaths sorts paths by length first, so that numbers in them ascend.
func sortPaths(paths []string) {
	slices.SortFunc(paths, func(a, b string) int {
		return cmp.Or(cmp.Compare(len(a), len(b)), cmp.Compare(a, b))
	})
}
