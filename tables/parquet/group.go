package parquet

import (
	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/reader/calls"
	"github.com/xray-tools/xray/tables"
	"github.com/xray-tools/xray/tables/parquetfile"
)

// group has the calls of a row group.
type group struct {
	spans  []threadSpan
	start  []uint64 // ticks
	length []uint64
	self   []uint64
	site   []site
	end    []uint8
	// Values that few calls have, in ascending order of rows.
	args    []rowValue
	results []rowValue
	waits   []rowWait
	values  []rowValues
	size    int // of values, in bytes

	encoded   *parquetfile.Group
	sites     []site          // without duplicates, in order of first occurrence
	functions []reader.FuncID // without duplicates
	done      chan struct{}
}

// threadSpan says that the rows from row on, up to the next span, belong to a thread.
type threadSpan struct {
	row    uint32
	thread int32 // index in Writer.threads
}

// site has the path, depth, function and caller of a call, which many calls share.
type site struct {
	path        calls.PathID
	depth       uint32
	fn, outside reader.FuncID // outside is the caller, or 0
}

type rowValue struct {
	row   uint32
	value uint64
}

type rowValues struct {
	row uint32
	tables.Values
}

type rowWait struct {
	row         uint32
	self, total calls.Off
}

func (g *group) rows() int { return len(g.start) }

func (g *group) reset() {
	g.spans, g.start, g.length, g.self, g.site, g.end = g.spans[:0], g.start[:0], g.length[:0], g.self[:0], g.site[:0], g.end[:0]
	g.args, g.results, g.waits, g.sites = g.args[:0], g.results[:0], g.waits[:0], g.sites[:0]
	clear(g.values)
	g.values, g.size = g.values[:0], 0
}

// grow allocates memory for all rows at once when a group has many rows.
func (g *group) grow() {
	const many = 1 << 12
	if g.rows() != many {
		return
	}
	g.start, g.length, g.self = roomy(g.start), roomy(g.length), roomy(g.self)
	g.site, g.end = roomy(g.site), roomy(g.end)
}

// roomy returns rows with capacity for all rows of a group. Unlike [slices.Grow], it does not touch
// the unused memory.
func roomy[T any](rows []T) []T {
	if cap(rows) >= groupRows {
		return rows
	}
	return append(make([]T, 0, groupRows), rows...)
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
	for _, v := range o.values {
		g.values = append(g.values, rowValues{base + v.row, v.Values})
	}
	g.size += o.size
	o.reset()
}

// span notes that the rows from row on belong to a thread.
func (g *group) span(row uint32, thread int32) {
	if n := len(g.spans); n == 0 || g.spans[n-1].thread != thread {
		g.spans = append(g.spans, threadSpan{row, thread})
	}
}
