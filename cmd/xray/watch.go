package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/xray-tools/xray/cmd/xray/internal/cli"
	"github.com/xray-tools/xray/cmd/xray/internal/launch"
	"github.com/xray-tools/xray/cmd/xray/internal/session"
	"github.com/xray-tools/xray/cmd/xray/internal/watch"
	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/recorder"
	"github.com/xray-tools/xray/recorder/client"
	"github.com/xray-tools/xray/recorder/live"
	"github.com/xray-tools/xray/report/label"
	"github.com/xray-tools/xray/symbolize"
)

// watching is one run of watch.
type watching struct {
	launch.Plan
	pid, wait string
	roots     []string
	over      string
	limits    watch.Limits
	margin    time.Duration
	every     time.Duration
	duration  time.Duration
	begun     func() // called when the first process is watched, to end after duration; or nil
	exec      string

	root     *regexp.Regexp
	options  watch.Options
	folder   *watch.Folder
	commands chan string // paths of traces for --exec

	mu      sync.Mutex
	awaits  int          // process that waits until it is watched, or 0
	known   map[int]bool // processes that are watched, or cannot be
	watched bool         // a process was watched
	stats   watch.Stats
	failed  time.Time // time of the latest message that a trace could not be written
	large   bool      // xray said that a trace is larger than --disk
}

func (a *app) watchCommand() *cobra.Command {
	w := &watching{
		Plan: launch.Plan{Streams: &a.Streams, Options: recorder.Options{Memory: 256 << 20, Ring: 4 << 20}},
		over: "auto", limits: watch.Limits{Keep: 100, Usual: 20, Disk: 1 << 30},
		margin: time.Millisecond, known: make(map[int]bool),
	}
	cmd := &cobra.Command{
		Use:   "watch {-p PID | --wait-for NAME | [--] PROGRAM [ARGUMENT...]} --root REGEXP -o FILE",
		Short: "Capture a trace of each slow call in a running process",
		Long: `Record a process into memory. Whenever a call of a --root function takes longer than
--over, write a trace of all threads during that call to the directory FILE. Threads only
record. watch reads their memory from outside the process.

Without --over, a call is slow if it takes longer than the p99 of recent calls of its
function, and longer than all but three of the function's calls in the last minute. That
is about four traces per minute. The first 10 seconds and 100 calls only set the scale.

watch also keeps traces of usual calls for comparison. To explain the slow calls, run
"xray why FILE". The file _index.jsonl has one line of JSON per trace.

watch runs until the process exits, --duration has passed, or you press Ctrl-C. With
--wait-for, it continues with the next process of that name instead of stopping. When
watch stops, the process continues without recording. watch also covers child processes
that have the recorder in them.`,
		Example: `  xray watch -p 1234 --root '^handleRequest' --over 20ms -o slow
  xray watch --wait-for server --root '^handleRequest' --over p99.9 -o slow --disk 500M
  xray watch --root '^handleRequest' --over 20ms -o slow -- ./server --port 8080
  xray why slow`,
		Annotations: map[string]string{cli.Verbatim: "true"},
		Args:        func(_ *cobra.Command, args []string) error { return w.check(args) },
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := recorder.Supported(); err != nil {
				return err
			}
			return w.run(cmd.Context(), args)
		},
	}
	f := cmd.Flags()
	f.SetInterspersed(false) // arguments after the program's name belong to the program
	f.StringVarP(&w.pid, "pid", "p", "", "watch the running process `PID`")
	f.StringVar(&w.wait, "wait-for", "", "wait for a process whose program is called `NAME` and watch it; when it exits, wait for the next one")
	f.StringArrayVar(&w.roots, "root", nil, "select the outermost calls of functions that match `REGEXP`; repeatable")
	f.StringVar(&w.over, "over", w.over, "treat calls as slow by `RULE`: longer than a time (20ms) or a percentile of recent calls (p99.9); auto selects the longest calls, about four per minute")
	f.StringVarP(&w.Output, "output", "o", "", "write traces to the directory `FILE`")
	cli.AddCount(f, &w.limits.Keep, "traces", "", 0, "keep the traces of the `N` slowest calls; 0 keeps all")
	f.BoolVar(&w.limits.Latest, "latest", false, "with --traces, keep the latest slow calls instead of the slowest")
	cli.AddCount(f, &w.limits.Usual, "sample", "", 0, "also keep `N` traces of calls that are not slow, for comparison")
	cli.AddSize(f, &w.limits.Disk, "disk", "keep at most `SIZE` of traces")
	cli.AddDuration(f, &w.every, "every", "write at most one trace every `TIME`")
	cli.AddDuration(f, &w.margin, "margin", "include `TIME` before and after the slow call")
	f.StringVar(&w.exec, "exec", "", "for each slow call, run the shell command `COMMAND` with the path of its trace")
	cli.AddSize(f, &w.Memory, "memory", "keep at most `SIZE` of records in the rings of all threads together, and as much outside the process, for long calls")
	cli.AddSize(f, &w.Ring, "ring", "give each thread a ring buffer of `SIZE`; ignored if the process already has a recorder")
	cli.AddDuration(f, &w.duration, "duration", "stop after `TIME`")
	w.AddPrune(f)
	w.AddDepth(f)
	w.AddWindow(f)
	cli.AddBudget(f, &w.Budget, "limit the overhead to about `PERCENT` of the process's CPU time: record all calls of --root and the most informative others")
	w.Selection.AddFlags(f)
	w.AddLibcalls(f)
	launch.AddCompiler(f, &w.Compiler)
	f.BoolVarP(&w.Quiet, "quiet", "q", false, "print only errors")
	cli.Spellings(f, map[string]string{"threshold": "prune", "func-filter": "func"})
	return cmd
}

func (w *watching) check(args []string) error {
	given := 0
	for _, is := range []bool{w.pid != "", w.wait != "", len(args) > 0} {
		if is {
			given++
		}
	}
	switch {
	case given == 0:
		return cli.Usagef("pass a PROGRAM to run, a process ID with -p, or a program name with --wait-for")
	case given > 1:
		return cli.Usagef("use only one of PROGRAM, -p and --wait-for")
	case len(w.roots) == 0:
		return cli.Usagef("pass --root, a regular expression for the functions whose slow calls to watch for, such as '^handleRequest'")
	case w.Output == "":
		return cli.Usagef("pass the directory for the traces with -o")
	case w.Memory < recorder.LeastMemory:
		return cli.Usagef("--memory: must be at least %dM, not %d bytes", recorder.LeastMemory>>20, w.Memory)
	case w.Budget > 0 && w.Depth > 0:
		return cli.Usagef("--budget cannot be used with --depth")
	case w.Budget > 0 && w.Every > 0:
		return cli.Usagef("--window cannot be used with --budget: the budget needs call counts from outside the windows")
	}
	err := cmp.Or(launch.CheckRing(w.Ring), w.Check())
	if err != nil {
		return err
	}
	for _, root := range w.roots {
		if _, err = regexp.Compile(root); err != nil {
			return cli.Usagef("--root: %w", err)
		}
	}
	w.options = watch.Options{Root: strings.Join(w.roots, "|"), Margin: w.margin, Every: w.every, Written: w.written, Failed: w.notWritten}
	w.root = regexp.MustCompile(w.options.Root)
	if w.over == "auto" {
		w.options.Quantile, w.options.Longest = 0.99, true
	} else if w.options.Quantile, err = parseQuantile(w.over); err != nil {
		if w.options.Over, err = time.ParseDuration(w.over); err != nil || w.options.Over <= 0 {
			return cli.Usagef("--over: %q is neither a time (20ms), nor a percentile (p99.9), nor auto", w.over)
		}
	}
	if w.options.Over == 0 && !(w.options.Quantile > 0 && w.options.Quantile < 1) {
		return cli.Usagef("--over: %q is not between p0 and p100", w.over)
	}
	return nil
}

func (w *watching) run(ctx context.Context, args []string) (err error) {
	_, missing := os.Stat(w.Output)
	if w.folder, err = watch.OpenFolder(w.Output, w.limits); err != nil {
		return err
	}
	defer func() {
		if err != nil && !w.isWatched() && errors.Is(missing, fs.ErrNotExist) {
			_ = os.Remove(w.Output) // only if it is empty
		}
	}()
	if w.exec != "" {
		w.commands = make(chan string, 64)
		done := make(chan struct{})
		go func() { defer close(done); w.runCommands() }()
		defer func() { close(w.commands); <-done }()
	}
	if w.duration > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithCancel(ctx)
		defer cancel()
		w.begun = sync.OnceFunc(func() { time.AfterFunc(w.duration, cancel) })
	}
	if len(args) > 0 {
		return w.program(ctx, args)
	}
	ctx, stop := launch.UntilInterrupted(ctx)
	defer stop()
	if w.pid != "" {
		err = w.family(ctx, w.pid)
	} else {
		err = w.named(ctx)
	}
	if err == nil || w.isWatched() {
		w.summary()
	}
	return err
}

// named watches the processes with a name, one after another.
func (w *watching) named(ctx context.Context) error {
	w.say("waiting for a process called %s", w.wait)
	const often, rarely = 200 * time.Millisecond, time.Second
	for said, pause := "", often; ctx.Err() == nil; launch.Sleep(ctx, pause) {
		pause = often
		pid, err := client.FindProgram(w.wait, func(pid int) bool { return w.isKnown(pid) })
		if err != nil {
			return err
		}
		if pid == 0 {
			continue
		}
		// If this one cannot be watched, wait for the next. One that has just started may be watched later.
		err = w.family(ctx, fmt.Sprint(pid))
		if err == nil || ctx.Err() != nil {
			continue
		}
		if pause = rarely; err.Error() != said {
			said = err.Error()
			w.Say("%v", err)
		}
	}
	return nil
}

// program runs a program and watches it.
func (w *watching) program(ctx context.Context, args []string) error {
	idle := w.Plan
	idle.Recording, idle.Idle, idle.Await = recorder.Recording{}, true, os.Getpid()
	idle.Output = ""
	w.Libcalls = "" // the program and its children have them
	watched, cancel := context.WithCancel(ctx)
	defer cancel()
	ended := make(chan error, 1)
	status, err := idle.Run(ctx, args, func(pid int) {
		w.awaits = pid
		go func() {
			err := w.family(watched, fmt.Sprint(pid))
			w.release(ctx, pid)
			if err != nil && watched.Err() == nil && (w.isWatched() || isRunning(pid)) {
				w.Say("%v", err) // now, because the program may run for a long time
				err = cli.ExitStatus(1)
			}
			ended <- err
		}()
	})
	if err != nil {
		return err
	}
	cancel()
	err = <-ended
	if w.isWatched() {
		w.summary()
	} else if !errors.As(err, new(cli.ExitStatus)) {
		w.Say("the program ended before xray could watch it")
		err = cli.ExitStatus(1)
	}
	if err != nil && status == 0 {
		return err
	}
	if status != 0 {
		return cli.ExitStatus(status)
	}
	return nil
}

// isRunning reports whether a process has not ended.
func isRunning(pid int) bool {
	p, err := client.Dial(fmt.Sprint(pid))
	return err == nil && p.Alive()
}

// family watches a process and its descendants until ctx or the process ends.
func (w *watching) family(ctx context.Context, target string) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	p, err := w.reachable(ctx, target)
	if err != nil || p == nil {
		return err
	}
	var children sync.WaitGroup
	defer children.Wait()
	children.Go(func() {
		for ctx.Err() == nil {
			w.children(ctx, p.PID, &children)
			launch.Sleep(ctx, time.Second)
		}
	})
	defer cancel()
	if w.pid != "" || w.wait != "" {
		return w.process(ctx, p)
	}
	for {
		image := launch.ImageOf(p.PID)
		if p, err = w.instrumented(ctx, p); err != nil || p == nil {
			return err
		}
		// A shell may execute the program at this moment.
		if err := w.process(ctx, p); err == nil || ctx.Err() != nil || launch.IsGone(p) || launch.ImageOf(p.PID) == image {
			return err
		}
		if p, err = w.reachable(ctx, target); err != nil || p == nil {
			return err
		}
	}
}

// instrumented waits until a program that has no function to record, such as a shell, executes one that has.
// It returns nil if the process has ended.
func (w *watching) instrumented(ctx context.Context, p *client.Process) (*client.Process, error) {
	const patience = 2 * time.Second
	var found error
	for began, told := time.Now(), false; ; launch.Sleep(ctx, 100*time.Millisecond) {
		none := client.CheckInstrumented(p.PID)
		switch {
		case ctx.Err() != nil || !p.Alive():
			if found == nil || w.isWatched() {
				return nil, nil
			}
			return nil, fmt.Errorf("%s: %w", p, found)
		case none == nil && found == nil:
			return p, nil
		case none == nil:
			return w.reachable(ctx, fmt.Sprint(p.PID))
		case !told && time.Since(began) > patience && !w.isWatched():
			told = true
			w.say("%s: %v. Waiting for a child process with instrumented functions", p, none)
		}
		found = none
	}
}

// reachable waits until the recorder of a process listens, or loads it into the process. It returns
// nil if the process has ended.
func (w *watching) reachable(ctx context.Context, target string) (*client.Process, error) {
	// A program that watch has started may be a shell that is about to execute another program.
	attaches := w.pid != "" || w.wait != ""
	const patience, executing = 10 * time.Second, time.Second
	for began := time.Now(); ; launch.Sleep(ctx, 5*time.Millisecond) {
		p, err := client.Dial(target)
		if err != nil {
			return nil, err
		}
		_, err = p.Do(ctx, nil, "status")
		none := errors.Is(err, client.ErrNoRecorder)
		switch waited := time.Since(began); {
		case err == nil || ctx.Err() != nil:
			return p, err
		case none && p.PID != 0 && !p.Alive():
			return nil, nil
		case none && attaches:
			if err := w.checkRoot(ctx, p.PID); err != nil {
				w.setKnown(p.PID)
				return nil, err
			}
			p, _, err := w.Reach(ctx, target)
			return p, err
		case none && waited > patience, !none && (attaches || waited > executing):
			return nil, err
		}
	}
}

// checkRoot returns an error if --root selects no function of a process without the recorder, so that the
// process is left untouched. A process that has just started may still be loading its objects. If some names
// are unknown, checkRoot returns nil: choose decides when the recorder is in the process.
func (w *watching) checkRoot(ctx context.Context, pid int) error {
	const patience, often = time.Second, 100 * time.Millisecond
	checked := make(map[string]bool)
	for began := time.Now(); ; launch.Sleep(ctx, often) {
		files, all := client.InstrumentedFiles(pid)
		if !all || len(files) == 0 || ctx.Err() != nil {
			return ctx.Err()
		}
		for _, path := range files {
			if !checked[path] && w.mayHaveRoot(path) {
				return nil
			}
			checked[path] = true
		}
		if time.Since(began) > patience {
			for i := range files {
				files[i] = strings.TrimPrefix(files[i], session.RootOf(pid))
			}
			return w.noRoot(files)
		}
	}
}

// mayHaveRoot reports whether --root selects a function of a file, or whether that is unknown.
func (w *watching) mayHaveRoot(path string) bool {
	table, err := symbolize.Load(path, w.DebugFlags.Options(w.Streams))
	if err != nil {
		return true
	}
	defer table.Close()
	return slices.ContainsFunc(table.Map().Functions, func(fn symbolize.Function) bool {
		name := symbolize.Label(table, fn.ID)
		hasNone := strings.HasPrefix(name, "@(")
		return symbolize.Matches(w.root, name) || hasNone && len(w.Symbols) > 0 // a file there may have the names
	})
}

func (w *watching) noRoot(paths []string) error {
	return fmt.Errorf("no function in %s matches --root %q%s", strings.Join(paths, " "), w.options.Root, session.Sledless(paths, w.root))
}

// children begins to watch the descendants of a process that have the recorder in them.
func (w *watching) children(ctx context.Context, ancestor int, wg *sync.WaitGroup) {
	list, err := client.List(ctx)
	if err != nil {
		return
	}
	parents := make(map[int]int)
	for _, l := range list {
		parents[l.PID] = l.Parent
	}
	for _, l := range list {
		descends := false
		for at := l.PID; at != 0 && !descends; at = parents[at] {
			descends = parents[at] == ancestor
		}
		if !descends || w.isKnown(l.PID) {
			continue
		}
		if l.Err != nil {
			w.setKnown(l.PID)
			w.say("process %d: %v", l.PID, l.Err)
			continue
		}
		p, err := client.Dial(fmt.Sprint(l.PID))
		if err != nil {
			continue
		}
		wg.Go(func() {
			if err := w.process(ctx, p); err != nil && ctx.Err() == nil {
				w.say("%v", err)
			}
		})
	}
}

func (w *watching) isKnown(pid int) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.known[pid]
}

func (w *watching) setKnown(pid int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.known[pid] = true
}

func (w *watching) isWatched() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.watched
}

func (w *watching) setWatched() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.watched = true
	if w.begun != nil {
		w.begun()
	}
}

// process watches one process until ctx or the process ends.
func (w *watching) process(ctx context.Context, p *client.Process) (err error) {
	w.setKnown(p.PID)
	var status client.Status
	if _, err := p.Do(ctx, &status, "status"); err != nil {
		return err
	}
	if err := launch.NeedRings(p, &status); err != nil {
		return err
	}
	if status.Recording && w.Every > 0 {
		return fmt.Errorf("--window does not apply: %s is already being recorded. For details, run xray ctl %s status", p, p.Target())
	}
	if status.Recording && w.Budget > 0 && !status.Limited {
		return fmt.Errorf("--budget does not apply: %s is already being recorded without a budget. For details, run xray ctl %s status", p, p.Target())
	}
	if status.Recording && status.Limited && status.Observed {
		return fmt.Errorf("%s is being recorded within a budget by xray record, which leaves out calls: it cannot be watched. See xray ctl %s status", p, p.Target())
	}
	if status.Recording && status.Limited && w.Budget == 0 {
		return fmt.Errorf("%s is being recorded within a budget: watch it with --budget", p)
	}
	w.WarnOfMarks(status.Exe)
	if !status.Recording {
		end, err := w.HoldRings(ctx, p)
		if err != nil {
			return err
		}
		defer end()
	}
	names := make(map[reader.FuncID]string)
	rings, err := live.Open(ctx, p, w.Memory, func(t *reader.Trace) (live.Roots, error) { return w.choose(t, names, p.PID) })
	if err != nil {
		return err
	}
	defer rings.Close()
	if w.Budget > 0 {
		if err := rings.Limit(ctx, w.Budget); err != nil {
			return err
		}
	}
	options := w.options
	options.Name = func(id reader.FuncID) string { return names[id] }
	watcher := watch.New(rings, w.folder, options)
	w.setWatched()
	w.release(ctx, p.PID)
	what := fmt.Sprintf("%s over %s", w.options.Root, w.over)
	if w.options.Longest {
		what = "the longest calls of " + w.options.Root
	}
	w.say("watching %s (%s): traces of %s go to %s", p, filepath.Base(status.Exe), what, w.Output)
	err = watcher.Run(ctx)
	if launch.IsGone(p) || ctx.Err() != nil {
		err = nil // the end of a process looks like an error of reading
	}
	watcher.Finish(context.WithoutCancel(ctx))
	w.add(&watcher.Stats)
	return err
}

// release lets the program continue, which waits until it is watched.
func (w *watching) release(ctx context.Context, pid int) {
	if pid != w.awaits {
		return
	}
	if p, err := client.Dial(fmt.Sprint(pid)); err == nil {
		_, _ = p.Do(context.WithoutCancel(ctx), nil, "go") // it may have ended
	}
}

// choose returns the functions of a process that --root selects, and adds their names.
func (w *watching) choose(t *reader.Trace, names map[reader.FuncID]string, pid int) (r live.Roots, err error) {
	opened, err := symbolize.Open(t, nil, symbolize.Search{Options: w.DebugFlags.Options(w.Streams), Dirs: w.DirsFor(pid)})
	if err != nil {
		return r, err
	}
	defer opened.Close()
	objects := t.Recording(0).Objects
	for _, o := range objects {
		for id := o.First; o.Holds(id); id++ {
			name := symbolize.Label(opened.Names, id)
			if !symbolize.Matches(w.root, name) {
				continue
			}
			for int(id) >= len(r.Is) {
				r.Is = append(r.Is, make([]bool, int(id)+1-len(r.Is))...)
			}
			r.Is[id], names[id] = true, name
		}
	}
	if r.Is == nil {
		return r, w.noRoot(launch.ObjectPaths(objects))
	}
	if find := opened.TailCalls(); find != nil {
		tails := find()
		r.Continues, r.Targets = tails.Continue, targets(tails, r.Is)
	}
	return r, nil
}

// targets returns the functions that roots reach by tail calls alone.
func targets(tails *symbolize.TailCalls, roots []bool) (found []reader.FuncID) {
	seen := make(map[reader.FuncID]bool)
	var visit func(reader.FuncID)
	visit = func(from reader.FuncID) {
		for _, to := range tails.Targets(from) {
			if !seen[to] {
				seen[to] = true
				found = append(found, to)
				visit(to)
			}
		}
	}
	for id, is := range roots {
		if is {
			visit(reader.FuncID(id))
		}
	}
	return found
}

// say prints a line about the run.
func (w *watching) say(format string, args ...any) {
	if !w.Quiet {
		w.Say(format, args...)
	}
}

// written is called for each trace.
func (w *watching) written(path string, e *watch.Entry) {
	if !e.Slow {
		return
	}
	w.say("%s took %s: %s", e.Function, time.Duration(e.DurationNS).Round(time.Microsecond), path)
	w.warnOfDisk(e)
	if w.commands == nil {
		return
	}
	select {
	case w.commands <- path:
	default:
		w.Say("--exec: the command is too slow, so xray did not run it for %s", path)
	}
}

// warnOfDisk says once that a trace is larger than all traces may be. The folder keeps it if it is the only one.
func (w *watching) warnOfDisk(e *watch.Entry) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.large || w.limits.Disk == 0 || e.Bytes <= w.limits.Disk {
		return
	}
	w.large = true
	w.Say("warning: a trace takes %s, more than --disk allows for all traces together, so xray keeps only one trace. Use a larger --disk", label.Bytes(uint64(e.Bytes)))
}

// notWritten reports an error. It limits the messages, so that a full disk does not fill the
// log, too.
func (w *watching) notWritten(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if time.Since(w.failed) > time.Minute {
		w.failed = time.Now()
		w.Say("a trace could not be written: %v", err)
	}
}

// runCommands runs the command of --exec for one trace at a time.
func (w *watching) runCommands() {
	for path := range w.commands {
		cmd := exec.Command("sh", "-c", w.exec+` "$@"`, "sh", path)
		cmd.Stdout, cmd.Stderr = w.Stderr.Raw, w.Stderr.Raw
		cmd.Env = os.Environ()
		if err := cmd.Run(); err != nil {
			w.Say("--exec: %v for %s", err, path)
		}
	}
}

func (w *watching) add(s *watch.Stats) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.stats.Calls += s.Calls
	w.stats.Slow += s.Slow
	w.stats.Traces += s.Traces
	w.stats.Skipped += s.Skipped
	w.stats.Lost += s.Lost
	w.stats.Failed += s.Failed
}

// summary describes the findings.
func (w *watching) summary() {
	w.mu.Lock()
	defer w.mu.Unlock()
	s := &w.stats
	parts := []string{
		label.Count(s.Calls, "call", "calls") + " of " + w.options.Root, label.Grouped(s.Slow) + " slow",
		label.Count(s.Traces, "trace", "traces") + " of slow calls written",
	}
	for _, more := range []struct {
		n         uint64
		one, many string
		what      string
	}{
		{s.Skipped, "slow call has", "slow calls have", "no trace because of --traces, --disk or --every"},
		{s.Failed, "slow call has", "slow calls have", "no trace because it could not be written"},
		{s.Lost, "chunk of records was", "chunks of records were", "overwritten before xray read it: use a larger --ring"},
	} {
		if more.n > 0 {
			parts = append(parts, label.Count(more.n, more.one, more.many)+" "+more.what)
		}
	}
	w.say("%s", strings.Join(slices.DeleteFunc(parts, func(s string) bool { return s == "" }), ", "))
	if s.Traces > 0 {
		w.say("xray why %s explains them", w.Output)
	}
}
