// Package requests traces requests across threads: which calls worked on each, in what
// order, and what it waited for in between.
//
// A request has a key. A segment is a time in which a thread works on one request. [Options]
// say where keys come from. The steps are:
//
//  1. [Collector], an analysis, collects segments. If there are too many, it keeps those
//     of some keys. The choice depends only on the keys.
//  2. [Collector.Requests] groups the segments by key. A key that reappears after a long
//     pause is a new request.
//  3. Each request is divided along its critical path, see [Request.Path], into runs,
//     queues and handoffs that add up to its duration.
//  4. [Set.Report] sums up the requests. [Trees], a second pass, finds the calls made in
//     the segments of a few requests.
package requests

import (
	"cmp"
	"encoding/json"
	"math"
	"regexp"
	"slices"

	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/reader/calls"
	"github.com/xray-tools/xray/recorder/args/value"
	"github.com/xray-tools/xray/report/label"
)

// maxSegments is the maximum number of segments in a Collector. A segment takes some 130
// bytes. Keys take at most maxKeyBytes together.
const (
	maxSegments = 1 << 18
	maxKeyBytes = 64 << 20
)

// Options say where keys come from. One of IDFunc, IDValue, IDEvent and Marks is required.
type Options struct {
	// IDFunc selects functions that have the key as their first logged argument. Their
	// calls are segments. It is called once for each function and shard, concurrently.
	IDFunc func(reader.FuncID) bool
	// IDValue are arguments or results that have the key. The calls of their functions are segments.
	IDValue *calls.Expressions
	// IDEvent matches the key in custom events: the first group, or the whole match. The call
	// in which the event was recorded is a segment. If several keys are recorded in it, each
	// lasts until the next.
	IDEvent *regexp.Regexp
	// Marks takes the requests that a program reported to xray's recorder. A segment lasts
	// until the thread begins or ends another.
	Marks bool

	// ClassEvent captures the class of a request in custom events inside its segments.
	ClassEvent *regexp.Regexp
	// ClassArg takes the class from a logged argument of IDFunc, from 1. 0 means none.
	ClassArg int

	// Always is a key to keep in any case, or "".
	Always string
	// Most is the maximum number of segments. 0 means MaxSegments.
	Most int
}

// Segment is a time in which a thread worked on a request.
type Segment struct {
	Key        string
	Class      string // "" if it has none of its own
	Thread     reader.Thread
	Index      int // of the thread, as in reader.Block
	Func       reader.FuncID
	Start, End uint64 // TSC
	// Resumed says that the program resumed the request, so the segment begins none after another one of the key.
	Resumed bool
	// Ready is when the request could go on with this segment, or 0 if the program does not say.
	Ready uint64
	// Busy is when the thread ended the previous segment, if that belongs to another request,
	// or 0.
	Busy uint64
	// Cut says that the trace ended before the segment.
	Cut bool
}

// compare orders by start, outer segments before inner ones.
func (s *Segment) compare(o *Segment) int {
	return cmp.Or(cmp.Compare(s.Start, o.Start), cmp.Compare(s.Index, o.Index), cmp.Compare(o.End, s.End))
}

// Collector collects the segments of a shard. It needs no calls.Options, and no filter.
type Collector struct {
	opts     Options
	segments []Segment
	readies  []readiness
	keyBytes int // of the segments and readies
	// keep is the largest hash of a key that is kept: one in 2^lowered is.
	keep    uint64
	lowered int
	ids     map[reader.FuncID]bool // results of Options.IDFunc
	threads map[int]*thread
	classes map[string]string // each name once

	values []calls.Recorded // of the current call

	// Outside counts events with a key that were recorded outside of all calls.
	Outside uint64
	// Truncated counts calls whose key was not recorded to its end.
	Truncated uint64
}

// readiness says that a suspended request could go on.
type readiness struct {
	key string
	at  uint64
}

// NewCollector returns an empty collector.
func NewCollector(opts Options) *Collector {
	if opts.Most == 0 {
		opts.Most = maxSegments
	}
	return &Collector{
		opts: opts, keep: math.MaxUint64, ids: make(map[reader.FuncID]bool), threads: make(map[int]*thread),
		classes: make(map[string]string),
	}
}

// thread is the state of a thread.
type thread struct {
	id    reader.Thread
	index int
	ended segmentEnd
	last  uint64 // time of the latest call's end or event
	// frames are the keys and classes of open calls, by depth.
	frames []frame
	mark   span
}

// segmentEnd is the latest segment of a thread.
type segmentEnd struct {
	key string
	at  uint64
}

// frame is what events inside an open call reported.
type frame struct {
	key, class string
	since      uint64 // of the key
	several    bool   // several keys
}

// span is an open request of the recorder's marks.
type span struct {
	key, class string
	resumed    bool
	since      uint64
	depth      uint32
	around     reader.FuncID
	fn         reader.FuncID // the longest call so far that was made directly in it
	longest    uint64
}

// Calls takes the next calls and events of a thread.
func (c *Collector) Calls(b *calls.Batch) error {
	t := c.threads[b.Index]
	if t == nil {
		t = &thread{id: b.Thread, index: b.Index}
		c.threads[b.Index] = t
	}
	args, events := b.Args, b.Events
	for i := range b.Calls {
		call := &b.Calls[i]
		end := call.Start + call.Duration
		for len(events) > 0 && events[0].TSC <= end && !(call.Depth >= events[0].Depth && call.Start < events[0].TSC) {
			c.event(t, &events[0])
			events = events[1:]
		}
		n := 0
		for n < len(args) && args[n].Call == i {
			n++
		}
		c.call(t, call, args[:n], c.valueKey(b, i))
		args = args[n:]
	}
	for i := range events {
		c.event(t, &events[i])
	}
	if b.Last {
		c.endMark(t, t.last, true)
	}
	return nil
}

// event handles an event.
func (c *Collector) event(t *thread, e *calls.Event) {
	t.last = max(t.last, e.TSC)
	if e.Kind != reader.Custom {
		return
	}
	m, ok := reader.ParseMark(e.Data)
	if ok && m.Ready {
		// Other sources of keys may use the same numbers.
		if key := label.Argument(m.ID); c.wants(key) {
			c.readies = append(c.readies, readiness{key, e.TSC})
			c.keyBytes += len(key)
			c.shrink()
		}
		return
	}
	if ok && m.Request {
		if c.opts.Marks {
			c.endMark(t, e.TSC, false)
			if m.ID != 0 {
				t.mark = span{
					key: label.Argument(m.ID), class: c.class(m.Text), resumed: m.Resumed,
					since: e.TSC, depth: e.Depth, around: e.Func,
				}
			}
		}
		return
	}
	if re := c.opts.ClassEvent; re != nil {
		if class, ok := capture(re, e.Data); ok {
			if f := t.frame(e.Depth); f.class == "" {
				f.class = c.class(string(class))
			}
			if t.mark.key != "" {
				t.mark.class = c.class(string(class))
			}
		}
	}
	if re := c.opts.IDEvent; re != nil {
		key, ok := capture(re, e.Data)
		switch {
		case !ok:
			return
		case e.Depth == 0:
			c.Outside++
			return
		}
		f := t.frame(e.Depth)
		if f.key != "" && f.key != string(key) {
			c.add(t, Segment{Key: f.key, Class: f.class, Func: e.Func, Start: f.since, End: e.TSC})
			f.several, f.class = true, ""
		}
		if f.key != string(key) {
			f.key, f.since = string(key), e.TSC
		}
	}
}

// capture returns the match of an expression's first group, or the whole match if it has no
// group.
func capture(re *regexp.Regexp, data []byte) ([]byte, bool) {
	m := re.FindSubmatch(data)
	if m == nil {
		return nil, false
	}
	text := m[min(1, len(m)-1)]
	return text, len(text) > 0
}

// frame returns the frame of the innermost of depth open calls. Events outside of calls are
// ignored.
func (t *thread) frame(depth uint32) *frame {
	for int(depth) >= len(t.frames) {
		t.frames = append(t.frames, frame{})
	}
	return &t.frames[depth]
}

// valueKey returns the key of call i by Options.IDValue, or "". A string of which only the first bytes were
// recorded, or an empty one, does not identify a request.
func (c *Collector) valueKey(b *calls.Batch, i int) (key string) {
	c.values = c.opts.IDValue.Of(b, i, c.values[:0])
	for k := range c.values {
		v := &c.values[k]
		switch {
		case !v.Exists():
			continue
		case v.Truncated():
			c.Truncated++
			continue
		case v.Kind != value.Bytes:
			return v.Text()
		}
		if json.Unmarshal(v.JSON(), &key) == nil && key != "" {
			return key
		}
	}
	return ""
}

// call ends a call, whose value is the key unless it is "".
func (c *Collector) call(t *thread, call *calls.Call, args []calls.Arg, key string) {
	end := call.Start + call.Duration
	t.last = max(t.last, end)
	var f frame
	if int(call.Depth)+1 < len(t.frames) {
		f = t.frames[call.Depth+1]
		t.frames[call.Depth+1] = frame{}
	}
	s := Segment{Key: f.key, Class: f.class, Func: call.Func, Start: call.Start, End: end, Cut: call.Partial()}
	if f.several {
		s.Start = f.since
	}
	if len(args) > 0 && c.isID(call.Func) {
		s.Key = label.Argument(args[0].Value)
		if n := c.opts.ClassArg; n > 0 && n <= len(args) {
			s.Class = c.class(label.Argument(args[n-1].Value))
		}
	}
	if key != "" {
		s.Key, s.Start = key, call.Start
	}
	switch {
	case s.Key != "":
		c.add(t, s)
	case f.class != "" && call.Depth > 0:
		// The class may belong to an outer call.
		if outer := t.frame(call.Depth); outer.class == "" {
			outer.class = f.class
		}
	}
	if m := &t.mark; m.key != "" && call.Start >= m.since && call.Depth <= m.depth && call.Duration >= m.longest {
		m.fn, m.longest = call.Func, call.Duration
	}
}

func (c *Collector) isID(fn reader.FuncID) bool {
	if c.opts.IDFunc == nil {
		return false
	}
	is, ok := c.ids[fn]
	if !ok {
		is = c.opts.IDFunc(fn)
		c.ids[fn] = is
	}
	return is
}

// endMark ends the request that the thread works on.
func (c *Collector) endMark(t *thread, at uint64, cut bool) {
	m := t.mark
	t.mark = span{}
	if m.key == "" {
		return
	}
	fn := m.fn
	if fn == 0 {
		fn = m.around
	}
	c.add(t, Segment{Key: m.key, Class: m.class, Func: fn, Start: m.since, End: at, Cut: cut, Resumed: m.resumed})
}

// add adds a segment if its key is kept.
func (c *Collector) add(t *thread, s Segment) {
	s.Thread, s.Index = t.id, t.index
	if t.ended.key != "" && t.ended.key != s.Key && t.ended.at <= s.Start {
		s.Busy = t.ended.at
	}
	t.ended = segmentEnd{s.Key, s.End}
	if !c.wants(s.Key) {
		return
	}
	c.segments = append(c.segments, s)
	c.keyBytes += len(s.Key)
	c.shrink()
}

// class returns a name that is stored once. There are usually few.
func (c *Collector) class(name string) string {
	if s, ok := c.classes[name]; ok {
		return s
	}
	if len(c.classes) >= 1<<16 {
		clear(c.classes)
	}
	c.classes[name] = name
	return name
}

func (c *Collector) wants(key string) bool {
	return key == c.opts.Always || hash(key) <= c.keep
}

// shrink drops half of the keys while there are too many segments, or too many key bytes. A
// shard never drops what all shards together could keep, so the number of shards makes no
// difference.
func (c *Collector) shrink() {
	for (len(c.segments)+len(c.readies) > c.opts.Most || c.keyBytes > maxKeyBytes) && c.keep > 0 {
		c.keep >>= 1
		c.lowered++
		c.drop()
	}
}

// drop drops the segments of keys that are not kept.
func (c *Collector) drop() {
	c.keyBytes = 0
	c.segments = slices.DeleteFunc(c.segments, func(s Segment) bool {
		if !c.wants(s.Key) {
			return true
		}
		c.keyBytes += len(s.Key)
		return false
	})
	c.readies = slices.DeleteFunc(c.readies, func(r readiness) bool {
		if !c.wants(r.key) {
			return true
		}
		c.keyBytes += len(r.key)
		return false
	})
}

// hash is FNV-1a with the bits mixed, because the upper ones count.
func hash(key string) uint64 {
	h := uint64(14695981039346656037)
	for i := range len(key) {
		h = (h ^ uint64(key[i])) * 1099511628211
	}
	h ^= h >> 32
	h *= 0x9e3779b97f4a7c15
	return h ^ h>>29
}

// Merge implements calls.Analysis.
func (c *Collector) Merge(o *Collector) {
	c.Outside += o.Outside
	c.Truncated += o.Truncated
	if o.lowered > c.lowered {
		c.keep, c.lowered = o.keep, o.lowered
	}
	o.keep = c.keep
	c.drop()
	o.drop()
	c.segments = append(c.segments, o.segments...)
	c.readies = append(c.readies, o.readies...)
	c.keyBytes += o.keyBytes
	c.shrink()
}

var _ calls.Analysis[*Collector] = (*Collector)(nil)
