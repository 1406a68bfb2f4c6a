// Package survey describes a trace and reports what is unusual about it.
//
// One pass over the trace counts its records and rebuilds its calls ([Run]).
// [Report.Findings] then returns warnings to read before any other report, each with a
// remedy.
package survey

import (
	"cmp"
	"encoding/binary"
	"maps"
	"math"
	"slices"
	"sync"

	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/reader/calls"
)

// Report describes the contents of a trace.
type Report struct {
	Stats calls.Stats
	// Kinds counts records with a time, by reader.Kind.
	Kinds [reader.Typed + 1]uint64
	// Exited and TailExited are the calls with an exit record of their own. TailExited
	// includes those that their tail calls continued.
	Exited, TailExited uint64
	// Shortest is the shortest duration of those, in ticks, or math.MaxUint64.
	Shortest uint64
	Threads  []Thread        // ordered by file, process and thread
	Funcs    []reader.FuncID // all that were entered or left, in ascending order
	MaxCPU   uint16
	// Marks, Requests, Landings and Switches count notes among the custom events. Requests counts
	// those that begin.
	Marks, Requests, Landings, Switches uint64
	// Named are changes of thread names in time order, the first of NamedCount.
	Named      []Named
	NamedCount uint64

	YAML map[int32]bool // files that are trace YAML, as far as their records show
}

// Named is a change of a thread's name.
type Named struct {
	reader.Thread
	TSC  uint64
	Name string
}

// maxNamed limits the changes of names in a report.
const maxNamed = 64

// Thread describes one thread of a trace, or a fiber, whose records and entries are also those of its thread.
type Thread struct {
	reader.Thread
	Events    uint64
	Entries   uint64
	Exits     uint64
	Unmatched uint64 // exits without an entry
	Open      uint64 // calls that are open at the end
	yaml      bool
	// First and Last are the smallest and largest timestamps, if Events is not 0.
	First, Last uint64
}

// Run surveys a trace in one pass, with the default number of goroutines of calls.Run. opts
// says how calls are matched.
func Run(t *reader.Trace, opts calls.Options) (*Report, error) {
	s := &surveyor{trace: t, unmatched: make(map[reader.Thread]uint64)}
	opts.Unmatched = s.sawUnmatched
	sum, stats, err := calls.Run(s, opts, s.newShard)
	if err != nil {
		return nil, err
	}
	return s.report(sum, stats), nil
}

// surveyor sits between the trace and calls.Run, to see the records too.
type surveyor struct {
	trace  *reader.Trace
	shards []*shard

	mu        sync.Mutex
	unmatched map[reader.Thread]uint64
}

// shard has the results of one goroutine.
type shard struct {
	kinds    [reader.Typed + 1]uint64
	ends     [calls.Ends]uint64
	shortest uint64
	maxCPU   uint16
	marks    uint64
	requests uint64
	landings uint64
	switches uint64
	named    []Named
	namedAll uint64
	threads  []*Thread // by Block.Index
	dense    []uint64  // bits of the function IDs below denseFuncs
	sparse   map[reader.FuncID]bool
}

// denseFuncs limits the IDs that have a bit. Shared objects have larger ones.
const denseFuncs = 1 << 20

func (s *surveyor) newShard() *shard {
	sh := &shard{shortest: math.MaxUint64, dense: make([]uint64, denseFuncs/64), sparse: make(map[reader.FuncID]bool)}
	s.shards = append(s.shards, sh)
	return sh
}

// Below returns the trace. See [calls.Source].
func (s *surveyor) Below() calls.Source { return s.trace }

// Each implements calls.Source.
func (s *surveyor) Each(n int, fn func(int, *reader.Block) error) error {
	return s.trace.Each(n, s.watch(fn))
}

// EachPacked is Each with packed records, which package calls prefers.
func (s *surveyor) EachPacked(n int, fn func(int, *reader.Block) error) error {
	return s.trace.EachPacked(n, s.watch(fn))
}

func (s *surveyor) watch(fn func(int, *reader.Block) error) func(int, *reader.Block) error {
	return func(i int, b *reader.Block) error {
		s.shards[i].block(b)
		return fn(i, b)
	}
}

func (s *surveyor) sawUnmatched(u *calls.Unmatched) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.unmatched[u.Thread]++
	return nil
}

func (sh *shard) thread(index int, t reader.Thread) *Thread {
	if index >= len(sh.threads) {
		sh.threads = append(sh.threads, make([]*Thread, index+1-len(sh.threads))...)
	}
	if sh.threads[index] == nil {
		sh.threads[index] = &Thread{Thread: t, First: math.MaxUint64}
	}
	return sh.threads[index]
}

func (sh *shard) block(b *reader.Block) {
	if b.Ended { // it has no records
		return
	}
	t := sh.thread(b.Index, b.Thread)
	t.yaml = b.Offset < 0
	sh.countMarks(b)
	for i := range b.Events {
		if _, edge := b.Edge(i); !edge { // an edge is no record
			sh.record(t, &b.Events[i])
		}
	}
	if p := &b.Packed; p.Basic {
		for p := *p; p.Len() > 0; {
			e := p.First()
			p.DropFirst(e.TSC)
			sh.record(t, &e)
		}
	} else if p.Len() > 0 {
		sh.fdr(t, p)
	}
}

// fdr is record for many records, of which there are some.
func (sh *shard) fdr(t *Thread, p *reader.Packed) {
	t.Events += uint64(p.Len())
	sh.maxCPU = max(sh.maxCPU, p.CPU)
	t.First, t.Last = min(t.First, p.First().TSC), max(t.Last, p.Last)
	var kinds [8]uint64
	for i := 0; i <= len(p.Records)-8; i += 8 {
		w := binary.LittleEndian.Uint32(p.Records[i:])
		kinds[w>>1&7]++
		if id := w >> 4; id >= denseFuncs {
			sh.sparse[reader.FuncID(id)] = true
		} else if word := &sh.dense[id/64]; *word>>(id%64)&1 == 0 {
			*word |= 1 << (id % 64)
		}
	}
	for kind, n := range kinds[:reader.TailExit+1] {
		sh.kinds[kind] += n
		if reader.Kind(kind).IsEnter() {
			t.Entries += n
		} else {
			t.Exits += n
		}
	}
}

func (sh *shard) record(t *Thread, e *reader.Event) {
	t.Events++
	sh.kinds[e.Kind]++
	sh.maxCPU = max(sh.maxCPU, e.CPU)
	t.First, t.Last = min(t.First, e.TSC), max(t.Last, e.TSC)
	switch {
	case e.Kind.IsEnter():
		t.Entries++
	case e.Kind.IsExit():
		t.Exits++
	default:
		return // the function of an event belongs to another record
	}
	if id := uint32(e.Func); id < denseFuncs {
		sh.dense[id/64] |= 1 << (id % 64)
	} else {
		sh.sparse[e.Func] = true
	}
}

func (sh *shard) countMarks(b *reader.Block) {
	for i := range b.Payloads {
		p := &b.Payloads[i]
		if b.Events[p.Event].Kind != reader.Custom {
			continue
		}
		switch m, ok := reader.ParseMark(p.Data); {
		case ok && m.Named:
			thread := b.Thread
			thread.Thread = int32(m.ID)
			sh.addNamed(1, Named{thread, b.Events[p.Event].TSC, m.Text})
		case ok && !m.Request:
			sh.marks++
		case ok && m.ID != 0:
			sh.requests++
		}
		if _, ok := reader.ParseLanding(p.Data); ok {
			sh.landings++
		}
		if _, ok := reader.ParseSwitch(p.Data); ok {
			sh.switches++
		}
	}
}

// addNamed adds changes of names. The earliest are kept.
func (sh *shard) addNamed(n uint64, named ...Named) {
	sh.namedAll += n
	sh.named = append(sh.named, named...)
	if len(sh.named) > 2*maxNamed {
		sh.cutNamed()
	}
}

func (sh *shard) cutNamed() {
	slices.SortFunc(sh.named, func(a, b Named) int {
		return cmp.Or(cmp.Compare(a.TSC, b.TSC), cmp.Compare(a.File, b.File), cmp.Compare(a.Process, b.Process),
			cmp.Compare(a.Thread.Thread, b.Thread.Thread), cmp.Compare(a.Name, b.Name))
	})
	sh.named = sh.named[:min(len(sh.named), maxNamed)]
}

// Calls implements calls.Sink.
func (sh *shard) Calls(b *calls.Batch) error {
	t := sh.thread(b.Index, b.Thread)
	for i := range b.Calls {
		c := &b.Calls[i]
		sh.ends[c.End]++
		if b.Thread.Fiber() > 0 { // its records are those of the thread
			t.Entries++
			t.First, t.Last = min(t.First, c.Start), max(t.Last, c.Start+c.Duration)
		}
		switch c.End {
		case calls.Truncated:
			t.Open++
		case calls.Exited, calls.TailExited, calls.Continued:
			if !c.Earlier {
				sh.shortest = min(sh.shortest, c.Duration)
			}
		}
	}
	return nil
}

// Merge implements calls.Analysis.
func (sh *shard) Merge(o *shard) {
	for i, n := range o.kinds {
		sh.kinds[i] += n
	}
	for i, n := range o.ends {
		sh.ends[i] += n
	}
	sh.shortest = min(sh.shortest, o.shortest)
	sh.maxCPU = max(sh.maxCPU, o.maxCPU)
	sh.marks += o.marks
	sh.requests += o.requests
	sh.landings += o.landings
	sh.switches += o.switches
	sh.addNamed(o.namedAll, o.named...)
	sh.threads = append(sh.threads, o.threads...)
	for i, bits := range o.dense {
		sh.dense[i] |= bits
	}
	maps.Copy(sh.sparse, o.sparse)
}

func (s *surveyor) report(sh *shard, stats *calls.Stats) *Report {
	r := &Report{
		Stats: *stats, Kinds: sh.kinds,
		Exited: sh.ends[calls.Exited], TailExited: sh.ends[calls.TailExited] + sh.ends[calls.Continued],
		Shortest: sh.shortest, MaxCPU: sh.maxCPU, Marks: sh.marks, Requests: sh.requests, Landings: sh.landings, Switches: sh.switches, YAML: make(map[int32]bool),
	}
	sh.cutNamed()
	r.Named, r.NamedCount = sh.named, sh.namedAll
	r.Threads = make([]Thread, 0, stats.Threads)
	for i, t := range sh.threads {
		if t != nil {
			sh.threads[i] = nil // frees it: there may be a million of them
			t.Unmatched = s.unmatched[t.Thread]
			r.Threads = append(r.Threads, *t)
			r.YAML[t.File] = t.yaml
		}
	}
	slices.SortFunc(r.Threads, func(a, b Thread) int {
		return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Process, b.Process),
			cmp.Compare(a.Thread.Thread, b.Thread.Thread))
	})
	for i, bits := range sh.dense {
		for bit := range 64 {
			if bits>>bit&1 != 0 {
				r.Funcs = append(r.Funcs, reader.FuncID(i*64+bit))
			}
		}
	}
	r.Funcs = append(r.Funcs, slices.Collect(maps.Keys(sh.sparse))...)
	slices.Sort(r.Funcs)
	return r
}
