package debuginfo

import (
	"bytes"
	"compress/zlib"
	"debug/elf"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/xray-tools/xray/internal/fileio"
)

// ELF is an ELF file whose sections have addresses: link-time addresses, or in relocatable
// files those of a layout that this package chooses. It reads sections piecewise. Its methods
// are safe for concurrent use. They can panic on damaged headers: see [Guard].
type ELF struct {
	f    *elf.File
	r    io.ReaderAt
	file io.Closer // nil if the caller closes it
	path string    // "" if it is not a file
	size int64     // of the file
	// limit limits the memory of decompressed sections. The files of a trace share it.
	limit *UnpackLimit
	word  int // bytes of an address: 4 or 8

	// base is the address of each section, by section index. It is 0 for sections that are not
	// in the memory of the program.
	base []uint64
	// placed lists the sections in the layout of a relocatable file, by address.
	placed []int
	// relocations lists the relocation sections of each section of a relocatable file, by
	// section index.
	relocations map[int][]*elf.Section
	// values has the address of each symbol of a relocatable file.
	values []uint64
}

// layoutStart and layoutGap keep the sections of a layout away from 0 and from each other, so
// that address errors are noticed.
const (
	layoutStart = 0x10000
	layoutGap   = 64
)

// Guard calls f and returns its error. It turns a panic of f into an error. debug/elf can panic
// on hostile files.
func Guard(f func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("damaged file: %v", p)
		}
	}()
	return f()
}

// ErrNotELF means that a file is of another format.
var ErrNotELF = errors.New("not an ELF file")

// ReadELF opens an ELF file, calls f, and returns its error. Other errors name the file: it is not a regular
// one, not an ELF file, or damaged.
func ReadELF(path string, f func(*elf.File) error) error {
	file, size, err := fileio.OpenRegular(path)
	if err != nil {
		return err
	}
	defer file.Close()
	var failed error
	err = Guard(func() error {
		magic := make([]byte, len(elf.ELFMAG))
		if _, err := file.ReadAt(magic, 0); err != nil || !IsELF(magic) {
			return ErrNotELF
		}
		e, err := checkedFile(file, size)
		if err == nil {
			failed = f(e)
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return failed
}

// OpenELF opens an ELF file and reads its headers. It returns [fs.ErrNotExist] if there is no
// such file, if it cannot be opened, or if it is not a regular file. The caller must close the
// result.
func OpenELF(path string) (*ELF, error) {
	f, size, err := fileio.OpenRegular(path) // its name may come from a hostile file
	if err != nil {
		return nil, fs.ErrNotExist
	}
	var o *ELF
	err = Guard(func() error {
		o, err = NewELF(f, size)
		return err
	})
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	o.path, o.file = path, f
	return o, nil
}

// Close closes the file if [OpenELF] opened it.
func (o *ELF) Close() error {
	if o.file == nil {
		return nil
	}
	return o.file.Close()
}

// sameFile reports whether o and other are the same file.
func (o *ELF) sameFile(other *ELF) bool {
	type file interface{ Stat() (fs.FileInfo, error) }
	f1, ok1 := o.r.(file)
	f2, ok2 := other.r.(file)
	if !ok1 || !ok2 {
		return false
	}
	a, err1 := f1.Stat()
	b, err2 := f2.Stat()
	return err1 == nil && err2 == nil && os.SameFile(a, b)
}

// NewELF reads the headers of an ELF file of size bytes. r must stay readable while the result is
// in use.
func NewELF(r io.ReaderAt, size int64) (*ELF, error) {
	f, err := checkedFile(r, size)
	if err != nil {
		return nil, fmt.Errorf("the ELF file is truncated or damaged: %w", noEOF(err))
	}
	o := &ELF{f: f, r: r, size: size, limit: new(UnpackLimit), word: 8, base: make([]uint64, len(f.Sections))}
	o.limit.add(size)
	if f.Class == elf.ELFCLASS32 {
		o.word = 4
	}
	if f.Type != elf.ET_REL {
		for i, s := range f.Sections {
			o.base[i] = s.Addr
		}
		return o, nil
	}
	return o, o.layOut()
}

// Size returns the bytes of the file.
func (o *ELF) Size() int64 { return o.size }

// Header returns the header of the file.
func (o *ELF) Header() elf.FileHeader { return o.f.FileHeader }

// WordSize returns the size of an address in bytes: 4 or 8.
func (o *ELF) WordSize() int { return o.word }

// Word decodes an address from b.
func (o *ELF) Word(b []byte) uint64 { return o.uint(b, o.word) }

// Relocatable reports whether the file is an object file (.o).
func (o *ELF) Relocatable() bool { return o.f.Type == elf.ET_REL }

// layOut assigns addresses to the sections of a relocatable file and finds their relocations.
func (o *ELF) layOut() error {
	next := uint64(layoutStart)
	o.relocations = make(map[int][]*elf.Section)
	for i, s := range o.f.Sections {
		switch {
		case s.Type == elf.SHT_REL || s.Type == elf.SHT_RELA:
			o.relocations[int(s.Info)] = append(o.relocations[int(s.Info)], s)
		case s.Flags&elf.SHF_ALLOC != 0 && s.Type != elf.SHT_NOBITS:
			if err := o.check(s); err != nil {
				return err
			}
			o.base[i] = next
			o.placed = append(o.placed, i)
			next = (next + s.FileSize + layoutGap + 15) &^ 15
		}
	}
	if o.word == 4 && next > 1<<32 {
		return errors.New("a 32-bit object file with more than 4 GiB of sections")
	}
	table := o.f.SectionByType(elf.SHT_SYMTAB)
	if table == nil {
		return nil
	}
	return o.symbols(table, func(s symbol) {
		o.values = append(o.values, s.address)
	})
}

// FileAddress converts an address to the one in the file. In relocatable files, this is the
// offset in the section, and FileAddress returns false if no section contains the address.
func (o *ELF) FileAddress(address uint64) (uint64, bool) {
	if !o.Relocatable() {
		return address, true
	}
	i, ok := slices.BinarySearchFunc(o.placed, address, func(i int, a uint64) int {
		switch {
		case o.base[i] < a:
			return -1
		case o.base[i] > a:
			return 1
		}
		return 0
	})
	if !ok {
		i--
	}
	if i < 0 {
		return 0, false
	}
	offset := address - o.base[o.placed[i]]
	return offset, offset <= o.f.Sections[o.placed[i]].FileSize
}

// check returns an error if a section is not completely in the file.
func (o *ELF) check(s *elf.Section) error {
	if s.Type == elf.SHT_NOBITS {
		return fmt.Errorf("section %s has no contents: is this a separate debug file?", s.Name)
	}
	if s.Offset > uint64(o.size) || s.FileSize > uint64(o.size)-s.Offset {
		return fmt.Errorf("the file is truncated: section %s at offset %#x has %d bytes, but the file ends at %#x",
			s.Name, s.Offset, s.FileSize, o.size)
	}
	if s.Size > s.FileSize {
		return o.limit.check(s.Name, s.Size, false)
	}
	return nil
}

// SectionsNamed returns all sections with a name, in the order of the file.
func (o *ELF) SectionsNamed(name string) (list []*Section) {
	for i, s := range o.f.Sections {
		if s.Name == name {
			list = append(list, &Section{o: o, s: s, index: i})
		}
	}
	return list
}

// section returns the first section with a name; nil if there is none. It also finds debug
// information under the old names (.zdebug_).
func (o *ELF) section(name string) *Section {
	debug, ok := strings.CutPrefix(name, ".debug_")
	for i, s := range o.f.Sections {
		if s.Name == name {
			return &Section{o: o, s: s, index: i}
		}
		if ok && s.Name == ".zdebug_"+debug {
			return o.zdebug(s, i)
		}
	}
	return nil
}

// zdebug returns a section in the old form of compression: a magic number, the size, and zlib
// data.
func (o *ELF) zdebug(s *elf.Section, index int) *Section {
	var header [zdebugHeader]byte
	if s.Type == elf.SHT_NOBITS || s.FileSize < zdebugHeader {
		return nil
	}
	if _, err := o.r.ReadAt(header[:], int64(s.Offset)); err != nil || string(header[:4]) != "ZLIB" {
		return nil
	}
	unpacked := *s
	unpacked.Size = binary.BigEndian.Uint64(header[4:])
	return &Section{o: o, s: &unpacked, index: index, zdebug: true}
}

const zdebugHeader = 12

// Section is a section whose contents are decompressed and relocated on reading. Its methods
// are safe for concurrent use. A nil Section is empty.
type Section struct {
	o      *ELF
	s      *elf.Section
	index  int
	zdebug bool

	once sync.Once
	data []byte
	err  error

	around  atomic.Pointer[window]
	reading sync.Mutex                // of a small section as a whole
	text    atomic.Pointer[foundText] // last string that was asked for
}

// foundText is a string in a section.
type foundText struct {
	offset uint64
	text   string
}

// window is a part of a section.
type window struct {
	start uint64
	data  []byte
}

const (
	windowSize = 32 << 10
	smallSize  = 2 << 20 // sections up to this size are kept as a whole rather than in windows
)

// small reports whether to keep the whole section when parts of it are read.
func (s *Section) small() bool { return s.s.Size <= smallSize || !s.stored() }

// stored reports whether the file has the contents as they are used.
func (s *Section) stored() bool {
	return !s.compressed() && !s.relocated()
}

func (s *Section) relocated() bool { return len(s.o.relocations[s.index]) != 0 }

func (s *Section) compressed() bool { return s.zdebug || s.s.Flags&elf.SHF_COMPRESSED != 0 }

// unpack returns a reader of the contents of a compressed section.
func (s *Section) unpack() (io.Reader, error) {
	if !s.zdebug {
		return s.s.Open(), nil
	}
	return zlib.NewReader(io.NewSectionReader(s.o.r, int64(s.s.Offset+zdebugHeader), int64(s.s.FileSize-zdebugHeader)))
}

// Size returns the bytes of the section, as they are in memory.
func (s *Section) Size() uint64 { return s.s.Size }

// Address returns the address of the section in memory.
func (s *Section) Address() uint64 { return s.o.base[s.index] }

// Bytes returns the contents of the section. It reads and keeps them on the first call. The
// caller must not change them.
func (s *Section) Bytes() ([]byte, error) {
	if s == nil {
		return nil, nil
	}
	s.once.Do(func() {
		if s.err = s.o.check(s.s); s.err != nil {
			return
		}
		if s.compressed() {
			if s.err = s.o.limit.check(s.s.Name, s.s.Size, true); s.err != nil {
				return
			}
			var r io.Reader
			if r, s.err = s.unpack(); s.err == nil {
				s.data = make([]byte, s.s.Size)
				_, s.err = io.ReadFull(r, s.data)
			}
		} else {
			s.data = make([]byte, s.s.FileSize)
			_, s.err = s.o.r.ReadAt(s.data, int64(s.s.Offset))
		}
		if s.err != nil {
			s.err = fmt.Errorf("section %s: %w", s.s.Name, noEOF(s.err))
			return
		}
		if s.o.Relocatable() {
			s.err = s.o.relocate(s)
		}
	})
	return s.data, s.err
}

// at returns up to n bytes from an offset; fewer at the end of the section.
func (s *Section) at(offset uint64, n int) ([]byte, error) {
	if s == nil || offset >= s.s.Size {
		return nil, nil
	}
	n = int(min(uint64(n), s.s.Size-offset))
	if !s.stored() {
		data, err := s.Bytes()
		if err != nil {
			return nil, err
		}
		return data[offset:][:n], nil
	}
	if err := s.o.check(s.s); err != nil {
		return nil, err
	}
	b := make([]byte, n)
	_, err := s.o.r.ReadAt(b, int64(s.s.Offset+offset))
	return b, noEOF(err)
}

// near is like at, for many small reads. It keeps a window around the last read, or the whole
// section if it is small.
func (s *Section) near(offset uint64, n int) ([]byte, error) {
	if s == nil || offset >= s.s.Size {
		return nil, nil
	}
	n = int(min(uint64(n), s.s.Size-offset))
	if s.small() {
		data, err := s.whole()
		if err != nil || uint64(len(data)) < offset+uint64(n) {
			return nil, err
		}
		return data[offset:][:n], nil
	}
	if n > windowSize {
		return s.at(offset, n)
	}
	w := s.around.Load()
	if w == nil || offset < w.start || offset+uint64(n) > w.start+uint64(len(w.data)) {
		start := offset - offset%windowSize
		data, err := s.at(start, 2*windowSize)
		if err != nil || uint64(len(data)) < offset-start+uint64(n) {
			return nil, err
		}
		w = &window{start, data}
		s.around.Store(w)
	}
	return w.data[offset-w.start:][:n], nil
}

// whole returns the contents of a small section. Unlike Bytes, it can be undone with forget.
func (s *Section) whole() ([]byte, error) {
	if !s.stored() {
		return s.Bytes()
	}
	s.reading.Lock()
	defer s.reading.Unlock()
	w := s.around.Load()
	if w == nil {
		data, err := s.at(0, int(s.s.Size))
		if err != nil {
			return nil, err
		}
		w = &window{0, data}
		s.around.Store(w)
	}
	return w.data, nil
}

// forget drops the memory of near. A process can have hundreds of objects.
func (s *Section) forget() {
	if s != nil {
		s.around.Store(nil)
	}
}

// cstring returns the zero-terminated string at an offset; "" if there is none, or if it is
// longer than any path or name.
func (s *Section) cstring(offset uint64) string {
	if s == nil {
		return ""
	}
	if last := s.text.Load(); last != nil && last.offset == offset {
		return last.text
	}
	read := s.at
	if s.s.Size <= windowSize {
		read = s.near
	}
	for n := 128; n <= 1<<13; n *= 8 {
		b, err := read(offset, n)
		if err != nil {
			return ""
		}
		if i := bytes.IndexByte(b, 0); i >= 0 {
			found := &foundText{offset, string(b[:i])}
			s.text.Store(found)
			return found.text
		}
		if len(b) < n {
			return ""
		}
	}
	return ""
}

// readN reads n bytes into buf. It does not trust n: memory grows only as bytes arrive.
func readN(buf []byte, r io.Reader, n uint64) ([]byte, error) {
	const step = 1 << 20
	buf = buf[:0]
	for uint64(len(buf)) < n {
		want := int(min(n-uint64(len(buf)), max(step, uint64(len(buf)))))
		buf = slices.Grow(buf, want)
		got, err := io.ReadFull(r, buf[len(buf):len(buf)+want])
		buf = buf[:len(buf)+got]
		if err != nil {
			return buf, err
		}
	}
	return buf, nil
}

// noEOF turns the end of input into an error.
func noEOF(err error) error {
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}

// Code returns the first executable segment: its first address, its end, and its offset in the
// file. All are 0 if there is none, as in relocatable files.
func (o *ELF) Code() (start, limit, offset uint64) {
	for _, p := range o.f.Progs {
		if p.Type == elf.PT_LOAD && p.Flags&elf.PF_X != 0 && p.Vaddr+p.Memsz != 0 {
			return p.Vaddr, p.Vaddr + p.Memsz, p.Off
		}
	}
	return 0, 0, 0
}

// HasCode reports whether there is an executable segment with these bounds.
func (o *ELF) HasCode(start, limit uint64) bool {
	return slices.ContainsFunc(o.f.Progs, func(p *elf.Prog) bool {
		return p.Type == elf.PT_LOAD && p.Flags&elf.PF_X != 0 && p.Vaddr == start && p.Vaddr+p.Memsz == limit
	})
}

// BuildID returns the build ID in lower-case hex; "" if there is none.
func (o *ELF) BuildID() string {
	for _, p := range o.f.Progs {
		if p.Type == elf.PT_NOTE {
			if id := o.buildID(p.Off, p.Filesz); id != "" {
				return id
			}
		}
	}
	for _, s := range o.f.Sections {
		if s.Type == elf.SHT_NOTE {
			if id := o.buildID(s.Offset, s.FileSize); id != "" {
				return id
			}
		}
	}
	return ""
}

// buildID finds the NT_GNU_BUILD_ID note in a range of the file.
func (o *ELF) buildID(offset, size uint64) string {
	const ntBuildID = 3
	if offset >= uint64(o.size) {
		return ""
	}
	b := make([]byte, min(size, uint64(o.size)-offset, 1<<16))
	if _, err := o.r.ReadAt(b, int64(offset)); err != nil {
		return ""
	}
	for len(b) >= 12 {
		name, desc := uint64(o.f.ByteOrder.Uint32(b)), uint64(o.f.ByteOrder.Uint32(b[4:]))
		kind := o.f.ByteOrder.Uint32(b[8:])
		start := 12 + (name+3)&^3
		end := start + desc
		if end > uint64(len(b)) {
			return ""
		}
		if kind == ntBuildID && name == 4 && string(b[12:16]) == "GNU\x00" {
			return hex.EncodeToString(b[start:end])
		}
		b = b[min((end+3)&^3, uint64(len(b))):]
	}
	return ""
}

// uint reads an integer of 1, 2, 4 or 8 bytes.
func (o *ELF) uint(b []byte, size int) uint64 { return readUint(o.f.ByteOrder, b, size) }

func readUint(order binary.ByteOrder, b []byte, size int) uint64 {
	switch size {
	case 1:
		return uint64(b[0])
	case 2:
		return uint64(order.Uint16(b))
	case 4:
		return uint64(order.Uint32(b))
	}
	return order.Uint64(b)
}

// putUint writes the low bytes of v.
func (o *ELF) putUint(b []byte, size int, v uint64) {
	switch size {
	case 1:
		b[0] = byte(v)
	case 2:
		o.f.ByteOrder.PutUint16(b, uint16(v))
	case 4:
		o.f.ByteOrder.PutUint32(b, uint32(v))
	default:
		o.f.ByteOrder.PutUint64(b, v)
	}
}
