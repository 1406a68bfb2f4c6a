package summary

import (
	"maps"
	"slices"
)

// Source has groups to merge: a file, or groups in memory.
type Source interface {
	// Keys returns the keys of its groups. A key may occur several times.
	Keys() []Key
	// AddTo adds the group with an index in Keys to g.
	AddTo(g *Group, index int) error
	// KnowsOffCPU reports whether off-CPU times are known of all calls.
	KnowsOffCPU() bool
	// Close frees memory. Merge calls it when it does not need the source for a while. The source
	// stays usable.
	Close()
}

// OfHosts divides a source by host, in the order of their names.
func OfHosts(s Source) []Source {
	byHost := make(map[string]*hostSource)
	for i, k := range s.Keys() {
		h := byHost[k.Host]
		if h == nil {
			h = &hostSource{Source: s}
			byHost[k.Host] = h
		}
		h.keys, h.indices = append(h.keys, k), append(h.indices, i)
	}
	var list []Source
	for _, host := range slices.Sorted(maps.Keys(byHost)) {
		list = append(list, byHost[host])
	}
	return list
}

// hostSource is the groups of a host.
type hostSource struct {
	Source
	keys    []Key
	indices []int
}

func (h *hostSource) Keys() []Key { return h.keys }

func (h *hostSource) AddTo(g *Group, index int) error { return h.Source.AddTo(g, h.indices[index]) }

// Memory is a source of groups in memory.
type Memory []*Group

// Keys implements [Source].
func (m Memory) Keys() []Key {
	keys := make([]Key, len(m))
	for i, g := range m {
		keys[i] = g.Key
	}
	return keys
}

// AddTo implements [Source].
func (m Memory) AddTo(g *Group, index int) error {
	g.Add(m[index])
	return nil
}

// KnowsOffCPU implements [Source].
func (m Memory) KnowsOffCPU() bool {
	for _, g := range m {
		for i := range g.sums[1:] {
			if !g.sums[1+i].OffKnown {
				return false
			}
		}
	}
	return true
}

// Close implements [Source].
func (m Memory) Close() {}

// part is a group of a source.
type part struct {
	key    *Key
	source Source
	index  int
}

// addTo adds the part to a group.
func (p *part) addTo(g *Group) error {
	defer p.source.Close()
	return p.source.AddTo(g, p.index)
}

// Merge adds up the groups of all sources that have the same key, and passes the results
// to emit, in the order of their keys. Only one of them is in memory at a time. limit, if it
// is not 0, bounds its number of paths: the lightest are folded. Calls of folded paths still
// count by caller and function, or by function alone if there are more than maxPairs of them. The
// group belongs to emit, which does not change it.
//
// The result does not depend on the order of sources. If no group is folded, it does not
// depend on how sources were merged before either.
func Merge(sources []Source, limit int, emit func(*Group) error) error {
	var parts []part
	for _, s := range sources {
		keys := s.Keys()
		for k := range keys {
			parts = append(parts, part{&keys[k], s, k})
		}
	}
	slices.SortStableFunc(parts, func(a, b part) int { return a.key.Compare(b.key) })
	for len(parts) > 0 {
		n := 1
		for n < len(parts) && parts[n].key.Compare(parts[0].key) == 0 {
			n++
		}
		g, err := mergeKey(parts[:n], limit)
		if err != nil {
			return err
		}
		if err := emit(g); err != nil {
			return err
		}
		parts = parts[n:]
	}
	return nil
}

// mergeKey adds up parts with the same key.
func mergeKey(parts []part, limit int) (*Group, error) {
	key := *parts[0].key
	if m, ok := parts[0].source.(Memory); ok && len(parts) == 1 {
		g := m[parts[0].index] // already within the limits
		if pairs := g.Len() - g.ownPaths(); limit == 0 || g.ownPaths() <= limit && pairs <= maxPairs(limit) {
			return g, nil
		}
	}
	g, callerless := NewGroup(key), false
	for i := range parts {
		if err := parts[i].addTo(g); err != nil {
			return nil, err
		}
		if limit > 0 && g.Len() > limit && g.ownPaths() > limit {
			return foldKey(key, limit, callerless, func(order []int, fn func(*Group)) error { return eachPart(parts, order, fn) })
		}
		if limit > 0 {
			g = g.dropCallers(maxPairs(limit), callerless)
			callerless = g.Callerless
		}
		g.mayArrange()
	}
	g.settle()
	return g, nil
}

// eachPart calls fn with each part. order lists their indices; nil keeps the order of parts.
func eachPart(parts []part, order []int, fn func(*Group)) error {
	for i := range parts {
		if order != nil {
			i = order[i]
		}
		g := NewGroup(*parts[i].key)
		if err := parts[i].addTo(g); err != nil {
			return err
		}
		g.settle()
		fn(g)
	}
	return nil
}
