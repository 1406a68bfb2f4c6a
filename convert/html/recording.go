package html

import (
	"cmp"
	"slices"
	"strings"
	"unsafe"

	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/reader/calls"
)

// Options of a page. The zero value is usable.
type Options struct {
	Title string
	// Frequency is the trace's clock frequency. If it is 0, it is unknown, and times are ticks.
	Frequency uint64
	// Base is the TSC of time 0, and Epoch that time in nanoseconds since 1970, or 0 if
	// unknown.
	Base, Epoch uint64
	// MinDuration omits shorter calls, in ticks.
	MinDuration uint64
	// Notes describe omitted data.
	Notes []string
	// Left is the number of calls that did not fit into the page.
	Left uint64
	// OffCPU says that off-CPU times are known. The page shows them in the lanes of the threads.
	OffCPU bool
	// Limited says that Functions estimate what a recording within a budget left out.
	Limited bool
	// Functions, if not nil, are the sums of all selected calls, including those that are
	// not in the page. Without them, the page adds up its own calls.
	Functions []Function
	// ThreadName and ProcessName return names of threads and their processes, or "".
	ThreadName, ProcessName func(reader.Thread) string
	// Values are the recorded arguments and results, or nil. They need calls without calls.Options.Alias.
	Values *calls.Expressions
	// Source, if not nil, returns the text of a source file.
	Source func(path string) ([]byte, error)
}

// maxEvents is the maximum number of events in a page, and maxThreadEvents the maximum for each thread.
const maxEvents, maxThreadEvents = 100_000, 10_000

// maxThreadWaits is the maximum number of off-CPU times of a thread.
const maxThreadWaits = 1_000_000

// maxValues is the maximum number of calls in a page, and of each thread, that have arguments or results, and
// maxValuesText the length of their text in bytes.
const maxValues, maxValuesText = 100_000, 256

// Page keeps the calls of a trace for a page, at 32 bytes each. It is a [calls.Analysis] for
// calls.Options with Opens, and a filter without MinDuration.
type Page struct {
	opts    *Options
	threads []*thread // by Batch.Index; nil if there are no calls
	events  []event
	dropped int // events beyond maxThreadEvents
	named   []calls.Recorded
	unnamed int // calls beyond maxValues of their thread
	// waits is the number of off-CPU times of all threads, and lostWaits that of times beyond maxThreadWaits.
	waits, lostWaits int64
	// kept is the number of calls of all threads, and texts the bytes of the events' texts.
	kept, texts int64
}

// BytesPerCall is the memory of a call in a [Page], with its part of the page that is written. It was measured.
const BytesPerCall = 64

// Memory implements [calls.MemoryUser]. The constants were measured.
func (r *Page) Memory() int64 {
	const perThread, perEvent, perWait = 512, 160, 2 * int64(unsafe.Sizeof(wait{}))
	return BytesPerCall*r.kept + perWait*r.waits + r.texts + perThread*int64(len(r.threads)) + perEvent*int64(len(r.events))
}

// thread has the calls of a thread in the order of their entries.
type thread struct {
	id        reader.Thread
	chunks    [][]call
	calls     int // in chunks
	earlier   int // number of calls that began before
	truncated int // number of calls that were open at the end
	open      []openCall
	kept      int // how many of open, the outermost, are in chunks
	events    int
	waits     []wait // by time
	values    []callValues
}

// wait is a time in which the thread was off CPU, on the page's clock. It was on CPU from start on, until the sum of
// the parts before end. Without parts, what it did is unknown.
type wait struct {
	start, end                int64
	blocked, queued, recorder uint64
}

// addTo packs the wait. last is the end of the previous one.
func (w *wait) addTo(p *packer, last int64) {
	for _, v := range []uint64{uint64(w.start - last), uint64(w.end - w.start), w.blocked, w.queued, w.recorder} {
		p.add(v)
	}
}

// callValues are the arguments and results of a call.
type callValues struct {
	call int // among those of the thread
	text string
}

// call is a call of the page.
type call struct {
	start    int64 // in units of the page's clock
	duration uint64
	fn       reader.FuncID
	depth    uint32 // number of calls around the call that are also kept
	end      calls.End
}

// openCall is a call that is in chunks once a call in it, or it itself, is long enough.
type openCall struct {
	start uint64
	fn    reader.FuncID
	call  *call
	at    int // number of calls in chunks before
}

// chunkCalls is the maximum number of calls of a chunk. Chunks are never copied.
const chunkCalls = 4096

// add adds a call.
func (t *thread) add(c call) *call {
	last := len(t.chunks) - 1
	if last < 0 || len(t.chunks[last]) == cap(t.chunks[last]) {
		t.chunks = append(t.chunks, make([]call, 0, min(max(t.calls, 8), chunkCalls)))
		last++
	}
	t.calls++
	t.chunks[last] = append(t.chunks[last], c)
	return &t.chunks[last][len(t.chunks[last])-1]
}

type event struct {
	index int // of the thread
	at    int64
	text  string
}

// New returns an empty recording.
func New(opts *Options) *Page { return &Page{opts: opts} }

// at returns a time on the page's clock, which starts at Base. Earlier times become 0.
func (o *Options) at(tsc uint64) int64 {
	if tsc < o.Base {
		return 0
	}
	c := reader.Clock{Frequency: o.Frequency}
	// JavaScript's numbers are exact up to 2^53.
	return int64(min(c.Nanos(tsc-o.Base), maxExact))
}

// Calls implements [calls.Sink].
func (r *Page) Calls(b *calls.Batch) error {
	for len(r.threads) <= b.Index {
		r.threads = append(r.threads, nil)
	}
	t := r.threads[b.Index]
	if t == nil {
		t = &thread{id: b.Thread}
		r.threads[b.Index] = t
	}
	before, i := t.calls, 0
	b.Replay(
		func(o *calls.Open) { t.open = append(t.open, openCall{start: o.Start, fn: o.Func}) },
		func(c *calls.Call, _ []calls.Arg) {
			if at := t.leave(c, r.opts); at >= 0 {
				r.named = r.opts.Values.Of(b, i, r.named[:0])
				r.values(t, at)
			}
			i++
		},
		func(e *calls.Event) { r.event(t, b.Index, e.TSC, e.String()) })
	for i := range b.Gaps {
		r.wait(t, &b.Gaps[i])
	}
	r.kept += int64(t.calls - before)
	return nil
}

// values adds the arguments and results in named to a call of t.
func (r *Page) values(t *thread, at int) {
	switch {
	case len(r.named) == 0:
		return
	case len(t.values) == maxValues:
		r.unnamed++
		return
	}
	text := calls.ValuesText(r.named)
	if len(text) > maxValuesText {
		text = strings.ToValidUTF8(text[:maxValuesText], "") + "..."
	}
	t.values = append(t.values, callValues{at, text})
	r.texts += int64(len(text)) + int64(unsafe.Sizeof(callValues{}))
}

// event adds an event of t, the thread with that index.
func (r *Page) event(t *thread, index int, tsc uint64, text string) {
	if t.events++; t.events > maxThreadEvents {
		r.dropped++
		return
	}
	r.events = append(r.events, event{index, r.opts.at(tsc), text})
	r.texts += int64(len(text))
}

// wait adds an off-CPU time of t. On the page's clock, times are at most those between the ends of the wait, whose
// parts are so at most as long as the wait.
func (r *Page) wait(t *thread, g *calls.Gap) {
	switch {
	case g.Known && g.Sum() == 0:
		return
	case len(t.waits) == maxThreadWaits:
		r.lostWaits++
		return
	}
	nanos := reader.Clock{Frequency: r.opts.Frequency}.Nanos
	w := wait{start: r.opts.at(g.From), end: r.opts.at(g.To)}
	if n := len(t.waits); n > 0 {
		w.start = max(w.start, t.waits[n-1].end)
	}
	w.end = max(w.end, w.start)
	left := uint64(w.end - w.start)
	for _, part := range []struct {
		into  *uint64
		ticks uint64
	}{{&w.queued, g.Queued}, {&w.recorder, g.Recorder}, {&w.blocked, g.Blocked}} {
		*part.into = min(nanos(part.ticks), left)
		left -= *part.into
	}
	t.waits = append(t.waits, w)
	r.waits++
}

// leave ends the innermost call. It returns its number, or -1 if the page does not have it.
func (t *thread) leave(c *calls.Call, opts *Options) int {
	inner := len(t.open) - 1
	if c.Duration < opts.MinDuration {
		t.open = t.open[:inner] // calls inside were shorter
		return -1
	}
	for ; t.kept <= inner; t.kept++ {
		o := &t.open[t.kept]
		o.at = t.calls
		o.call = t.add(call{start: opts.at(o.start), fn: o.fn, depth: uint32(t.kept)})
	}
	kept, at := t.open[inner].call, t.open[inner].at
	t.open, t.kept = t.open[:inner], inner
	kept.end = c.Ending()
	kept.duration = uint64(opts.at(c.Start+c.Duration) - kept.start)
	if c.Earlier {
		t.earlier++
	} else if c.End == calls.Truncated {
		t.truncated++
	}
	return at
}

// Merge implements [calls.Analysis].
func (r *Page) Merge(other *Page) {
	for i, t := range other.threads {
		if t == nil {
			continue
		}
		for len(r.threads) <= i {
			r.threads = append(r.threads, nil)
		}
		r.threads[i] = t
	}
	r.events = append(r.events, other.events...)
	r.dropped += other.dropped
	r.unnamed += other.unnamed
	r.waits += other.waits
	r.lostWaits += other.lostWaits
	r.kept += other.kept
	r.texts += other.texts
}

// sorted returns the events of the page by time, and the number of events that are not in it.
func (r *Page) sorted() ([]event, int) {
	slices.SortFunc(r.events, func(a, b event) int {
		return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.index, b.index), cmp.Compare(a.text, b.text))
	})
	n := min(len(r.events), maxEvents)
	return r.events[:n], r.dropped + len(r.events) - n
}
