package ring

import (
	"bytes"
	"cmp"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"iter"
	"slices"
	"strings"
)

// Image is the memory of a process, as far as an ELF core file contains it. Sizes and addresses in the
// file may be wrong, so they are checked against its size before anything is allocated or read.
type Image struct {
	Name     string
	In       io.ReaderAt
	Size     int64
	Segments []Segment // disjoint, in order of addresses
	Cut      bool      // the file ends before a segment does
	notes    Segment   // where the notes are in the file
}

// Segment is a range of memory.
type Segment struct {
	Address, Memory uint64 // address and size
	Offset, Bytes   uint64 // the part in the file
	Writable, cut   bool
}

func (s *Segment) end() uint64 { return s.Address + s.Memory }

const (
	ElfHeaderSize = 64
	SegmentSize   = 56
	sectionSize   = 64
	// maxNotes limits the number of notes that are read, and maxNote the size of a note's body.
	maxNotes, maxNote = 1 << 20, 4 << 20
	// manySegments in the header means that the number of segments needs more than 16 bits and
	// is in the first section's header.
	manySegments = 0xffff
)

// archives are common compression formats that are not supported here.
var archives = []struct{ magic, name string }{
	{"\x04\x22\x4d\x18", "lz4"}, {"\xfd7zXZ\x00", "xz"}, {"BZh", "bzip2"},
}

func (m *Image) Errorf(format string, args ...any) error {
	return fmt.Errorf("%s: %w", m.Name, fmt.Errorf(format, args...))
}

// OpenImage reads the headers of a core file.
func OpenImage(name string, in io.ReaderAt, size int64) (*Image, error) {
	m := &Image{Name: name, In: in, Size: size}
	header := make([]byte, ElfHeaderSize)
	n, err := in.ReadAt(header, 0)
	if err != nil && err != io.EOF {
		return nil, m.Errorf("%w", err)
	}
	header = header[:n]
	for _, a := range archives {
		if strings.HasPrefix(string(header), a.magic) {
			return nil, m.Errorf("compressed with %s, which xray does not support here: decompress it first", a.name)
		}
	}
	if !bytes.HasPrefix(header, []byte(elf.ELFMAG)) {
		return nil, m.Errorf("neither a core file nor a ring file: not an ELF file")
	}
	if n < ElfHeaderSize {
		return nil, m.Errorf("the core file ends within its header, after %d bytes", n)
	}
	machine := elf.Machine(binary.LittleEndian.Uint16(header[18:]))
	if elf.Class(header[4]) != elf.ELFCLASS64 || elf.Data(header[5]) != elf.ELFDATA2LSB || machine != elf.EM_X86_64 {
		return nil, m.Errorf("not from x86-64, the only architecture that the recorder supports")
	}
	if t := elf.Type(binary.LittleEndian.Uint16(header[16:])); t != elf.ET_CORE {
		return nil, m.Errorf("a program or library, not a core file")
	}
	table, err := m.segmentTable(header)
	if err != nil {
		return nil, err
	}
	for entry := range slices.Chunk(table, SegmentSize) {
		m.addSegment(entry)
	}
	return m, m.order()
}

// segmentTable reads the program headers.
func (m *Image) segmentTable(header []byte) ([]byte, error) {
	le := binary.LittleEndian
	count := uint64(le.Uint16(header[56:]))
	if count == manySegments {
		section := make([]byte, sectionSize)
		if err := m.readFile(section, le.Uint64(header[40:])); err != nil {
			return nil, m.Errorf("section header at offset %#x, which has the number of segments: %w", le.Uint64(header[40:]), err)
		}
		count = uint64(le.Uint32(section[44:]))
	}
	offset, size := le.Uint64(header[32:]), uint64(le.Uint16(header[54:]))
	if size != SegmentSize {
		return nil, m.Errorf("program headers of %d bytes, want %d", size, SegmentSize)
	}
	if count*SegmentSize > uint64(m.Size) {
		return nil, m.Errorf("the core file ends within its %d program headers", count)
	}
	table := make([]byte, count*SegmentSize)
	if err := m.readFile(table, offset); err != nil {
		return nil, m.Errorf("%d program headers at offset %#x: %w", count, offset, err)
	}
	return table, nil
}

// readFile fills p from an offset of the file.
func (m *Image) readFile(p []byte, offset uint64) error {
	if offset > uint64(m.Size) || uint64(len(p)) > uint64(m.Size)-offset {
		return fmt.Errorf("the file ends at %#x: %w", m.Size, io.ErrUnexpectedEOF)
	}
	n, err := m.In.ReadAt(p, int64(offset))
	if n == len(p) {
		return nil
	}
	return cmp.Or(err, io.ErrUnexpectedEOF)
}

// addSegment adds the segment of a program header.
func (m *Image) addSegment(entry []byte) {
	le := binary.LittleEndian
	s := Segment{
		Address: le.Uint64(entry[16:]), Memory: le.Uint64(entry[40:]),
		Offset: le.Uint64(entry[8:]), Bytes: le.Uint64(entry[32:]),
		Writable: elf.ProgFlag(le.Uint32(entry[4:]))&elf.PF_W != 0,
	}
	there := uint64(m.Size) - min(s.Offset, uint64(m.Size))
	if s.Bytes > there {
		s.Bytes, s.cut = there, true
	}
	switch elf.ProgType(le.Uint32(entry)) {
	case elf.PT_NOTE:
		if m.notes.Bytes == 0 {
			m.notes = s
		}
	case elf.PT_LOAD:
		s.Memory = max(s.Memory, s.Bytes)
		m.Cut = m.Cut || s.cut
		if s.end() >= s.Address {
			m.Segments = append(m.Segments, s)
		}
	}
}

func (m *Image) order() error {
	slices.SortStableFunc(m.Segments, func(a, b Segment) int { return cmp.Compare(a.Address, b.Address) })
	for i := 1; i < len(m.Segments); i++ {
		if a, b := &m.Segments[i-1], &m.Segments[i]; a.end() > b.Address {
			return m.Errorf("segments overlap at address %#x: the core file is damaged", b.Address)
		}
	}
	left := uint64(m.Size)
	for i := range m.Segments {
		s := &m.Segments[i]
		if s.Bytes > left {
			return m.Errorf("segments overlap at offset %#x: the core file is damaged", s.Offset)
		}
		left -= s.Bytes
	}
	return nil
}

// Reasons that memory is not available.
var (
	ErrCut      = errors.New("the core file is truncated before it")
	errExcluded = errors.New("the core file does not contain it")
	ErrUnmapped = errors.New("the process had no memory there")
)

// Find returns the segment that contains an address, or nil and the reason.
func (m *Image) Find(address uint64) (*Segment, error) {
	i, _ := slices.BinarySearchFunc(m.Segments, address, func(s Segment, address uint64) int {
		if s.end() > address {
			return 1
		}
		return -1
	})
	if i == len(m.Segments) || m.Segments[i].Address > address {
		return nil, ErrUnmapped
	}
	s := &m.Segments[i]
	switch {
	case address-s.Address < s.Bytes:
		return s, nil
	case s.cut:
		return nil, ErrCut
	}
	return nil, errExcluded
}

// ReadSome reads memory at an address until p is full. If it reads less, it returns the reason.
func (m *Image) ReadSome(p []byte, address uint64) (int, error) {
	done := 0
	for done < len(p) {
		s, err := m.Find(address)
		if err != nil {
			return done, err
		}
		from := address - s.Address
		n := min(uint64(len(p)-done), s.Bytes-from)
		if err := m.readFile(p[done:done+int(n)], s.Offset+from); err != nil {
			return done, err
		}
		done += int(n)
		address += n
	}
	return done, nil
}

// Read reads memory that must be complete. what is for the error.
func (m *Image) Read(what string, address uint64, size int) ([]byte, error) {
	p := make([]byte, size)
	if _, err := m.ReadSome(p, address); err != nil {
		return nil, m.Errorf("%s at address %#x: %w", what, address, err)
	}
	return p, nil
}

// largeSegment is the size above which a segment is probably heap rather than a program's data.
const largeSegment = 64 << 20

// Searches select segments to search. The first selects those that may be the program's data. The second
// selects the others, and is used only if the first found nothing.
var Searches = []func(*Segment) bool{IsSmall, func(s *Segment) bool { return !IsSmall(s) }}

func IsSmall(s *Segment) bool { return s.Bytes <= largeSegment }

// Search returns up to most addresses at which the text is found in writable memory.
func (m *Image) Search(text string, most int) (found []uint64) {
	for _, wanted := range Searches {
		if found = m.SearchSegments(text, most, wanted); found != nil {
			break
		}
	}
	return found
}

func (m *Image) SearchSegments(text string, most int, wanted func(*Segment) bool) (found []uint64) {
	m.EachWindow(len(text)-1, wanted, func(address uint64, p []byte) bool {
		for at := 0; ; at++ {
			n := bytes.Index(p[at:], []byte(text))
			if n < 0 {
				return true
			}
			at += n
			if found = append(found, address+uint64(at)); len(found) == most {
				return false
			}
		}
	})
	return found
}

// EachWindow calls each with the contents of the wanted writable segments, piece by piece, until each
// returns false. Successive pieces of a segment overlap by this number of bytes.
func (m *Image) EachWindow(overlap int, wanted func(*Segment) bool, each func(address uint64, p []byte) bool) {
	window := make([]byte, 1<<20)
	for i := range m.Segments {
		s := &m.Segments[i]
		if !s.Writable || !wanted(s) {
			continue
		}
		for from := uint64(0); from < s.Bytes; {
			p := window[:min(uint64(len(window)), s.Bytes-from)]
			if m.readFile(p, s.Offset+from) != nil {
				break
			}
			if !each(s.Address+from, p) {
				return
			}
			if from+uint64(len(p)) == s.Bytes {
				break
			}
			from += uint64(len(p) - overlap)
		}
	}
}

// Note returns the body of the kernel's first note of a type with at least this size, or nil if there
// is none.
func (m *Image) Note(kind elf.NType, size int) (found []byte) {
	m.EachNote(func(k elf.NType, body []byte) bool {
		if k == kind && len(body) >= size {
			found = body
		}
		return found == nil
	}, kind)
	return found
}

// EachNote calls each with the kernel's notes of these types, until it returns false.
func (m *Image) EachNote(each func(kind elf.NType, body []byte) bool, kinds ...elf.NType) {
	le := binary.LittleEndian
	head := make([]byte, 20)
	for at, n := uint64(0), 0; at+20 <= m.notes.Bytes && n < maxNotes; n++ {
		if m.readFile(head, m.notes.Offset+at) != nil {
			return
		}
		name, size, kind := uint64(le.Uint32(head)), uint64(le.Uint32(head[4:])), elf.NType(le.Uint32(head[8:]))
		from := at + 12 + (name+3)&^3
		if from+size > m.notes.Bytes {
			return
		}
		if slices.Contains(kinds, kind) && name == 5 && string(head[12:16]) == "CORE" && size <= maxNote {
			body := make([]byte, size)
			if m.readFile(body, m.notes.Offset+from) != nil || !each(kind, body) {
				return
			}
		}
		at = from + (size+3)&^3
	}
}

// Places returns the addresses of the chunks in [from, to) whose first byte is in the file, in
// ascending order. from must be the address of a chunk.
func (m *Image) Places(from, to uint64) iter.Seq[uint64] {
	return func(yield func(uint64) bool) {
		for at := from; at < to; {
			if _, err := m.Find(at); err == nil {
				if !yield(at) {
					return
				}
				at += ChunkSize
				continue
			}
			// Continue with the first chunk that begins in a later segment.
			i, _ := slices.BinarySearchFunc(m.Segments, at, func(s Segment, address uint64) int {
				if s.Address > address {
					return 1
				}
				return -1
			})
			if i == len(m.Segments) || m.Segments[i].Address >= to {
				return
			}
			at = (m.Segments[i].Address + ChunkSize - 1) &^ (ChunkSize - 1)
		}
	}
}

// From returns the same memory, read from another file.
func (m *Image) From(in io.ReaderAt) *Image {
	other := *m
	other.In = in
	return &other
}

// MaxRoots limits the number of runtimes in a core. There may be one linked in, one preloaded, and
// copies of their data elsewhere in memory.
const MaxRoots = 64

// UserSpace is the end of a process's address space.
const UserSpace = 1 << 47

// Available returns how many of the n bytes at an address are in the image.
func (m *Image) Available(address, n uint64) int {
	var got uint64
	for got < n {
		s, err := m.Find(address + got)
		if err != nil {
			break
		}
		got += min(n-got, s.Bytes-(address+got-s.Address))
	}
	return int(got)
}

// Word reads 8 bytes.
func (m *Image) Word(address uint64) (uint64, error) {
	var b [8]byte
	_, err := m.ReadSome(b[:], address)
	return binary.LittleEndian.Uint64(b[:]), err
}
