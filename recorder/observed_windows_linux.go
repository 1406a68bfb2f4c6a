package recorder

import (
	"sync/atomic"
	"time"

	"github.com/xray-tools/xray/internal/tracewrite"
	"github.com/xray-tools/xray/reader"
)

const (
	// maxPending is how many windows are kept for a trace that is written at the end, from rings.
	maxPending = 1 << 18
	// windowInterval is the interval at which windows are written.
	windowInterval = 200 * time.Millisecond
)

// observedWindows are the windows of a process that its trace does not have yet.
type observedWindows struct {
	seen    uint64 // windows of the process that have ended
	ended   []reader.RecordedWindow
	open    reader.RecordedWindow // From is 0 if none is
	written time.Time
	oldest  uint64 // TSC of the first record of the trace
}

// readWindows reads which windows there have been since the last time. The process keeps the latest
// ones only.
func (p *observedProcess) readWindows(a *arenaObserver) {
	at, w := processAt(p.index), &p.windows
	n := a.u64(at + processNWindowsAt)
	if n == 0 {
		return
	}
	table, ok := a.offset(a.u64(at+processWindowsAt), windowRows*windowSize)
	if !ok || n < w.seen {
		return
	}
	w.open = reader.RecordedWindow{}
	w.seen = max(w.seen, n-min(n, windowRows))
	for ; w.seen < n; w.seen++ {
		row := table + w.seen%windowRows*windowSize
		to := a.u64(row + 8)
		one := reader.RecordedWindow{From: a.u64(row), To: to, CPUNS: a.u64(row + 16)}
		if to == 0 {
			w.open = one
			break
		}
		w.ended = append(w.ended, one)
	}
	if len(w.ended) > maxPending {
		w.ended = append(w.ended[:0], w.ended[len(w.ended)-maxPending/2:]...)
	}
}

// pending returns the windows that the trace does not have yet, and the open one. Unless all are
// wanted, it leaves out those of which the rings have no records any more.
func (w *observedWindows) pending(all bool) []reader.RecordedWindow {
	list := w.ended[:len(w.ended):len(w.ended)]
	for !all && len(list) > 0 && list[0].To < w.oldest {
		list = list[1:]
	}
	if w.open.From != 0 {
		list = append(list, w.open)
	}
	return list
}

// writeWindows writes them to the trace now and then, in case the observer does not live on.
func (p *observedProcess) writeWindows() {
	w := &p.windows
	list := w.pending(true)
	if p.trace == nil || len(list) == 0 || time.Since(w.written) < windowInterval {
		return
	}
	if p.trace.append(p.trace.encode(tracewrite.AppendWindows(nil, list, p.trace.first))) == nil {
		w.ended = w.ended[:0]
	}
	w.written = time.Now()
}

// plan returns when windows begin in the arena, in nanoseconds of CLOCK_MONOTONIC, or 0.
func (a *arena) plan() uint64 { return a.u64(arenaPlanAt) }

// follow makes windows begin when they do in another arena.
func (a *arena) follow(plan uint64) { atomic.StoreUint64(a.word64(arenaPlanAt), plan) }
