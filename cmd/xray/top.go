package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/xray-tools/xray/cmd/xray/internal/browse"
	"github.com/xray-tools/xray/cmd/xray/internal/cli"
	"github.com/xray-tools/xray/cmd/xray/internal/launch"
	"github.com/xray-tools/xray/cmd/xray/internal/session"
	"github.com/xray-tools/xray/cmd/xray/internal/top"
	"github.com/xray-tools/xray/cmd/xray/internal/tui"
	"github.com/xray-tools/xray/internal/fileio"
	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/reader/calls"
	"github.com/xray-tools/xray/recorder"
	"github.com/xray-tools/xray/recorder/client"
	"github.com/xray-tools/xray/recorder/live"
	"github.com/xray-tools/xray/report/label"
	"github.com/xray-tools/xray/symbolize"
)

// topping is one run of top.
type topping struct {
	launch.Plan
	output      session.Output
	pid, wait   string
	interval    time.Duration
	duration    time.Duration
	budget      float64
	once, batch bool
	sort        string
	top         int

	process *client.Process
	program string
	others  bool // the process also records for another client
	stop    func()
	names   liveNames
	opened  []*symbolize.Opened
	code    calls.Code
}

// liveNames are the names of a process, which may load objects. They are safe for concurrent use.
type liveNames struct {
	mu  sync.Mutex
	now symbolize.Names
}

// Func implements [symbolize.Names].
func (l *liveNames) Func(id reader.FuncID) (symbolize.Symbol, bool) {
	l.mu.Lock()
	names := l.now
	l.mu.Unlock()
	if names == nil {
		return symbolize.Symbol{}, false
	}
	return names.Func(id)
}

func (a *app) topCommand() *cobra.Command {
	t := &topping{
		Plan: launch.Plan{Streams: &a.Streams, Options: recorder.Options{Ring: 4 << 20}}, interval: time.Second, budget: 0.03, sort: "self",
	}
	cmd := &cobra.Command{
		Use:   "top {PID | -p PID | --wait-for NAME}",
		Short: "Show live call rates and latency of a running process",
		Long: `Show a live table of the functions of a running process: calls, total time, CPU time and
blocked time per second, and call durations. Press ? for the keys.

top records the process into memory during each interval. If that costs more than
--budget, top records only part of each interval, says so, and shows the rates of that
part. It assumes a cost of 10 ns per record. When top ends, the process is as it was
before.

For scripts, use --once or --batch to write tables.`,
		Example: `  xray top 1234
  xray top --wait-for server --sort p99
  xray top 1234 --once --top 10
  xray top 1234 --batch --duration 60s --format csv -o minute.csv`,
		Args: func(_ *cobra.Command, args []string) error { return t.check(args) },
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := recorder.Supported(); err != nil {
				return err
			}
			return t.run(cmd.Context())
		},
	}
	f := cmd.Flags()
	f.StringVarP(&t.pid, "pid", "p", "", "observe the process `PID`")
	f.StringVar(&t.wait, "wait-for", "", "wait for a process whose program is called `NAME` and observe it")
	cli.AddDuration(f, &t.interval, "interval", "update every `TIME`")
	cli.AddDuration(f, &t.duration, "duration", "stop after `TIME`")
	cli.AddBudget(f, &t.budget, "limit the overhead to `PERCENT` of the process's CPU time by recording part of each interval; 100 means no limit")
	f.BoolVar(&t.once, "once", false, "write the table of one interval and exit")
	f.BoolVar(&t.batch, "batch", false, "write a table for each interval")
	addBrowserSort(f, &t.sort)
	cli.AddTop(f, &t.top, "functions of each table")
	cli.AddSize(f, &t.Ring, "ring", "give each thread a ring buffer of `SIZE`; ignored if the process already has a recorder")
	t.Selection.AddFlags(f)
	launch.AddCompiler(f, &t.Compiler)
	t.output.AddFlags(f)
	cli.CompleteColumns(cmd, "sort", tui.Columns(), false)
	cli.Spellings(f, map[string]string{"func-filter": "func"})
	return cmd
}

func (t *topping) check(args []string) error {
	if len(args) == 1 && t.pid == "" && t.wait == "" {
		t.pid = args[0]
	} else if len(args) > 0 {
		return cli.Usagef("pass one PID, -p PID or --wait-for NAME")
	}
	_, err := strconv.Atoi(t.pid)
	switch {
	case t.pid == "" && t.wait == "":
		return cli.Usagef("pass a process ID, or the name of a program with --wait-for")
	case t.pid != "" && t.wait != "":
		return cli.Usagef("use only one of PID and --wait-for")
	case t.pid != "" && err != nil:
		return cli.Usagef("%q is not a process ID", t.pid)
	case t.interval < 10*time.Millisecond:
		return cli.Usagef("--interval: must be at least 10ms")
	case t.once && t.batch:
		return cli.Usagef("use only one of --once and --batch")
	case !t.once && !t.batch && (t.output.Path != "" && t.output.Path != "-" || t.output.Format != "" && t.output.Format != "text"):
		return cli.Usagef("--output and --format require --once or --batch")
	case t.batch && t.output.Format == "html":
		return cli.Usagef("--batch cannot write HTML: use --once, or --format csv or json")
	}
	return cmp.Or(launch.CheckRing(t.Ring), t.Check(), checkBrowserSort(t.sort))
}

func (t *topping) run(ctx context.Context) (err error) {
	if !t.once && !t.batch {
		if err := needTerminal(t.Streams, insteadOfTop); err != nil {
			return err
		}
	}
	ctx, stop := launch.UntilInterrupted(ctx)
	defer stop()
	if t.duration > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, t.duration)
		defer cancel()
	}
	if err := t.attachTo(ctx); err != nil || t.process == nil {
		return err
	}
	defer func() {
		for _, o := range t.opened {
			err = errors.Join(err, o.Close())
		}
	}()
	rings, err := t.openLive(ctx)
	if err != nil {
		return err
	}
	defer rings.Close()
	sampler := top.NewSampler(rings, t, wallClock{}, top.Options{Interval: t.interval, Budget: t.budget, Others: t.others})
	defer func() {
		if closeErr := sampler.Close(context.WithoutCancel(ctx)); !launch.IsGone(t.process) {
			err = errors.Join(err, closeErr)
		}
	}()
	if t.once || t.batch {
		return t.tables(ctx, sampler)
	}
	return t.screen(ctx, sampler)
}

// attachTo finds the process, and brings the recorder into it.
func (t *topping) attachTo(ctx context.Context) error {
	for t.pid == "" && ctx.Err() == nil {
		pid, err := client.FindProgram(t.wait, func(int) bool { return false })
		if err != nil {
			return err
		}
		if pid != 0 {
			t.pid = strconv.Itoa(pid)
			break
		}
		launch.Sleep(ctx, 200*time.Millisecond)
	}
	if ctx.Err() != nil {
		return nil
	}
	p, status, err := t.Reach(ctx, t.pid)
	if err == nil {
		err = launch.NeedRings(p, &status)
	}
	if err == nil && status.Windows != nil {
		err = fmt.Errorf("%s is being recorded in windows, but top needs all calls. For details, run xray ctl %s status", p, p.Target())
	}
	if err == nil && status.Recording && status.Limited {
		err = fmt.Errorf("%s is being recorded within a budget, but top needs all calls. For details, run xray ctl %s status", p, p.Target())
	}
	if err != nil {
		return err
	}
	t.process, t.program, t.others = p, filepath.Base(status.Exe), status.Recording
	return nil
}

// openLive finds the rings of the process. Before its first recording, it has none.
func (t *topping) openLive(ctx context.Context) (*live.Reader, error) {
	if !t.others {
		if err := t.Start(ctx); err != nil {
			return nil, err
		}
		defer t.stop()
	}
	return live.Open(ctx, t.process, top.HistoryBytes, t.describe)
}

// describe reads the names of the functions of a process.
func (t *topping) describe(trace *reader.Trace) (live.Roots, error) {
	opened, err := symbolize.Open(trace, nil, symbolize.Search{Options: t.DebugFlags.Options(t.Streams), Dirs: t.DirsFor(t.process.PID)})
	if err != nil {
		return live.Roots{}, err
	}
	t.opened = append(t.opened, opened)
	t.names.mu.Lock()
	t.names.now = opened.Names
	t.names.mu.Unlock()
	t.code = calls.Code{}
	if find := opened.TailCalls(); find != nil {
		t.code.Continue = func(from, to reader.FuncID) bool { return find().Continue(from, to) }
	}
	return live.Roots{}, nil
}

// Start implements [top.Process].
func (t *topping) Start(ctx context.Context) (err error) {
	t.stop, err = t.HoldRings(ctx, t.process)
	return err
}

// Stop implements [top.Process].
func (t *topping) Stop(context.Context) error {
	t.stop()
	return nil
}

// CPU implements [top.Process].
func (t *topping) CPU() time.Duration { return top.CPU(t.process.PID) }

type wallClock struct{}

func (wallClock) Now() time.Time { return time.Now() }

func (wallClock) Sleep(ctx context.Context, d time.Duration) {
	if d > 0 {
		launch.Sleep(ctx, d)
	}
}

// next records an interval and collects the data to show.
func (t *topping) next(ctx context.Context, sampler *top.Sampler) (*tui.Data, *top.Interval, error) {
	i, err := sampler.Next(ctx)
	if err != nil {
		if launch.IsGone(t.process) {
			err = fmt.Errorf("%s has ended", t.process)
		}
		return nil, nil, err
	}
	s, err := t.session(i)
	if err != nil {
		return nil, nil, err
	}
	defer s.Close()
	names := t.shown()
	d, run, err := browse.Collect(s, names, &browse.Window{From: i.From, To: i.To, Sleeping: top.Sleeping(t.process.PID)})
	if err != nil {
		return nil, nil, err
	}
	d.Notes = append(t.notes(d, i), s.Caveats(run)...)
	d.Title = t.title(d, i)
	d.Slowest = func(fn reader.FuncID, width int) ([]string, error) {
		again, err := t.session(i)
		if err != nil {
			return nil, err
		}
		defer again.Close()
		return browse.Slowest(again, names, fn, width)
	}
	d.Save = func() (string, error) { return t.save(i) }
	return d, i, nil
}

// session opens the trace of an interval.
func (t *topping) session(i *top.Interval) (*session.Session, error) {
	trace, err := reader.OpenReaderAt(bytes.NewReader(i.Trace), int64(len(i.Trace)), t.process.String())
	if err != nil {
		return nil, err
	}
	s := session.New(t.Streams, "top", trace, &t.names)
	s.Code, s.TableMemory, s.MaxPaths = t.code, session.DefaultTableMemory, 1<<20
	s.Silence()
	return s, nil
}

// shown returns the names that are shown.
func (t *topping) shown() symbolize.Names {
	if t.output.Short("") {
		return symbolize.Shortened(&t.names)
	}
	return &t.names
}

// save writes the trace of an interval.
func (t *topping) save(i *top.Interval) (string, error) {
	path := fmt.Sprintf("xray-%s.%d.%s.xray", t.program, t.process.PID, i.Began.UTC().Format("20060102T150405.000"))
	return path, fileio.Replace(path, fileio.Mode(0o600), func(file *os.File) error {
		_, err := file.Write(i.Trace)
		return err
	})
}

// title is the first line.
func (t *topping) title(d *tui.Data, i *top.Interval) string {
	calls := uint64(0)
	for n := range d.Functions {
		calls += d.Functions[n].Calls
	}
	seconds := float64(d.Observed) / float64(max(d.Clock.Frequency, 1))
	return fmt.Sprintf("%s %d  %s  %s calls/s  recording %s CPU", t.program, t.process.PID, i.Began.Format("15:04:05"),
		label.Grouped(uint64(float64(calls)/max(seconds, 1e-9))), estimate(i, i.Cost, "~", ">"))
}

// estimate formats a share of the CPU time of an interval, after the word for an estimate or for a lower bound.
func estimate(i *top.Interval, share float64, about, above string) string {
	if i.AtLeast {
		about = above
	}
	return about + label.Percent(share, 1)
}

// notes say which time and calls the numbers of an interval cover.
func (t *topping) notes(d *tui.Data, i *top.Interval) (list []string) {
	if i.Part {
		list = append(list, fmt.Sprintf("Rates cover %s of the interval, as much as --budget or memory allows. Longer calls are missing. While it records, xray adds %s to the CPU time.",
			d.Clock.Format(d.Observed), estimate(i, i.Slower, "about ", "more than ")))
	}
	if i.Lost > 0 {
		list = append(list, fmt.Sprintf("top read %s of the records. The others were overwritten first, so rates are too low. Use a larger --ring.",
			label.Percent(float64(i.Records), float64(i.Records+i.Lost))))
	}
	if d.Missing > 0 {
		list = append(list, label.Count(d.Missing, "call is", "calls are")+" missing that began before the recording.")
	}
	return list
}

// screen shows a process in the terminal.
func (t *topping) screen(ctx context.Context, sampler *top.Sampler) error {
	ctx, cancel := context.WithCancel(ctx)
	updates := make(chan tui.Update)
	var engine sync.WaitGroup
	engine.Go(func() {
		defer close(updates)
		for ctx.Err() == nil {
			d, _, err := t.next(ctx, sampler)
			select {
			case updates <- tui.Update{Data: d, Err: err}:
			case <-ctx.Done():
			}
			if err != nil {
				return
			}
		}
	})
	m := tui.New(&tui.Data{Title: fmt.Sprintf("%s %d: recording", t.program, t.process.PID), Observed: 1, OffCPU: true}, t.sort)
	err := showBrowser(ctx, m, updates, insteadOfTop)
	cancel()
	engine.Wait()
	return err
}
