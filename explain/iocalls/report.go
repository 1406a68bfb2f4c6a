package iocalls

import (
	"cmp"
	"slices"

	"github.com/xray-tools/xray/reader"
)

// Sums adds up some calls. Times are in ticks.
type Sums struct {
	Calls  uint64 // calls that ended
	Open   uint64 // calls that did not end; their times are part of Ticks and Longest
	Failed uint64
	// Errors says with which errors the calls failed, most frequent first. Traces of older versions do not have it.
	Errors []Failure
	// Read and Written are bytes.
	Read, Written uint64
	Ticks         uint64
	P50, P99      uint64 // of the calls that ended
	Longest       uint64
	Approximate   bool // P50 and P99 are approximate
	// Blocked and Queued are the parts of Ticks in which threads were blocked and in the run
	// queue, if Report.OffCPU is set.
	Blocked, Queued uint64
}

func (s *sums) report() Sums {
	var q [2]uint64
	s.times.Quantiles(q[:], 0.5, 0.99)
	return Sums{
		Calls: s.count, Open: s.open, Failed: s.failed, Errors: s.errors.List(), Read: s.read, Written: s.written, Ticks: s.ticks,
		P50: q[0], P99: q[1], Longest: s.longest, Approximate: s.times.Approximate(),
		Blocked: s.off.Blocked, Queued: s.off.Queued,
	}
}

// File has the calls for a file or socket.
type File struct {
	Sums
	Name string
}

// Path has the calls of a C library function from one call path.
type Path struct {
	Sums
	Func reader.FuncID
	Path []reader.FuncID // without the function, the outermost first
	File string          // "(several)" if there are several; "" if the function waits for several
}

// Report describes the program's use of files and sockets. Each list is ordered by time,
// longest first.
type Report struct {
	Clock reader.Clock
	// OffCPU says that the trace has off-CPU times.
	OffCPU bool
	Files  []File
	Paths  []Path // of calls for one descriptor
	Waits  []Path // of calls that wait for events or connections
	Total  Sums   // of Files, without percentiles
	Wait   Sums   // of Waits, without percentiles
}

// Report returns the results. The analysis must not be used afterwards.
func (a *Analysis) Report(clock reader.Clock) *Report {
	r := &Report{Clock: clock, OffCPU: a.opts.OffCPU}
	for _, f := range a.files {
		r.Files = append(r.Files, File{f.report(), f.name})
	}
	slices.SortFunc(r.Files, func(a, b File) int { return cmp.Or(cmp.Compare(b.Ticks, a.Ticks), cmp.Compare(a.Name, b.Name)) })
	for _, p := range a.all() {
		out := Path{p.report(), p.fn, p.frames, p.file}
		if p.role == Wait {
			r.Waits = append(r.Waits, out)
			r.Wait.plus(&out.Sums)
		} else {
			r.Paths = append(r.Paths, out)
			r.Total.plus(&out.Sums)
		}
	}
	byTime := func(a, b Path) int {
		return cmp.Or(cmp.Compare(b.Ticks, a.Ticks), slices.Compare(a.Path, b.Path), cmp.Compare(a.Func, b.Func))
	}
	slices.SortFunc(r.Paths, byTime)
	slices.SortFunc(r.Waits, byTime)
	return r
}

func (s *Sums) plus(o *Sums) {
	s.Calls, s.Open, s.Failed = s.Calls+o.Calls, s.Open+o.Open, s.Failed+o.Failed
	s.Read, s.Written, s.Ticks = s.Read+o.Read, s.Written+o.Written, s.Ticks+o.Ticks
	s.Longest = max(s.Longest, o.Longest)
	s.Blocked, s.Queued = s.Blocked+o.Blocked, s.Queued+o.Queued
}
