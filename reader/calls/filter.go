package calls

import "github.com/xray-tools/xray/reader"

// Filter selects calls. The zero value selects all. The time of a call that is not selected
// still counts for its callers: their durations and self times do not change.
type Filter struct {
	// From and To select a time, in ticks: From <= time < To. If To is 0, there is no upper limit.
	// Calls that are open at From begin there, as Earlier. Calls that are open at To end there, as
	// Truncated. Off-CPU times that cross an end are divided.
	From, To uint64
	// StartFrom and StartTo select whole calls by their starts, and custom events by their time:
	// StartFrom <= start < StartTo. If StartTo is 0, there is no upper limit.
	StartFrom, StartTo uint64
	// Thread, if not nil, selects threads. It is called once for each thread, concurrently
	// for different shards.
	Thread func(reader.Thread) bool
	// Func, if not nil, selects functions. It is called once for each function and shard,
	// concurrently.
	Func func(reader.FuncID) bool
	// MinDuration drops shorter calls, in ticks.
	MinDuration uint64
	// MaxDepth drops calls that are deeper: with 1, only outermost calls are kept. 0 means
	// no limit.
	MaxDepth uint32
}

// And returns a filter that selects the calls that both f and g select.
func (f Filter) And(g Filter) Filter {
	f.From = max(f.From, g.From)
	f.To = leastLimit(f.To, g.To)
	f.StartFrom = max(f.StartFrom, g.StartFrom)
	f.StartTo = leastLimit(f.StartTo, g.StartTo)
	f.MinDuration = max(f.MinDuration, g.MinDuration)
	f.MaxDepth = leastLimit(f.MaxDepth, g.MaxDepth)
	f.Thread, f.Func = both(f.Thread, g.Thread), both(f.Func, g.Func)
	return f
}

// leastLimit returns the smaller of two limits. 0 means no limit.
func leastLimit[T uint32 | uint64](a, b T) T {
	if a == 0 || b != 0 && b < a {
		return b
	}
	return a
}

func both[T any](a, b func(T) bool) func(T) bool {
	if a == nil || b == nil {
		if a == nil {
			return b
		}
		return a
	}
	return func(v T) bool { return a(v) && b(v) }
}

// active reports whether the filter examines single calls.
func (f *Filter) active() bool {
	return f.From > 0 || f.To > 0 || f.StartFrom > 0 || f.StartTo > 0 || f.Func != nil || f.MinDuration > 0 || f.MaxDepth > 0
}

// All reports whether f selects everything.
func (f *Filter) All() bool { return !f.active() && f.Thread == nil }

// Keeper returns a function that reports whether f keeps a call, except by thread. It is
// for sinks that need to see all calls, and must not be called concurrently.
func (f Filter) Keeper() func(*Call) bool { return newFilter(&f).keep }

// anytime returns the filter without its time, which shards apply themselves.
func (f Filter) anytime() Filter {
	f.From, f.To = 0, 0
	return f
}

// filter applies a Filter to the batches of one shard.
type filter struct {
	*Filter
	funcs map[reader.FuncID]bool
}

func newFilter(f *Filter) *filter {
	return &filter{Filter: f, funcs: make(map[reader.FuncID]bool)}
}

func (f *filter) keep(c *Call) bool {
	return c.Duration >= f.MinDuration && f.keepEntry(c.Start, c.Func, c.Depth)
}

// before reports whether a time is before the end of what is selected.
func (f *filter) before(tsc uint64) bool {
	return (f.To == 0 || tsc < f.To) && (f.StartTo == 0 || tsc < f.StartTo)
}

func (f *filter) keepEntry(start uint64, fn reader.FuncID, depth uint32) bool {
	if start < max(f.From, f.StartFrom) || !f.before(start) || f.MaxDepth > 0 && depth >= f.MaxDepth {
		return false
	}
	if f.Func == nil {
		return true
	}
	keep, ok := f.funcs[fn]
	if !ok {
		keep = f.Func(fn)
		f.funcs[fn] = keep
	}
	return keep
}

// apply removes from b what the filter drops, in place.
func (f *filter) apply(b *Batch) {
	args, results, values, opens, waits := b.Args, b.Results, b.Values, b.Opens, b.Waits
	b.Args, b.Results, b.Values, b.Opens, b.Waits = b.Args[:0], b.Results[:0], b.Values[:0], b.Opens[:0], b.Waits[:0]
	n, later := 0, b.Events
	// openUpTo keeps the entries before the end of call i.
	openUpTo := func(i int) {
		for ; len(later) > 0 && later[0].Call <= i; later = later[1:] {
			later[0].Call = n
		}
		for len(opens) > 0 && opens[0].Call <= i {
			o := opens[0]
			if o.Call = n; f.keepEntry(o.Start, o.Func, o.Depth) {
				b.Opens = append(b.Opens, o)
			}
			opens = opens[1:]
		}
	}
	for i := range b.Calls {
		openUpTo(i)
		keep := f.keep(&b.Calls[i])
		for len(args) > 0 && args[0].Call == i {
			if keep {
				b.Args = append(b.Args, Arg{n, args[0].Value})
			}
			args = args[1:]
		}
		for len(results) > 0 && results[0].Call == i {
			if keep {
				b.Results = append(b.Results, Arg{n, results[0].Value})
			}
			results = results[1:]
		}
		for len(values) > 0 && values[0].Call == i {
			if keep {
				b.Values = append(b.Values, Value{n, values[0].Value})
			}
			values = values[1:]
		}
		if len(waits) > 0 && waits[0].Call == i {
			if keep {
				w := waits[0]
				w.Call = n
				b.Waits = append(b.Waits, w)
			}
			waits = waits[1:]
		}
		if keep {
			b.Calls[n] = b.Calls[i]
			n++
		}
	}
	openUpTo(len(b.Calls))
	b.Calls = b.Calls[:n]
	n = 0
	for _, e := range b.Events {
		if e.TSC >= f.StartFrom && f.before(e.TSC) && (f.MaxDepth == 0 || e.Depth <= f.MaxDepth) {
			b.Events[n] = e
			n++
		}
	}
	b.Events = b.Events[:n]
	n = 0
	for _, g := range b.Gaps {
		if g.To >= f.StartFrom && f.before(g.To) && (f.MaxDepth == 0 || g.Depth <= f.MaxDepth) {
			b.Gaps[n] = g
			n++
		}
	}
	b.Gaps = b.Gaps[:n]
}
