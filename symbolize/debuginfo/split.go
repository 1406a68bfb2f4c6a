package debuginfo

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/xray-tools/xray/internal/fileio"
)

// debugInfo is the debug information of a binary: in the file or its debug file, in .dwo files
// or a .dwp package, and in a file of dwz.
type debugInfo struct {
	mu   sync.Mutex
	b    *Binary
	main *debugData

	ready    bool
	pieces   []unitPiece  // by address
	packages []*debugData // .dwp files
	splits   map[*unit]*unit
	resident []*unit // whose entries are in memory
	bytes    int
	err      error

	code    *Code
	types   map[typeKey]*Type  // that were read
	defined map[string]typeKey // classes that units define; nil while unused
}

// unitPiece is an address range of a unit.
type unitPiece struct {
	addressRange
	unit *unit
}

// maxUnitPieces limits the ranges of all units.
const maxUnitPieces = 1 << 22

// residentLimit limits the bytes of entries in memory, not counting one unit.
const residentLimit = 64 << 20

// newDebugInfo uses the file with line tables, which also has the debug information.
func newDebugInfo(b *Binary) *debugInfo {
	i := &debugInfo{b: b, main: newDebugData(b.lines), splits: make(map[*unit]*unit), types: make(map[typeKey]*Type), code: NewCode(b.elf)}
	if alt := b.openAlt(b.lines); alt != nil {
		i.main.alt = newDebugData(alt)
	}
	return i
}

// unitAt returns the unit that contains an address; nil if there is none. It returns the split
// unit for a skeleton.
func (i *debugInfo) unitAt(address uint64) *unit {
	i.prepare()
	n, _ := slices.BinarySearchFunc(i.pieces, address, func(p unitPiece, a uint64) int {
		if p.low <= a {
			return -1
		}
		return 1
	})
	if n == 0 || address >= i.pieces[n-1].high {
		return nil
	}
	u := i.pieces[n-1].unit
	if u.kind == unitSkeleton || u.dwo != "" {
		if u = i.splitOf(u); u == nil {
			return nil
		}
	}
	i.keep(u)
	return u
}

// splitOf returns the split unit of a skeleton; nil if there is none.
func (i *debugInfo) splitOf(u *unit) *unit {
	split, ok := i.splits[u]
	if !ok {
		split = i.split(u)
		i.splits[u] = split
	}
	return split
}

// release drops the entries of units that were read as nodes if there are many. It must not be called
// while these are being read.
func (i *debugInfo) release() {
	all := append([]*debugData{i.main, i.main.alt}, i.packages...)
	for _, s := range i.splits {
		if s != nil {
			all = append(all, s.d)
		}
	}
	for _, d := range all {
		if d == nil || d.loadedBytes <= residentLimit {
			continue
		}
		for _, u := range d.loaded {
			u.data, u.abbrevs = nil, nil
		}
		d.loaded, d.loadedBytes = nil, 0
	}
}

// keep loads the entries of a unit. It drops those of other units if there are many.
func (i *debugInfo) keep(u *unit) {
	if u.data != nil || u.load() != nil {
		return
	}
	if i.bytes > residentLimit {
		for _, old := range i.resident {
			old.data, old.abbrevs = nil, nil
		}
		i.resident, i.bytes = i.resident[:0], 0
	}
	i.resident = append(i.resident, u)
	u.abbrevs = u.d.abbreviations(u.abbrevKey())
	i.bytes += len(u.data) + 16*u.abbrevs.bytes
}

// prepare reads the address ranges of all units.
func (i *debugInfo) prepare() {
	if i.ready {
		return
	}
	i.ready = true
	units, err := i.main.units()
	i.err = err
	listed := 0
	for _, u := range units {
		if listed > maxListed || !u.readRoot() {
			continue
		}
		for _, r := range u.pieces(&u.root) {
			if len(i.pieces) == maxUnitPieces {
				i.err = fmt.Errorf("section %s: more than %d ranges of units", i.main.info.s.Name, maxUnitPieces)
				break
			}
			i.pieces = append(i.pieces, unitPiece{r, u})
		}
		listed += u.listed
	}
	slices.SortStableFunc(i.pieces, func(a, b unitPiece) int { return cmp.Compare(a.low, b.low) })
	for _, path := range i.b.packagePaths() {
		o, err := i.b.openOther(path)
		if err == nil && o != nil {
			if d := newDebugData(o); d.index != nil {
				i.packages = append(i.packages, d)
			}
		}
	}
}

// packagePaths returns the possible paths of .dwp files: beside the file, beside its debug
// file, and in debug directories.
func (b *Binary) packagePaths() []string {
	paths := []string{b.path + ".dwp"}
	for _, o := range b.others {
		paths = append(paths, o.path+".dwp")
		if base, ok := strings.CutSuffix(o.path, ".debug"); ok {
			paths = append(paths, base+".dwp")
		}
	}
	for _, dir := range b.opts.DebugDirs {
		paths = append(paths, filepath.Join(dir, filepath.Base(b.path)+".dwp"))
		if byID := BuildIDPath(dir, b.buildID); byID != "" {
			paths = append(paths, byID+".dwp", byID+".debug.dwp")
		}
	}
	return paths
}

// split finds the split unit of a skeleton; nil if there is none.
func (i *debugInfo) split(u *unit) *unit {
	for _, p := range i.packages {
		if s := p.packed(u.id); s != nil {
			return s.inherit(u)
		}
	}
	for _, path := range i.b.dwoPaths(u) {
		d, err := readDwo(path)
		if err != nil {
			continue
		}
		units, _ := d.units()
		for _, s := range units {
			if s.readRoot() && s.id == u.id {
				d.alt = i.main.alt
				return s.inherit(u)
			}
		}
		if len(units) > 0 {
			i.b.refuse(fmt.Errorf("%s: not the file with ID %016x that %s was linked with: it may be of another build", path, u.id, i.b.path))
		}
	}
	return nil
}

// dwoPaths returns the possible paths of a .dwo file.
func (b *Binary) dwoPaths(u *unit) []string {
	if u.dwo == "" {
		return nil
	}
	base := filepath.Base(u.dwo)
	paths := []string{joinPath(u.dir.String(), u.dwo), filepath.Join(filepath.Dir(b.path), base)}
	for _, dir := range b.opts.DebugDirs {
		paths = append(paths, filepath.Join(dir, u.dwo), filepath.Join(dir, base))
	}
	return paths
}

// readDwo reads a .dwo file into memory. There may be more .dwo files than a process can open.
func readDwo(path string) (*debugData, error) {
	f, size, err := fileio.OpenRegular(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var d *debugData
	err = Guard(func() error {
		data, err := readN(nil, f, uint64(size))
		if err != nil {
			return err
		}
		o, err := NewELF(bytes.NewReader(data), size)
		if err == nil {
			d = newDebugData(o)
		}
		return err
	})
	return d, err
}

// inherit copies the attributes of a skeleton to its split unit.
func (u *unit) inherit(skeleton *unit) *unit {
	if u.version >= 5 && u.strBase == 0 {
		u.strBase = indexHeader(u.wide, 8)
	}
	if u.version >= 5 && u.rnglistsBase == 0 {
		u.rnglistsBase = indexHeader(u.wide, rangeListsHeader)
	}
	if u.version >= 5 && u.loclistsBase == 0 {
		u.loclistsBase = indexHeader(u.wide, rangeListsHeader)
	}
	u.addresses, u.lines = skeleton.addresses, skeleton.lines
	u.addrBase, u.rangesBase, u.low = skeleton.addrBase, skeleton.rangesBase, skeleton.low
	u.dir, u.table = skeleton.dir, skeleton.table
	return u
}

// indexHeader returns the size of the header before the first offset of a section.
func indexHeader(wide bool, size uint64) uint64 {
	if wide {
		return size + 8
	}
	return size
}

// Columns of the index of a package, from the DWARF 5 standard, section 7.3.5.3.
const (
	columnInfo       = 1
	columnAbbrev     = 3
	columnLoc        = 5 // .debug_loc in version 2, and .debug_loclists in version 5
	columnStrOffsets = 6
	columnRnglists   = 8 // in version 5; in version 2, .debug_macro
)

// maxProbes limits the search in the hash table of an index.
const maxProbes = 1000

// packed finds a unit by id in a package. The index of the package has the offset of the unit
// in each section.
func (d *debugData) packed(id uint64) *unit {
	b, err := d.index.Bytes()
	if err != nil || len(b) < 16 {
		return nil
	}
	c := cursor{b: b, order: d.o.f.ByteOrder}
	version := c.uint(4)
	if d.o.f.ByteOrder == binary.BigEndian && version>>16 == 5 {
		version = 5 // 2 bytes of version and 2 of padding
	}
	columns, units, slots := c.uint(4), c.uint(4), c.uint(4)
	hashes, rows := c.take(slots*8), c.take(slots*4)
	row := uint64(0)
	// This is a hash table with open addressing and 2^n slots.
	for slot, try := id&(slots-1), uint64(0); !c.bad && try < min(slots, maxProbes); try++ {
		row = d.o.uint(rows[slot*4:], 4)
		if row == 0 || d.o.uint(hashes[slot*8:], 8) == id {
			break
		}
		row = 0
		slot = (slot + (id>>32&(slots-1) | 1)) & (slots - 1)
	}
	if c.bad || row == 0 || row > units || columns > 16 {
		return nil
	}
	kinds := cursor{b: c.take(columns * 4), order: c.order}
	c.take((row - 1) * columns * 4)
	base := make(map[uint64]uint64)
	for range columns {
		base[kinds.uint(4)] = c.uint(4)
	}
	if c.bad {
		return nil
	}
	list, _ := d.units()
	n, ok := slices.BinarySearchFunc(list, base[columnInfo], func(u *unit, at uint64) int { return cmp.Compare(u.at, at) })
	if !ok {
		return nil
	}
	u := list[n]
	if u.root.tag != 0 {
		return u
	}
	u.abbrevAt += base[columnAbbrev]
	u.strBase, u.locBase = base[columnStrOffsets], base[columnLoc]
	if version >= 5 {
		u.strBase += indexHeader(u.wide, 8)
		u.rnglistsBase = base[columnRnglists] + indexHeader(u.wide, rangeListsHeader)
		u.loclistsBase = base[columnLoc] + indexHeader(u.wide, rangeListsHeader)
	}
	if !u.readRoot() {
		return nil
	}
	return u
}

// openAlt opens the file of dwz that .gnu_debugaltlink names with its build ID; nil if there is
// none.
func (b *Binary) openAlt(o *ELF) *ELF {
	link, err := o.section(".gnu_debugaltlink").at(0, 1<<12)
	end := bytes.IndexByte(link, 0)
	if err != nil || end <= 0 {
		return nil
	}
	name, id := string(link[:end]), fmt.Sprintf("%x", link[end+1:])
	paths := []string{joinPath(filepath.Dir(o.path), name)}
	for _, dir := range b.opts.DebugDirs {
		if byID := BuildIDPath(dir, id); byID != "" {
			paths = append(paths, byID+".debug")
		}
		paths = append(paths, filepath.Join(dir, ".dwz", filepath.Base(name)), filepath.Join(dir, filepath.Base(name)))
	}
	for _, path := range paths {
		other, err := b.openOther(path)
		if other == nil || err != nil {
			continue
		}
		have := other.BuildID()
		if have == id {
			return other
		}
		b.refuse(fmt.Errorf("%s: its build ID is %s, not %s", path, cmp.Or(have, "none"), id))
	}
	if b.opts.Fetch != nil {
		if other, err := b.fetchDebug(id); err == nil {
			return other
		}
	}
	return nil
}
