package summary

import (
	"slices"

	"github.com/xray-tools/xray/internal/quantile"
	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/reader/calls"
	"github.com/xray-tools/xray/symbolize"
)

// Set hands the groups of several sources to analyses. Groups with the same key are added up. It is
// the symbolize.Names of their functions. It is not for concurrent use while Each runs.
//
// Functions of different groups are the same if they have the same name and symbol in the same
// program. So a function is the same in all builds. Several functions of a build with the same name
// and symbol differ, in the order of their places.
type Set struct {
	sources []Source
	limit   int
	ids     map[setKey]reader.FuncID
	list    []Function // by FuncID; 0 is none

	// self is the self time of all calls in the last Each, and known the part of it for which
	// off-CPU times are known.
	self, known uint64
}

// setKey identifies a function.
type setKey struct {
	program, name, symbol string
	number                int // index among the functions of a group with the same name and symbol
}

// NewSet returns a set. limit, if it is not 0, bounds the number of paths of a group.
func NewSet(sources []Source, limit int) *Set {
	return &Set{sources: sources, limit: limit, ids: make(map[setKey]reader.FuncID), list: make([]Function, 1)}
}

// Clock returns the clock of the times in sums.
func (s *Set) Clock() (reader.Clock, error) {
	var first *Key
	for _, source := range s.sources {
		keys := source.Keys()
		for i := range keys {
			if first == nil {
				first = &keys[i]
			}
			if keys[i].Unit != first.Unit {
				return reader.Clock{}, errUnits
			}
		}
	}
	if first == nil || first.Unit == Nanoseconds {
		return reader.Clock{Frequency: nanosPerSecond}, nil
	}
	return reader.Clock{}, nil
}

// Func implements symbolize.Names.
func (s *Set) Func(id reader.FuncID) (symbolize.Symbol, bool) {
	if id <= 0 || int(id) >= len(s.list) {
		return symbolize.Symbol{}, false
	}
	f := &s.list[id]
	return symbolize.Symbol{Name: f.Name, Linkage: f.Symbol, File: f.File, Line: int(f.Line)}, true
}

// ObjectName returns the base name of the program or shared object of a function.
func (s *Set) ObjectName(id reader.FuncID) string {
	if id <= 0 || int(id) >= len(s.list) {
		return ""
	}
	return s.list[id].Object
}

// Each passes each group to fn as sums.
func (s *Set) Each(fn func(*Group, *calls.Sums) error) error {
	s.self, s.known = 0, 0
	return Merge(s.sources, s.limit, func(g *Group) error { return fn(g, s.sums(g)) })
}

// KnowsOffCPU reports whether off-CPU times are known of all calls.
func (s *Set) KnowsOffCPU() bool {
	return !slices.ContainsFunc(s.sources, func(source Source) bool { return !source.KnowsOffCPU() })
}

// OffCPU returns the self time for which off-CPU times are known, and the self
// time of all calls. Both are 0 before the first Each.
func (s *Set) OffCPU() (known, self uint64) { return s.known, s.self }

// sums returns the sums of a group.
func (s *Set) sums(g *Group) *calls.Sums {
	ids := s.functions(g)
	sums := &calls.Sums{Paths: make([]calls.Sum, 0, g.Len())}
	at := make([]int, g.paths.Len()) // position in sums.Paths; -1 for paths of folded calls
	at[0] = -1
	folds := calls.PathID(0) // the path of foldsName
	err := g.walk(func(path calls.PathID, depth int) error {
		parent := g.paths.Parent(path)
		switch {
		case depth == 0 && g.name(path).Name == foldsName:
			folds = path
		case folds != 0 && depth == 1 && parent == folds:
		case folds != 0 && depth == foldsDepth && g.paths.Parent(parent) == folds:
			sum := s.sum(g, path)
			sum.Func, sum.Caller, sum.Parent = ids[g.paths.Func(path)], s.foldCaller(g, parent, ids), -1
			if sum.Count+sum.Open > 0 {
				sums.Folds = append(sums.Folds, sum)
			}
		default:
			sum := s.sum(g, path)
			sum.Func, sum.Parent = reader.Folded, at[parent]
			if fn := g.paths.Func(path); fn != reader.Folded {
				sum.Func = ids[fn]
			}
			at[path] = len(sums.Paths)
			sums.Paths = append(sums.Paths, sum)
		}
		return nil
	})
	if err != nil {
		panic(err) // the function above returns none
	}
	return sums
}

func (s *Set) foldCaller(g *Group, caller calls.PathID, ids []reader.FuncID) reader.FuncID {
	switch g.name(caller).Name {
	case "":
		return 0
	case foldedName:
		return reader.Folded
	}
	return ids[g.paths.Func(caller)]
}

// sum returns the sum of a path without the fields that depend on its callers.
func (s *Set) sum(g *Group, path calls.PathID) calls.Sum {
	v := &g.sums[path]
	sum := calls.Sum{
		Count: v.Calls, Total: v.Time, Self: v.Self, Min: v.Min, Max: v.Max,
		Open: v.Open, OpenTotal: v.OpenTime, OpenSelf: v.OpenSelf,
		Nested: min(v.Nested, v.Time), OpenNested: v.Nested - min(v.Nested, v.Time),
		Inferred: v.Inferred, Left: v.Left, TailExited: v.TailExited, Continued: v.Continued,
		SelfOff: calls.Off{Blocked: v.Blocked, Queued: v.Queued},
	}
	if v.Min > v.Max {
		sum.Min, sum.Max = 0, 0
	}
	self := addSaturating(v.Self, v.OpenSelf)
	s.self = addSaturating(s.self, self)
	s.known = addSaturating(s.known, min(self, addSaturating(v.OnCPU, addSaturating(v.Blocked, v.Queued))))
	if g.paths.Func(path) == reader.Folded {
		sum.Count, sum.Total, sum.Self = v.Folded, v.FoldedSelf, v.FoldedSelf
	}
	for bin, n := range g.allBins(int(path)) {
		if n.Durations > 0 {
			sum.Bins = append(sum.Bins, quantile.BinCount{Bin: bin, Count: n.Durations})
		}
		if n.Coarse > 0 {
			sum.Coarse = append(sum.Coarse, quantile.BinCount{Bin: bin, Count: n.Coarse})
		}
	}
	return sum
}

// functions returns the IDs of the functions of a group in the set, by their IDs there.
func (s *Set) functions(g *Group) []reader.FuncID {
	order := make([]reader.FuncID, len(g.functions)-1)
	for i := range order {
		order[i] = reader.FuncID(i + 1)
	}
	slices.SortFunc(order, func(a, b reader.FuncID) int { return g.functions[a].compare(&g.functions[b]) })
	ids := make([]reader.FuncID, len(g.functions))
	var last setKey
	for i, fn := range order {
		f := &g.functions[fn]
		key := setKey{program: g.Key.Program, name: f.Name, symbol: f.Symbol}
		if i > 0 && last.name == key.name && last.symbol == key.symbol {
			key.number = last.number + 1
		}
		last = key
		id, ok := s.ids[key]
		if !ok {
			id = reader.FuncID(len(s.list))
			s.ids[key] = id
			s.list = append(s.list, *f)
		}
		ids[fn] = id
	}
	return ids
}

// Counts passes the calls that were only counted, and those that the recorder dropped, to
// fn, by function. Both are sums of the groups of the last Each, in no order.
func (s *Set) Counts(g *Group, fn func(f reader.FuncID, untimed, pruned, prunedTime uint64)) {
	ids := s.functions(g)
	for path := calls.PathID(1); int(path) < g.paths.Len(); path++ {
		if v := &g.sums[path]; v.Untimed+v.Pruned > 0 && g.paths.Func(path) != reader.Folded {
			fn(ids[g.paths.Func(path)], v.Untimed, v.Pruned, v.PrunedTime)
		}
	}
}

var _ symbolize.Names = (*Set)(nil)
