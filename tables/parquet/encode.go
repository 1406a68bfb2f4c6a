package parquet

import (
	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/reader/calls"
	"github.com/xray-tools/xray/tables"
	"github.com/xray-tools/xray/tables/parquetfile"
)

// groupEncoder encodes groups. Each goroutine has its own.
type groupEncoder struct {
	opts *Options
	*parquetfile.Encoder
	lengths, selfs parquetfile.Indexer
	sites          siteIndex
	ids, callers   numbering[reader.FuncID]
	names          *tables.FunctionCache
	// scratch memory
	keys         []uint32
	times, ticks []int64
	uses         []uint32
}

func newGroupEncoder(opts *Options) *groupEncoder {
	return &groupEncoder{opts: opts, Encoder: parquetfile.NewEncoder(tables.Calls.InFiles()), names: tables.NewFunctionCache(opts.Names)}
}

// encode encodes a group into the memory of to. threads are the threads that have begun.
func (e *groupEncoder) encode(g *group, threads []*tables.Thread, to *parquetfile.Group) {
	g.encoded = to
	e.Begin(to, g.rows())
	e.threads(g, threads)
	e.starts(g)
	length, self := timesOf(&e.lengths, g.length), timesOf(&e.selfs, g.self)
	e.nanos(length)
	e.nanos(self)
	e.inTicks(length)
	e.inTicks(self)
	e.places(g)
	e.arguments(g)
	e.result(g)
	e.values(g, func(v *tables.Values) string { return v.Args })
	e.values(g, func(v *tables.Values) string { return v.Results })
	e.ends(g)
	e.waits(g, length, self)
}

// threads encodes process, thread and thread_name.
func (e *groupEncoder) threads(g *group, threads []*tables.Thread) {
	var index numbering[int32]
	var process, thread []int32
	var names []string
	var nameOf []uint32
	for _, s := range g.spans {
		index.add(s.thread, false)
	}
	for _, i := range index.values {
		t := threads[i]
		process, thread = append(process, t.Process), append(thread, t.Thread.Thread)
		names, nameOf = addKnown(names, nameOf, valid(t.Name()), t.Name() != "")
	}
	of := parquetfile.Keyed{}
	if len(index.values) > 1 {
		of.Keys = e.keysOf(g.rows())
		for i, s := range g.spans {
			to := g.rows()
			if i+1 < len(g.spans) {
				to = int(g.spans[i+1].row)
			}
			for row := int(s.row); row < to; row++ {
				of.Keys[row] = index.keys[i]
			}
		}
	}
	e.Int32Of(of, process)
	e.Int32Of(of, thread)
	of.Via = nameOf
	e.StringOf(of, names)
}

// keysOf returns memory for the keys of rows, which is valid until the next call.
func (e *groupEncoder) keysOf(rows int) []uint32 {
	e.keys = grown(e.keys, rows)
	return e.keys
}

// starts encodes start.
func (e *groupEncoder) starts(g *group) {
	e.times = e.times[:0]
	for _, tsc := range g.start {
		e.times = append(e.times, e.opts.Time(tsc))
	}
	e.Int64s(e.times)
}

// times has a time for each row of a group, in ticks: of[keys[row]], or of[row] without keys.
type times struct {
	keys []uint32
	of   []uint64
}

func timesOf(x *parquetfile.Indexer, ticks []uint64) times {
	if keys, distinct, ok := x.Keys(ticks); ok {
		return times{keys, distinct}
	}
	return times{nil, ticks}
}

// nanos encodes times in nanoseconds.
func (e *groupEncoder) nanos(t times) {
	e.times = e.times[:0]
	for _, ticks := range t.of {
		e.times = append(e.times, tables.Saturated(e.opts.Clock.Nanos(ticks)))
	}
	e.timeColumn(t.keys, e.times)
}

// inTicks encodes times in ticks.
func (e *groupEncoder) inTicks(t times) {
	e.times = e.times[:0]
	for _, ticks := range t.of {
		e.times = append(e.times, tables.Saturated(ticks))
	}
	e.timeColumn(t.keys, e.times)
}

func (e *groupEncoder) timeColumn(keys []uint32, values []int64) {
	if keys == nil {
		e.Int64s(values)
	} else {
		e.Int64Of(parquetfile.Keyed{Keys: keys}, values)
	}
}

// arguments encodes the logged arguments.
func (e *groupEncoder) arguments(g *group) {
	if len(g.args) == 0 {
		e.Null()
		return
	}
	counts := e.keysOf(g.rows())
	clear(counts)
	values := make([]uint64, 0, len(g.args))
	for _, a := range g.args {
		counts[a.row]++
		values = append(values, a.value)
	}
	e.Uint64Lists(counts, values)
}

// result encodes the recorded results.
func (e *groupEncoder) result(g *group) {
	if len(g.results) == 0 {
		e.Null()
		return
	}
	keys := e.keysOf(g.rows())
	for row := range keys {
		keys[row] = parquetfile.Absent
	}
	values := make([]uint64, 0, len(g.results))
	for i, r := range g.results {
		keys[r.row] = uint32(i)
		values = append(values, r.value)
	}
	e.Uint64Of(parquetfile.Keyed{Keys: keys, Gaps: true}, values)
}

// values encodes arguments or results that were recorded by expression.
func (e *groupEncoder) values(g *group, of func(*tables.Values) string) {
	var texts []string
	keys := e.keysOf(g.rows())
	for row := range keys {
		keys[row] = parquetfile.Absent
	}
	for i := range g.values {
		if text := of(&g.values[i].Values); text != "" {
			keys[g.values[i].row] = uint32(len(texts))
			texts = append(texts, text)
		}
	}
	if len(texts) == 0 {
		e.Null()
		return
	}
	e.StringOf(parquetfile.Keyed{Keys: keys, Gaps: true}, texts)
}

// ends encodes how calls ended.
func (e *groupEncoder) ends(g *group) {
	keys := e.keysOf(g.rows())
	var names []string
	var number [calls.Endings]uint32 // 1 more than the key
	for row, end := range g.end {
		if number[end] == 0 {
			names = append(names, calls.End(end).String())
			number[end] = uint32(len(names))
		}
		keys[row] = number[end] - 1
	}
	e.StringOf(parquetfile.Keyed{Keys: keys}, names)
}

// waits encodes times on and off CPU.
func (e *groupEncoder) waits(g *group, length, self times) {
	if !e.opts.OffCPU {
		for range 8 {
			e.Null()
		}
		return
	}
	total := func(w *rowWait) *calls.Off { return &w.total }
	own := func(w *rowWait) *calls.Off { return &w.self }
	for _, c := range []struct {
		all times
		off func(*rowWait) *calls.Off
	}{{length, total}, {self, own}} {
		e.onCPU(g, c.all, func(w *rowWait) uint64 { return c.off(w).Sum() })
		e.off(g, func(w *rowWait) uint64 { return c.off(w).Blocked })
		e.off(g, func(w *rowWait) uint64 { return c.off(w).Queued })
		e.off(g, func(w *rowWait) uint64 { return c.off(w).Recorder })
	}
}

// off encodes an off-CPU time, which is 0 for most calls.
func (e *groupEncoder) off(g *group, off func(*rowWait) uint64) {
	var some []rowValue
	for i := range g.waits {
		if ticks := off(&g.waits[i]); ticks > 0 {
			some = append(some, rowValue{g.waits[i].row, ticks})
		}
	}
	if len(some) == 0 {
		e.Int64Of(parquetfile.Keyed{}, []int64{0})
		return
	}
	keys := e.keysOf(g.rows())
	clear(keys)
	values := []int64{0}
	for _, v := range some {
		keys[v.row] = uint32(len(values))
		values = append(values, tables.Saturated(e.opts.Clock.Nanos(v.value)))
	}
	e.usedOnly(keys, values)
}

// onCPU encodes times minus off-CPU times.
func (e *groupEncoder) onCPU(g *group, all times, off func(*rowWait) uint64) {
	if len(g.waits) == 0 {
		e.nanos(all)
		return
	}
	at := func(row uint32) uint64 {
		if all.keys != nil {
			row = all.keys[row]
		}
		return all.of[row]
	}
	left := func(w *rowWait) uint64 { return at(w.row) - min(off(w), at(w.row)) }
	if all.keys == nil {
		ticks := append([]uint64(nil), all.of...)
		for i := range g.waits {
			ticks[g.waits[i].row] = left(&g.waits[i])
		}
		e.nanos(times{nil, ticks})
		return
	}
	keys := e.keysOf(g.rows())
	copy(keys, all.keys)
	e.times = e.times[:0]
	for _, ticks := range all.of {
		e.times = append(e.times, tables.Saturated(e.opts.Clock.Nanos(ticks)))
	}
	for i := range g.waits {
		keys[g.waits[i].row] = uint32(len(e.times))
		e.times = append(e.times, tables.Saturated(e.opts.Clock.Nanos(left(&g.waits[i]))))
	}
	e.usedOnly(keys, e.times)
}

// usedOnly encodes values by key. It drops values that no key uses.
func (e *groupEncoder) usedOnly(keys []uint32, values []int64) {
	e.uses = grown(e.uses, len(values))
	clear(e.uses)
	for _, k := range keys {
		e.uses[k] = 1
	}
	e.ticks = e.ticks[:0]
	for i, v := range values {
		if e.uses[i] != 0 {
			e.uses[i] = uint32(len(e.ticks))
			e.ticks = append(e.ticks, v)
		}
	}
	e.Int64Of(parquetfile.Keyed{Keys: keys, Via: e.uses}, e.ticks)
}
