package recorder

import (
	"sync/atomic"
	"time"

	"github.com/xray-tools/xray/internal/tracewrite"
	"github.com/xray-tools/xray/reader"
)

const (
	// maxPending limits the windows that are kept for a trace that is written from rings at the end.
	maxPending = 1 << 18
	// windowInterval is the interval at which windows are written.
	windowInterval = 200 * time.Millisecond
)

// observedWindows are the windows of a process that are not in its trace yet.
type observedWindows struct {
	seen    uint64 // number of windows that have ended
	ended   []reader.RecordedWindow
	open    reader.RecordedWindow // From is 0 if none is open
	written time.Time
	oldest  uint64 // TSC of the first record of the trace
}

// readWindows reads the windows since the previous call. The process keeps only the latest ones.
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
		if one.From > to || to > rdtsc() || !a.plausible(one.CPUNS>>8) { // there may be many threads
			p.lose("damaged-chunk", 1)
			continue
		}
		w.ended = append(w.ended, one)
	}
	if len(w.ended) > maxPending {
		w.ended = append(w.ended[:0], w.ended[len(w.ended)-maxPending/2:]...)
	}
}

// pending returns the windows that are not in the trace yet, including the open one. Without all, it
// omits windows whose records have been overwritten in the rings.
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

// writeWindows writes pending windows to the trace from time to time, in case the observer is killed.
func (p *observedProcess) writeWindows() {
	w := &p.windows
	list := w.pending(true)
	if p.trace == nil || len(list) == 0 || time.Since(w.written) < windowInterval {
		return
	}
	if p.trace.append(p.trace.encode(tracewrite.AppendWindows(nil, list, p.trace.first))) == nil {
		w.ended = w.ended[:0]
		p.trace.tail = p.trace.tail[:0] // the windows must stay
	}
	w.written = time.Now()
}

// plan returns when windows begin in the arena, in nanoseconds of CLOCK_MONOTONIC, or 0.
func (a *arena) plan() uint64 { return a.u64(arenaPlanAt) }

// follow makes windows begin at the same times as in another arena.
func (a *arena) follow(plan uint64) { atomic.StoreUint64(a.word64(arenaPlanAt), plan) }
