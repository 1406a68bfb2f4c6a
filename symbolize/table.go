package symbolize

import (
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/symbolize/debuginfo"
)

// Options say how a [Table] shows names, and where it looks for debug information.
type Options struct {
	// Style says what Symbol.Name is.
	Style Style
	debuginfo.Options
}

// Style is a way to show names.
type Style string

const (
	Full    Style = "full"    // as in the source, with parameters; also ""
	Short   Style = "short"   // without parameters, template arguments and result
	Mangled Style = "mangled" // as they are linked
)

// Object is the file that a table comes from, as profile formats describe it.
type Object struct {
	Path    string
	BuildID string // lower-case hex; "" when the file has none
	// Start and Limit are the link-time bounds of the first executable segment,
	// and Offset its place in the file. 0 for object files and YAML maps.
	Start, Limit, Offset uint64
}

// Table names the functions of one instrumentation map. It implements [Names],
// and may be used concurrently. A nil Table knows no function.
type Table struct {
	m      *Map
	object Object
	opts   Options

	// The slices below are in the order of m.Functions.
	linkage []string                 // as linked; "" where there is no symbol
	linked  bool                     // linkage is known to be that, and no name that a map was printed with
	names   []atomic.Pointer[string] // demangled; nil where not yet asked for
	stored  []debuginfo.Location     // where the trace says them; else nil

	file  *os.File          // nil for YAML maps
	debug *debuginfo.Binary // nil where there is no ELF file
}

// Load reads the instrumentation map and the names of an ELF file, or a YAML
// map, whichever the file is. The file stays open until [Table.Close].
func Load(path string, opts Options) (*Table, error) {
	t := &Table{object: Object{Path: path}, opts: opts}
	if err := t.load(path); err != nil {
		t.Close()
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return t, nil
}

// LoadMap reads the instrumentation map alone.
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

// read does all of load but opening the file.
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
	// A YAML map has the names that it was printed with. Those may be mangled.
	for i, fn := range t.m.Functions {
		t.linkage[i] = fn.Name
	}
	return nil
}

// describe finds the names of the functions of an ELF file, in the file itself or in its
// debug file.
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

// Close closes the file. Locations that were not asked for before are unknown
// from then on.
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

// openMap opens a file that was given, but no pipe, which would keep us waiting.
func openMap(path string) (*os.File, int64, error) {
	info, err := os.Stat(path)
	if err == nil && !info.Mode().IsRegular() {
		return nil, 0, errors.New("not a regular file: pass a binary or a map")
	}
	var f *os.File
	if err == nil {
		f, err = os.Open(path)
	}
	if err != nil {
		return nil, 0, errors.Unwrap(err)
	}
	return f, info.Size(), nil
}

// parseMap tells the kind of a file by its contents and reads its map. The ELF
// file is nil for YAML.
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

// maxYAMLMap is the size in bytes of the largest YAML map, which is read as a whole.
const maxYAMLMap = 512 << 20

// Map is the instrumentation map of the file. It must not be changed.
func (t *Table) Map() *Map { return t.m }

// Object describes the file.
func (t *Table) Object() Object { return t.object }

// Refused is [debuginfo.Binary.Refused]; nil without a binary.
func (t *Table) Refused() []error {
	if t == nil || t.debug == nil {
		return nil
	}
	return t.debug.Refused()
}

// Locate is [debuginfo.Binary.Locate]: it finds the source locations of all functions, as
// [Table.Func] does when it is first called, and says what went wrong.
func (t *Table) Locate() error {
	if t.debug == nil {
		return nil
	}
	return t.debug.Locate()
}

// SourceMD5 is [debuginfo.Binary.SourceMD5]; false without a binary.
func (t *Table) SourceMD5(path string) ([16]byte, bool) {
	if t == nil || t.debug == nil {
		return [16]byte{}, false
	}
	return t.debug.SourceMD5(path)
}

// CompilationDirs are [debuginfo.Binary.CompilationDirs]; none without a binary.
func (t *Table) CompilationDirs() []string {
	if t == nil || t.debug == nil {
		return nil
	}
	return t.debug.CompilationDirs()
}

// SourceFiles are [debuginfo.Binary.SourceFiles]; none without a binary: what a trace or a
// map says is no debug information.
func (t *Table) SourceFiles() []string {
	if t == nil || t.debug == nil {
		return nil
	}
	return t.debug.SourceFiles()
}

// Func implements [Names]. The ids of shared objects, which hold the number of
// the object in their top bits, are unknown to a table; see [Objects].
func (t *Table) Func(id reader.FuncID) (Symbol, bool) {
	s, ok := t.name(id)
	if !ok {
		return s, false
	}
	i, _ := t.m.index(id)
	s.locate(t.location(i))
	return s, true
}

// location is that of the function at an index of m.Functions.
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

// name is Func without the source location, which costs a walk over the line tables.
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

// demangled returns the name of the function at an index of m.Functions. Two
// callers at once may both do the work; they come to the same result.
func (t *Table) demangled(i int) string {
	if t.opts.Style == Mangled || t.linkage[i] == "" {
		return t.linkage[i]
	}
	if p := t.names[i].Load(); p != nil {
		return *p
	}
	name := t.shown(t.linkage[i])
	// What grows beyond reason was made to grow, and must not fill the memory.
	const reason = 32
	if len(name) <= reason*len(t.linkage[i]) {
		t.names[i].Store(&name)
	}
	return name
}

// demangleAll demangles all names on all cores, for those who will print them.
func (t *Table) demangleAll() {
	const chunk = 256
	var next atomic.Int64
	var wg sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		wg.Go(func() {
			for {
				start := int(next.Add(chunk)) - chunk
				if start >= len(t.linkage) {
					return
				}
				for i := start; i < min(start+chunk, len(t.linkage)); i++ {
					t.demangled(i)
				}
			}
		})
	}
	wg.Wait()
}
