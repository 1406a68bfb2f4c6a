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

// Search says where the objects of a recorded process are looked for.
type Search struct {
	Options
	// Sysroot is put in front of the paths that were recorded.
	Sysroot string
	// Dirs are looked into first: for .build-id/xx/rest, for the recorded path, and
	// for a file of the object's name.
	Dirs []string
	// IgnoreBuildID takes files that are not what was recorded.
	IgnoreBuildID bool
}

// Recorded are the tables of the objects of a recorded process, whose ids are
// those of one object after the other. It implements [Names] and may be used
// concurrently.
type Recorded struct {
	objects []reader.Object
	tables  []*Table // of objects; nil where there is none
	// owners are the objects of functions without a map, by id less 1; -1 for
	// none. Their ids are the same in the tables.
	owners []int
}

// Missing is an object whose functions have no names, or perhaps wrong ones.
type Missing struct {
	Number int // of the object, from 0
	Object reader.Object
	// Changed tells that Path is a file of another build; otherwise there is no
	// file that could be used. Given tells that the file was named for the object, and
	// is used nevertheless.
	Changed, Given bool
	Path           string
	Err            error
}

// LoadRecorded finds and reads the files of the objects of a process. Where
// addresses are given, these are the functions, and no instrumentation map is
// needed. Files that are given, by the number of the object, are taken for it,
// whatever they are; it is an error if they cannot be. Objects that are not found,
// or were built anew since they were recorded, are missing, each with the reason, as
// are those whose given files are of another build.
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
		table, m := s.load(&objects[i], read)
		r.tables[i] = table
		if m != nil {
			m.Number, m.Object = i, objects[i]
			missing = append(missing, *m)
		}
	}
	return r, missing, nil
}

// own shares functions that are known by their addresses out to the objects that
// they are in. Without such functions there are no owners.
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

// load reads the first file that is the object. Of those that are not, the first
// that might be tells what is wrong.
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

// paths are the places where an object is looked for.
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

// differs says how a file is not what was recorded; nil when it is. What has no build
// id, as maps, is told by the number of its functions, and by where its code begins
// and ends.
func differs(t *Table, o *reader.Object) error {
	if own := t.object.BuildID; t.debug != nil && (own != "" || o.BuildID != "") {
		if own != o.BuildID {
			return fmt.Errorf("its build ID %s is not the recorded %s", orNone(own), orNone(o.BuildID))
		}
		return nil
	}
	if n := uint32(len(t.m.Functions)); len(t.m.Sleds) > 0 && n != o.Count {
		return fmt.Errorf("it has %d functions, the recorded file had %d", n, o.Count)
	}
	text := [2]uint64{uint64(o.Text[0] - o.Bias), uint64(o.Text[1] - o.Bias)}
	if o.Text[1] != 0 && !t.hasText(text[0], text[1]) {
		return fmt.Errorf("its code is not at 0x%x to 0x%x, where the recorded code was", text[0], text[1])
	}
	return nil
}

// maxSled is more than the length of any sled.
const maxSled = 64

// hasText reports whether the code that the recorder described is that of the table:
// from the first sled to the end of the last one, or without a map a segment.
func (t *Table) hasText(first, end uint64) bool {
	if len(t.m.Sleds) == 0 {
		return t.debug == nil || t.debug.ELF().HasCode(first, end)
	}
	byAddress := func(a, b Sled) int { return cmp.Compare(a.Address, b.Address) }
	last := slices.MaxFunc(t.m.Sleds, byAddress).Address
	return slices.MinFunc(t.m.Sleds, byAddress).Address == first && last < end && end-last <= maxSled
}

// Disagrees finds a function that was packed with another address than it has in n, and
// so is of another build. Functions without an address tell nothing.
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
		if there, ok := t.m.Function(own); !ok || there.Address != uint64(f.Address) {
			return f, true
		}
	}
	return reader.NamedFunction{}, false
}

func orNone(id string) string {
	if id == "" {
		return "none"
	}
	return id
}

// LoadAddresses reads what an ELF file says about addresses of its link, in whatever
// order, which need not be starts of functions. The ids of the table count them from
// 1. No instrumentation map is needed. The file stays open until [Table.Close].
func LoadAddresses(path string, opts Options, addresses []uint64) (*Table, error) {
	functions := make([]Function, len(addresses))
	for i, a := range addresses {
		functions[i] = Function{ID: reader.FuncID(i + 1), Address: a, key: a}
	}
	return loadFunctions(path, opts, functions)
}

// loadFunctions reads the names of some functions of an ELF file, which needs no
// instrumentation map.
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

// Tables are those of the objects, by their numbers; nil where there is none. The
// list must not be changed.
func (r *Recorded) Tables() []*Table { return r.tables }

// Own is the id of a function in the table of its object.
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

// object is the number of the object that a function is of.
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

// TableOf returns the table that n looks a function up in; nil when there is none.
func TableOf(n Names, id reader.FuncID) *Table {
	if n, ok := n.(finder); ok {
		t, _ := n.find(id)
		return t
	}
	return nil
}
