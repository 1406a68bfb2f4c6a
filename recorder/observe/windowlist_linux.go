package observe

import (
	"time"

	"github.com/xray-tools/xray/internal/tracewrite"
	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/recorder/ring"
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
	at, w := ring.ProcessAt(p.index), &p.windows
	n := a.U64(at + ring.ProcessNWindowsAt)
	if n == 0 {
		return
	}
	table, ok := a.Offset(a.U64(at+ring.ProcessWindowsAt), ring.WindowRows*ring.WindowSize)
	if !ok || n < w.seen {
		return
	}
	w.open = reader.RecordedWindow{}
	w.seen = max(w.seen, n-min(n, ring.WindowRows))
	for ; w.seen < n; w.seen++ {
		row := table + w.seen%ring.WindowRows*ring.WindowSize
		to := a.U64(row + ring.WindowToAt)
		one := reader.RecordedWindow{From: a.U64(row + ring.WindowFromAt), To: to, CPUNS: a.U64(row + ring.WindowCPUAt)}
		if to == 0 {
			w.open = one
			break
		}
		if one.From > to || to > ring.ReadTSC() || !a.Plausible(one.CPUNS>>8) { // there may be many threads
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
