// Package watch writes a trace of every slow call of a running process.
package watch

import (
	"context"
	"io"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/xray-tools/xray/internal/quantile"
	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/recorder/live"
)

// source is a watched process. [live.Reader] implements it.
type source interface {
	// Read reads the new records, and calls each with the calls of roots that have ended.
	Read(ctx context.Context, each func(live.RootCall)) (live.State, error)
	// Newest is the TSC up to which everything was read.
	Newest() uint64
	// NoteWaits notes which threads wait, for a trace that is written after the process has ended, and returns how many.
	NoteWaits() int
	// WriteTrace writes a trace of what all threads recorded between two TSCs.
	WriteTrace(w io.Writer, from, to uint64, edit func(*reader.Recording)) error
	Recording() *reader.Recording
}

// Options say which calls are slow, and what to do with them.
type Options struct {
	Root     string        // the regular expression that chose the roots
	Over     time.Duration // calls that take longer are slow; or
	Quantile float64       // calls above this quantile are slow
	Longest  bool          // with Quantile, only the longest calls of each minute are
	Margin   time.Duration // before and after the slow call in a trace
	Every    time.Duration // write a trace at most this often; 0 means no limit
	// Name returns the name of a function.
	Name func(reader.FuncID) string
	// Written is called with the path of each trace, and Failed if one cannot be written.
	Written func(path string, e *Entry)
	Failed  func(error)
}

// stats count what a watcher saw.
type stats struct {
	Calls   uint64 // of roots
	Slow    uint64 // of these
	Traces  uint64 // of slow calls that were written
	Skipped uint64 // slow calls without a trace: because of Every, or because the folder has slower ones
	Lost    uint64 // chunks that were overwritten before they were read
	Failed  uint64 // slow calls whose traces could not be written
}

// watcher looks for slow calls of one process. It is not safe for concurrent use.
type watcher struct {
	source  source
	folder  *folder
	options Options
	Stats   stats

	durations map[reader.FuncID]*durations
	waiting   []live.RootCall // slow calls that are not written yet
	lastTo    uint64          // end of the last trace
	last      time.Time       // when it was written
	usual     *live.RootCall  // a call to write as a usual one
	usualAt   time.Time       // when the last usual one was written
	rate      float64         // bytes per second that are recorded
	lastRead  time.Time
}

// newWatcher returns a watcher that writes to a folder.
func newWatcher(source source, folder *folder, o Options) *watcher {
	return &watcher{source: source, folder: folder, options: o, durations: make(map[reader.FuncID]*durations)}
}

const (
	shortestRound = 500 * time.Microsecond
	longestRound  = 20 * time.Millisecond
	// usualEvery is the interval of traces of usual calls when the folder has enough, and
	// usualFirst before.
	usualEvery = 10 * time.Second
	usualFirst = 250 * time.Millisecond
	// usualBytes limits the trace of a usual call that is short. It has other calls, too.
	usualBytes = 256 << 10
	// longestWait is how long the trace of a slow call waits for the end of others.
	longestWait = time.Second
)

// Run watches until ctx or the process ends.
func (w *watcher) Run(ctx context.Context) error {
	pause := shortestRound
	for ctx.Err() == nil {
		state, err := w.round(ctx)
		if err != nil {
			return err
		}
		// The rings must not be full before the next round.
		if state.Fill > 0.25 {
			pause = max(pause/2, shortestRound)
		} else if state.Fill < 0.1 {
			pause = min(pause*5/4+1, longestRound)
		}
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
	}
	return nil
}

// finish writes the traces of slow calls that have ended, without waiting for the margin.
func (w *watcher) finish(ctx context.Context) {
	_, _ = w.round(ctx) // the process may have ended
	if len(w.waiting) == 0 {
		return
	}
	to := w.source.Newest()
	for _, c := range w.waiting {
		to = max(to, c.End) // a reading that failed may have found it
	}
	w.write(to)
}

// round reads once, and writes the traces that are due. The error is that of reading.
func (w *watcher) round(ctx context.Context) (live.State, error) {
	before := len(w.waiting)
	state, err := w.source.Read(ctx, w.ended)
	if err != nil {
		return state, err
	}
	now := time.Now()
	if elapsed := now.Sub(w.lastRead).Seconds(); !w.lastRead.IsZero() && elapsed > 0 {
		w.rate += (float64(state.Bytes)/elapsed - w.rate) * min(1, elapsed)
	}
	w.lastRead = now
	w.Stats.Lost += state.Lost
	newest := w.source.Newest()
	switch {
	case len(w.waiting) > 0:
		if to, ready := w.ready(&state, newest); ready {
			w.write(to)
		} else if len(w.waiting) > before {
			w.source.NoteWaits()
		}
	case w.usual != nil && newest >= w.usual.End:
		w.writeUsual(now)
	}
	w.usual = nil
	return state, nil
}

// ready reports whether it is time to write a trace of the slow calls that wait, and where it ends.
// Calls that are slow and still open belong in the same trace, so that no slow call is in two
// traces. Another call that becomes slow later is shorter than those that wait: it cannot enclose
// them.
func (w *watcher) ready(state *live.State, newest uint64) (to uint64, ready bool) {
	first, last, shortest := w.waiting[0].End, uint64(0), uint64(math.MaxUint64)
	for _, c := range w.waiting {
		first, last, shortest = min(first, c.End), max(last, c.End), min(shortest, c.End-c.Start)
	}
	to = last + w.ticks(w.options.Margin)
	if newest >= first+w.ticks(longestWait) {
		return to, true
	}
	open := state.Oldest != 0 && state.Oldest < last && newest-min(newest, state.Oldest) > shortest
	return to, newest >= to && !open
}

// ended handles a call of a root that has ended.
func (w *watcher) ended(c live.RootCall) {
	w.Stats.Calls++
	duration := c.End - c.Start
	if w.isSlow(c.Func, duration, c.End) {
		w.Stats.Slow++
		if !w.folder.Wants(w.nanos(duration)) || w.options.Every > 0 && len(w.waiting) == 0 && time.Since(w.last) < w.options.Every {
			w.Stats.Skipped++
			return
		}
		w.waiting = append(w.waiting, c)
		return
	}
	if w.usual == nil || rand.IntN(2) == 0 {
		w.usual = &c
	}
}

// isSlow counts a call, and reports whether it is slow.
func (w *watcher) isSlow(fn reader.FuncID, ticks, end uint64) bool {
	d := w.durations[fn]
	if d == nil {
		d = &durations{}
		w.durations[fn] = d
	}
	slow := ticks > w.ticks(w.options.Over)
	switch {
	case w.options.Longest:
		w.limitLongest(d, end)
		slow = d.sample.Count()+d.before.Count() >= leastCalls && end >= d.first+w.ticks(longestWarmUp) && ticks > d.limit
		d.longest.add(end/w.ticks(time.Second), ticks)
	case w.options.Quantile > 0:
		slow = d.enough(w.options.Quantile) && ticks > d.above(w.options.Quantile)
	}
	d.add(ticks)
	return slow
}

// limitLongest sets the duration above which a call that ends at a TSC is one of the longest of the minute.
func (w *watcher) limitLongest(d *durations, end uint64) {
	if d.first == 0 {
		d.first = end
	}
	d.limit = max(d.quantile(w.options.Quantile), d.longest.limit(end/w.ticks(time.Second)))
}

const (
	// perMinute is the number of slow calls per minute with Options.Longest.
	perMinute = 4
	// longestWarmUp is how long no call is slow, because too little is known.
	longestWarmUp = 10 * time.Second
)

// longest has the longest calls of a function in each second of the last minute.
type longest struct {
	seconds [60][perMinute]uint64 // the longest first
	now     uint64                // the latest second
	least   uint64                // the shortest of the longest ones in all of them
}

// at moves to a second.
func (l *longest) at(second uint64) {
	if second <= l.now {
		return
	}
	for s := max(l.now, second-min(second, 60)) + 1; s <= second; s++ {
		l.seconds[s%60] = [perMinute]uint64{}
	}
	l.now = second
	l.update()
}

func (l *longest) update() {
	var top [perMinute]uint64
	for i := range l.seconds {
		for _, ticks := range l.seconds[i] {
			insert(&top, ticks)
		}
	}
	l.least = top[perMinute-1]
}

// insert adds a duration to the longest ones.
func insert(top *[perMinute]uint64, ticks uint64) {
	for i := range top {
		if ticks > top[i] {
			ticks, top[i] = top[i], ticks
		}
	}
}

// limit returns the duration above which a call that ends now is one of the longest.
func (l *longest) limit(second uint64) uint64 {
	l.at(second)
	return l.least
}

func (l *longest) add(second, ticks uint64) {
	// A call of another thread may have ended in the second before.
	second = min(max(second, l.now-min(l.now, 59)), l.now)
	insert(&l.seconds[second%60], ticks)
	if ticks > l.least {
		l.update()
	}
}

// durations are those of the recent calls of a function.
type durations struct {
	sample, before quantile.Sample // the calls before are those of the previous sample
	value, next    uint64          // a quantile, and the number of calls at which to compute it again
	limit          uint64          // calls that take longer are slow
	first          uint64          // TSC of the first call's end
	longest        longest
}

// leastCalls is the number of calls below which none is slow by a quantile.
const leastCalls = 100

// mostCalls is the number of calls after which a new sample begins, so that it follows changes in the
// program.
const mostCalls = 1 << 20

func (d *durations) add(ticks uint64) {
	if d.sample.Count() >= mostCalls {
		d.sample, d.before, d.next = quantile.Sample{}, d.sample, 0
	}
	d.sample.Add(ticks)
}

// latest returns the sample to use: the previous one until the new one has a tenth of mostCalls.
func (d *durations) latest() *quantile.Sample {
	if d.before.Count() > 0 && d.sample.Count() < mostCalls/10 {
		return &d.before
	}
	return &d.sample
}

// enough reports whether there are enough calls for a quantile: ten above it, and a hundred in all.
func (d *durations) enough(q float64) bool {
	return float64(d.latest().Count())*(1-q) >= 10 && d.latest().Count() >= leastCalls
}

// above sets the limit to a quantile.
func (d *durations) above(q float64) uint64 {
	d.limit = d.quantile(q)
	return d.limit
}

// quantile returns a quantile. It recomputes it when the number of calls has grown by an eighth.
func (d *durations) quantile(q float64) uint64 {
	if n := d.sample.Count(); n >= d.next && d.latest().Count() > 0 {
		d.value, d.next = d.latest().Quantile(q), n+n/8+1
	}
	return d.value
}

// watched is what a trace says about the calls of a function.
func (w *watcher) watched(fn reader.FuncID) *reader.Watched {
	info := &reader.Watched{Root: w.options.Root, OverNS: uint64(w.options.Over)}
	d := w.durations[fn]
	if w.options.Quantile > 0 {
		info.OverNS = w.nanos(d.limit)
	}
	if d.enough(0.75) {
		var quartiles [2]uint64
		d.latest().Quantiles(quartiles[:], 0.25, 0.75)
		// Nanoseconds are coarser than ticks: the calls at the limits are among them.
		info.UsualFromNS, info.UsualToNS = w.nanos(quartiles[0]), w.nanos(quartiles[1])+2
	}
	return info
}

// write writes a trace with all slow calls that wait.
func (w *watcher) write(to uint64) {
	calls := w.waiting
	w.waiting = nil
	longest := slices.MaxFunc(calls, func(a, b live.RootCall) int {
		return int(min(a.End-a.Start, 1<<62)) - int(min(b.End-b.Start, 1<<62))
	})
	start := longest.Start
	for _, c := range calls {
		start = min(start, c.Start)
	}
	// Traces do not overlap, so that no call is in two of them, unless a slow call requires it.
	margin := w.ticks(w.options.Margin)
	from := min(max(start-min(start, margin), w.lastTo+1), start)
	e := w.entry(&longest, from, to)
	e.Slow, e.Calls = true, len(calls)
	written, err := w.add(e, longest.Func, from, to)
	switch {
	case err != nil:
		w.Stats.Failed += uint64(len(calls))
	case !written:
		w.Stats.Skipped += uint64(len(calls))
	default:
		w.Stats.Traces++
		w.last = time.Now()
	}
}

// writeUsual writes a trace of a usual call, and of what happened before it.
func (w *watcher) writeUsual(now time.Time) {
	interval := usualEvery
	if w.folder.Count(false) < w.folder.limits.Usual {
		interval = usualFirst
	}
	c := w.usual
	if w.folder.limits.Usual == 0 || now.Sub(w.usualAt) < interval || c.Start <= w.lastTo {
		return
	}
	w.usualAt = now
	from := c.Start
	if w.rate > 0 {
		from = min(from, c.End-min(c.End, w.ticks(time.Duration(min(1, usualBytes/w.rate)*1e9))))
	}
	from = max(from, w.lastTo+1)
	_, _ = w.add(w.entry(c, from, c.End), c.Func, from, c.End) // other usual calls will follow
}

// add writes a trace to the folder. It returns false if the folder has no room for it.
func (w *watcher) add(e *Entry, fn reader.FuncID, from, to uint64) (written bool, err error) {
	watched := w.watched(fn)
	path, err := w.folder.Add(e, func(out io.Writer) error {
		return w.source.WriteTrace(out, from, to, func(r *reader.Recording) { r.Process.Watched = watched })
	})
	if err != nil {
		w.options.Failed(err)
		return false, err
	}
	if path == "" {
		return false, nil
	}
	w.lastTo = max(w.lastTo, to)
	w.options.Written(path, e)
	return true, nil
}

func (w *watcher) entry(c *live.RootCall, from, to uint64) *Entry {
	r := w.source.Recording()
	return &Entry{
		Time: w.wall(c.Start), Function: w.options.Name(c.Func), DurationNS: w.nanos(c.End - c.Start),
		Process: int(r.Process.PID), Thread: c.TID,
		FromNS: w.after(c.Start, from), ToNS: w.after(c.Start, to),
	}
}

// after returns how long after a TSC another one is, in ns. It is negative if that is earlier: a trace may
// begin after its call, if the trace before has the beginning.
func (w *watcher) after(from, to uint64) int64 {
	if to < from {
		return -w.after(to, from)
	}
	return int64(min(w.nanos(to-from), math.MaxInt64))
}

// wall converts a TSC to the time of day.
func (w *watcher) wall(tsc uint64) time.Time {
	anchors := w.clock().Anchors
	if len(anchors) == 0 {
		return time.Now()
	}
	a := anchors[len(anchors)-1]
	at := time.Unix(0, int64(a.Real))
	if tsc >= a.TSC {
		return at.Add(time.Duration(w.nanos(tsc - a.TSC)))
	}
	return at.Add(-time.Duration(w.nanos(a.TSC - tsc)))
}

func (w *watcher) clock() *reader.RecordedClock { return &w.source.Recording().Clock }

func (w *watcher) nanos(ticks uint64) uint64 {
	frequency := w.clock().Frequency
	if frequency == 0 {
		return ticks
	}
	return uint64(float64(ticks) * 1e9 / float64(frequency))
}

func (w *watcher) ticks(d time.Duration) uint64 {
	return uint64(d.Seconds() * float64(max(w.clock().Frequency, 1)))
}
