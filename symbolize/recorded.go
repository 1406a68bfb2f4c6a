package symbolize

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"sort"

	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/symbolize/debuginfo"
)

// Search configures the search for the objects of a recorded process.
type Search struct {
	Options
	// Sysroot is prepended to the recorded paths.
	Sysroot string
	// Dirs are searched first: for .build-id/xx/rest, for the recorded path, and for the base
	// name of the object.
	Dirs []string
	// IgnoreBuildID accepts files that differ from the recorded ones.
	IgnoreBuildID bool
}

// Recorded has the tables of the objects of a recorded process. Their ids are consecutive,
// object by object. It implements [Names] and is safe for concurrent use.
type Recorded struct {
	objects []reader.Object
	tables  []*Table // by object; nil without one
	// owners has the number of each function's object, or -1, by id minus 1. It is nil unless the
	// functions are known by address. Their ids are then the same in the tables.
	owners []int
}

// Missing describes an object without names, or with names that may be wrong.
type Missing struct {
	Number int // of the object, from 0
	Object reader.Object
	// Changed means that Path is a file of another build. If it is false, no file could be used.
	// Given means that the caller passed the file, so it is used anyway.
	Changed, Given bool
	Path           string
	Err            error
}

// LoadRecorded finds and reads the files of the objects of a process. If addresses is not
// empty, it lists the functions, and the files need no instrumentation map.
//
// given has files by object number. LoadRecorded uses them even if they are of another build,
// and returns an error if it cannot read one. It searches for the other objects with s. The
// result lists objects as missing, with the reason, if no file was found or if the file is of
// another build. The files stay open until [Recorded.Close].
func LoadRecorded(objects []reader.Object, addresses []uint64, given map[int]string, s Search) (*Recorded, []Missing, error) {
	r := &Recorded{objects: objects, tables: make([]*Table, len(objects))}
	functions := r.own(addresses)
	var missing []Missing
	for i := range objects {
		if r.owners == nil && objects[i].Count == 0 || r.owners != nil && len(functions[i]) == 0 {
			continue
		}
		read := func(path string) (*Table, error) {
			if r.owners != nil {
				return loadFunctions(path, s.Options, functions[i])
			}
			return Load(path, s.Options)
		}
		if path, ok := given[i]; ok {
			var err error
			if r.tables[i], err = read(path); err != nil {
				return nil, nil, errors.Join(err, r.Close())
			}
			if why := differs(r.tables[i], &objects[i]); why != nil && !s.IgnoreBuildID {
				missing = append(missing, Missing{Number: i, Object: objects[i], Changed: true, Given: true, Path: path, Err: why})
			}
			continue
		}
		if names := objects[i].Names; r.owners == nil && len(names) == int(objects[i].Count) {
			r.tables[i] = storedNames(&objects[i], s.Options)
			continue
		}
		table, m := s.load(&objects[i], read)
		r.tables[i] = table
		if m != nil {
			m.Number, m.Object = i, objects[i]
			missing = append(missing, *m)
		}
	}
	return r, missing, nil
}

// own assigns functions that are known by address to their objects. It sets no owners if there
// are no addresses.
func (r *Recorded) own(addresses []uint64) [][]Function {
	if len(addresses) == 0 {
		return nil
	}
	order := make([]int, len(r.objects)) // by address
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(r.objects[a].Text[0], r.objects[b].Text[0]) })
	functions := make([][]Function, len(r.objects))
	r.owners = make([]int, len(addresses))
	for i, a := range addresses {
		r.owners[i] = -1
		next := sort.Search(len(order), func(k int) bool { return uint64(r.objects[order[k]].Text[0]) > a })
		if next == 0 {
			continue
		}
		n := order[next-1]
		if o := &r.objects[n]; a < uint64(o.Text[1]) {
			r.owners[i] = n
			a -= uint64(o.Bias)
			functions[n] = append(functions[n], Function{ID: reader.FuncID(i + 1), Address: a, key: a})
		}
	}
	return functions
}

// load reads the first file that matches the object. If none does, it reports the first
// candidate.
func (s *Search) load(o *reader.Object, read func(path string) (*Table, error)) (*Table, *Missing) {
	var missing *Missing
	for _, path := range s.paths(o) {
		table, err := read(path)
		if err == nil {
			why := differs(table, o)
			if why == nil || s.IgnoreBuildID {
				return table, nil
			}
			err = errors.Join(why, table.Close())
			missing = &Missing{Changed: true, Path: path, Err: err}
			continue
		}
		if missing == nil || errors.Is(missing.Err, fs.ErrNotExist) {
			missing = &Missing{Path: path, Err: err}
		}
	}
	if s.Fetch != nil && o.BuildID != "" {
		path, err := s.Fetch(o.BuildID, debuginfo.Executable)
		switch {
		case err != nil:
			missing = &Missing{Path: o.Path, Err: errors.Join(missing.Err, err)}
		case path != "":
			table, err := read(path)
			if err == nil {
				if err = differs(table, o); err == nil {
					return table, nil
				}
				err = errors.Join(err, table.Close())
			}
			missing = &Missing{Path: path, Err: err}
		}
	}
	return nil, missing
}

// paths returns the candidates for an object.
func (s *Search) paths(o *reader.Object) []string {
	var paths []string
	for _, dir := range s.Dirs {
		if p := debuginfo.BuildIDPath(dir, o.BuildID); p != "" {
			paths = append(paths, p)
		}
		paths = append(paths, filepath.Join(dir, o.Path), filepath.Join(dir, filepath.Base(o.Path)))
	}
	return append(paths, filepath.Join(s.Sysroot, o.Path))
}

// differs explains how a file differs from the recorded one. It returns nil for the same file.
// Without build IDs, as in maps, it compares the number of functions and the bounds of the
// code.
func differs(t *Table, o *reader.Object) error {
	if own := t.object.BuildID; t.debug != nil && (own != "" || o.BuildID != "") {
		if own != o.BuildID {
			return fmt.Errorf("its build ID is %s instead of %s", cmp.Or(own, "none"), cmp.Or(o.BuildID, "none"))
		}
		return nil
	}
	if n := uint32(len(t.m.Functions)); len(t.m.Sleds) > 0 && n != o.Count {
		return fmt.Errorf("its number of functions is %d instead of %d", n, o.Count)
	}
	text := [2]uint64{uint64(o.Text[0] - o.Bias), uint64(o.Text[1] - o.Bias)}
	if o.Text[1] != 0 && !t.hasText(text[0], text[1]) {
		return fmt.Errorf("its code is not at 0x%x to 0x%x, where the recorded code was", text[0], text[1])
	}
	return nil
}

// maxSled is longer than any sled.
const maxSled = 64

// hasText reports whether the recorded bounds match the code of the table: from the first sled to
// the end of the last, or a segment if there is no map.
func (t *Table) hasText(first, end uint64) bool {
	if len(t.m.Sleds) == 0 {
		return t.debug == nil || t.debug.ELF().HasCode(first, end)
	}
	byAddress := func(a, b Sled) int { return cmp.Compare(a.Address, b.Address) }
	last := slices.MaxFunc(t.m.Sleds, byAddress).Address
	return slices.MinFunc(t.m.Sleds, byAddress).Address == first && last < end && end-last <= maxSled
}

// Disagrees finds a packed function that has another address in n, which means that n is of another
// build. It ignores functions without an address.
func Disagrees(n Names, packed []reader.NamedFunction) (reader.NamedFunction, bool) {
	names, ok := n.(finder)
	if !ok {
		return reader.NamedFunction{}, false
	}
	for _, f := range packed {
		t, own := names.find(f.ID)
		if t == nil || f.Address == 0 {
			continue
		}
		if there, ok := t.m.function(own); !ok || there.Address != uint64(f.Address) {
			return f, true
		}
	}
	return reader.NamedFunction{}, false
}

// LoadAddresses reads the names of link-time addresses in an ELF file. The addresses may be in
// any order and need not be starts of functions. The ids of the table count them from 1. The
// file needs no instrumentation map, and stays open until [Table.Close].
func LoadAddresses(path string, opts Options, addresses []uint64) (*Table, error) {
	functions := make([]Function, len(addresses))
	for i, a := range addresses {
		functions[i] = Function{ID: reader.FuncID(i + 1), Address: a, key: a}
	}
	return loadFunctions(path, opts, functions)
}

// loadFunctions reads the names of functions of an ELF file without using its instrumentation
// map.
func loadFunctions(path string, opts Options, functions []Function) (*Table, error) {
	t := &Table{object: Object{Path: path}, opts: opts, m: &Map{Functions: functions}}
	err := debuginfo.Guard(func() error {
		size, err := t.open(path)
		if err != nil {
			return err
		}
		e, err := debuginfo.NewELF(t.file, size)
		if err != nil {
			return err
		}
		return t.describe(e)
	})
	if err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", path, err), t.Close())
	}
	return t, nil
}

// Func implements [Names].
func (r *Recorded) Func(id reader.FuncID) (Symbol, bool) {
	t, id := r.find(id)
	return t.Func(id)
}

// Tables returns the tables by object number, nil for objects without one. The caller must not
// change the list.
func (r *Recorded) Tables() []*Table { return r.tables }

// Own returns the id of a function in the table of its object.
func (r *Recorded) Own(id reader.FuncID) reader.FuncID {
	_, own := r.find(id)
	return own
}

// find returns the table of a function, and its id there.
func (r *Recorded) find(id reader.FuncID) (*Table, reader.FuncID) {
	i, ok := r.object(id)
	switch {
	case !ok:
		return nil, id
	case r.owners != nil:
		return r.tables[i], id
	}
	return r.tables[i], id - r.objects[i].First + 1
}

// object returns the number of the object of a function.
func (r *Recorded) object(id reader.FuncID) (number int, ok bool) {
	if r.owners != nil {
		i := int(id) - 1
		if i < 0 || i >= len(r.owners) {
			return 0, false
		}
		return r.owners[i], r.owners[i] >= 0
	}
	i := sort.Search(len(r.objects), func(i int) bool { return r.objects[i].Count == 0 || r.objects[i].First > id }) - 1
	return i, i >= 0 && r.objects[i].Holds(id)
}

// Close closes the files.
func (r *Recorded) Close() error {
	var err error
	for _, t := range r.tables {
		if t != nil {
			err = errors.Join(err, t.Close())
		}
	}
	return err
}

// TableOf returns the table of a function; nil if there is none.
func TableOf(n Names, id reader.FuncID) *Table {
	if n, ok := n.(finder); ok {
		t, _ := n.find(id)
		return t
	}
	return nil
}
