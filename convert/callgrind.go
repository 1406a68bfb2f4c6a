package convert

import (
	"cmp"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/reader/calls"
	"github.com/xray-tools/xray/symbolize"
)

// Callgrind makes a profile in Valgrind's callgrind format, for KCachegrind and
// callgrind_annotate: the self time of every function, and how often and for how long it
// called others. The time of a call excludes inner calls of its caller. So the self time of a
// function and the times of its callees add up to its total time in account, also in recursion.
//
// It is a [calls.Analysis] for calls.Options with Opens, and without a MinDuration. Use
// Options.Shortest instead. Memory grows with functions, with pairs of caller and callee,
// and with the depth of stacks. The output does not depend on the number of shards.
type Callgrind struct {
	opts    Options
	self    map[reader.FuncID]*uint64 // ticks
	edges   map[callEdge]*callTotal
	threads perThread[*callgrindStack]
}

// Memory implements [calls.MemoryUser]. The constants were measured. They include map entries, sorted
// lists, and the table of abbreviated names.
func (p *Callgrind) Memory() int64 {
	const perFunction, perEdge = 320, 120
	return perFunction*int64(len(p.self)) + perEdge*int64(len(p.edges)) + perThreadBytes*int64(len(p.threads))
}

// callgrindStack has the open calls of a thread.
type callgrindStack struct {
	open   []callgrindCall
	latest map[reader.FuncID]int // position of the innermost call of each function, from 1; 0 for none
}

type callgrindCall struct {
	fn    reader.FuncID
	depth uint32
	outer int // position of the enclosing call of the same function, from 1; 0 for none
}

type callEdge struct{ caller, callee reader.FuncID }

type callTotal struct{ calls, ticks uint64 }

// NewCallgrind returns an empty profile.
func NewCallgrind(opts Options) *Callgrind {
	return &Callgrind{opts: opts, self: map[reader.FuncID]*uint64{}, edges: map[callEdge]*callTotal{}}
}

// Calls implements [calls.Sink].
func (p *Callgrind) Calls(b *calls.Batch) error {
	at := p.threads.at(b.Index)
	if *at == nil {
		*at = &callgrindStack{latest: map[reader.FuncID]int{}}
	}
	s := *at
	b.Replay(
		s.enter,
		func(c *calls.Call, _ []calls.Arg) {
			around := s.leave()
			if c.Duration < p.opts.Shortest {
				return
			}
			p.add(c.Func, c.Caller, c.Self, callTotal{1, c.Duration})
			if around != nil {
				p.edge(*around).ticks -= c.Duration // may wrap around until the end of that call adds more
			}
		},
		func(*calls.Event) {})
	return nil
}

func (s *callgrindStack) enter(o *calls.Open) {
	s.open = append(s.open, callgrindCall{o.Func, o.Depth, s.latest[o.Func]})
	s.latest[o.Func] = len(s.open)
}

// leave ends the innermost call. If it is inside a call of the same function, leave returns the
// edge by which that outer call leads to it, or nil if a filter dropped the edge's callee.
func (s *callgrindStack) leave() *callEdge {
	n := len(s.open) - 1
	c := s.open[n]
	var around *callEdge
	if c.outer > 0 {
		caller, callee := &s.open[c.outer-1], &s.open[c.outer]
		if callee.depth == caller.depth+1 {
			around = &callEdge{caller.fn, callee.fn}
		}
	}
	s.open = s.open[:n]
	if c.outer > 0 {
		s.latest[c.fn] = c.outer
	} else {
		delete(s.latest, c.fn)
	}
	return around
}

// Sums implements [calls.SumSink]. In a recursion of several functions, it is unknown which call
// contains a folded call. Sums subtracts its time from the edge that leads to it, which is correct
// for functions that call themselves.
func (p *Callgrind) Sums(s *calls.Sums) error {
	for sum := range s.Functions() {
		if n := sum.Count + sum.Open; n > 0 {
			p.add(sum.Func, sum.Caller, sum.Self+sum.OpenSelf, callTotal{n, sum.Total + sum.OpenTotal})
		}
	}
	for i := range s.Paths {
		if path := &s.Paths[i]; path.Nested+path.OpenNested > 0 && path.Func != reader.Folded {
			p.nested(s.Paths, i)
		}
	}
	for i := range s.Folds {
		if fold := &s.Folds[i]; fold.Nested+fold.OpenNested > 0 {
			p.edge(callEdge{fold.Caller, fold.Func}).ticks -= fold.Nested + fold.OpenNested
		}
	}
	return nil
}

// nested subtracts the time of path i, which is inside a call of the same function, from the edge by
// which that outer call leads to it.
func (p *Callgrind) nested(paths []calls.Sum, i int) {
	child := i
	for a := paths[i].Parent; a >= 0; child, a = a, paths[a].Parent {
		if paths[a].Func == paths[i].Func {
			if c := &paths[child]; c.Count+c.Open > 0 { // the filter did not drop it
				p.edge(callEdge{paths[a].Func, c.Func}).ticks -= paths[i].Total + paths[i].OpenTotal
			}
			return
		}
	}
}

func (p *Callgrind) add(fn, caller reader.FuncID, self uint64, t callTotal) {
	own := p.self[fn]
	if own == nil {
		own = new(uint64)
		p.self[fn] = own
	}
	*own += self
	if caller == 0 {
		return
	}
	edge := p.edge(callEdge{caller, fn})
	edge.calls += t.calls
	edge.ticks += t.ticks
}

// edge returns the totals for a pair of functions.
func (p *Callgrind) edge(e callEdge) *callTotal {
	edge := p.edges[e]
	if edge == nil {
		edge = new(callTotal)
		p.edges[e] = edge
	}
	return edge
}

// Merge implements [calls.Analysis].
func (p *Callgrind) Merge(other *Callgrind) {
	for fn, ticks := range other.self {
		p.add(fn, 0, *ticks, callTotal{})
	}
	for e, t := range other.edges {
		edge := p.edges[e]
		if edge == nil {
			p.edges[e] = t
			continue
		}
		edge.calls += t.calls
		edge.ticks += t.ticks
	}
}

// Write writes the profile. The Callgrind is not changed.
func (p *Callgrind) Write(w io.Writer) error {
	out := &callgrindWriter{out: newOutput(w), opts: &p.opts, names: map[string]int{}}
	axis := p.opts.timeline()
	unit := axis.clock.Unit()
	out.line("# callgrind format")
	out.line("version: 1")
	out.line("creator: xray")
	out.line("positions: line")
	out.line("event: " + unit + " : time in " + map[bool]string{true: "nanoseconds", false: "ticks of the trace's clock"}[axis.clock.Known()])
	out.line("events: " + unit)
	if p.opts.Caveats != nil {
		for _, text := range p.opts.Caveats() {
			out.line("desc: Missing: " + oneLine(text))
		}
	}

	var total uint64
	functions := make([]reader.FuncID, 0, len(p.self))
	for fn, ticks := range p.self {
		functions = append(functions, fn)
		total += *ticks
	}
	slices.Sort(functions)
	edges := make([]callEdge, 0, len(p.edges))
	for e := range p.edges {
		edges = append(edges, e)
	}
	slices.SortFunc(edges, func(a, b callEdge) int {
		return cmp.Or(cmp.Compare(a.caller, b.caller), cmp.Compare(a.callee, b.callee))
	})
	for _, fn := range functions {
		at := out.place("", fn)
		out.cost(at, axis.clock.Nanos(*p.self[fn]))
		for len(edges) > 0 && edges[0].caller <= fn {
			e := edges[0]
			if edges = edges[1:]; e.caller != fn {
				continue // a caller that a filter dropped
			}
			t := p.edges[e]
			if t.calls == 0 {
				continue // a call that a filter dropped
			}
			to := out.place("c", e.callee)
			out.line("calls=" + strconv.FormatUint(t.calls, 10) + " " + strconv.Itoa(to))
			out.cost(at, axis.clock.Nanos(t.ticks))
		}
	}
	out.line("totals: " + strconv.FormatUint(axis.clock.Nanos(total), 10))
	return out.out.finish("")
}

type callgrindWriter struct {
	out   output
	opts  *Options
	names map[string]int // numbers of names, by kind=name
}

func (w *callgrindWriter) line(text string) {
	w.out.buf = w.out.spill(append(append(w.out.buf, text...), '\n'))
}

func (w *callgrindWriter) cost(line int, v uint64) {
	buf := strconv.AppendInt(w.out.buf, int64(line), 10)
	buf = strconv.AppendUint(append(buf, ' '), v, 10)
	w.out.buf = w.out.spill(append(buf, '\n'))
}

// place writes the function that the next lines describe, with prefix c for a called function, and
// returns its line number.
func (w *callgrindWriter) place(prefix string, fn reader.FuncID) (line int) {
	var s symbolize.Symbol
	if w.opts.Names != nil {
		s, _ = w.opts.Names.Func(fn)
	}
	object := ""
	if table := symbolize.TableOf(w.opts.Names, fn); table != nil {
		object = table.Object().Path
	}
	w.name(prefix+"ob", "ob", cmp.Or(object, "???"))
	file := "fl"
	if prefix != "" {
		file = "cfi"
	}
	w.name(file, "fl", cmp.Or(s.File, "???"))
	w.name(prefix+"fn", "fn", w.opts.label(fn))
	return max(s.Line, 0)
}

// oneLine replaces line breaks in a text.
func oneLine(text string) string {
	return strings.NewReplacer("\n", " ", "\r", " ").Replace(validText(text))
}

// name writes a name with a number, or only the number if it has written the name before.
func (w *callgrindWriter) name(key, kind, name string) {
	name = oneLine(name)
	n, known := w.names[kind+"="+name]
	if !known {
		n = len(w.names) + 1
		w.names[kind+"="+name] = n
	}
	text := key + "=(" + strconv.Itoa(n) + ")"
	if !known {
		text += " " + name
	}
	w.line(text)
}
