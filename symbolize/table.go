package symbolize

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/xray-tools/xray/reader"
)

// Options says how a [Table] shows names.
type Options struct {
	// Style says what Symbol.Name is.
	Style Style
	limit *unpackLimit // of all files that are opened together; nil for one of the table's own
	// Code has locations be those of a function's first instruction, which may have been
	// inlined from elsewhere, as llvm-xray shows them, and not those of its definition.
	Code bool
	// DebugDirs are searched for separate debug files where an ELF file has no
	// symbol table or no line tables: as .build-id/xx/rest.debug, under the name
	// that its .gnu_debuglink says, and under the file's name, with and without
	// .debug at its end. Only a file with the same build id is taken, or where there
	// is none, with the checksum of .gnu_debuglink. They are searched for split
	// debug information, too.
	DebugDirs []string
	// Fetch, where it is set, gets a file of a build from elsewhere, as package
	// debuginfod does. It returns the path of a local file, "" when it is not to be
	// had, and may be called concurrently.
	Fetch func(buildID string, kind FileKind) (path string, err error)
}

// Style is a way to show names.
type Style string

const (
	Full    Style = "full"    // as in the source, with parameters; also ""
	Short   Style = "short"   // without parameters, template arguments and result
	Mangled Style = "mangled" // as they are linked
)

// FileKind says which file of a build is wanted.
type FileKind string

// The words are those that debuginfod servers use.
const (
	DebugInfo  FileKind = "debuginfo"
	Executable FileKind = "executable"
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

	// What is needed to find source locations, when they are first asked for.
	file      *os.File   // nil for YAML maps
	others    []*os.File // debug files
	refusing  sync.Mutex
	refused   []error // why others were not taken
	elf       *object
	symbols   []*object // where names are: elf, and before it a debug file
	lines     *object   // where line tables are
	keys      []uint64  // addresses of the functions, sorted and distinct
	ends      []uint64  // where the functions end, by index in keys
	info      func() *debugInfo
	locate    sync.Once
	locations []location        // by index in keys
	code      func() []location // of the first instructions; by index in keys
	md5       map[string][16]byte
	err       error
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
	if err := t.read(t.file, size); err != nil || t.elf != nil {
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
	if t.m, t.elf, err = parseMap(r, size); err != nil {
		return err
	}
	if t.elf != nil {
		t.elf.path, t.linked = t.object.Path, true
		if t.opts.limit == nil {
			t.opts.limit = new(unpackLimit)
		}
		t.elf.shareLimit(t.opts.limit)
		return t.readNames()
	}
	t.linkage = make([]string, len(t.m.Functions))
	t.names = make([]atomic.Pointer[string], len(t.m.Functions))
	// A YAML map has the names that it was printed with. Those may be mangled.
	for i, fn := range t.m.Functions {
		t.linkage[i] = fn.Name
	}
	return nil
}

// readNames finds the names of the functions of an ELF file, in the file itself
// or in its debug file.
func (t *Table) readNames() error {
	return guard(func() error {
		t.elf.describe(&t.object)
		t.symbols, t.lines = []*object{t.elf}, t.elf
		t.openDebug()
		t.info = sync.OnceValue(func() *debugInfo { return newDebugInfo(t) })
		t.code = sync.OnceValue(t.locateCode)
		return t.findNames()
	})
}

// Close closes the file. Locations that were not asked for before are unknown
// from then on.
func (t *Table) Close() error {
	if t.file == nil {
		return nil
	}
	t.locate.Do(func() {}) // wait for a search that is under way, and start no other
	err := t.file.Close()
	for _, f := range t.others {
		err = errors.Join(err, f.Close())
	}
	t.file, t.others = nil, nil
	return err
}

// openMap opens a file that was given, but no pipe, which would keep us waiting.
func openMap(path string) (*os.File, int64, error) {
	info, err := os.Stat(path)
	if err == nil && !info.Mode().IsRegular() {
		return nil, 0, errors.New("not a regular file, which an instrumentation map must be")
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

func fileSize(f *os.File) (int64, error) {
	info, err := f.Stat()
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}

// parseMap tells the kind of a file by its contents and reads its map. The
// object is nil for YAML.
func parseMap(r io.ReaderAt, size int64) (m *Map, o *object, err error) {
	err = guard(func() error {
		head := make([]byte, 512)
		n, err := r.ReadAt(head, 0)
		if err != nil && err != io.EOF {
			return err
		}
		head = head[:n]
		if isELF(head) {
			if o, err = newObject(r, size); err != nil {
				return err
			}
			m, err = o.readMap()
			return err
		}
		if n == 0 {
			return errors.New("the file is empty")
		}
		if err := notELF(head); err != nil {
			return err
		}
		if size > maxYAMLMap {
			return fmt.Errorf("a YAML map of %d bytes, more than %d", size, maxYAMLMap)
		}
		data := make([]byte, size)
		if _, err := r.ReadAt(data, 0); err != nil && err != io.EOF {
			return err
		}
		m, err = parseYAMLMap(data)
		return err
	})
	return m, o, err
}

// maxYAMLMap is the size in bytes of the largest YAML map, which is read as a whole.
const maxYAMLMap = 512 << 20

// guard turns panics into errors. The standard library's ELF reader says that
// it is not hardened against hostile files and may panic; so may the demangler
// and the YAML parser.
func guard(f func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("damaged file: %v", p)
		}
	}()
	return f()
}

// findNames looks up the symbols of all functions.
func (t *Table) findNames() error {
	t.linkage = make([]string, len(t.m.Functions))
	t.names = make([]atomic.Pointer[string], len(t.m.Functions))
	t.keys = make([]uint64, len(t.m.Functions))
	for i, f := range t.m.Functions {
		t.keys[i] = f.key
	}
	slices.Sort(t.keys)
	t.keys = slices.Compact(t.keys)
	found := make([]found, len(t.keys))
	for _, o := range t.symbols {
		if err := o.findSymbols(t.keys, found); err != nil {
			return err
		}
	}
	t.ends = make([]uint64, len(t.keys))
	for i := range t.keys {
		t.ends[i] = math.MaxUint64
		if i+1 < len(t.keys) {
			t.ends[i] = t.keys[i+1]
		}
		if e := found[i].end; e > t.keys[i] {
			t.ends[i] = min(t.ends[i], e)
		}
	}
	for i := range t.m.Functions {
		t.linkage[i] = found[t.keyIndex(i)].name
		if t.linkage[i] == "" {
			t.linkage[i] = t.nameFromDebug(t.m.Functions[i].key)
		}
	}
	return nil
}

// debugInfo is the debug information of the table's file, once it was looked for.
func (t *Table) debugInfo() *debugInfo { return t.info() }

// keyIndex is the index in keys of the i-th function, which mostly is the same.
func (t *Table) keyIndex(i int) int {
	key := t.m.Functions[i].key
	if i < len(t.keys) && t.keys[i] == key {
		return i
	}
	i, _ = slices.BinarySearchFunc(t.keys, key, cmp.Compare[uint64])
	return i
}

// Map is the instrumentation map of the file. It must not be changed.
func (t *Table) Map() *Map { return t.m }

// Object describes the file.
func (t *Table) Object() Object { return t.object }

// Refused says which debug files were at hand and could not be taken, where names
// or lines are lacking because of that. More may be found out when locations are
// first asked for.
func (t *Table) Refused() []error {
	if t == nil {
		return nil
	}
	t.refusing.Lock()
	defer t.refusing.Unlock()
	return slices.Clone(t.refused)
}

func (t *Table) refuse(err error) {
	t.refusing.Lock()
	t.refused = append(t.refused, err)
	t.refusing.Unlock()
}

// Locate finds the source locations of all functions, unless that was done
// before. [Table.Func] does it when it is first called; Locate is for those who
// want to know what went wrong. Damage hides only the locations that it is about.
func (t *Table) Locate() error {
	t.locate.Do(func() {
		if t.elf == nil {
			return
		}
		t.err = guard(func() (err error) {
			i := t.debugInfo()
			i.mu.Lock()
			defer i.mu.Unlock()
			if t.opts.Code {
				t.locations, t.md5, err = i.main.findLines(t.keys, t.ends)
			} else {
				t.locations, t.md5, err = i.locate(t.keys, t.ends)
			}
			return err
		})
		if t.err != nil {
			t.err = fmt.Errorf("%s: %w", t.object.Path, t.err)
		}
	})
	return t.err
}

// locateCode finds the source of the first instructions of all functions.
func (t *Table) locateCode() (list []location) {
	_ = guard(func() (err error) {
		i := t.debugInfo()
		i.mu.Lock()
		defer i.mu.Unlock()
		list, _, err = i.main.findLines(t.keys, t.ends)
		return err
	})
	return list
}

// SourceMD5 is the MD5 of a file of source code when it was compiled, by its path as in
// [Symbol]. It reports false where the line tables do not say: only those of DWARF 5 do.
func (t *Table) SourceMD5(path string) ([16]byte, bool) {
	if t == nil {
		return [16]byte{}, false
	}
	_ = t.Locate()
	sum, ok := t.md5[path]
	return sum, ok
}

// Func implements [Names]. The ids of shared objects, which hold the number of
// the object in their top bits, are unknown to a table; see [Objects].
func (t *Table) Func(id reader.FuncID) (Symbol, bool) {
	s, ok := t.name(id)
	if !ok {
		return s, false
	}
	_ = t.Locate() // what cannot be located shows as such
	if t.locations != nil {
		i, _ := t.m.index(id)
		l := t.locations[t.keyIndex(i)]
		s.File, s.Line, s.Column = l.file, int(l.line), int(l.column)
	}
	return s, true
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
