package debuginfo

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
)

// Options configures the search for the debug information of a binary.
type Options struct {
	// Code makes [Binary.Location] return the location of a function's first instruction, which
	// may be inlined code, as llvm-xray does. The default is the location of its definition.
	Code bool
	// DebugDirs are searched for separate debug files if an ELF file lacks a symbol table or
	// line tables: as .build-id/xx/rest.debug, under the name in .gnu_debuglink, and under the
	// name of the file, with and without .debug. A debug file must have the same build ID, or
	// if there is none, the checksum in .gnu_debuglink. Split debug information is searched
	// here, too.
	DebugDirs []string
	// Fetch gets a file of a build from elsewhere, as package debuginfod does. It returns the
	// path of a local file, or "" if there is none. It must be safe for concurrent use. It may
	// be nil.
	Fetch func(buildID string, kind FileKind) (path string, err error)
	// Limit is shared by files that are opened together. If it is nil, the binary has a limit
	// of its own.
	Limit *UnpackLimit
}

// FileKind is one of the files of a build.
type FileKind string

// The values are those of debuginfod servers.
const (
	DebugInfo  FileKind = "debuginfo"
	Executable FileKind = "executable"
)

// Location is a location in source code. The zero value means that it is unknown.
type Location struct {
	File         string // full path
	Line, Column int32  // 1-based; 0 where not known
}

// Binary is an ELF file with its debug files. It identifies functions by their index in the
// list that was passed to [NewBinary]. It reads debug information on first use. It is safe for
// concurrent use.
type Binary struct {
	elf     *ELF
	path    string
	buildID string
	opts    Options

	others   []*ELF // debug files; the binary closes them
	refusing sync.Mutex
	refused  []error // errors of debug files that do not match
	symbols  []*ELF  // files with symbol tables: a debug file first, then elf
	lines    *ELF    // file with line tables

	functions []uint64         // as given
	linkage   []string         // by index in functions
	folded    map[int][]string // other names by index in functions
	keys      []uint64         // functions, sorted and distinct
	ends      []uint64         // ends of functions, by index in keys

	info      func() *debugInfo
	locate    sync.Once
	locations []Location        // by index in keys
	code      func() []Location // of the first instructions; by index in keys
	md5       map[string][16]byte
	err       error
	exported  func() map[uint64]bool // see Exported
}

// NewBinary finds the symbols of functions in a file or its debug file. functions has addresses
// in any order, which need not be starts of functions. In relocatable files they are addresses
// of the layout of e. The caller must not change the list afterwards. path is the path of the
// file; the search for debug files starts there.
//
// The file must stay open while the binary is in use. The debug files stay open until
// [Binary.Close].
func NewBinary(e *ELF, path string, functions []uint64, opts Options) (*Binary, error) {
	if opts.Limit == nil {
		opts.Limit = new(UnpackLimit)
	}
	e.path = path
	e.share(opts.Limit)
	b := &Binary{elf: e, path: path, opts: opts, functions: functions, symbols: []*ELF{e}, lines: e}
	err := Guard(func() error {
		b.buildID = e.BuildID()
		b.openDebug()
		b.info = sync.OnceValue(func() *debugInfo { return newDebugInfo(b) })
		b.code = sync.OnceValue(b.locateCode)
		b.exported = sync.OnceValue(b.findExported)
		return b.findNames()
	})
	if err != nil {
		return nil, errors.Join(err, b.Close())
	}
	return b, nil
}

// ELF returns the file of the binary.
func (b *Binary) ELF() *ELF { return b.elf }

// BuildID returns the build ID of the file in lower-case hex; "" if there is none.
func (b *Binary) BuildID() string { return b.buildID }

// Close closes the debug files. After Close, only what was read before is known.
func (b *Binary) Close() error {
	b.locate.Do(func() {}) // wait for a running Locate, and prevent another
	var err error
	for _, o := range b.others {
		err = errors.Join(err, o.Close())
	}
	b.others = nil
	return err
}

// findNames finds the symbols of all functions.
func (b *Binary) findNames() error {
	b.linkage, b.folded = make([]string, len(b.functions)), make(map[int][]string)
	b.keys = b.functions
	if !ascending(b.keys) {
		b.keys = slices.Clone(b.keys)
		slices.Sort(b.keys)
		b.keys = slices.Compact(b.keys)
	}
	found := make([]found, len(b.keys))
	for _, o := range b.symbols {
		if err := o.findSymbols(b.keys, found); err != nil {
			return err
		}
	}
	b.ends = make([]uint64, len(b.keys))
	for i := range b.keys {
		b.ends[i] = math.MaxUint64
		if i+1 < len(b.keys) {
			b.ends[i] = b.keys[i+1]
		}
		if e := found[i].end; e > b.keys[i] {
			b.ends[i] = min(b.ends[i], e)
		}
	}
	for i := range b.functions {
		f := &found[b.keyIndex(i)]
		b.linkage[i] = f.name
		if len(f.others) > 0 {
			b.folded[i] = f.others
		}
		if b.linkage[i] == "" {
			b.linkage[i] = b.nameFromDebug(b.functions[i])
		}
	}
	return nil
}

// ascending reports whether a list is sorted and without duplicates.
func ascending(list []uint64) bool {
	for i := 1; i < len(list); i++ {
		if list[i] <= list[i-1] {
			return false
		}
	}
	return true
}

// keyIndex returns the index of functions[i] in keys, which is mostly i.
func (b *Binary) keyIndex(i int) int {
	key := b.functions[i]
	if i < len(b.keys) && b.keys[i] == key {
		return i
	}
	i, _ = slices.BinarySearchFunc(b.keys, key, cmp.Compare[uint64])
	return i
}

// Linkage returns the linkage names of the functions, "" for those without a symbol and without
// debug information. The caller must not change the list.
func (b *Binary) Linkage() []string { return b.linkage }

// Folded returns the linkage names of the other functions at the address of functions[i].
func (b *Binary) Folded(i int) []string { return b.folded[i] }

// Refused returns errors about debug files that were found but do not match, if names or lines
// are missing because of this. Reading locations can add more.
func (b *Binary) Refused() []error {
	b.refusing.Lock()
	defer b.refusing.Unlock()
	return slices.Clone(b.refused)
}

func (b *Binary) refuse(err error) {
	b.refusing.Lock()
	b.refused = append(b.refused, err)
	b.refusing.Unlock()
}

// Locate finds the source locations of all functions on its first call. [Binary.Location] calls
// it; call it to get its error. Damaged parts affect only their own locations.
func (b *Binary) Locate() error {
	b.locate.Do(func() {
		b.err = Guard(func() (err error) {
			i := b.info()
			i.mu.Lock()
			defer i.mu.Unlock()
			if b.opts.Code {
				b.locations, b.md5, err = i.main.findLines(b.keys, b.ends)
			} else {
				b.locations, b.md5, err = i.locate(b.keys, b.ends)
			}
			return err
		})
		if b.err != nil {
			b.err = fmt.Errorf("%s: %w", b.path, b.err)
		}
	})
	return b.err
}

// Location returns the location of functions[i]: its definition, or the location of its first
// instruction with [Options].Code.
func (b *Binary) Location(i int) Location {
	_ = b.Locate() // unknown locations are zero
	if b.locations == nil {
		return Location{}
	}
	return b.locations[b.keyIndex(i)]
}

// CodeLocation returns the location of the code at the start of functions[i]. It returns false
// if the debug information cannot be read.
func (b *Binary) CodeLocation(i int) (Location, bool) {
	code := b.code()
	if code == nil {
		return Location{}, false
	}
	return code[b.keyIndex(i)], true
}

// locateCode finds the locations of the first instructions of all functions.
func (b *Binary) locateCode() (list []Location) {
	_ = Guard(func() (err error) {
		i := b.info()
		i.mu.Lock()
		defer i.mu.Unlock()
		list, _, err = i.main.findLines(b.keys, b.ends)
		return err
	})
	return list
}

// CodeLocations returns the locations of the code at addresses, which must be sorted and
// distinct. Unknown locations are zero.
func (b *Binary) CodeLocations(addresses []uint64) []Location {
	list := make([]Location, len(addresses))
	ends := make([]uint64, len(addresses))
	for i, a := range addresses {
		ends[i] = a + 1
	}
	_ = Guard(func() error {
		i := b.info()
		i.mu.Lock()
		defer i.mu.Unlock()
		found, _, err := i.main.findLines(addresses, ends)
		copy(list, found)
		return err
	})
	return list
}
