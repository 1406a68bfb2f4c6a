package attach

import (
	"bufio"
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"slices"
	"strings"

	"github.com/go-delve/delve/pkg/dwarf/frame"
)

// mapping is a line of /proc/PID/maps.
type mapping struct {
	start, end, offset uint64
	perms              string
	device             string
	inode              string
	path               string
}

func (m *mapping) executable() bool { return strings.Contains(m.perms, "x") }

func readMaps(r io.Reader) ([]mapping, error) {
	var maps []mapping
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		fields := strings.Fields(lines.Text())
		if len(fields) < 5 {
			return nil, fmt.Errorf("invalid line in maps: %q", lines.Text())
		}
		m := mapping{perms: fields[1], device: fields[3], inode: fields[4]}
		if _, err := fmt.Sscanf(fields[0], "%x-%x", &m.start, &m.end); err != nil {
			return nil, fmt.Errorf("invalid line in maps: %q", lines.Text())
		}
		if _, err := fmt.Sscanf(fields[2], "%x", &m.offset); err != nil {
			return nil, fmt.Errorf("invalid line in maps: %q", lines.Text())
		}
		if len(fields) > 5 {
			m.path = strings.Join(fields[5:], " ")
		}
		maps = append(maps, m)
	}
	return maps, lines.Err()
}

func mapsOf(pid int) ([]mapping, error) {
	f, err := os.Open(fmt.Sprintf("/proc/%d/maps", pid))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return readMaps(f)
}

// WritableMemory returns the private memory of a process that is readable and writable: the
// first address of each range, and the one behind it, in ascending order.
func WritableMemory(pid int) (ranges [][2]uint64, err error) {
	maps, err := mapsOf(pid)
	for i := range maps {
		if m := &maps[i]; strings.HasPrefix(m.perms, "rw") && strings.HasSuffix(m.perms, "p") {
			ranges = append(ranges, [2]uint64{m.start, m.end})
		}
	}
	return ranges, err
}

// image is an ELF file in the memory of a process.
type image struct {
	path    string // as the process knows it
	base    uint64 // offset to add to its addresses
	entry   uint64 // where the kernel or the loader begins a program
	end     uint64 // of its memory
	text    [][2]uint64
	symbols []imageSymbol

	frameHeader uint64 // address of .eh_frame_hdr, or 0
	read        bool   // frames were read
	frames      frame.FrameDescriptionEntries
}

// imageSymbol is a function or variable that an image exports.
type imageSymbol struct {
	name       string
	start, end uint64 // addresses in the process
}

func (i *image) name() string { return path.Base(strings.TrimSuffix(i.path, " (deleted)")) }

func (i *image) has(address uint64) bool {
	return slices.ContainsFunc(i.text, func(t [2]uint64) bool { return t[0] <= address && address < t[1] })
}

// find returns the address of a symbol, or 0.
func (i *image) find(name string) uint64 {
	for _, s := range i.symbols {
		if s.name == name {
			return s.start
		}
	}
	return 0
}

// Limits for reading the memory of a process.
const (
	maxImages  = 4096
	maxSymbols = 1 << 20
	maxStrings = 64 << 20
)

// readImages finds the ELF files in the memory of a process. It reads memory rather than files,
// because files may be deleted, or be in a file system that only the process sees.
func readImages(mem io.ReaderAt, maps []mapping) []image {
	var images []image
	for i := range maps {
		m := &maps[i]
		if m.offset != 0 || m.path == "" || m.path[0] == '[' || !strings.HasPrefix(m.perms, "r") || len(images) == maxImages {
			continue
		}
		if img, err := readImage(mem, m, maps[i:]); err == nil {
			images = append(images, *img)
		}
	}
	return images
}

func readImage(mem io.ReaderAt, m *mapping, maps []mapping) (*image, error) {
	le := binary.LittleEndian
	head := make([]byte, 64)
	if _, err := mem.ReadAt(head, int64(m.start)); err != nil {
		return nil, err
	}
	if string(head[:4]) != elf.ELFMAG || head[elf.EI_CLASS] != byte(elf.ELFCLASS64) || le.Uint16(head[18:]) != uint16(elf.EM_X86_64) {
		return nil, errors.New("not an ELF file for amd64")
	}
	program := make([]byte, 56*int(min(le.Uint16(head[56:]), 256)))
	if _, err := mem.ReadAt(program, int64(m.start+le.Uint64(head[32:]))); err != nil {
		return nil, err
	}
	img := &image{path: m.path, base: m.start}
	if le.Uint16(head[16:]) == uint16(elf.ET_EXEC) {
		img.base = 0
	}
	img.entry = img.base + le.Uint64(head[24:])
	dynamic, size := uint64(0), uint64(0)
	for p := program; len(p) > 0; p = p[56:] {
		address, length := le.Uint64(p[16:]), le.Uint64(p[40:])
		switch elf.ProgType(le.Uint32(p)) {
		case elf.PT_GNU_EH_FRAME:
			img.frameHeader = img.base + address
		case elf.PT_LOAD:
			img.end = max(img.end, img.base+address+length)
			if le.Uint32(p[4:])&uint32(elf.PF_X) != 0 {
				img.text = append(img.text, [2]uint64{img.base + address, img.base + address + length})
			}
		case elf.PT_DYNAMIC:
			dynamic, size = img.base+address, min(length, 1<<16)
		}
	}
	table := make([]byte, size)
	if _, err := mem.ReadAt(table, int64(dynamic)); err != nil {
		return nil, err
	}
	var symtab, strtab, strsize uint64
	for ; len(table) >= 16; table = table[16:] {
		value := le.Uint64(table[8:])
		switch elf.DynTag(le.Uint64(table)) {
		case elf.DT_SYMTAB:
			symtab = value
		case elf.DT_STRTAB:
			strtab = value
		case elf.DT_STRSZ:
			strsize = value
		}
	}
	// In some files, the loader has added the base to the addresses.
	within := func(address uint64) uint64 {
		if address < img.base {
			return img.base + address
		}
		return address
	}
	symtab, strtab = within(symtab), within(strtab)
	// Linkers put the names directly after the symbols. The number of symbols is nowhere else.
	if strtab <= symtab || (strtab-symtab)/24 > maxSymbols || strsize > maxStrings {
		return img, nil
	}
	symbols, names := make([]byte, (strtab-symtab)/24*24), make([]byte, strsize)
	if _, err := mem.ReadAt(symbols, int64(symtab)); err != nil {
		return img, nil
	}
	if _, err := mem.ReadAt(names, int64(strtab)); err != nil {
		return img, nil
	}
	for s := symbols; len(s) > 0; s = s[24:] {
		name, value := le.Uint32(s), le.Uint64(s[8:])
		kind := elf.ST_TYPE(s[4])
		if le.Uint16(s[6:]) == 0 || uint64(name) >= strsize || kind != elf.STT_FUNC && kind != elf.STT_OBJECT {
			continue
		}
		text, _, _ := bytes.Cut(names[name:], []byte{0})
		img.symbols = append(img.symbols, imageSymbol{string(text), img.base + value, img.base + value + le.Uint64(s[16:])})
	}
	return img, nil
}
