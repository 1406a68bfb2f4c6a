package stack

import (
	"slices"

	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/reader/calls"
)

// Divide says how paths are divided by values of arguments or results.
type Divide struct {
	// By reports whether calls of a function may have a value. It must always give the same answer.
	By func(reader.FuncID) bool
	// Group returns the group of a call of such a function, or 0: its frame reader.ValueFrame + group comes
	// before that of the function. Scratch is what the call before returned.
	Group func(b *calls.Batch, i int, scratch []calls.Recorded) (int, []calls.Recorded)
	// Keep reports whether a call counts. It replaces calls.Options.Filter, since values are those of all calls.
	// It need not be safe for concurrent use.
	Keep func(*calls.Call) bool
	// MaxPaths limits the paths. Those beyond are folded. 0 is no limit.
	MaxPaths int
}

// divider knows the paths of an analysis with frames of values. A value may be known only when its call has
// ended, so calls inside wait for that. Calls inside the same call of a function with values are summed up by their
// paths from there.
type divider struct {
	Divide
	from    *calls.Paths  // of batches
	paths   []dividedPath // by calls.PathID of from
	joined  map[[2]calls.PathID]calls.PathID
	scratch []calls.Recorded
	frames  []reader.FuncID
	waiting int64 // sums that wait, of all threads
}

// dividedPath is what is known of a path of the batches.
type dividedPath struct {
	known bool
	has   bool // its last function may have values
	inner int  // number of functions before it that may
	// after is the path after the innermost of these, without the last function, in Analysis.paths.
	after calls.PathID
}

// waiting are sums of calls inside an open call.
type waiting struct {
	ended total
	open  amounts
	off   calls.Off
}

func (a *Analysis) divided(b *calls.Batch) {
	d := a.divider
	th := a.thread(b)
	waits, depth := b.Waits, th.depth
	for i := range b.Calls {
		c := &b.Calls[i]
		p := d.path(a.paths, c.Path)
		var w waiting
		for ; len(waits) > 0 && waits[0].Call <= i; waits = waits[1:] {
			w.off.Add(waits[0].Self)
		}
		group := 0
		if p.has {
			group, d.scratch = d.Group(b, i, d.scratch)
		}
		at := p.after
		if group > 0 {
			at = a.paths.Child(at, reader.ValueFrame+reader.FuncID(group))
		}
		at = a.paths.Child(at, b.Paths.Func(c.Path))
		if p.has && p.inner < len(th.inside) {
			for path, inside := range th.inside[p.inner] {
				a.put(th, p.inner, d.join(a.paths, at, path), inside)
			}
			d.waiting -= int64(len(th.inside[p.inner]))
			clear(th.inside[p.inner])
		}
		if d.Keep(c) {
			leaf := depth <= c.Depth
			depth = c.Depth
			own := amounts{1, c.Duration, c.Self}
			switch {
			case c.Partial():
				w.open = own
				if c.Earlier {
					a.earlier++
				}
			case leaf:
				w.ended = total{own, 1, c.Duration}
			default:
				w.ended = total{amounts: own}
			}
			a.put(th, p.inner, at, &w)
		}
		if d.MaxPaths > 0 && a.paths.Len() > d.MaxPaths {
			a.paths.Freeze()
		}
	}
	th.depth = depth
	a.measure(th.sums)
}

// put adds sums to a path: those of the report, or of calls that wait for an open call.
func (a *Analysis) put(th *thread, inner int, path calls.PathID, w *waiting) {
	if inner == 0 {
		th.sums.at(path).add(&w.ended)
		if w.open.count > 0 {
			th.sums.addOpen(path, w.open)
		}
		th.sums.addOff(path, w.off)
		return
	}
	for len(th.inside) < inner {
		th.inside = append(th.inside, make(map[calls.PathID]*waiting))
	}
	to := th.inside[inner-1][path]
	if to == nil {
		to = new(waiting)
		th.inside[inner-1][path] = to
		a.divider.waiting++
	}
	to.ended.add(&w.ended)
	to.open.add(w.open)
	to.off.Add(w.off)
}

func (t *total) add(o *total) {
	t.amounts.add(o.amounts)
	t.leaves += o.leaves
	t.leafTicks = addSaturating(t.leafTicks, o.leafTicks)
}

// path returns what is known of a path of the batches.
func (d *divider) path(to *calls.Paths, id calls.PathID) *dividedPath {
	if n := d.from.Len(); n > len(d.paths) {
		d.paths = append(d.paths, make([]dividedPath, n-len(d.paths))...)
	}
	d.paths[0].known = true
	first := id // the outermost path that is not known
	var unknown []calls.PathID
	for ; !d.paths[first].known; first = d.from.Parent(first) {
		unknown = append(unknown, first)
	}
	for _, next := range slices.Backward(unknown) {
		p, parent := &d.paths[next], d.from.Parent(next)
		of := &d.paths[parent]
		p.known, p.inner, p.has = true, of.inner, d.By(d.from.Func(next))
		switch {
		case of.has:
			p.inner++
		case parent != 0:
			p.after = to.Child(of.after, d.from.Func(parent))
		}
	}
	return &d.paths[id]
}

// join returns the path that continues one with the functions of another.
func (d *divider) join(paths *calls.Paths, first, rest calls.PathID) calls.PathID {
	key := [2]calls.PathID{first, rest}
	if id, ok := d.joined[key]; ok {
		return id
	}
	id := first
	d.frames = paths.Frames(d.frames[:0], rest)
	for _, fn := range d.frames {
		id = paths.Child(id, fn)
	}
	d.joined[key] = id
	return id
}
