package why

import (
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

// Descriptors finds which files and sockets the I/O functions of the C library used in the calls of causes, and how
// many of these calls failed.
type Descriptors struct {
	causes []*Cause
	role   func(reader.FuncID) iocalls.Role
}

// NewDescriptors selects the causes of a report that I/O of the C library may explain. It returns nil if there are
// none.
func NewDescriptors(found *Report, t *reader.Trace, names symbolize.Names) *Descriptors {
	library := LibraryCalls(t)
	d := &Descriptors{role: func(fn reader.FuncID) iocalls.Role {
		if fn == 0 || !library(fn) {
			return iocalls.None
		}
		return iocalls.RoleOf(symbolize.Label(names, fn))
	}}
	for i := range found.Causes {
		c := &found.Causes[i]
		// More calls and new paths include their callees.
		if c.Kind == MoreCalls || c.Kind == NewPath || d.role(c.Func) != iocalls.None || d.role(c.Most) != iocalls.None {
			d.causes = append(d.causes, c)
		}
	}
	if len(d.causes) == 0 || len(libraryObjects(t)) == 0 {
		return nil
	}
	return d
}

// DescriptorCalls is an analysis of I/O for each of the causes. It needs [calls.Options.Paths], with the roots of
// the report.
type DescriptorCalls []*iocalls.Analysis

// Calls returns an analysis without calls. The names are settled.
func (d *Descriptors) Calls(names *iocalls.Names) (list DescriptorCalls) {
	for _, c := range d.causes {
		list = append(list, iocalls.New(iocalls.Options{Names: names, Within: c.Dominated, Role: d.role}))
	}
	return list
}

// Calls implements [calls.Sink].
func (l DescriptorCalls) Calls(b *calls.Batch) error {
	for _, a := range l {
		if err := a.Calls(b); err != nil {
			return err
		}
	}
	return nil
}

// Merge implements [calls.Analysis].
func (l DescriptorCalls) Merge(o DescriptorCalls) {
	for i, a := range l {
		a.Merge(o[i])
	}
}

// Add adds what was found to the causes of the report.
func (d *Descriptors) Add(all DescriptorCalls, clock reader.Clock) {
	for i, a := range all {
		c := d.causes[i]
		for _, p := range a.Report(clock).Paths {
			if slices.Contains([]reader.FuncID{c.Func, c.Most}, p.Func) || slices.Contains(p.Path, c.Func) {
				c.addDescriptor(Descriptor{Func: p.Func, Name: p.File, Calls: p.Calls, Failed: p.Failed})
			}
		}
	}
}
