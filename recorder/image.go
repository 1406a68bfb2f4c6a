package recorder

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

// image is the memory of a process, as far as an ELF core file contains it. Sizes and addresses in the
// file may be wrong, so they are checked against its size before anything is allocated or read.
type image struct {
	name     string
	in       io.ReaderAt
	size     int64
	segments []segment // disjoint, in order of addresses
	cut      bool      // the file ends before a segment does
	notes    segment   // where the notes are in the file
}

// segment is a range of memory.
type segment struct {
	address, memory uint64 // address and size
	offset, bytes   uint64 // the part in the file
	writable, cut   bool
}

func (s *segment) end() uint64 { return s.address + s.memory }

const (
	elfHeaderSize = 64
	segmentSize   = 56
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

func (m *image) errorf(format string, args ...any) error {
	return fmt.Errorf("%s: %w", m.name, fmt.Errorf(format, args...))
}

// openImage reads the headers of a core file.
func openImage(name string, in io.ReaderAt, size int64) (*image, error) {
	m := &image{name: name, in: in, size: size}
	header := make([]byte, elfHeaderSize)
	n, err := in.ReadAt(header, 0)
	if err != nil && err != io.EOF {
		return nil, m.errorf("%w", err)
	}
	header = header[:n]
	for _, a := range archives {
		if strings.HasPrefix(string(header), a.magic) {
			return nil, m.errorf("compressed with %s, which xray does not support here: decompress it first", a.name)
		}
	}
	if !bytes.HasPrefix(header, []byte(elf.ELFMAG)) {
		return nil, m.errorf("neither a core file nor a ring file: not an ELF file")
	}
	if n < elfHeaderSize {
		return nil, m.errorf("the core file ends within its header, after %d bytes", n)
	}
	machine := elf.Machine(binary.LittleEndian.Uint16(header[18:]))
	if elf.Class(header[4]) != elf.ELFCLASS64 || elf.Data(header[5]) != elf.ELFDATA2LSB || machine != elf.EM_X86_64 {
		return nil, m.errorf("not from x86-64, the only architecture that the recorder supports")
	}
	if t := elf.Type(binary.LittleEndian.Uint16(header[16:])); t != elf.ET_CORE {
		return nil, m.errorf("a program or library, not a core file")
	}
	table, err := m.segmentTable(header)
	if err != nil {
		return nil, err
	}
	for entry := range slices.Chunk(table, segmentSize) {
		m.addSegment(entry)
	}
	return m, m.order()
}

// segmentTable reads the program headers.
func (m *image) segmentTable(header []byte) ([]byte, error) {
	le := binary.LittleEndian
	count := uint64(le.Uint16(header[56:]))
	if count == manySegments {
		section := make([]byte, sectionSize)
		if err := m.readFile(section, le.Uint64(header[40:])); err != nil {
			return nil, m.errorf("section header at offset %#x, which has the number of segments: %w", le.Uint64(header[40:]), err)
		}
		count = uint64(le.Uint32(section[44:]))
	}
	offset, size := le.Uint64(header[32:]), uint64(le.Uint16(header[54:]))
	if size != segmentSize {
		return nil, m.errorf("program headers of %d bytes, want %d", size, segmentSize)
	}
	if count*segmentSize > uint64(m.size) {
		return nil, m.errorf("the core file ends within its %d program headers", count)
	}
	table := make([]byte, count*segmentSize)
	if err := m.readFile(table, offset); err != nil {
		return nil, m.errorf("%d program headers at offset %#x: %w", count, offset, err)
	}
	return table, nil
}

// readFile fills p from an offset of the file.
func (m *image) readFile(p []byte, offset uint64) error {
	if offset > uint64(m.size) || uint64(len(p)) > uint64(m.size)-offset {
		return fmt.Errorf("the file ends at %#x: %w", m.size, io.ErrUnexpectedEOF)
	}
	n, err := m.in.ReadAt(p, int64(offset))
	if n == len(p) {
		return nil
	}
	return cmp.Or(err, io.ErrUnexpectedEOF)
}

// addSegment adds the segment of a program header.
func (m *image) addSegment(entry []byte) {
	le := binary.LittleEndian
	s := segment{
		address: le.Uint64(entry[16:]), memory: le.Uint64(entry[40:]),
		offset: le.Uint64(entry[8:]), bytes: le.Uint64(entry[32:]),
		writable: elf.ProgFlag(le.Uint32(entry[4:]))&elf.PF_W != 0,
	}
	there := uint64(m.size) - min(s.offset, uint64(m.size))
	if s.bytes > there {
		s.bytes, s.cut = there, true
	}
	switch elf.ProgType(le.Uint32(entry)) {
	case elf.PT_NOTE:
		if m.notes.bytes == 0 {
			m.notes = s
		}
	case elf.PT_LOAD:
		s.memory = max(s.memory, s.bytes)
		m.cut = m.cut || s.cut
		if s.end() >= s.address {
			m.segments = append(m.segments, s)
		}
	}
}

func (m *image) order() error {
	slices.SortStableFunc(m.segments, func(a, b segment) int { return cmp.Compare(a.address, b.address) })
	for i := 1; i < len(m.segments); i++ {
		if a, b := &m.segments[i-1], &m.segments[i]; a.end() > b.address {
			return m.errorf("segments overlap at address %#x: the core file is damaged", b.address)
		}
	}
	left := uint64(m.size)
	for i := range m.segments {
		s := &m.segments[i]
		if s.bytes > left {
			return m.errorf("segments overlap at offset %#x: the core file is damaged", s.offset)
		}
		left -= s.bytes
	}
	return nil
}

// Reasons that memory is not available.
var (
	errCut      = errors.New("the core file is truncated before it")
	errExcluded = errors.New("the core file does not contain it")
	errUnmapped = errors.New("the process had no memory there")
)

// find returns the segment that contains an address, or nil and the reason.
func (m *image) find(address uint64) (*segment, error) {
	i, _ := slices.BinarySearchFunc(m.segments, address, func(s segment, address uint64) int {
		if s.end() > address {
			return 1
		}
		return -1
	})
	if i == len(m.segments) || m.segments[i].address > address {
		return nil, errUnmapped
	}
	s := &m.segments[i]
	switch {
	case address-s.address < s.bytes:
		return s, nil
	case s.cut:
		return nil, errCut
	}
	return nil, errExcluded
}

// readSome reads memory at an address until p is full. If it reads less, it returns the reason.
func (m *image) readSome(p []byte, address uint64) (int, error) {
	done := 0
	for done < len(p) {
		s, err := m.find(address)
		if err != nil {
			return done, err
		}
		from := address - s.address
		n := min(uint64(len(p)-done), s.bytes-from)
		if err := m.readFile(p[done:done+int(n)], s.offset+from); err != nil {
			return done, err
		}
		done += int(n)
		address += n
	}
	return done, nil
}

// read reads memory that must be complete. what is for the error.
func (m *image) read(what string, address uint64, size int) ([]byte, error) {
	p := make([]byte, size)
	if _, err := m.readSome(p, address); err != nil {
		return nil, m.errorf("%s at address %#x: %w", what, address, err)
	}
	return p, nil
}

// largeSegment is the size above which a segment is probably heap rather than a program's data.
const largeSegment = 64 << 20

// searches select segments to search. The first selects those that may be the program's data. The second
// selects the others, and is used only if the first found nothing.
var searches = []func(*segment) bool{isSmall, func(s *segment) bool { return !isSmall(s) }}

func isSmall(s *segment) bool { return s.bytes <= largeSegment }

// search returns up to most addresses at which the text is found in writable memory.
func (m *image) search(text string, most int) (found []uint64) {
	for _, wanted := range searches {
		if found = m.searchSegments(text, most, wanted); found != nil {
			break
		}
	}
	return found
}

func (m *image) searchSegments(text string, most int, wanted func(*segment) bool) (found []uint64) {
	m.eachWindow(len(text)-1, wanted, func(address uint64, p []byte) bool {
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

// eachWindow calls each with the contents of the wanted writable segments, piece by piece, until each
// returns false. Successive pieces of a segment overlap by this number of bytes.
func (m *image) eachWindow(overlap int, wanted func(*segment) bool, each func(address uint64, p []byte) bool) {
	window := make([]byte, 1<<20)
	for i := range m.segments {
		s := &m.segments[i]
		if !s.writable || !wanted(s) {
			continue
		}
		for from := uint64(0); from < s.bytes; {
			p := window[:min(uint64(len(window)), s.bytes-from)]
			if m.readFile(p, s.offset+from) != nil {
				break
			}
			if !each(s.address+from, p) {
				return
			}
			if from+uint64(len(p)) == s.bytes {
				break
			}
			from += uint64(len(p) - overlap)
		}
	}
}

// note returns the body of the kernel's first note of a type with at least this size, or nil if there
// is none.
func (m *image) note(kind elf.NType, size int) (found []byte) {
	m.eachNote(func(k elf.NType, body []byte) bool {
		if k == kind && len(body) >= size {
			found = body
		}
		return found == nil
	}, kind)
	return found
}

// eachNote calls each with the kernel's notes of these types, until it returns false.
func (m *image) eachNote(each func(kind elf.NType, body []byte) bool, kinds ...elf.NType) {
	le := binary.LittleEndian
	head := make([]byte, 20)
	for at, n := uint64(0), 0; at+20 <= m.notes.bytes && n < maxNotes; n++ {
		if m.readFile(head, m.notes.offset+at) != nil {
			return
		}
		name, size, kind := uint64(le.Uint32(head)), uint64(le.Uint32(head[4:])), elf.NType(le.Uint32(head[8:]))
		from := at + 12 + (name+3)&^3
		if from+size > m.notes.bytes {
			return
		}
		if slices.Contains(kinds, kind) && name == 5 && string(head[12:16]) == "CORE" && size <= maxNote {
			body := make([]byte, size)
			if m.readFile(body, m.notes.offset+from) != nil || !each(kind, body) {
				return
			}
		}
		at = from + (size+3)&^3
	}
}

// places returns the addresses of the chunks in [from, to) whose first byte is in the file, in
// ascending order. from must be the address of a chunk.
func (m *image) places(from, to uint64) iter.Seq[uint64] {
	return func(yield func(uint64) bool) {
		for at := from; at < to; {
			if _, err := m.find(at); err == nil {
				if !yield(at) {
					return
				}
				at += chunkSize
				continue
			}
			// Continue with the first chunk that begins in a later segment.
			i, _ := slices.BinarySearchFunc(m.segments, at, func(s segment, address uint64) int {
				if s.address > address {
					return 1
				}
				return -1
			})
			if i == len(m.segments) || m.segments[i].address >= to {
				return
			}
			at = (m.segments[i].address + chunkSize - 1) &^ (chunkSize - 1)
		}
	}
}

// from returns the same memory, read from another file.
func (m *image) from(in io.ReaderAt) *image {
	other := *m
	other.in = in
	return &other
}

// maxRoots limits the number of runtimes in a core. There may be one linked in, one preloaded, and
// copies of their data elsewhere in memory.
const maxRoots = 64

// userSpace is the end of a process's address space.
const userSpace = 1 << 47
