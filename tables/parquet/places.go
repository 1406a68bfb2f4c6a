package parquet

import (
	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/tables/parquetfile"
)

// places encodes depth, the function, the caller and the path.
func (e *groupEncoder) places(g *group) {
	g.sites = e.sites.keys(e.keysOf(g.rows()), g.site, g.sites)
	var depths, paths []int32
	ids, callers := &e.ids, &e.callers
	ids.reset()
	callers.reset()
	for _, s := range g.sites {
		depths, paths = append(depths, int32(s.depth)), append(paths, int32(s.path))
		ids.add(s.fn, false)
		callers.add(s.outside, s.outside == 0)
	}
	g.functions = append(g.functions[:0], ids.values...)
	of := parquetfile.Keyed{Keys: e.keys}
	e.Int32Of(of, depths)

	of.Via = ids.keys
	var files []string
	var lines []int32
	var fileOf, lineOf []uint32
	names := make([]string, 0, len(ids.values))
	for _, id := range ids.values {
		f := e.names.Of(id)
		names = append(names, valid(f.Name()))
		files, fileOf = addKnown(files, fileOf, valid(f.File()), f.File() != "")
		lines, lineOf = addKnown(lines, lineOf, f.Line(), f.Line() != 0)
	}
	e.Int32Of(of, idNumbers(ids.values))
	of.Again = true
	e.StringOf(of, names)
	e.StringOf(parquetfile.Keyed{Keys: e.keys, Via: through(ids.keys, fileOf)}, files)
	e.Int32Of(parquetfile.Keyed{Keys: e.keys, Via: through(ids.keys, lineOf)}, lines)

	of.Via, of.Again = callers.keys, false
	e.Int32Of(of, idNumbers(callers.values))
	names = names[:0]
	for _, id := range callers.values {
		names = append(names, valid(e.names.Of(id).Name()))
	}
	of.Again = true
	e.StringOf(of, names)
	of.Via, of.Again = nil, false
	e.Int32Of(of, paths)
}

func idNumbers(ids []reader.FuncID) []int32 {
	list := make([]int32, len(ids))
	for i, id := range ids {
		list[i] = int32(id)
	}
	return list
}

// numbering numbers values in order of first occurrence.
type numbering[T ~int32] struct {
	values []T
	keys   []uint32
	index  parquetfile.Indexer
}

func (n *numbering[T]) reset() {
	n.index.Reset()
	n.values, n.keys = n.values[:0], n.keys[:0]
}

func (n *numbering[T]) add(v T, absent bool) {
	if absent {
		n.keys = append(n.keys, parquetfile.Absent)
		return
	}
	at := n.index.Add(uint64(v))
	if int(at) == len(n.values) {
		n.values = append(n.values, v)
	}
	n.keys = append(n.keys, at)
}

// addKnown adds v to values if it is known, and its key, or Absent, to keys.
func addKnown[T any](values []T, keys []uint32, v T, known bool) ([]T, []uint32) {
	if !known {
		return values, append(keys, parquetfile.Absent)
	}
	return append(values, v), append(keys, uint32(len(values)))
}

// through returns next[k] for each key k.
func through(keys, next []uint32) []uint32 {
	list := make([]uint32, len(keys))
	for i, k := range keys {
		list[i] = next[k]
	}
	return list
}

// grown returns a slice of n elements, in the memory of s if that is large enough.
func grown(s []uint32, n int) []uint32 {
	if cap(s) < n {
		return make([]uint32, n)
	}
	return s[:n]
}

// siteIndex numbers sites.
type siteIndex struct {
	slots []uint32 // 1 more than the number of the site, or 0; more than half of them are free
}

// keys sets the key of each site, its index in distinct, and appends new sites to distinct, which
// must be empty.
func (x *siteIndex) keys(keys []uint32, sites, distinct []site) []site {
	if x.slots == nil {
		x.grow(nil)
	}
	clear(x.slots)
	for row := range sites {
		s := &sites[row]
		h := x.find(s, distinct)
		if x.slots[h] == 0 {
			distinct = append(distinct, *s)
			if 2*len(distinct) >= len(x.slots) {
				x.grow(distinct[:len(distinct)-1])
				h = x.find(s, distinct)
			}
			x.slots[h] = uint32(len(distinct))
		}
		keys[row] = x.slots[h] - 1
	}
	return distinct
}

// find returns the slot of a site, or the free slot for it.
func (x *siteIndex) find(s *site, distinct []site) int {
	last := len(x.slots) - 1
	h := int((uint64(s.path)<<32|uint64(uint32(s.fn)))*0x9E3779B97F4A7C15>>40) & last
	for uint(h) < uint(len(x.slots)) && x.slots[h] != 0 && distinct[x.slots[h]-1] != *s {
		h = (h + 1) & last
	}
	return h
}

// grow doubles the table. It starts small, so that it stays in the CPU cache if there are few sites.
func (x *siteIndex) grow(distinct []site) {
	const least = 1 << 10
	x.slots = make([]uint32, max(least, 2*len(x.slots)))
	for i := range distinct {
		x.slots[x.find(&distinct[i], distinct)] = uint32(i + 1)
	}
}
