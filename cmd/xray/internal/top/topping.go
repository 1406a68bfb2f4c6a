package top

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"github.com/xray-tools/xray/cmd/xray/internal/browse"
	"github.com/xray-tools/xray/cmd/xray/internal/launch"
	"github.com/xray-tools/xray/cmd/xray/internal/session"
	"github.com/xray-tools/xray/cmd/xray/internal/tui"
	"github.com/xray-tools/xray/internal/fileio"
	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/reader/calls"
	"github.com/xray-tools/xray/recorder/client"
	"github.com/xray-tools/xray/recorder/live"
	"github.com/xray-tools/xray/report/label"
	"github.com/xray-tools/xray/symbolize"
)

// Topping is one run of xray top. Flags fill the exported fields.
type Topping struct {
	launch.Plan
	Report      session.Output
	PID, Wait   string
	Interval    time.Duration
	Duration    time.Duration
	Share       float64 // of the process's CPU time that sampling may cost
	Once, Batch bool
	Sort        string
	Most        int // functions of each table, or 0 for all

	process *client.Process
	program string
	others  bool // the process also records for another client
	stop    func()
	names   liveNames
	opened  []*symbolize.Opened
	code    calls.Code
}

// insteadOfTerminal says what to do without a terminal.
const insteadOfTerminal = "use --once or --batch to write tables"

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

// Run shows the process until it ends or the user does.
func (t *Topping) Run(ctx context.Context) (err error) {
	if !t.Once && !t.Batch {
		if err := browse.NeedTerminal(t.Streams, insteadOfTerminal); err != nil {
			return err
		}
	}
	ctx, stop := launch.UntilInterrupted(ctx)
	defer stop()
	if t.Duration > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, t.Duration)
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
	sampler := newSampler(rings, t, wallClock{}, samplerOptions{Interval: t.Interval, Budget: t.Share, Others: t.others})
	defer func() {
		if closeErr := sampler.Close(context.WithoutCancel(ctx)); !launch.IsGone(t.process) {
			err = errors.Join(err, closeErr)
		}
	}()
	if t.Once || t.Batch {
		return t.tables(ctx, sampler)
	}
	return t.screen(ctx, sampler)
}

// attachTo finds the process, and brings the recorder into it.
func (t *Topping) attachTo(ctx context.Context) error {
	for t.PID == "" && ctx.Err() == nil {
		pid, err := client.FindProgram(t.Wait, func(int) bool { return false })
		if err != nil {
			return err
		}
		if pid != 0 {
			t.PID = strconv.Itoa(pid)
			break
		}
		launch.Sleep(ctx, 200*time.Millisecond)
	}
	if ctx.Err() != nil {
		return nil
	}
	p, status, err := t.Reach(ctx, t.PID)
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
func (t *Topping) openLive(ctx context.Context) (*live.Reader, error) {
	if !t.others {
		if err := t.Start(ctx); err != nil {
			return nil, err
		}
		defer t.stop()
	}
	return live.Open(ctx, t.process, historyBytes, t.describe)
}

// describe reads the names of the functions of a process.
func (t *Topping) describe(trace *reader.Trace) (live.Roots, error) {
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

// Start implements [process].
func (t *Topping) Start(ctx context.Context) (err error) {
	t.stop, err = t.HoldRings(ctx, t.process)
	return err
}

// Stop implements [process].
func (t *Topping) Stop(context.Context) error {
	t.stop()
	return nil
}

// CPU implements [process].
func (t *Topping) CPU() time.Duration { return cpuTime(t.process.PID) }

type wallClock struct{}

func (wallClock) Now() time.Time { return time.Now() }

func (wallClock) Sleep(ctx context.Context, d time.Duration) {
	if d > 0 {
		launch.Sleep(ctx, d)
	}
}

// next records an interval and collects the data to show.
func (t *Topping) next(ctx context.Context, sampler *sampler) (*tui.Data, *interval, error) {
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
	d, run, err := browse.Collect(s, names, &browse.Window{From: i.From, To: i.To, Sleeping: sleeping(t.process.PID)})
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
func (t *Topping) session(i *interval) (*session.Session, error) {
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
func (t *Topping) shown() symbolize.Names {
	if t.Report.Short("") {
		return symbolize.Shortened(&t.names)
	}
	return &t.names
}

// save writes the trace of an interval.
func (t *Topping) save(i *interval) (string, error) {
	path := fmt.Sprintf("xray-%s.%d.%s.xray", t.program, t.process.PID, i.Began.UTC().Format("20060102T150405.000"))
	return path, fileio.Replace(path, fileio.Mode(0o600), func(file *os.File) error {
		_, err := file.Write(i.Trace)
		return err
	})
}

// title is the first line.
func (t *Topping) title(d *tui.Data, i *interval) string {
	calls := uint64(0)
	for n := range d.Functions {
		calls += d.Functions[n].Calls
	}
	seconds := float64(d.Observed) / float64(max(d.Clock.Frequency, 1))
	return fmt.Sprintf("%s %d  %s  %s calls/s  recording %s CPU", t.program, t.process.PID, i.Began.Format("15:04:05"),
		label.Grouped(uint64(float64(calls)/max(seconds, 1e-9))), estimate(i, i.Cost, "~", ">"))
}

// estimate formats a share of the CPU time of an interval, after the word for an estimate or for a lower bound.
func estimate(i *interval, share float64, about, above string) string {
	if i.AtLeast {
		about = above
	}
	return about + label.Percent(share, 1)
}

// notes say which time and calls the numbers of an interval cover.
func (t *Topping) notes(d *tui.Data, i *interval) (list []string) {
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
func (t *Topping) screen(ctx context.Context, sampler *sampler) error {
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
	m := tui.New(&tui.Data{Title: fmt.Sprintf("%s %d: recording", t.program, t.process.PID), Observed: 1, OffCPU: true}, t.Sort)
	err := browse.Show(ctx, m, updates, insteadOfTerminal)
	cancel()
	engine.Wait()
	return err
}
