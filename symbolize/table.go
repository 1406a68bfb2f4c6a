package symbolize

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"sync/atomic"

	"github.com/xray-tools/xray/internal/fileio"
	"github.com/xray-tools/xray/internal/parallel"
	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/symbolize/debuginfo"
)

// Options configures the names of a [Table] and the search for debug information.
type Options struct {
	// Style is the form of Symbol.Name.
	Style Style
	debuginfo.Options
}

// Style is a form of names.
type Style string

const (
	Full    Style = "full"    // as in the source, with parameters; also ""
	Short   Style = "short"   // without parameters, template arguments and result
	Mangled Style = "mangled" // the linkage name
)

// Object describes the file of a table as profile formats do.
type Object struct {
	Path    string
	BuildID string // lower-case hex; "" if the file has none
	// Start and Limit are the link-time bounds of the first executable segment, and Offset is
	// its offset in the file. All are 0 for object files and YAML maps.
	Start, Limit, Offset uint64
}

// Table has the names of the functions of one instrumentation map. It implements [Names] and
// is safe for concurrent use. A nil Table knows no function.
type Table struct {
	m      *Map
	object Object
	opts   Options

	// The slices below are in the order of m.Functions.
	linkage []string                 // linkage names; "" without a symbol
	linked  bool                     // linkage has linkage names; those of a YAML map may be demangled
	names   []atomic.Pointer[string] // demangled on first use
	stored  []debuginfo.Location     // from the trace; nil otherwise
	folded  map[int][]string         // from the trace: other linkage names of an address

	file  *os.File          // nil for YAML maps
	debug *debuginfo.Binary // nil if there is no ELF file
}

// Load reads the instrumentation map and the names of an ELF file, or a YAML map. The file stays
// open until [Table.Close].
func Load(path string, opts Options) (*Table, error) {
	t := &Table{object: Object{Path: path}, opts: opts}
	if err := t.load(path); err != nil {
		t.Close()
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return t, nil
}

// LoadMap reads only the instrumentation map of a file, without names. It closes the file.
func LoadMap(path string) (*Map, error) {
	f, size, err := openMap(path)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	defer f.Close()
	m, _, err := parseMap(f, size)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return m, nil
}

func (t *Table) load(path string) error {
	size, err := t.open(path)
	if err != nil {
		return err
	}
	if err := t.read(t.file, size); err != nil || t.debug != nil {
		return err
	}
	return t.Close() // all of a YAML map is in memory
}

func (t *Table) open(path string) (size int64, err error) {
	t.file, size, err = openMap(path)
	return size, err
}

// read reads the map and the names of the table.
func (t *Table) read(r io.ReaderAt, size int64) (err error) {
	var e *debuginfo.ELF
	if t.m, e, err = parseMap(r, size); err != nil {
		return err
	}
	if e != nil {
		return t.describe(e)
	}
	t.linkage = make([]string, len(t.m.Functions))
	t.names = make([]atomic.Pointer[string], len(t.m.Functions))
	// The names of a YAML map may be mangled or demangled.
	for i, fn := range t.m.Functions {
		t.linkage[i] = fn.Name
	}
	return nil
}

// describe finds the names of the functions in an ELF file or its debug file.
func (t *Table) describe(e *debuginfo.ELF) (err error) {
	functions := make([]uint64, len(t.m.Functions))
	for i := range functions {
		functions[i] = t.m.Functions[i].key
	}
	if t.debug, err = debuginfo.NewBinary(e, t.object.Path, functions, t.opts.Options); err != nil {
		return err
	}
	t.object.BuildID = t.debug.BuildID()
	t.object.Start, t.object.Limit, t.object.Offset = e.Code()
	t.linkage, t.linked = t.debug.Linkage(), true
	t.names = make([]atomic.Pointer[string], len(t.linkage))
	return nil
}

// Close closes the file. After Close, only locations that were read before are known.
func (t *Table) Close() error {
	if t.file == nil {
		return nil
	}
	var err error
	if t.debug != nil {
		err = t.debug.Close()
	}
	err = errors.Join(err, t.file.Close())
	t.file = nil
	return err
}

// openMap opens a file. Its errors do not name it.
func openMap(path string) (*os.File, int64, error) {
	f, size, err := fileio.OpenRegular(path)
	if errors.Is(err, fileio.ErrNotRegular) {
		return nil, 0, fmt.Errorf("%w: pass a binary or a map", fileio.ErrNotRegular)
	}
	if err != nil {
		return nil, 0, errors.Unwrap(err)
	}
	return f, size, nil
}

// parseMap detects the type of a file and reads its map. e is nil for YAML.
func parseMap(r io.ReaderAt, size int64) (m *Map, e *debuginfo.ELF, err error) {
	err = debuginfo.Guard(func() error {
		head := make([]byte, 512)
		n, err := r.ReadAt(head, 0)
		if err != nil && err != io.EOF {
			return err
		}
		head = head[:n]
		if debuginfo.IsELF(head) {
			if e, err = debuginfo.NewELF(r, size); err != nil {
				return err
			}
			m, err = readMap(e)
			return err
		}
		if n == 0 {
			return errors.New("the file is empty")
		}
		if err := notELF(head); err != nil {
			return err
		}
		if size > maxYAMLMap {
			return fmt.Errorf("a YAML map of %d bytes is larger than the limit of %d", size, maxYAMLMap)
		}
		data := make([]byte, size)
		if _, err := r.ReadAt(data, 0); err != nil && err != io.EOF {
			return err
		}
		m, err = parseYAMLMap(data)
		return err
	})
	return m, e, err
}

// maxYAMLMap limits the bytes of a YAML map, which is read as a whole.
const maxYAMLMap = 512 << 20

// Map returns the instrumentation map of the file. The caller must not change it.
func (t *Table) Map() *Map { return t.m }

// Object describes the file.
func (t *Table) Object() Object { return t.object }

// Binary returns the ELF file of the table with its debug files, or nil if there is none. It is valid until
// [Table.Close].
func (t *Table) Binary() *debuginfo.Binary { return t.debug }

// Refused calls [debuginfo.Binary.Refused]. It returns nil if the table has no binary.
func (t *Table) Refused() []error {
	if t == nil || t.debug == nil {
		return nil
	}
	return t.debug.Refused()
}

// locate finds the source locations of all functions, with [debuginfo.Binary.Locate].
// [Table.Func] calls it; call it to get its error.
func (t *Table) locate() error {
	if t.debug == nil {
		return nil
	}
	return t.debug.Locate()
}

// SourceMD5 calls [debuginfo.Binary.SourceMD5]. It reports false if the table has no binary.
func (t *Table) SourceMD5(path string) ([16]byte, bool) {
	if t == nil || t.debug == nil {
		return [16]byte{}, false
	}
	return t.debug.SourceMD5(path)
}

// CompilationDirs calls [debuginfo.Binary.CompilationDirs]. It returns nil if the table has no
// binary.
func (t *Table) CompilationDirs() []string {
	if t == nil || t.debug == nil {
		return nil
	}
	return t.debug.CompilationDirs()
}

// SourceFiles calls [debuginfo.Binary.SourceFiles]. It returns nil if the table has no binary:
// paths in a trace or a map are not from debug information.
func (t *Table) SourceFiles() []string {
	if t == nil || t.debug == nil {
		return nil
	}
	return t.debug.SourceFiles()
}

// dataAt returns the name of the variable at a link-time address, with the offset of the address in
// it as in "g+8", or "" if there is none.
func (t *Table) dataAt(address uint64) string {
	if t == nil || t.debug == nil {
		return ""
	}
	name, offset := t.debug.DataAt(address)
	if name == "" {
		return ""
	}
	name = t.shown(name)
	if offset > 0 {
		name += "+" + strconv.FormatUint(offset, 10)
	}
	return name
}

// Func implements [Names]. A table does not know the ids of shared objects, which have the
// number of the object in their top bits: see [Objects].
func (t *Table) Func(id reader.FuncID) (Symbol, bool) {
	s, ok := t.name(id)
	if !ok {
		return s, false
	}
	i, _ := t.m.index(id)
	s.locate(t.location(i))
	return s, true
}

// location returns the location of m.Functions[i].
func (t *Table) location(i int) debuginfo.Location {
	switch {
	case t.debug != nil:
		return t.debug.Location(i)
	case t.stored != nil:
		return t.stored[i]
	}
	return debuginfo.Location{}
}

func (t *Table) find(id reader.FuncID) (*Table, reader.FuncID) { return t, id }

// name is Func without the source location, which would read debug information.
func (t *Table) name(id reader.FuncID) (Symbol, bool) {
	if t == nil {
		return Symbol{}, false
	}
	i, ok := t.m.index(id)
	if !ok {
		return Symbol{}, false
	}
	s := Symbol{Address: t.m.Functions[i].Address, Name: t.demangled(i)}
	if t.linked {
		s.Linkage = t.linkage[i]
	}
	return s, true
}

// demangled returns the name of m.Functions[i]. Concurrent callers may both do the work; the
// results are equal.
func (t *Table) demangled(i int) string {
	if t.opts.Style == Mangled || t.linkage[i] == "" {
		return t.linkage[i]
	}
	if p := t.names[i].Load(); p != nil {
		return *p
	}
	name := t.shown(t.linkage[i])
	// Hostile names can expand to any length. They must not fill the memory.
	const maxGrowth = 32
	if len(name) <= maxGrowth*len(t.linkage[i]) {
		t.names[i].Store(&name)
	}
	return name
}

// others returns the names of the other functions at the address of m.Functions[i], as the source has
// them: constructors of one class are not others, nor are names that differ by what LLVM adds.
func (t *Table) others(i int) []string {
	linkage := t.folded[i]
	if t.debug != nil {
		linkage = t.debug.Folded(i)
	}
	if len(linkage) == 0 {
		return nil
	}
	known := map[string]bool{t.demangled(i): true}
	var others []string
	for _, l := range linkage {
		if name := t.shown(localName(l)); !known[name] {
			known[name] = true
			others = append(others, name)
		}
	}
	slices.Sort(others)
	return others
}

// demangleAll demangles all names on all cores.
func (t *Table) demangleAll() {
	parallel.Ranges(len(t.linkage), 256, func(from, to int) {
		for i := from; i < to; i++ {
			t.demangled(i)
		}
	})
}
