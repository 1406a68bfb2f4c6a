package reader

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// NamedFunction is the information about a function in a packed trace. Unknown fields are zero.
type NamedFunction struct {
	ID      FuncID  `json:"id"`             // as in the records of the trace
	Name    string  `json:"name,omitempty"` // linkage name
	File    string  `json:"file,omitempty"` // of the source
	Line    int32   `json:"line,omitempty"` // 1-based
	Column  int32   `json:"column,omitempty"`
	Address Address `json:"address"`            // as linked
	Object  string  `json:"object,omitempty"`   // path of the program or shared object
	BuildID string  `json:"build_id,omitempty"` // of the object; lowercase hex
	// Others lists the linkage names of other functions at the address.
	Others []string `json:"others,omitempty"`
	// Continues lists functions that this one may tail-call.
	Continues []FuncID `json:"continues,omitempty"`
}

// SourceText is a passage of a source file, as it was when the trace was packed.
type SourceText struct {
	File  string `json:"file"`
	First int32  `json:"first"` // number of the first line, from 1
	Text  string `json:"text"`  // whole lines
	// MD5 is the MD5 of the whole file, in hex, if the debug information has the same MD5, or "".
	MD5 string `json:"md5,omitempty"`
}

// last is the number of the last line of the passage.
func (s *SourceText) last() int { return int(s.First) + strings.Count(s.Text, "\n") }

// MaxSourceLines is the highest line number of a [SourceText].
const MaxSourceLines = 1 << 20

// MaxContinues is the largest number of a [NamedFunction]'s Continues.
const MaxContinues = 256

// Limits of what a trace can make its reader allocate. Lines count from the first line of a
// file, because Source returns as many.
const (
	maxNamedFunctions = 1 << 20
	maxAllLines       = 16 << 20
)

// addFunctions adds functions to those read before.
func (r *Recording) addFunctions(functions []NamedFunction) error {
	if len(r.Functions)+len(functions) > maxNamedFunctions {
		return fmt.Errorf("more than %d functions with names", maxNamedFunctions)
	}
	var err error
	for _, f := range functions {
		if f.ID < 1 || f.ID > maxRecordedFunc || f.Line < 0 || f.Column < 0 || len(f.Continues) > MaxContinues {
			err = fmt.Errorf("function %d at %d:%d with %d tail calls: ID, line, column or tail calls are out of range",
				f.ID, f.Line, f.Column, len(f.Continues))
			continue
		}
		r.Functions = append(r.Functions, f)
	}
	return err
}

// addSources adds passages of source code to those read before.
func (r *Recording) addSources(sources []SourceText) error {
	var err error
	for _, s := range sources {
		if s.First < 1 || s.last() > MaxSourceLines {
			err = fmt.Errorf("source of %s from line %d on: lines must be from 1 to %d", s.File, s.First, MaxSourceLines)
			continue
		}
		r.Sources = append(r.Sources, s)
	}
	return err
}

// settle sorts the functions and sources of several events. Of duplicates, the last one counts.
// Source files beyond the limit, and functions after too many objects, are removed with an error.
func (r *Recording) settle() error {
	r.Functions = lastOfEach(r.Functions, func(a, b NamedFunction) int { return cmp.Compare(a.ID, b.ID) })
	r.Sources = lastOfEach(r.Sources, func(a, b SourceText) int {
		return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.First, b.First))
	})
	lines, kept := 0, 0
	for i := range r.Sources {
		if i+1 == len(r.Sources) || r.Sources[i+1].File != r.Sources[i].File {
			if lines += r.Sources[i].last(); lines > maxAllLines {
				break
			}
			kept = i + 1
		}
	}
	left := r.Sources[kept:]
	r.Sources = r.Sources[:kept]
	// The same paths repeat for every function.
	paths := make(map[string]string)
	one := func(s *string) {
		if _, ok := paths[*s]; !ok {
			paths[*s] = *s
		}
		*s = paths[*s]
	}
	objects := make(map[[2]string]bool)
	functions := len(r.Functions)
	r.Functions = slices.DeleteFunc(r.Functions, func(f NamedFunction) bool {
		objects[[2]string{f.Object, f.BuildID}] = true
		return len(objects) > maxLargeItems
	})
	for i := range r.Functions {
		f := &r.Functions[i]
		one(&f.File)
		one(&f.Object)
		one(&f.BuildID)
	}
	if n := functions - len(r.Functions); n > 0 {
		return fmt.Errorf("%d functions belong to more than %d objects", n, maxLargeItems)
	}
	if len(left) > 0 {
		return fmt.Errorf("source of %s and others: more than %d lines in total", left[0].File, maxAllLines)
	}
	return nil
}

func lastOfEach[T any](list []T, compare func(a, b T) int) []T {
	slices.SortStableFunc(list, compare)
	kept := list[:0]
	for i := range list {
		if i+1 < len(list) && compare(list[i], list[i+1]) == 0 {
			continue
		}
		kept = append(kept, list[i])
	}
	return kept
}

// Foreign reports whether another recorder wrote the trace. Then r has only what `xray pack`
// added, or a profile.
func (r *Recording) Foreign() bool {
	return r.Process.PID == 0 && r.Process.Exe == "" && (len(r.Functions) > 0 || len(r.Profiles) > 0 && len(r.Objects) == 0)
}

// IsEnd reports whether a trace has only the last calls of the recording, like traces of rings.
// Its sums of pruned calls still cover the whole recording.
func (r *Recording) IsEnd() bool {
	return slices.ContainsFunc(r.Threads, func(t ThreadInfo) bool { return t.Overwritten > 0 })
}

// Whole reports whether the trace has all records since the recording began: exits without an entry are of
// calls that were open then.
func (r *Recording) Whole() bool {
	if r.Foreign() || len(r.Losses) > 0 || !r.Process.Complete {
		return false
	}
	return !slices.ContainsFunc(r.Threads, func(t ThreadInfo) bool { return t.Dropped+t.Overwritten > 0 })
}

// Functions returns the functions of the trace by ID, from the files that were packed. It is an
// error if an ID means different functions in different files. Files that were not packed count as
// files of the same program, unless their recorder says which binaries their IDs belong to.
func (t *Trace) Functions() ([]NamedFunction, error) {
	var all []NamedFunction
	from := make(map[FuncID]string) // files, by the functions that they named first
	named := make(map[FuncID]NamedFunction)
	packed := 0
	for _, f := range t.files {
		if f.recording == nil || len(f.recording.Functions) == 0 {
			continue
		}
		packed++
		all = append(all, f.recording.Functions...)
		if len(t.files) == 1 {
			continue
		}
		for _, fn := range f.recording.Functions {
			if known, ok := named[fn.ID]; !ok {
				named[fn.ID], from[fn.ID] = fn, f.name
			} else if known.Name != fn.Name || known.BuildID != fn.BuildID || known.Address != fn.Address {
				return nil, fmt.Errorf("%s and %s use the same IDs for different functions (%w): analyze them separately",
					from[fn.ID], f.name, errors.New("they were packed with different names"))
			}
		}
	}
	if packed > 0 && packed < len(t.files) {
		if err := t.checkUnpacked(); err != nil {
			return nil, err
		}
	}
	if packed > 1 {
		all = lastOfEach(all, func(a, b NamedFunction) int { return cmp.Compare(a.ID, b.ID) })
	}
	return all, nil
}

// checkUnpacked returns an error if a recorder says that the IDs of its file differ from those of
// a packed file.
func (t *Trace) checkUnpacked() error {
	if _, _, err := t.Objects(); err != nil {
		return err
	}
	for _, packed := range t.files {
		if packed.recording == nil || !packed.recording.Foreign() {
			continue
		}
		for _, f := range t.files {
			if f.recording == nil || len(f.recording.Functions) > 0 {
				continue
			}
			for _, fn := range packed.recording.Functions {
				if !f.recording.has(fn) {
					return fmt.Errorf("%s was packed with names of binaries other than those of %s: analyze them separately",
						packed.name, f.name)
				}
			}
		}
	}
	return nil
}

// has reports whether a packed function, by its ID, belongs to the recorded objects.
func (r *Recording) has(fn NamedFunction) bool {
	return slices.ContainsFunc(r.Objects, func(o Object) bool {
		return o.Holds(fn.ID) && o.BuildID != "" && o.BuildID == fn.BuildID
	})
}

// Source returns the packed lines of a source file: each line at its position, and empty
// lines where nothing was packed. The text is nil if nothing of the file was packed. It
// returns false if the trace has no source code at all.
func (t *Trace) Source(path string) (text []byte, packed bool) {
	for _, f := range t.files {
		if f.recording == nil || text != nil {
			continue
		}
		packed = packed || len(f.recording.Sources) > 0
		line := 1 // number of the next line
		for _, s := range f.recording.Sources {
			if s.File != path || int(s.First) < line {
				continue
			}
			for ; line < int(s.First); line++ {
				text = append(text, '\n')
			}
			text = append(text, s.Text...)
			text = append(text, '\n')
			line = s.last() + 1
		}
	}
	return text, packed
}
