package convert

import (
	"math"

	"github.com/google/pprof/profile"

	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/reader/calls"
	"github.com/xray-tools/xray/symbolize"
)

// pprofBuilder builds a profile. Locations, functions and mappings are numbered in order of first use by the
// samples.
type pprofBuilder struct {
	*profile.Profile
	opts      *Options
	clock     reader.Clock
	frames    map[symbolize.Call][]symbolize.Symbol // of calls whose source location is known
	within    map[symbolize.Call]*profile.Location  // of these calls
	locations map[reader.FuncID]*profile.Location   // of other calls, by caller
	functions map[pprofFunction]*profile.Function
	mappings  map[symbolize.Object]*profile.Mapping
	labels    map[reader.Thread]pprofLabels
}

// pprofFunction is an instrumented function, by its ID, or an inlined one, by its linkage
// name.
type pprofFunction struct {
	id      reader.FuncID
	inlined string
}

func newPprofBuilder(opts *Options) *pprofBuilder {
	return &pprofBuilder{
		Profile: &profile.Profile{}, opts: opts, clock: reader.Clock{Frequency: opts.Header.CycleFrequency},
		within: make(map[symbolize.Call]*profile.Location), locations: make(map[reader.FuncID]*profile.Location), functions: make(map[pprofFunction]*profile.Function),
		mappings: make(map[symbolize.Object]*profile.Mapping), labels: make(map[reader.Thread]pprofLabels),
	}
}

// findFrames finds the inlined functions that make the calls of the paths.
func (b *pprofBuilder) findFrames(paths *calls.Paths) {
	known := make(map[symbolize.Call]bool)
	var list []symbolize.Call
	for p := calls.PathID(1); int(p) < paths.Len(); p++ {
		caller := paths.Parent(p)
		c := symbolize.Call{Caller: paths.Func(caller), Callee: paths.Func(p)}
		// Function 0 stands for omitted frames.
		if caller != 0 && c.Caller != 0 && c.Callee != 0 && !known[c] {
			known[c] = true
			list = append(list, c)
		}
	}
	b.frames = make(map[symbolize.Call][]symbolize.Symbol)
	for i, frames := range symbolize.CallFrames(b.opts.Names, list) {
		if len(frames) > 0 {
			b.frames[list[i]] = frames
		}
	}
}

// add adds the tallies of paths, which are in depth-first order. All samples, all values and all stacks are allocated
// together: a heap that grows in small steps is collected many times.
func (b *pprofBuilder) add(paths *calls.Paths, tallies []pprofSample) {
	depth := make([]uint16, paths.Len())
	for id := calls.PathID(1); int(id) < paths.Len(); id++ {
		depth[id] = depth[paths.Parent(id)] + 1
	}
	frames, deepest, last := 0, uint16(0), calls.PathID(0)
	for i := range tallies {
		if path := tallies[i].path; path != last {
			frames += int(depth[path])
			deepest = max(deepest, depth[path])
			last = path
		}
	}
	stacks := make([]*profile.Location, 0, frames)
	values := make([]int64, 0, len(tallies)*len(b.SampleType))
	samples := make([]profile.Sample, len(tallies))
	b.Sample = make([]*profile.Sample, len(tallies))
	var stack []*profile.Location           // of the last path
	open := make([]calls.PathID, deepest+1) // the last path and its callers, by depth
	last = 0
	for i := range tallies {
		t, sample := &tallies[i], &samples[i]
		if t.path != last {
			last = t.path
			from, callee := len(stacks), reader.FuncID(0)
			for p, d := t.path, depth[t.path]; p != 0; p, d = paths.Parent(p), d-1 {
				at := symbolize.Call{Caller: paths.Func(p), Callee: callee}
				stacks = append(stacks, b.location(at))
				callee = at.Caller
				if open[d] == p {
					// Its callers are those of the last stack, because the order is depth-first.
					stacks = append(stacks, stack[len(stack)-int(d-1):]...)
					break
				}
				open[d] = p
			}
			stack = stacks[from:]
		}
		from := len(values)
		values = append(values, int64(min(t.calls, math.MaxInt64)), b.nanos(t.selfTSC))
		if b.opts.OffCPU != nil {
			off := t.off.Sum()
			values = append(values, b.nanos(t.selfTSC-min(off, t.selfTSC)), b.nanos(t.off.Blocked), b.nanos(t.off.Queued))
		}
		sample.Location, sample.Value = stack, values[from:]
		if b.opts.Threads {
			b.label(sample, t.thread)
		}
		b.Sample[i] = sample
	}
}

func (b *pprofBuilder) nanos(ticks uint64) int64 {
	return int64(min(b.clock.Nanos(ticks), math.MaxInt64))
}

// pprofLabels are the labels of a thread, which its samples share.
type pprofLabels struct {
	numbers map[string][]int64
	texts   map[string][]string
}

// label adds the thread of a sample. IDs are numeric labels, so that pprof filters them by value:
// -tagfocus=thread=17, or thread=17:20. pprof treats a bare number as a range, which string labels never match.
func (b *pprofBuilder) label(s *profile.Sample, t reader.Thread) {
	l, ok := b.labels[t]
	if !ok {
		l.numbers = map[string][]int64{"process": {int64(t.Process)}, "thread": {int64(t.Thread)}}
		l.texts = make(map[string][]string)
		for key, v := range map[string]string{"thread_name": nameOf(b.opts.ThreadName, t), "trace": b.opts.file(t)} {
			if v != "" {
				l.texts[key] = []string{validText(v)}
			}
		}
		b.labels[t] = l
	}
	s.NumLabel, s.Label = l.numbers, l.texts
}

// location returns a location: where the caller makes the call if that is known, and otherwise the caller.
func (b *pprofBuilder) location(c symbolize.Call) *profile.Location {
	var frames []symbolize.Symbol
	if b.frames != nil {
		frames = b.frames[c]
	}
	if len(frames) == 0 {
		if b.locations[c.Caller] == nil {
			b.locations[c.Caller] = b.locate(c, nil)
		}
		return b.locations[c.Caller]
	}
	if b.within[c] == nil {
		b.within[c] = b.locate(c, frames)
	}
	return b.within[c]
}

// locate adds a location, with the frames of the call if they are known.
func (b *pprofBuilder) locate(c symbolize.Call, frames []symbolize.Symbol) *profile.Location {
	own, mapping := b.symbol(c.Caller)
	if len(frames) == 0 {
		frames = []symbolize.Symbol{own}
	}
	l := &profile.Location{ID: uint64(len(b.Location) + 1), Mapping: mapping, Address: frames[0].Address}
	for i := range frames {
		f := &frames[i]
		line := profile.Line{Line: int64(f.Line), Column: int64(f.Column)}
		if i < len(frames)-1 {
			line.Function = b.function(pprofFunction{inlined: f.Linkage}, f, 0)
		} else {
			line.Function = b.function(pprofFunction{id: c.Caller}, &own, own.Line)
		}
		l.Line = append(l.Line, line)
	}
	if mapping != nil {
		mapping.HasFilenames = mapping.HasFilenames || own.File != ""
		mapping.HasLineNumbers = mapping.HasLineNumbers || own.Line != 0
		mapping.HasInlineFrames = mapping.HasInlineFrames || len(frames) > 1
	}
	b.Location = append(b.Location, l)
	return l
}

func (b *pprofBuilder) function(key pprofFunction, s *symbolize.Symbol, line int) *profile.Function {
	f := b.functions[key]
	if f == nil {
		f = &profile.Function{
			ID: uint64(len(b.Function) + 1), Name: validText(s.Name), SystemName: validText(s.Linkage),
			Filename: validText(s.File), StartLine: int64(line),
		}
		b.functions[key] = f
		b.Function = append(b.Function, f)
	}
	return f
}

// symbol returns the known properties of a function, and its object if that is known.
func (b *pprofBuilder) symbol(id reader.FuncID) (symbolize.Symbol, *profile.Mapping) {
	s := symbolize.Symbol{Name: "(frames omitted)"}
	if id == 0 {
		return s, nil
	}
	if b.opts.Names == nil {
		s.Name = b.opts.label(id)
		return s, nil
	}
	s, known := b.opts.Names.Func(id)
	s.Name = b.opts.label(id)
	if !known {
		return s, nil
	}
	return s, b.mapping(id)
}

// mapping returns the object of a function, or nil if it is unknown.
func (b *pprofBuilder) mapping(id reader.FuncID) *profile.Mapping {
	table := symbolize.TableOf(b.opts.Names, id)
	if table == nil {
		return nil
	}
	o := table.Object()
	m := b.mappings[o]
	if m == nil {
		m = &profile.Mapping{
			ID: uint64(len(b.Mapping) + 1), Start: o.Start, Limit: o.Limit, Offset: o.Offset,
			File: validText(o.Path), BuildID: validText(o.BuildID), HasFunctions: true,
		}
		b.mappings[o] = m
		b.Mapping = append(b.Mapping, m)
	}
	return m
}
