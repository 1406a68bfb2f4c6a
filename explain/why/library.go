package why

import (
	"cmp"
	"maps"
	"slices"

	"github.com/xray-tools/xray/explain/iocalls"
	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/reader/calls"
	"github.com/xray-tools/xray/symbolize"
)

// ofLibrary reports whether an object has functions of the C library, recorded with --libcalls.
func ofLibrary(o reader.Object) bool { return len(o.Names) > 0 }

// libraryObjects returns the objects with functions of the C library, of all of the trace's files.
func libraryObjects(t *reader.Trace) (list []reader.Object) {
	for _, r := range t.Recordings() {
		for _, o := range r.Objects {
			if ofLibrary(o) {
				list = append(list, o)
			}
		}
	}
	return list
}

// LibraryCalls returns whether a function is one of the C library, for [View.Library].
func LibraryCalls(t *reader.Trace) func(reader.FuncID) bool {
	objects := libraryObjects(t)
	return func(fn reader.FuncID) bool {
		return slices.ContainsFunc(objects, func(o reader.Object) bool { return o.Holds(fn) })
	}
}

// LibcallsHint says how to learn more about blocked time, if time was lost blocked and the recording has no calls
// of the C library. Otherwise it returns "".
func (r *Report) LibcallsHint(t *reader.Trace) string {
	if !slices.ContainsFunc(r.Causes, func(c Cause) bool { return c.Kind == Blocked && !c.Awaits() }) {
		return ""
	}
	for i := range t.Files() {
		r := t.Recording(i)
		if r == nil || r.Foreign() || slices.ContainsFunc(r.Objects, ofLibrary) {
			return ""
		}
	}
	return "The trace has no calls of the C library. Record with --libcalls to see which lock, file or other thread the blocked calls waited for."
}

// Descriptors is an analysis that finds which files and sockets the I/O functions of the C library used in the calls of
// causes, and how many of these calls failed. It needs [calls.Options.Paths], with the roots of the report.
type Descriptors struct {
	io     *usesIO
	names  *iocalls.Names
	trace  *reader.Trace
	uses   []map[usedIn]*used      // by index in io.causes
	inside []map[calls.PathID]bool // whether calls of a path count
}

// usesIO are the causes of a report that I/O of the C library may explain.
type usesIO struct {
	causes []*Cause
	role   func(reader.FuncID) iocalls.Role
}

// usedIn is the use of a descriptor by a function in a slow call, at the time when the slow call began.
type usedIn struct {
	fn  reader.FuncID
	use iocalls.Used
}

// used adds up the calls of a use.
type used struct {
	first, last   iocalls.Used
	calls, failed uint64
	ticks         uint64
	errors        iocalls.Errors
}

// NewDescriptors returns a function that makes an empty analysis, or nil if no cause of the report includes I/O of the C
// library: then no pass over the trace is needed.
func NewDescriptors(found *Report, t *reader.Trace, names symbolize.Names) func() *Descriptors {
	library := LibraryCalls(t)
	io := &usesIO{role: func(fn reader.FuncID) iocalls.Role {
		if fn == 0 || !library(fn) {
			return iocalls.None
		}
		return iocalls.RoleOf(symbolize.Label(names, fn))
	}}
	for i := range found.Causes {
		c := &found.Causes[i]
		if slices.ContainsFunc(c.inside, func(fn reader.FuncID) bool { return io.role(fn) != iocalls.None }) {
			io.causes = append(io.causes, c)
		}
	}
	if len(io.causes) == 0 {
		return nil
	}
	return func() *Descriptors {
		d := &Descriptors{io: io, names: iocalls.NewNames(), trace: t}
		for range io.causes {
			d.uses, d.inside = append(d.uses, make(map[usedIn]*used)), append(d.inside, make(map[calls.PathID]bool))
		}
		return d
	}
}

// Memory implements [calls.MemoryUser].
func (d *Descriptors) Memory() int64 {
	const perUse = 250
	bytes := d.names.Memory()
	for _, m := range d.uses {
		bytes += perUse * int64(len(m))
	}
	return bytes
}

// Calls implements [calls.Sink].
func (d *Descriptors) Calls(b *calls.Batch) error {
	results := b.Results
	for i := range b.Calls {
		c := &b.Calls[i]
		result, known := int64(0), false
		for ; len(results) > 0 && results[0].Call <= i; results = results[1:] {
			result, known = int64(results[0].Value), results[0].Call == i
		}
		if role := d.io.role(c.Func); c.Path != 0 && role != iocalls.None && role != iocalls.Wait {
			d.add(b, i, role, result, known)
		}
	}
	return d.names.Calls(b)
}

// add adds call i of a batch to the causes that it is part of.
func (d *Descriptors) add(b *calls.Batch, i int, role iocalls.Role, result int64, known bool) {
	c := &b.Calls[i]
	use, ok := iocalls.UsedBy(b, i, role, result, known)
	if !ok {
		return
	}
	for k, cause := range d.io.causes {
		start, dominated := cause.dominatedSince(b.Thread, c.Start)
		if !dominated || !d.counts(k, cause, b.Paths, c.Path) {
			continue
		}
		in := usedIn{c.Func, use.At(start)}
		u := d.uses[k][in]
		if u == nil {
			u = &used{first: use}
			d.uses[k][in] = u
		}
		u.last = use
		u.ticks += c.Duration
		if !c.Partial() {
			u.calls++
		}
		if known && result < 0 {
			u.failed++
			u.errors.Add(result)
		}
	}
}

// counts reports whether calls of a path are those of a cause: of its function, of the one with most of its time, or
// inside its function.
func (d *Descriptors) counts(k int, cause *Cause, paths *calls.Paths, path calls.PathID) bool {
	counts, known := d.inside[k][path]
	if !known {
		counts = paths.Func(path) == cause.Most
		for p := path; p != 0 && !counts; p = paths.Parent(p) {
			counts = paths.Func(p) == cause.Func
		}
		d.inside[k][path] = counts
	}
	return counts
}

// Merge implements [calls.Analysis].
func (d *Descriptors) Merge(o *Descriptors) {
	d.names.Merge(o.names)
	for k, uses := range o.uses {
		maps.Copy(d.uses[k], uses) // a thread is in one of them
	}
}

// several is the name of a descriptor that was opened again in a slow call.
const several = "(several)"

// Add adds what was found to the causes of the report: for each cause, what took most of the time first.
func (d *Descriptors) Add() {
	d.names.Settle(d.trace.Recording)
	type key struct {
		fn   reader.FuncID
		name string
	}
	for k, cause := range d.io.causes {
		all := make(map[key]*used)
		byFunc := make(map[reader.FuncID]uint64)
		for in, u := range d.uses[k] {
			name := d.names.Of(u.first)
			if d.names.Of(u.last) != name {
				name = several
			}
			sum := all[key{in.fn, name}]
			if sum == nil {
				sum = new(used)
				all[key{in.fn, name}] = sum
			}
			sum.calls, sum.failed, sum.ticks = sum.calls+u.calls, sum.failed+u.failed, sum.ticks+u.ticks
			sum.errors.Merge(u.errors)
			byFunc[in.fn] += u.ticks
		}
		for at, sum := range all {
			cause.Descriptors = append(cause.Descriptors, Descriptor{
				Func: at.fn, Name: at.name, Calls: sum.calls, Failed: sum.failed, errors: sum.errors, ticks: sum.ticks,
			})
		}
		slices.SortFunc(cause.Descriptors, func(a, b Descriptor) int {
			return cmp.Or(cmp.Compare(byFunc[b.Func], byFunc[a.Func]), cmp.Compare(a.Func, b.Func), cmp.Compare(b.ticks, a.ticks), cmp.Compare(a.Name, b.Name))
		})
	}
}
