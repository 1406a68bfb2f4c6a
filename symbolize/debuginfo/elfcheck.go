package debuginfo

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

const (
	// maxSections limits the sections of a file. Object files of -ffunction-sections have some
	// 100,000.
	maxSections = 1 << 20
	// maxSectionNames limits the bytes of all section names, which can overlap.
	maxSectionNames = 64 << 20
	// maxOverlap limits how often a byte of the file can be in sections, on average.
	maxOverlap = 4
)

// checkedFile reads the headers of an ELF file. debug/elf decompresses section names and copies
// each of them, without a limit on memory. So checkedFile checks the headers first.
func checkedFile(r io.ReaderAt, size int64) (*elf.File, error) {
	if err := checkSections(r, size); err != nil {
		return nil, err
	}
	return elf.NewFile(r)
}

// IsELF reports whether a file starts like an ELF file. It needs four bytes.
func IsELF(head []byte) bool { return bytes.HasPrefix(head, []byte(elf.ELFMAG)) }

// rawSection is a section header.
type rawSection struct {
	name         uint32
	kind         elf.SectionType
	flags        elf.SectionFlag
	offset, size uint64
	link         uint32
}

// checkSections returns an error for headers that make debug/elf exhaust memory or time. It
// leaves other errors to debug/elf.
func checkSections(r io.ReaderAt, size int64) error {
	var ident [64]byte
	n, _ := r.ReadAt(ident[:], 0)
	if n < 52 || !IsELF(ident[:]) {
		return nil
	}
	order := binary.ByteOrder(binary.LittleEndian)
	if elf.Data(ident[elf.EI_DATA]) == elf.ELFDATA2MSB {
		order = binary.BigEndian
	}
	wide := elf.Class(ident[elf.EI_CLASS]) == elf.ELFCLASS64
	var at uint64
	var entry, count, names uint64
	if wide {
		at, entry, count, names = order.Uint64(ident[40:]), uint64(order.Uint16(ident[58:])), uint64(order.Uint16(ident[60:])), uint64(order.Uint16(ident[62:]))
	} else {
		at, entry, count, names = uint64(order.Uint32(ident[32:])), uint64(order.Uint16(ident[46:])), uint64(order.Uint16(ident[48:])), uint64(order.Uint16(ident[50:]))
	}
	least := uint64(40)
	if wide {
		least = 64
	}
	if at == 0 || at >= uint64(size) || entry < least {
		return nil
	}
	read := func(b []byte) (s rawSection) {
		s.name, s.kind = order.Uint32(b), elf.SectionType(order.Uint32(b[4:]))
		if wide {
			s.flags, s.offset, s.size, s.link = elf.SectionFlag(order.Uint64(b[8:])), order.Uint64(b[24:]), order.Uint64(b[32:]), order.Uint32(b[40:])
		} else {
			s.flags, s.offset, s.size, s.link = elf.SectionFlag(order.Uint32(b[8:])), uint64(order.Uint32(b[16:])), uint64(order.Uint32(b[20:])), order.Uint32(b[24:])
		}
		return s
	}
	b := make([]byte, entry)
	if _, err := r.ReadAt(b, int64(at)); err != nil {
		return nil
	}
	first := read(b)
	if count == 0 { // the number does not fit the field
		count = first.size
	}
	if names == uint64(elf.SHN_XINDEX) {
		names = uint64(first.link)
	}
	if count > maxSections {
		return fmt.Errorf("%d sections, more than %d", count, maxSections)
	}
	if count > (uint64(size)-at)/entry {
		return nil
	}
	sections := make([]rawSection, count)
	for i := range sections {
		if _, err := r.ReadAt(b, int64(at+uint64(i)*entry)); err != nil {
			return nil
		}
		sections[i] = read(b)
	}
	return checkHeaders(r, size, sections, names)
}

func checkHeaders(r io.ReaderAt, size int64, sections []rawSection, names uint64) error {
	compressed := func(i uint64) bool { return i < uint64(len(sections)) && sections[i].flags&elf.SHF_COMPRESSED != 0 }
	if compressed(names) {
		return errors.New("the section names are compressed")
	}
	var covered uint64
	for i := range sections {
		s := &sections[i]
		if compressed(uint64(i)) && (s.kind != elf.SHT_PROGBITS || s.flags&elf.SHF_ALLOC != 0) {
			return fmt.Errorf("section %d of type %v is compressed: only debug information may be compressed", i, s.kind)
		}
		if s.kind != elf.SHT_NULL && compressed(uint64(s.link)) {
			return fmt.Errorf("section %d links to a compressed section", i)
		}
		if s.kind != elf.SHT_NOBITS && s.kind != elf.SHT_NULL && s.size <= uint64(size) && s.offset <= uint64(size)-s.size {
			covered += s.size
		}
	}
	if covered > maxOverlap*uint64(size) {
		return fmt.Errorf("sections of %d bytes overlap in a file of %d", covered, size)
	}
	if names >= uint64(len(sections)) {
		return nil
	}
	table := &sections[names]
	if table.size > uint64(size) || table.offset > uint64(size)-table.size {
		return nil
	}
	text := make([]byte, table.size)
	if _, err := r.ReadAt(text, int64(table.offset)); err != nil {
		return nil
	}
	// ends are the ends of all strings.
	ends := make([]uint32, 0, 64)
	for at := 0; at < len(text); at++ {
		i := bytes.IndexByte(text[at:], 0)
		if i < 0 {
			break
		}
		at += i
		ends = append(ends, uint32(at))
	}
	var total uint64
	for i := range sections {
		if end, ok := firstFrom(ends, sections[i].name); ok {
			total += uint64(end - sections[i].name)
		}
	}
	if total > maxSectionNames {
		return fmt.Errorf("the section names take %d bytes, more than %d", total, maxSectionNames)
	}
	return nil
}

// firstFrom returns the first of sorted numbers that is at least n.
func firstFrom(sorted []uint32, n uint32) (uint32, bool) {
	from, to := 0, len(sorted)
	for from < to {
		if mid := (from + to) / 2; sorted[mid] < n {
			from = mid + 1
		} else {
			to = mid
		}
	}
	if from == len(sorted) {
		return 0, false
	}
	return sorted[from], true
}
