package debuginfo

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
)

// Options say where debug information of a binary is looked for, and what is wanted of it.
type Options struct {
	// Code has [Binary.Location] be that of a function's first instruction, which may have
	// been inlined from elsewhere, as llvm-xray shows them, and not that of its definition.
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
	// Limit is shared by files that are opened together; nil for a limit of the binary's own.
	Limit *UnpackLimit
}

// FileKind says which file of a build is wanted.
type FileKind string

// The words are those that debuginfod servers use.
const (
	DebugInfo  FileKind = "debuginfo"
	Executable FileKind = "executable"
)

// Location is a place in source code. The zero value is nowhere.
type Location struct {
	File         string // full path
	Line, Column int32  // 1-based; 0 where not known
}

// Binary is an ELF file with the files that have its debug information. It knows the
// functions that it was opened for by their index in the list that was given. It may be used
// concurrently. What is found in debug information is read when it is first asked for.
type Binary struct {
	elf     *ELF
	path    string
	buildID string
	opts    Options

	others   []*ELF // debug files, which the binary closes
	refusing sync.Mutex
	refused  []error // why others were not taken
	symbols  []*ELF  // where names are: elf, and before it a debug file
	lines    *ELF    // where line tables are

	functions []uint64 // as given
	linkage   []string // by index in functions
	keys      []uint64 // functions, sorted and distinct
	ends      []uint64 // where the functions end, by index in keys

	info      func() *debugInfo
	locate    sync.Once
	locations []Location        // by index in keys
	code      func() []Location // of the first instructions; by index in keys
	md5       map[string][16]byte
	err       error
}

// NewBinary finds the symbols of functions, which are given by their addresses in any order,
// in a file or in its debug file. The addresses need not be starts of functions. Those of a
// relocatable file are of the layout that its ELF has. The list must not be changed
// afterwards. path is where the file is; debug files are looked for around it.
//
// The file must stay open as long as the binary is in use. What NewBinary opens is open until
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
		return b.findNames()
	})
	if err != nil {
		return nil, errors.Join(err, b.Close())
	}
	return b, nil
}

// ELF is the file that the binary was made of.
func (b *Binary) ELF() *ELF { return b.elf }

// BuildID is that of the file, in lower-case hex; "" without one.
func (b *Binary) BuildID() string { return b.buildID }

// Close closes the debug files. What was not asked for before is unknown from then on.
func (b *Binary) Close() error {
	b.locate.Do(func() {}) // wait for a search that is under way, and start no other
	var err error
	for _, o := range b.others {
		err = errors.Join(err, o.Close())
	}
	b.others = nil
	return err
}

// findNames looks up the symbols of all functions.
func (b *Binary) findNames() error {
	b.linkage = make([]string, len(b.functions))
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
		b.linkage[i] = found[b.keyIndex(i)].name
		if b.linkage[i] == "" {
			b.linkage[i] = b.nameFromDebug(b.functions[i])
		}
	}
	return nil
}

// ascending reports whether a list is sorted and has each address once.
func ascending(list []uint64) bool {
	for i := 1; i < len(list); i++ {
		if list[i] <= list[i-1] {
			return false
		}
	}
	return true
}

// keyIndex is the index in keys of the i-th function, which mostly is the same.
func (b *Binary) keyIndex(i int) int {
	key := b.functions[i]
	if i < len(b.keys) && b.keys[i] == key {
		return i
	}
	i, _ = slices.BinarySearchFunc(b.keys, key, cmp.Compare[uint64])
	return i
}

// Linkage are the names of the functions as they are linked, by index; "" where neither symbol
// tables nor debug information have one. The list must not be changed.
func (b *Binary) Linkage() []string { return b.linkage }

// Refused says which debug files were at hand and could not be taken, where names
// or lines are lacking because of that. More may be found out when locations are
// first asked for.
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

// Locate finds the source locations of all functions, unless that was done
// before. [Binary.Location] does it when it is first called; Locate is for those who
// want to know what went wrong. Damage hides only the locations that it is about.
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

// Location is where the i-th function is defined, or as [Options].Code says its first
// instruction comes from.
func (b *Binary) Location(i int) Location {
	_ = b.Locate() // what cannot be located shows as such
	if b.locations == nil {
		return Location{}
	}
	return b.locations[b.keyIndex(i)]
}

// CodeLocation is where the code at the start of the i-th function comes from. It reports
// false where the debug information cannot be read.
func (b *Binary) CodeLocation(i int) (Location, bool) {
	code := b.code()
	if code == nil {
		return Location{}, false
	}
	return code[b.keyIndex(i)], true
}

// locateCode finds the source of the first instructions of all functions.
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

// CodeLocations are where the code at addresses comes from, which must be sorted and
// distinct. What cannot be located is the zero value.
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
