package watch

import (
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

	"github.com/xray-tools/xray/cmd/xray/internal/cli"
	"github.com/xray-tools/xray/cmd/xray/internal/launch"
	"github.com/xray-tools/xray/cmd/xray/internal/session"
	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/recorder"
	"github.com/xray-tools/xray/recorder/client"
	"github.com/xray-tools/xray/recorder/live"
	"github.com/xray-tools/xray/report/label"
	"github.com/xray-tools/xray/symbolize"
)

// Watching is one run of xray watch: it watches a process, a program or all processes with a name, and
// their children. Flags fill the exported fields; the traces go to the folder Output.
type Watching struct {
	launch.Plan
	PID, Wait string // a process, or the name of processes; neither for a program
	Slow      Options
	Over      string // the rule for slow calls, in words
	Limits    Limits
	Duration  time.Duration
	Exec      string

	root     *regexp.Regexp
	begun    func() // called when the first process is watched, to end after Duration; or nil
	folder   *folder
	commands chan string // paths of traces for Exec

	mu      sync.Mutex
	awaits  int          // process that waits until it is watched, or 0
	known   map[int]bool // processes that are watched, or cannot be
	watched bool         // a process was watched
	stats   stats
	failed  time.Time // time of the latest message that a trace could not be written
	large   bool      // xray said that a trace is larger than --disk
}

// Start watches. args are the program and its arguments, if PID and Wait are empty.
func (w *Watching) Start(ctx context.Context, args []string) (err error) {
	w.known, w.root = make(map[int]bool), regexp.MustCompile(w.Slow.Root)
	w.Slow.Written, w.Slow.Failed = w.written, w.notWritten
	_, missing := os.Stat(w.Output)
	if w.folder, err = openFolder(w.Output, w.Limits); err != nil {
		return err
	}
	defer func() {
		if err != nil && !w.isWatched() && errors.Is(missing, fs.ErrNotExist) {
			_ = os.Remove(w.Output) // only if it is empty
		}
	}()
	if w.Exec != "" {
		w.commands = make(chan string, 64)
		done := make(chan struct{})
		go func() { defer close(done); w.runCommands() }()
		defer func() { close(w.commands); <-done }()
	}
	if w.Duration > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithCancel(ctx)
		defer cancel()
		w.begun = sync.OnceFunc(func() { time.AfterFunc(w.Duration, cancel) })
	}
	if len(args) > 0 {
		return w.program(ctx, args)
	}
	ctx, stop := launch.UntilInterrupted(ctx)
	defer stop()
	if w.PID != "" {
		err = w.family(ctx, w.PID)
	} else {
		err = w.named(ctx)
	}
	if err == nil || w.isWatched() {
		w.summary()
	}
	return err
}

// named watches the processes with a name, one after another.
func (w *Watching) named(ctx context.Context) error {
	w.say("waiting for a process called %s", w.Wait)
	const often, rarely = 200 * time.Millisecond, time.Second
	for said, pause := "", often; ctx.Err() == nil; launch.Sleep(ctx, pause) {
		pause = often
		pid, err := client.FindProgram(w.Wait, func(pid int) bool { return w.isKnown(pid) })
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
func (w *Watching) program(ctx context.Context, args []string) error {
	idle := w.Plan
	idle.Settings, idle.Idle, idle.Await = recorder.Settings{}, true, os.Getpid()
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
func (w *Watching) family(ctx context.Context, target string) error {
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
	if w.PID != "" || w.Wait != "" {
		return w.process(ctx, p)
	}
	for {
		image := launch.ExecutableOf(p.PID)
		if p, err = w.instrumented(ctx, p); err != nil || p == nil {
			return err
		}
		// A shell may execute the program at this moment.
		if err := w.process(ctx, p); err == nil || ctx.Err() != nil || launch.IsGone(p) || launch.ExecutableOf(p.PID) == image {
			return err
		}
		if p, err = w.reachable(ctx, target); err != nil || p == nil {
			return err
		}
	}
}

// instrumented waits until a program that has no function to record, such as a shell, executes one that has.
// It returns nil if the process has ended.
func (w *Watching) instrumented(ctx context.Context, p *client.Process) (*client.Process, error) {
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
func (w *Watching) reachable(ctx context.Context, target string) (*client.Process, error) {
	// A program that watch has started may be a shell that is about to execute another program.
	attaches := w.PID != "" || w.Wait != ""
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
func (w *Watching) checkRoot(ctx context.Context, pid int) error {
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
func (w *Watching) mayHaveRoot(path string) bool {
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

func (w *Watching) noRoot(paths []string) error {
	return fmt.Errorf("no function in %s matches --root %q%s", strings.Join(paths, " "), w.Slow.Root, symbolize.Sledless(paths, w.root))
}

// children begins to watch the descendants of a process that have the recorder in them.
func (w *Watching) children(ctx context.Context, ancestor int, wg *sync.WaitGroup) {
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

func (w *Watching) isKnown(pid int) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.known[pid]
}

func (w *Watching) setKnown(pid int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.known[pid] = true
}

func (w *Watching) isWatched() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.watched
}

func (w *Watching) setWatched() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.watched = true
	if w.begun != nil {
		w.begun()
	}
}

// process watches one process until ctx or the process ends.
func (w *Watching) process(ctx context.Context, p *client.Process) (err error) {
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
	options := w.Slow
	options.Name = func(id reader.FuncID) string { return names[id] }
	watcher := newWatcher(rings, w.folder, options)
	w.setWatched()
	w.release(ctx, p.PID)
	what := fmt.Sprintf("%s over %s", w.Slow.Root, w.Over)
	if w.Slow.Longest {
		what = "the longest calls of " + w.Slow.Root
	}
	w.say("watching %s (%s): traces of %s go to %s", p, filepath.Base(status.Exe), what, w.Output)
	err = watcher.Run(ctx)
	if launch.IsGone(p) || ctx.Err() != nil {
		err = nil // the end of a process looks like an error of reading
	}
	watcher.finish(context.WithoutCancel(ctx))
	w.add(&watcher.Stats)
	return err
}

// release lets the program continue, which waits until it is watched.
func (w *Watching) release(ctx context.Context, pid int) {
	if pid != w.awaits {
		return
	}
	if p, err := client.Dial(fmt.Sprint(pid)); err == nil {
		_, _ = p.Do(context.WithoutCancel(ctx), nil, "go") // it may have ended
	}
}

// choose returns the functions of a process that --root selects, and adds their names.
func (w *Watching) choose(t *reader.Trace, names map[reader.FuncID]string, pid int) (r live.Roots, err error) {
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
func (w *Watching) say(format string, args ...any) {
	if !w.Quiet {
		w.Say(format, args...)
	}
}

// written is called for each trace.
func (w *Watching) written(path string, e *Entry) {
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
func (w *Watching) warnOfDisk(e *Entry) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.large || w.Limits.Disk == 0 || e.Bytes <= w.Limits.Disk {
		return
	}
	w.large = true
	w.Say("warning: a trace takes %s, more than --disk allows for all traces together, so xray keeps only one trace. Use a larger --disk", label.Bytes(uint64(e.Bytes)))
}

// notWritten reports an error. It limits the messages, so that a full disk does not fill the
// log, too.
func (w *Watching) notWritten(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if time.Since(w.failed) > time.Minute {
		w.failed = time.Now()
		w.Say("a trace could not be written: %v", err)
	}
}

// runCommands runs the command of --exec for one trace at a time.
func (w *Watching) runCommands() {
	for path := range w.commands {
		cmd := exec.Command("sh", "-c", w.Exec+` "$@"`, "sh", path)
		cmd.Stdout, cmd.Stderr = w.Stderr.Raw, w.Stderr.Raw
		cmd.Env = os.Environ()
		if err := cmd.Run(); err != nil {
			w.Say("--exec: %v for %s", err, path)
		}
	}
}

func (w *Watching) add(s *stats) {
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
func (w *Watching) summary() {
	w.mu.Lock()
	defer w.mu.Unlock()
	s := &w.stats
	parts := []string{
		label.Count(s.Calls, "call", "calls") + " of " + w.Slow.Root, label.Grouped(s.Slow) + " slow",
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
