package reader

import (
	"encoding/binary"
	"errors"
	"fmt"
	"sort"
)

// RecordedWindow is a time range in which a recorder with windows recorded everything. Outside its
// windows, the trace has no records, or only incomplete ones, which passes omit.
type RecordedWindow struct {
	// From and To are TSCs, both included. To is 0 if the trace does not have the end: the window
	// was open when the process ended. No other window follows.
	From, To uint64
	// CPUNS is the CPU time of the process in the window, in nanoseconds, or 0 if it is unknown.
	CPUNS uint64
}

// holds reports whether the window has a time.
func (w *RecordedWindow) holds(tsc uint64) bool { return tsc >= w.From && (w.To == 0 || tsc <= w.To) }

// Windowed reports whether the recording has windows.
func (r *Recording) Windowed() bool { return len(r.Windows) > 0 }

// RecordedTicks returns how much of the time from one TSC to another was recorded: all of it unless
// the recording has windows. A window without an end counts up to the second TSC.
func (r *Recording) RecordedTicks(from, to uint64) uint64 {
	if from >= to {
		return 0
	}
	if !r.Windowed() {
		return to - from
	}
	sum := uint64(0)
	for i := r.windowAt(from); i < len(r.Windows) && r.Windows[i].From < to; i++ {
		w := &r.Windows[i]
		end := to
		if w.To != 0 {
			end = min(w.To, to)
		}
		if begin := max(w.From, from); end > begin {
			sum += end - begin
		}
	}
	return sum
}

// RecordedTicks returns a function that says how much of a time was recorded in a file, or nil if no
// recording has windows.
func (t *Trace) RecordedTicks() func(file int32, from, to uint64) uint64 {
	for _, r := range t.Recordings() {
		if r.Windowed() {
			return func(file int32, from, to uint64) uint64 {
				if r := t.Recording(int(file)); r != nil {
					return r.RecordedTicks(from, to)
				}
				return to - from
			}
		}
	}
	return nil
}

// WindowSums has the sums over the windows of a recording. Ticks is the total time of the windows,
// and Span the time from the first of them to the end of the recording, both in ticks. The CPU
// time of the process in them is in nanoseconds, or 0 if it is unknown for any window.
type WindowSums struct {
	Count       int
	Ticks, Span uint64
	CPUNS       uint64
}

// WindowSums returns the sums of the windows. A window without an end lasts up to the TSC last,
// for example that of the last record.
func (r *Recording) WindowSums(last uint64) (s WindowSums) {
	if !r.Windowed() {
		return s
	}
	known := true
	for i := range r.Windows {
		w := &r.Windows[i]
		to := w.To
		if to == 0 {
			to = max(last, w.From)
		}
		s.Ticks += to - w.From
		s.CPUNS += w.CPUNS
		known = known && w.CPUNS > 0
		last = max(last, to)
	}
	if n := len(r.Clock.Anchors); n > 0 {
		last = max(last, r.Clock.Anchors[n-1].TSC) // the recorder reads the clocks at its end
	}
	if s.Count, s.Span = len(r.Windows), last-min(last, r.Windows[0].From); !known {
		s.CPUNS = 0
	}
	return s
}

// windowAt returns the index of the first window that ends at a TSC or later.
func (r *Recording) windowAt(tsc uint64) int {
	return sort.Search(len(r.Windows), func(i int) bool { return r.Windows[i].To == 0 || r.Windows[i].To >= tsc })
}

const (
	recordedWindowSize = 24
	maxRecordedWindows = 1 << 21
)

// setWindows adds windows. The latest one so far may come again, with its end.
func (r *Recording) setWindows(body []byte) error {
	le := binary.LittleEndian
	rows, err := counted(body, recordedWindowSize)
	for ; len(rows) >= recordedWindowSize; rows = rows[recordedWindowSize:] {
		w := RecordedWindow{le.Uint64(rows), le.Uint64(rows[8:]), le.Uint64(rows[16:])}
		n := len(r.Windows)
		if n > 0 && r.Windows[n-1].From >= w.From {
			if last := &r.Windows[n-1]; last.From == w.From && (w.To == 0 && last.To == 0 || w.To > w.From) {
				*last = w
			}
			continue // it is known
		}
		if n == maxRecordedWindows {
			return fmt.Errorf("more than %d windows", maxRecordedWindows)
		}
		if w.From == 0 || w.To != 0 && w.To < w.From || n > 0 && w.From <= r.Windows[n-1].To {
			err = fmt.Errorf("invalid window from TSC %d to %d, after one that ends at %d", w.From, w.To, r.lastWindowEnd())
			continue
		}
		if n > 0 && r.Windows[n-1].To == 0 {
			err = errors.New("a window after one without an end")
			r.Windows[n-1].To = w.From - 1
		}
		r.Windows = append(r.Windows, w)
	}
	return err
}

func (r *Recording) lastWindowEnd() uint64 {
	if n := len(r.Windows); n > 0 {
		return r.Windows[n-1].To
	}
	return 0
}

func (r *Recording) addWindows(add func([]byte)) {
	const most = 1 << 14
	for rest := r.Windows; len(rest) > 0; rest = rest[min(len(rest), most):] {
		part := rest[:min(len(rest), most)]
		body := binary.LittleEndian.AppendUint64(nil, uint64(len(part)))
		for _, w := range part {
			for _, v := range [...]uint64{w.From, w.To, w.CPUNS} {
				body = binary.LittleEndian.AppendUint64(body, v)
			}
		}
		add(body)
	}
}

// Edge says that a window of the recording begins, or has ended, at the time of its event. All calls
// that are open at the end of a window went on, and their ends are unknown. Calls that are open at
// its beginning are known only from their exits. Passes add these events to every thread with
// records in a window.
type Edge bool

const (
	WindowEnds   Edge = false
	WindowBegins Edge = true
)

// ParseEdge reads the payload of a custom event as an edge. It returns false if the event is not
// an edge.
func ParseEdge(payload []byte) (Edge, bool) {
	kind, body, ok := SplitMetadata(payload)
	if !ok || kind != MetadataEdge || len(body) < 4 {
		return false, false
	}
	return Edge(binary.LittleEndian.Uint32(body) != 0), true
}

// AppendEdge appends the payload of an edge.
func AppendEdge(dst []byte, e Edge) []byte {
	le := binary.LittleEndian
	v := uint32(0)
	if e {
		v = 1
	}
	return le.AppendUint32(le.AppendUint16(append(dst, MetadataHead...), uint16(MetadataEdge)), v)
}

// Edge returns what event i of the block says about a window. It returns false if it says nothing.
func (b *Block) Edge(i int) (Edge, bool) {
	if b.Events[i].Kind != Custom || !b.Events[i].Side {
		return false, false
	}
	k := sort.Search(len(b.Payloads), func(k int) bool { return b.Payloads[k].Event >= i })
	if k == len(b.Payloads) || b.Payloads[k].Event != i {
		return false, false
	}
	return ParseEdge(b.Payloads[k].Data)
}

// windowing is where a thread is among the windows of its file.
type windowing struct {
	at     int  // index of a window
	inside bool // its beginning was passed on, and its end was not
}

// windowCutter divides the blocks of a thread at the edges of windows, and omits records outside
// of them.
type windowCutter struct {
	windowing
	recording *Recording
	rest      Block // of the latest block
	outside   int64 // records that were left out
	out       Block
	event     [1]Event
	payload   [1]Payload
	edges     [2][]byte // payloads
	args      []Arg
	payloads  []Payload
}

func newWindowCutter(r *Recording) *windowCutter {
	return &windowCutter{recording: r, edges: [2][]byte{AppendEdge(nil, WindowEnds), AppendEdge(nil, WindowBegins)}}
}

// next returns the next part of rest that is within one window, or an edge before it. It returns nil
// if there is nothing left of rest.
func (c *windowCutter) next() *Block {
	windows := c.recording.Windows
	for len(c.rest.Events)+len(c.rest.Packed.Records) > 0 {
		tsc := c.rest.first()
		if c.inside && (c.at >= len(windows) || !windows[c.at].holds(max(tsc, windows[c.at].From))) {
			return c.edge(WindowEnds)
		}
		if !c.inside {
			c.at = c.recording.windowAt(tsc)
			if c.at == len(windows) {
				c.outside += int64(c.rest.len())
				c.rest = Block{}
				break
			}
			if from := windows[c.at].From; tsc < from {
				n := c.before(from)
				c.outside += int64(n)
				c.take(n)
				continue
			}
			return c.edge(WindowBegins)
		}
		to := windows[c.at].To
		if to == 0 {
			return c.take(c.rest.len())
		}
		return c.take(c.before(to + 1))
	}
	return nil
}

// end returns the edge after the last block of the thread, or nil.
func (c *windowCutter) end() *Block {
	if !c.inside || c.recording.Windows[c.at].To == 0 {
		return nil
	}
	return c.edge(WindowEnds)
}

func (c *windowCutter) edge(e Edge) *Block {
	w := &c.recording.Windows[c.at]
	tsc, payload := w.To, c.edges[0]
	if c.inside = bool(e); c.inside {
		tsc, payload = w.From, c.edges[1]
	}
	c.event[0] = Event{TSC: tsc, Kind: Custom, Side: true}
	c.payload[0] = Payload{Data: payload}
	c.head()
	c.out.Events, c.out.Payloads = c.event[:], c.payload[:]
	return &c.out
}

// head starts a block.
func (c *windowCutter) head() {
	c.out = Block{Thread: c.rest.Thread, Index: c.rest.Index, Offset: c.rest.Offset, place: c.rest.place}
}

func (b *Block) len() int { return len(b.Events) + b.Packed.Len() }

// before returns how many records of rest come before the first one at a time or later, at least one.
func (c *windowCutter) before(tsc uint64) int {
	for i := 1; i < len(c.rest.Events); i++ {
		if c.rest.Events[i].TSC >= tsc {
			return i
		}
	}
	if len(c.rest.Events) > 0 {
		return len(c.rest.Events)
	}
	p := &c.rest.Packed
	if p.Last < tsc {
		return p.Len()
	}
	now, i := p.TSC, 0
	for ; i < p.Len(); i++ {
		if now += binary.LittleEndian.Uint64(p.Records[i*functionSize:]) >> 32; now >= tsc && i > 0 {
			break
		}
	}
	return i
}

// take removes the first n records of rest, and returns them.
func (c *windowCutter) take(n int) *Block {
	c.head()
	if p := &c.rest.Packed; p.Len() > 0 {
		c.out.Packed = *p
		c.out.Packed.Records = p.Records[:n*functionSize]
		for i := range n {
			p.TSC += binary.LittleEndian.Uint64(p.Records[i*functionSize:]) >> 32
			if n == p.Len() {
				break // it is the last part
			}
		}
		if n < p.Len() {
			c.out.Packed.Last = p.TSC
		}
		p.Records = p.Records[n*functionSize:]
		c.rest.Offset += int64(n * functionSize)
		return &c.out
	}
	b := &c.rest
	c.out.Events, b.Events = b.Events[:n], b.Events[n:]
	c.args, c.payloads = c.args[:0], c.payloads[:0]
	for ; len(b.Args) > 0 && b.Args[0].Event < n; b.Args = b.Args[1:] {
		c.args = append(c.args, b.Args[0])
	}
	for ; len(b.Payloads) > 0 && b.Payloads[0].Event < n; b.Payloads = b.Payloads[1:] {
		c.payloads = append(c.payloads, b.Payloads[0])
	}
	c.out.Args, c.out.Payloads = c.args, c.payloads
	if len(b.Events) > 0 { // in place: the decoder rebuilds the tables for its next block
		for i := range b.Args {
			b.Args[i].Event -= n
		}
		for i := range b.Payloads {
			b.Payloads[i].Event -= n
		}
	}
	return &c.out
}
