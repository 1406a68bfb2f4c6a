package parquet

import (
	"math"

	"github.com/xray-tools/xray/internal/parquetfile"
	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/reader/calls"
)

// group are calls that make a row group.
type group struct {
	spans  []threadSpan
	start  []int64
	length []uint64 // ticks
	self   []uint64 // ticks
	site   []site
	end    []uint8
	// What few calls have, with their rows, in ascending order.
	args    []rowValue
	results []rowValue
	waits   []rowWait

	encoded parquetfile.Group
	sites   []site // distinct ones, in the order in which they occur
	done    chan struct{}
}

// threadSpan says that the rows from here on, up to the next span, are of a thread.
type threadSpan struct {
	row    uint32
	thread int32 // index in Writer.threads
}

// site is where a call was made, and which function it is of.
type site struct {
	path        calls.PathID
	depth       uint32
	fn, outside reader.FuncID // outside is the caller, or 0
}

type rowValue struct {
	row   uint32
	value uint64
}

type rowWait struct {
	row         uint32
	self, total calls.Off
}

func (g *group) rows() int { return len(g.start) }

func (g *group) reset() {
	g.spans, g.start, g.length, g.self, g.site, g.end = g.spans[:0], g.start[:0], g.length[:0], g.self[:0], g.site[:0], g.end[:0]
	g.args, g.results, g.waits, g.sites = g.args[:0], g.results[:0], g.waits[:0], g.sites[:0]
}

// take moves the calls of another group to the end of this one.
func (g *group) take(o *group) {
	base := uint32(g.rows())
	for _, s := range o.spans {
		g.span(base+s.row, s.thread)
	}
	g.start, g.length, g.self = append(g.start, o.start...), append(g.length, o.length...), append(g.self, o.self...)
	g.site, g.end = append(g.site, o.site...), append(g.end, o.end...)
	for _, v := range o.args {
		g.args = append(g.args, rowValue{base + v.row, v.value})
	}
	for _, v := range o.results {
		g.results = append(g.results, rowValue{base + v.row, v.value})
	}
	for _, v := range o.waits {
		g.waits = append(g.waits, rowWait{base + v.row, v.self, v.total})
	}
	o.reset()
}

// span notes that the rows from row on are of a thread.
func (g *group) span(row uint32, thread int32) {
	if n := len(g.spans); n == 0 || g.spans[n-1].thread != thread {
		g.spans = append(g.spans, threadSpan{row, thread})
	}
}

// threadRow is what the calls of a thread have in common.
type threadRow struct {
	thread      reader.Thread
	name        string
	process     string
	calls       int64
	first, last int64 // ns
	seen        bool
}

// groupEncoder encodes groups. Each goroutine has its own.
type groupEncoder struct {
	opts *Options
	*parquetfile.Encoder
	index parquetfile.Indexer
	sites siteIndex
	names map[reader.FuncID]function
	keys  []uint32
	keys2 []uint32
}

// mostNames limits the names that an encoder keeps.
const mostNames = 1 << 17

// function is what the rows of a function have in common.
type function struct {
	name, file string
	line       int32
}

func newGroupEncoder(opts *Options) *groupEncoder {
	return &groupEncoder{opts: opts, Encoder: parquetfile.NewEncoder(callsTable.columns()), names: map[reader.FuncID]function{}}
}

// encode encodes a group. threads are those that have begun.
func (e *groupEncoder) encode(g *group, threads []threadRow) {
	e.Begin(&g.encoded, g.rows())
	e.threads(g, threads)
	e.Int64s(g.start)
	e.times(g)
	e.places(g)
	e.arguments(g)
	e.result(g)
	e.ends(g)
	e.waits(g)
}

// threads encodes process, thread and thread_name.
func (e *groupEncoder) threads(g *group, threads []threadRow) {
	number := map[int32]uint32{}
	var process, thread []int32
	var names []string
	nameOf := []uint32{}
	e.keys = grown(e.keys, g.rows())
	for i, s := range g.spans {
		key, known := number[s.thread]
		if !known {
			t := &threads[s.thread]
			key = uint32(len(process))
			number[s.thread] = key
			process, thread = append(process, t.thread.Process), append(thread, t.thread.Thread)
			at := uint32(parquetfile.Absent)
			if t.name != "" {
				at = uint32(len(names))
				names = append(names, t.name)
			}
			nameOf = append(nameOf, at)
		}
		to := g.rows()
		if i+1 < len(g.spans) {
			to = int(g.spans[i+1].row)
		}
		for row := int(s.row); row < to; row++ {
			e.keys[row] = key
		}
	}
	of := parquetfile.Keyed{Keys: e.keys}
	e.Int32Of(of, process)
	e.Int32Of(of, thread)
	of.Via = nameOf
	e.StringOf(of, names)
}

// times encodes duration, self, duration_ticks and self_ticks.
func (e *groupEncoder) times(g *group) {
	lengths, distinct, few := e.index.Keys(g.length)
	e.keys = append(e.keys[:0], lengths...)
	var lengthTicks []int64
	if few {
		lengthTicks = signed(distinct)
		e.Int64Of(parquetfile.Keyed{Keys: e.keys}, e.nanos(distinct))
	} else {
		lengthTicks = signed(g.length)
		e.Int64s(e.nanos(g.length))
	}
	selfs, distinct, fewSelf := e.index.Keys(g.self)
	e.keys2 = append(e.keys2[:0], selfs...)
	var selfTicks []int64
	if fewSelf {
		selfTicks = signed(distinct)
		e.Int64Of(parquetfile.Keyed{Keys: e.keys2}, e.nanos(distinct))
	} else {
		selfTicks = signed(g.self)
		e.Int64s(e.nanos(g.self))
	}
	e.keyedOrNot(few, e.keys, lengthTicks)
	e.keyedOrNot(fewSelf, e.keys2, selfTicks)
}

func (e *groupEncoder) keyedOrNot(keyed bool, keys []uint32, values []int64) {
	if keyed {
		e.Int64Of(parquetfile.Keyed{Keys: keys}, values)
	} else {
		e.Int64s(values)
	}
}

// nanos converts ticks.
func (e *groupEncoder) nanos(ticks []uint64) []int64 {
	list := make([]int64, len(ticks))
	for i, t := range ticks {
		list[i] = saturated(e.opts.Clock.Nanos(t))
	}
	return list
}

// saturated is the closest number of 63 bits.
func saturated(v uint64) int64 { return int64(min(v, math.MaxInt64)) }

func signed(values []uint64) []int64 {
	list := make([]int64, len(values))
	for i, v := range values {
		list[i] = saturated(v)
	}
	return list
}

// places encodes depth, the function, the caller and the path.
func (e *groupEncoder) places(g *group) {
	e.keys, g.sites = e.sites.keys(e.keys, g.site, g.sites)
	var depths, paths []int32
	var ids numbering[reader.FuncID]
	for _, s := range g.sites {
		depths, paths = append(depths, int32(s.depth)), append(paths, int32(s.path))
		ids.add(s.fn, false)
	}
	of := parquetfile.Keyed{Keys: e.keys}
	e.Int32Of(of, depths)

	of.Via = ids.keys
	functions := e.functions(ids.values)
	var files []string
	var lines []int32
	var fileOf, lineOf []uint32
	names := make([]string, 0, len(functions))
	for _, f := range functions {
		names = append(names, f.name)
		files, fileOf = addKnown(files, fileOf, f.file, f.file != "")
		lines, lineOf = addKnown(lines, lineOf, f.line, f.line != 0)
	}
	e.Int32Of(of, idNumbers(ids.values))
	e.StringOf(of, names)
	e.StringOf(parquetfile.Keyed{Keys: e.keys, Via: through(ids.keys, fileOf)}, files)
	e.Int32Of(parquetfile.Keyed{Keys: e.keys, Via: through(ids.keys, lineOf)}, lines)

	var callers numbering[reader.FuncID]
	for _, s := range g.sites {
		callers.add(s.outside, s.outside == 0)
	}
	of.Via = callers.keys
	e.Int32Of(of, idNumbers(callers.values))
	names = names[:0]
	for _, f := range e.functions(callers.values) {
		names = append(names, f.name)
	}
	e.StringOf(of, names)
	of.Via = nil
	e.Int32Of(of, paths)
}

// functions returns what is known of functions.
func (e *groupEncoder) functions(ids []reader.FuncID) []function {
	if len(e.names) > mostNames {
		clear(e.names)
	}
	list := make([]function, 0, len(ids))
	for _, id := range ids {
		f, known := e.names[id]
		if !known {
			f = e.opts.function(id)
			e.names[id] = f
		}
		list = append(list, f)
	}
	return list
}

func idNumbers(ids []reader.FuncID) []int32 {
	list := make([]int32, len(ids))
	for i, id := range ids {
		list[i] = int32(id)
	}
	return list
}

// numbering numbers values in the order in which they occur.
type numbering[T comparable] struct {
	values []T
	keys   []uint32
	index  map[T]uint32
}

func (n *numbering[T]) add(v T, absent bool) {
	if absent {
		n.keys = append(n.keys, parquetfile.Absent)
		return
	}
	at, known := n.index[v]
	if !known {
		if n.index == nil {
			n.index = map[T]uint32{}
		}
		at = uint32(len(n.values))
		n.index[v] = at
		n.values = append(n.values, v)
	}
	n.keys = append(n.keys, at)
}

// addKnown adds the key of a value, and the value if it is known.
func addKnown[T any](values []T, keys []uint32, v T, known bool) ([]T, []uint32) {
	if !known {
		return values, append(keys, parquetfile.Absent)
	}
	return append(values, v), append(keys, uint32(len(values)))
}

// through follows keys to those of other keys.
func through(keys, next []uint32) []uint32 {
	list := make([]uint32, len(keys))
	for i, k := range keys {
		list[i] = next[k]
	}
	return list
}

// arguments encodes the logged arguments.
func (e *groupEncoder) arguments(g *group) {
	if len(g.args) == 0 {
		e.Null()
		return
	}
	e.keys = grown(e.keys, g.rows())
	clear(e.keys)
	values := make([]uint64, 0, len(g.args))
	for _, a := range g.args {
		e.keys[a.row]++
		values = append(values, a.value)
	}
	e.Uint64Lists(e.keys, values)
}

// result encodes the recorded results.
func (e *groupEncoder) result(g *group) {
	if len(g.results) == 0 {
		e.Null()
		return
	}
	values := make([]uint64, 0, len(g.results))
	e.absent(g.rows())
	for i, r := range g.results {
		e.keys[r.row] = uint32(i)
		values = append(values, r.value)
	}
	e.Uint64Of(parquetfile.Keyed{Keys: e.keys}, values)
}

func (e *groupEncoder) absent(rows int) {
	e.keys = grown(e.keys, rows)
	for i := range e.keys {
		e.keys[i] = parquetfile.Absent
	}
}

// ends encodes how calls ended.
func (e *groupEncoder) ends(g *group) {
	var names []string
	number := [calls.Ends]uint32{}
	e.keys = grown(e.keys, g.rows())
	for row, end := range g.end {
		if number[end] == 0 {
			names = append(names, calls.End(end).String())
			number[end] = uint32(len(names))
		}
		e.keys[row] = number[end] - 1
	}
	e.StringOf(parquetfile.Keyed{Keys: e.keys}, names)
}

// waits encodes times on and off the processor.
func (e *groupEncoder) waits(g *group) {
	if !e.opts.OffCPU {
		for range 6 {
			e.Null()
		}
		return
	}
	for _, column := range []struct {
		of  []uint64 // cpu: part of it
		off func(*rowWait) uint64
	}{
		{g.length, func(w *rowWait) uint64 { return w.total.Blocked + w.total.Queued }},
		{nil, func(w *rowWait) uint64 { return w.total.Blocked }},
		{nil, func(w *rowWait) uint64 { return w.total.Queued }},
		{g.self, func(w *rowWait) uint64 { return w.self.Blocked + w.self.Queued }},
		{nil, func(w *rowWait) uint64 { return w.self.Blocked }},
		{nil, func(w *rowWait) uint64 { return w.self.Queued }},
	} {
		if column.of == nil {
			e.off(g, column.off)
		} else {
			e.onCPU(g, column.of, column.off)
		}
	}
}

// off encodes a time that most calls do not have.
func (e *groupEncoder) off(g *group, off func(*rowWait) uint64) {
	e.keys = grown(e.keys, g.rows())
	clear(e.keys)
	values := []int64{0}
	zero := len(g.waits) < g.rows()
	for i := range g.waits {
		ticks := off(&g.waits[i])
		if ticks == 0 {
			zero = true
			continue
		}
		e.keys[g.waits[i].row] = uint32(len(values))
		values = append(values, saturated(e.opts.Clock.Nanos(ticks)))
	}
	if !zero {
		values = values[1:]
		for row := range e.keys {
			e.keys[row]--
		}
	}
	e.Int64Of(parquetfile.Keyed{Keys: e.keys}, values)
}

// onCPU encodes what is left of the times without those off the processor.
func (e *groupEncoder) onCPU(g *group, all []uint64, off func(*rowWait) uint64) {
	ticks := append([]uint64(nil), all...)
	for i := range g.waits {
		w := &g.waits[i]
		ticks[w.row] -= min(off(w), ticks[w.row])
	}
	keys, distinct, few := e.index.Keys(ticks)
	if few {
		e.Int64Of(parquetfile.Keyed{Keys: keys}, e.nanos(distinct))
	} else {
		e.Int64s(e.nanos(ticks))
	}
}

// grown returns a slice of that length, in the memory of s if there is enough.
func grown(s []uint32, n int) []uint32 {
	if cap(s) < n {
		return make([]uint32, n)
	}
	return s[:n]
}

// siteIndex numbers sites.
type siteIndex struct{ slots []uint32 }

// keys returns the number of each site, and the distinct ones. It overwrites keys and
// appends to distinct.
func (x *siteIndex) keys(keys []uint32, sites, distinct []site) ([]uint32, []site) {
	const size = 4 * groupRows
	if x.slots == nil {
		x.slots = make([]uint32, size)
	}
	keys = grown(keys, len(sites))
	for row := range sites {
		s := &sites[row]
		h := (uint64(s.path)<<32 | uint64(uint32(s.fn))) * 0x9E3779B97F4A7C15 >> 40 % size
		for x.slots[h] != 0 && distinct[x.slots[h]-1] != *s {
			h = (h + 1) % size
		}
		if x.slots[h] == 0 {
			distinct = append(distinct, *s)
			x.slots[h] = uint32(len(distinct))
		}
		keys[row] = x.slots[h] - 1
	}
	clear(x.slots)
	return keys, distinct
}
