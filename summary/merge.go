package summary

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
)

// Source has groups to merge: a file, or groups in memory.
type Source interface {
	// Keys returns the keys of its groups. A key may occur several times.
	Keys() []Key
	// AddTo adds the group with an index in Keys to g.
	AddTo(g *Group, index int) error
	// KnowsOffCPU reports whether times off the processor are known of all calls.
	KnowsOffCPU() bool
	// Close frees memory. It is called when the source is not needed for a while, and does
	// not end its use.
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

// Merge adds up the groups of all sources that have the same key, and passes the results
// to emit, in the order of their keys. Only one of them is in memory at a time, and limit,
// if it is not 0, bounds its number of paths. The group belongs to emit.
func Merge(sources []Source, limit int, emit func(*Group) error) error {
	type part struct {
		key           *Key
		source, index int
	}
	var parts []part
	for i, s := range sources {
		keys := s.Keys()
		for k := range keys {
			parts = append(parts, part{&keys[k], i, k})
		}
	}
	slices.SortFunc(parts, func(a, b part) int {
		return cmp.Or(a.key.Compare(b.key), cmp.Compare(a.source, b.source), cmp.Compare(a.index, b.index))
	})
	for len(parts) > 0 {
		n := 1
		for n < len(parts) && parts[n].key.Compare(parts[0].key) == 0 {
			n++
		}
		g := NewGroup(*parts[0].key)
		for _, p := range parts[:n] {
			if err := sources[p.source].AddTo(g, p.index); err != nil {
				return err
			}
			if limit > 0 && g.Len() > limit {
				return &PathLimitError{g.Key, limit}
			}
			sources[p.source].Close()
			g.mayArrange()
		}
		if err := emit(g); err != nil {
			return err
		}
		parts = parts[n:]
	}
	return nil
}

// PathLimitError means that a group has more paths than the limit allows.
type PathLimitError struct {
	Key   Key
	Limit int
}

func (e *PathLimitError) Error() string {
	return fmt.Sprintf("program %q on host %q has more than %d call paths: raise --path-memory, or sum up its traces with less", e.Key.Program, e.Key.Host, e.Limit)
}
