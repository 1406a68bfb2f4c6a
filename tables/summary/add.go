package summary

import (
	"fmt"

	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/reader/calls"
)

// rowAdder adds rows of files to a group. It caches names and paths, which many files share.
type rowAdder struct {
	g     *Group
	texts *texts
	batch *batch
	// functions caches the functions of earlier rows, by the text of the name.
	functions []seenFunction
	others    map[functionTexts]reader.FuncID
	// stack has the path of the previous row at each depth, and last the most recent child of each.
	stack  []calls.PathID
	paths  []calls.PathID // of a batch
	common []commonSums   // by path, not yet in the group; small enough for the CPU cache
}

// settle applies all deferred additions to the group.
func (g *Group) settle() {
	g.bins.settle()
	if g.adder == nil {
		return
	}
	for path := range g.adder.common {
		g.sums[path].commonSums.add(&g.adder.common[path])
	}
	g.adder.common = g.adder.common[:0]
}

type functionTexts struct {
	name, symbol, file, object uint32
	line                       int64
}

type seenFunction struct {
	functionTexts
	id reader.FuncID // 0 for none
}

// rowAdder returns the adder of the group, before its first row.
func (g *Group) rowAdder() *rowAdder {
	if g.adder == nil {
		g.adder = newRowAdder(g, newTexts())
		g.adder.batch = newBatch(batchRows)
	}
	g.adder.stack = append(g.adder.stack[:0], 0)
	return g.adder
}

// newRowAdder returns a rowAdder for rows with interned texts.
func newRowAdder(g *Group, t *texts) *rowAdder {
	return &rowAdder{g: g, texts: t, others: make(map[functionTexts]reader.FuncID), stack: []calls.PathID{0}}
}

// maxDepth bounds the depth of a path.
const maxDepth = 1 << 20

// orderedRows adds rows in which callers precede their callees.
func (a *rowAdder) orderedRows(b *batch) error {
	a.paths = a.paths[:0]
	for i := range b.n {
		depth := int(b.depth[i])
		if depth > len(a.stack)-1 || depth > maxDepth {
			return fmt.Errorf("a path %d deep follows one that is %d deep", depth+1, len(a.stack)-1)
		}
		sibling := calls.PathID(0)
		if depth+1 < len(a.stack) {
			sibling = a.stack[depth+1]
		}
		path := a.g.child(a.stack[depth], sibling, a.function(b, i, depth))
		a.stack = append(a.stack[:depth+1], path)
		a.paths = append(a.paths, path)
	}
	if n := a.g.paths.Len() - len(a.common); n > 0 {
		a.common = append(a.common, make([]commonSums, n)...)
	}
	for i, path := range a.paths {
		row := commonSums{Calls: uint64(b.values[0][i]), Time: uint64(b.values[1][i]), Self: uint64(b.values[2][i]), OffKnown: !b.noOff[i]}
		row.Min, row.Max = b.extremes(i)
		a.common[path].add(&row)
	}
	firstBin := 0
	for i, path := range a.paths {
		if err := a.addBins(b, firstBin, b.binEnds[i], path); err != nil {
			return err
		}
		firstBin = b.binEnds[i]
	}
	for k := addedCalls; k < len(b.values); k++ {
		if b.counts[k] {
			a.addCounters(k, b.values[k][:b.n])
		}
	}
	return nil
}

// addCounters adds the values of a column to the paths of a batch.
func (a *rowAdder) addCounters(k int, values []int64) {
	sums := a.g.sums
	for i, v := range values {
		if v != 0 {
			n := sums[a.paths[i]].counters()[k]
			*n = addSaturating(*n, uint64(v))
		}
	}
}

// function returns the function of a row.
func (a *rowAdder) function(b *batch, i, depth int) reader.FuncID {
	t := functionTexts{b.names[0][i], b.names[1][i], b.names[2][i], b.names[3][i], b.line[i]}
	for int(t.name) >= len(a.functions) {
		a.functions = append(a.functions, make([]seenFunction, int(t.name)+1)...)
	}
	known := &a.functions[t.name]
	if known.id != 0 && known.functionTexts == t {
		return a.orFolded(known.id, depth)
	}
	id, ok := a.others[t]
	if !ok {
		text := a.texts.list
		id = a.g.function(Function{Name: text[t.name], Symbol: text[t.symbol], File: text[t.file], Line: int32(min(t.line, 1<<31-1)), Object: text[t.object]})
		a.others[t] = id
	}
	*known = seenFunction{t, id}
	return a.orFolded(id, depth)
}

// orFolded returns [reader.Folded] for the function of folded paths. Among folded calls, a caller
// of that name stands for an unknown caller.
func (a *rowAdder) orFolded(id reader.FuncID, depth int) reader.FuncID {
	if a.g.functions[id].Name != foldedName || depth == 1 && a.g.name(a.stack[1]).Name == foldsName {
		return id
	}
	return reader.Folded
}

// add adds a row to a path.
func (a *rowAdder) add(b *batch, i, firstBin int, path calls.PathID) error {
	var s Sums
	for k, c := range s.counters() {
		*c = uint64(b.values[k][i])
	}
	s.Min, s.Max = b.extremes(i)
	s.OffKnown = !b.noOff[i]
	a.g.sums[path].add(&s)
	return a.addBins(b, firstBin, b.binEnds[i], path)
}

// addBins adds bins of a batch to a path.
func (a *rowAdder) addBins(b *batch, from, to int, path calls.PathID) error {
	bins := b.bins[0][from:to]
	if err := a.g.bins.addBins(int(path), bins, b.bins[1][from:to], b.bins[2][from:to]); err != nil {
		return err
	}
	if b.coarse {
		for k, n := range b.bins[3][from:to] {
			if n < 0 {
				return errNegative
			}
			if n > 0 {
				a.g.coarse.add(int(path), uint32(bins[k]), uint64(n), 0)
			}
		}
	}
	return nil
}
