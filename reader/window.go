package reader

import (
	"cmp"
	"math/bits"
	"slices"
	"sort"
)

// Window is a part of a trace in time order: the events of all threads between two moments,
// or as many of them as fit.
type Window struct {
	// Threads are the threads of the trace in the order of their first events.
	// All windows of a pass share them.
	Threads []Thread
	// Events are as they were read. Order has their indices in time order.
	Events []Event
	Order  []uint32
	// Owners are the threads of the events, as indices of Threads.
	Owners []uint32
	// Args and Payloads are ordered by Event, an index of Events.
	Args     []Arg
	Payloads []Payload
	// Out is for the output made from the events. It is empty at first.
	Out []byte

	base        uint64 // no event is earlier
	runs        []windowRun
	keys, other []uint64
	data        []byte        // payloads are slices of it
	ready       chan struct{} // gets a value when work on the window is done
}

// windowRun is a run of one thread's events in a window.
type windowRun struct {
	owner      uint32
	start, end int
	floor      uint64 // the largest TSC before it
	place      place
}

// place is the position of a run of events in the files. It orders events with equal times.
type place struct {
	file   int32
	inFile int64 // see Block.place
	lane   int   // index of the thread by its first record
}

func (p place) compare(o place) int {
	return cmp.Or(cmp.Compare(p.file, o.file), cmp.Compare(p.inFile, o.inFile), cmp.Compare(p.lane, o.lane))
}

const (
	// windowEvents and windowBytes are the numbers of events and payload bytes that fill a
	// window. Its keys then fit into the second-level cache. It may get more: earlier
	// events in the buffers of other threads.
	windowEvents = 4 << 10
	windowBytes  = 1 << 20
	// windowTicks limits the time of a window, so that a time and an index fit into a word.
	windowTicks = 1<<32 - 1
)

func newWindow() *Window { return &Window{ready: make(chan struct{}, 1)} }

func (w *Window) reset(base uint64) {
	w.base = base
	w.Events, w.runs = w.Events[:0], w.runs[:0]
	w.Args, w.Payloads, w.data = w.Args[:0], w.Payloads[:0], w.data[:0]
	w.Out = w.Out[:0]
}

func (w *Window) full() bool { return len(w.Events) >= windowEvents || len(w.data) >= windowBytes }

// take moves the events of c up to limit to the window.
func (w *Window) take(c *cursor, limit uint64) {
	next, floor := c.next, c.floor
	if limit >= c.last {
		c.next, c.floor = len(c.block.Events), c.last
	} else {
		for c.key() <= limit {
			c.floor = c.key()
			c.next++
		}
	}
	if next == c.next {
		return
	}
	start := len(w.Events)
	w.Events = append(w.Events, c.block.Events[next:c.next]...)
	w.runs = append(w.runs, windowRun{c.owner, start, len(w.Events), floor, c.place})
	for len(c.args) > 0 && c.args[0].Event < c.next {
		a := c.args[0]
		a.Event += start - next
		w.Args, c.args = append(w.Args, a), c.args[1:]
	}
	for len(c.payloads) > 0 && c.payloads[0].Event < c.next {
		p := c.payloads[0]
		p.Event += start - next
		n := len(w.data)
		w.data = append(w.data, p.Data...)
		p.Data = w.data[n:len(w.data):len(w.data)]
		w.Payloads, c.payloads = append(w.Payloads, p), c.payloads[1:]
	}
}

// ArgsOf returns the arguments of event i.
func (w *Window) ArgsOf(i uint32) []Arg {
	from := sort.Search(len(w.Args), func(k int) bool { return w.Args[k].Event >= int(i) })
	to := from
	for to < len(w.Args) && w.Args[to].Event == int(i) {
		to++
	}
	return w.Args[from:to]
}

// PayloadOf returns the payload of event i.
func (w *Window) PayloadOf(i uint32) Payload {
	k := sort.Search(len(w.Payloads), func(k int) bool { return w.Payloads[k].Event >= int(i) })
	if k == len(w.Payloads) || w.Payloads[k].Event != int(i) {
		return Payload{}
	}
	return w.Payloads[k]
}

// digitBits is the number of key bits for a pass of the sort.
const digitBits = 11

// sort fills Order and Owners. It is a radix sort, which keeps the order of equal keys:
// that of the files, and in a thread that of its events.
func (w *Window) sort() {
	slices.SortFunc(w.runs, func(a, b windowRun) int {
		return cmp.Or(a.place.compare(b.place), cmp.Compare(a.start, b.start))
	})
	n := len(w.Events)
	w.keys, w.other = slices.Grow(w.keys[:0], n)[:n], slices.Grow(w.other[:0], n)[:n]
	w.Order, w.Owners = slices.Grow(w.Order[:0], n)[:n], slices.Grow(w.Owners[:0], n)[:n]
	keys, other, order := w.keys, w.other, w.Order
	used := w.makeKeys()
	shift := 32
	for ; bits.Len64(used) > shift+digitBits; shift += digitBits {
		places := digitPlaces(keys, shift)
		for _, k := range keys {
			p := &places[k>>shift%(1<<digitBits)]
			other[*p] = k
			*p++
		}
		keys, other = other, keys
	}
	places := digitPlaces(keys, shift)
	for _, k := range keys {
		p := &places[k>>shift%(1<<digitBits)]
		order[*p] = uint32(k)
		*p++
	}
}

// makeKeys makes words of times and indices, run by run, and returns the bits that are set
// in any of them. The time of an event is never before that of its predecessor, so sorting
// does not separate them.
func (w *Window) makeKeys() (used uint64) {
	keys := w.keys
	for _, r := range w.runs {
		events, owners := w.Events[r.start:r.end], w.Owners[r.start:r.end]
		top := r.floor
		for i := range events {
			top = max(top, events[i].TSC)
			keys[i] = (top-w.base)<<32 | uint64(r.start+i)
			owners[i] = r.owner
		}
		used |= (top - w.base) << 32 // the largest
		keys = keys[len(events):]
	}
	return used
}

// digitPlaces counts the keys by a digit, and returns where those of each value begin after
// sorting.
func digitPlaces(keys []uint64, shift int) (places [1 << digitBits]uint32) {
	for _, k := range keys {
		places[k>>shift%(1<<digitBits)]++
	}
	sum := uint32(0)
	for d, n := range places {
		places[d] = sum
		sum += n
	}
	return places
}
