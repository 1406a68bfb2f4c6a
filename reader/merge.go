package reader

import (
	"cmp"
	"strconv"
)

// shift moves the IDs of an object's functions.
type shift struct {
	first FuncID
	count uint32
	by    FuncID
}

// shifts are the shifts of a file. IDs of no object stay.
type shifts []shift

func (s shifts) id(id FuncID) FuncID { return id + s.of(id).by }

// of returns the shift of an ID.
func (s shifts) of(id FuncID) shift {
	for _, o := range s {
		if uint32(id-o.first) < o.count {
			return o
		}
	}
	return shift{first: id, count: 1}
}

// events moves the IDs of events.
func (s shifts) events(events []Event) {
	last := s[0]
	for i := range events {
		id := events[i].Func
		if uint32(id-last.first) >= last.count {
			last = s.of(id)
		}
		events[i].Func = id + last.by
	}
}

// merge gives functions IDs that are unique in the trace if its files are recordings of several
// programs. Objects with the same build ID are the same, whatever their paths. If it cannot,
// [Trace.Objects] says why.
func (t *Trace) merge() {
	if _, _, err := t.Objects(); err == nil {
		return
	}
	moved := make(map[string]FuncID) // the first ID of an object
	next := FuncID(1)
	files := make([]shifts, len(t.files))
	for n, f := range t.files {
		if f.recording == nil || f.recording.Foreign() || len(f.recording.Addresses) > 0 {
			return
		}
		for _, o := range f.recording.Objects {
			if o.Count == 0 {
				continue
			}
			key := o.BuildID
			if key == "" {
				key = "/" + o.Path
			}
			key += " " + strconv.Itoa(int(o.Count))
			first, known := moved[key]
			if !known {
				if uint64(next)+uint64(o.Count) > maxRecordedFunc+1 {
					return
				}
				first = next
				moved[key] = first
				next += FuncID(o.Count)
			}
			files[n] = append(files[n], shift{o.First, o.Count, first - o.First})
		}
	}
	for n, f := range t.files {
		f.own = f.recording
		f.recording, f.shifts = f.recording.shifted(files[n]), files[n]
	}
}

// Program returns the build ID, or else the path, of the program of a file, or "" if it is unknown.
func (t *Trace) Program(file int) string {
	r := t.files[file].recording
	if r == nil {
		return ""
	}
	return cmp.Or(r.Process.BuildID, r.Process.Exe)
}

// Separate undoes that functions have unique IDs in a trace of several programs: they have those of
// their file. It must not be called during a pass.
func (t *Trace) Separate() {
	for _, f := range t.files {
		if f.own != nil {
			f.recording, f.own, f.shifts = f.own, nil, nil
		}
	}
}

// shifted returns a copy with other IDs.
func (r *Recording) shifted(s shifts) *Recording {
	if len(s) == 0 {
		return r
	}
	out := *r
	out.Objects = changed(r.Objects, func(o *Object) {
		if o.Count > 0 {
			o.First = s.id(o.First)
		}
	})
	counter := func(c *Counter) { c.Func = s.id(c.Func) }
	out.Counters = changed(r.Counters, counter)
	out.Profiles = changed(r.Profiles, func(p *Profile) {
		p.Paths = changed(p.Paths, func(p *ProfilePath) { p.Func = s.id(p.Func) })
		p.Folds = changed(p.Folds, func(f *ProfileFold) { f.Func, f.Caller = s.id(f.Func), s.id(f.Caller) })
	})
	out.Pruned.Functions = changed(r.Pruned.Functions, func(f *PrunedFunction) { f.Func = s.id(f.Func) })
	out.Budget.Functions = changed(r.Budget.Functions, func(f *BudgetFunction) { f.Func = s.id(f.Func) })
	out.Budget.Totals = changed(r.Budget.Totals, counter)
	out.Budget.Changes = changed(r.Budget.Changes, func(c *BudgetChange) { c.Func = s.id(c.Func) })
	out.Functions = changed(r.Functions, func(f *NamedFunction) {
		f.ID = s.id(f.ID)
		f.Continues = changed(f.Continues, func(id *FuncID) { *id = s.id(*id) })
	})
	return &out
}

// changed returns a copy of a list with changed elements.
func changed[T any](list []T, change func(*T)) []T {
	if list == nil {
		return nil
	}
	out := append([]T(nil), list...)
	for i := range out {
		change(&out[i])
	}
	return out
}
