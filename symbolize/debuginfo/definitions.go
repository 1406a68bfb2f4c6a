package debuginfo

import (
	"errors"
	"slices"
	"sync"
	"sync/atomic"
)

// definition is the location of a function according to its entry in .debug_info. The zero
// value means that it is unknown.
type definition struct {
	unit               uint64 // offset of the unit, to choose among several
	table              int64  // offset of the line table of the file
	file, line, column uint64
	dir                *unitText // compilation directory
	path               string    // replaces table and file if it is in another object
}

// definitionScan reads .debug_info once, on all cores, and finds the definitions of the
// functions at given addresses. It keeps a few units in memory.
type definitionScan struct {
	keys *addressIndex
	main *debugData

	mu    sync.Mutex
	found []definition        // by index in keys; line is 0 where nothing was found
	dirs  map[int64]*unitText // compilation directories, by line table
	first map[int64]uint64    // offsets of the units of dirs
	done  map[int64]bool      // line tables of units without missing functions
	split []*unit             // skeleton units with wanted functions
	err   error

	listed atomic.Int64 // entries of lists of ranges
}

// findDefinitions finds the definitions of the functions at the given addresses, which must be
// sorted and distinct. Damaged parts affect only their own functions.
func (i *debugInfo) findDefinitions(keys []uint64) *definitionScan {
	s := &definitionScan{
		keys: indexAddresses(keys), main: i.main, found: make([]definition, len(keys)),
		dirs: make(map[int64]*unitText), first: make(map[int64]uint64), done: make(map[int64]bool),
	}
	d := i.main
	if d.info == nil || d.abbrev == nil || len(keys) == 0 {
		return s
	}
	err := s.run()
	s.err = errors.Join(err, s.err)
	slices.SortFunc(s.split, func(a, b *unit) int { return int(a.at) - int(b.at) })
	if len(s.split) > 0 {
		i.prepare() // to find packages
	}
	for _, skeleton := range s.split {
		if u := i.split(skeleton); u != nil && u.load() == nil {
			s.newWorker().scan(u, skeleton.at)
			u.data = nil
		}
	}
	return s
}

// definitionWorker scans one unit after the other.
type definitionWorker struct {
	*definitionScan
	found []foundDefinition // of this unit
	seen  []uint32          // by index in keys: number of the last unit that defines it
	units uint32

	// The rest belongs to one unit. Its memory is reused for the next.
	u       unit
	entry   die
	abbrevs abbrevTable
	of      abbrevKey          // key of abbrevs
	read    map[abbrevKey]bool // tables that were read once
}

// foundDefinition is the definition of the function at an address.
type foundDefinition struct {
	key int // index in keys
	definition
}

func (s *definitionScan) newWorker() *definitionWorker {
	return &definitionWorker{definitionScan: s, seen: make([]uint32, len(s.found)), read: make(map[abbrevKey]bool)}
}

// run scans all units of the main object.
func (s *definitionScan) run() error {
	all := func(uint64) bool { return true }
	return s.main.info.eachUnit(all, func() func(*sectionUnit) {
		d, w := s.main.clone(), s.newWorker()
		return func(u *sectionUnit) {
			if s.listed.Load() > maxListed {
				return
			}
			if err := Guard(func() error { w.unit(d, u); return nil }); err != nil {
				s.mu.Lock()
				s.err = err
				s.mu.Unlock()
			}
		}
	})
}

// clone returns a debugData for use in another goroutine. It shares the sections that are kept
// as a whole.
func (d *debugData) clone() *debugData {
	c := newDebugData(d.o)
	c.alt = d.alt
	for _, p := range []struct{ from, to **Section }{
		{&d.info, &c.info}, {&d.abbrev, &c.abbrev}, {&d.str, &c.str}, {&d.lineStr, &c.lineStr}, {&d.strOffsets, &c.strOffsets},
		{&d.addr, &c.addr}, {&d.ranges, &c.ranges}, {&d.rnglists, &c.rnglists}, {&d.line, &c.line},
	} {
		if *p.from != nil && (*p.from).small() {
			*p.to = *p.from
		}
	}
	return c
}

// unit scans a unit of the main object.
func (s *definitionWorker) unit(d *debugData, b *sectionUnit) {
	u := &s.u
	*u = unit{d: d, at: b.at, addresses: d, lines: s.main, table: -1, end: b.at + uint64(b.head) + b.length}
	u.wide = b.wide()
	c := cursor{b: b.body, order: d.o.f.ByteOrder}
	if !u.header(&c) || len(c.b) == 0 {
		return
	}
	u.first, u.data = u.end-uint64(len(c.b)), c.b
	root := &s.entry
	u.abbrevs = s.abbreviations(u)
	if !u.entry(&c, u.first, root) {
		return
	}
	u.setRoot(root)
	if u.kind == unitSkeleton || u.dwo != "" {
		if n, _ := s.wanted(u, root); n != 0 {
			u.d, u.addresses, u.data, u.abbrevs = s.main, s.main, nil, nil
			skeleton := *u
			s.mu.Lock()
			s.split = append(s.split, &skeleton)
			s.addDir(u, u.at)
			s.mu.Unlock()
		}
		return
	}
	s.scan(u, u.at)
	if s.listed.Add(int64(u.listed)) > maxListed {
		panic("lists of ranges overlap")
	}
}

// abbreviations returns the abbreviations of a unit. They are valid until the next call. Most units
// have their own table, so only tables that are read a second time are kept.
func (s *definitionWorker) abbreviations(u *unit) *abbrevTable {
	key := u.abbrevKey()
	switch {
	case s.of == key && s.abbrevs.bytes > 0:
	case s.read[key]:
		return u.d.abbreviations(key)
	default:
		s.read[key], s.of = true, key
		u.d.readAbbreviations(key, &s.abbrevs)
	}
	return &s.abbrevs
}

// maxListed limits the range list entries that are read for one purpose. Units can share lists,
// so a small file can refer to any number of them.
const maxListed = 1 << 25

// wanted returns the number of wanted functions in the ranges of an entry. It returns -1 if the
// entry has no ranges.
func (s *definitionScan) wanted(u *unit, e *die) (n int, any bool) {
	for _, r := range u.pieces(e) {
		any = true
		from, _ := s.keys.search(r.low)
		to, _ := s.keys.search(r.high)
		n += to - from
	}
	if !any {
		return -1, false
	}
	return n, true
}

// scan finds the functions of a unit whose data is in memory. place is the offset of the unit
// in the main object.
func (s *definitionWorker) scan(u *unit, place uint64) {
	wanted, _ := s.wanted(u, &u.root)
	s.units++
	s.found = s.found[:0]
	if wanted != 0 {
		u.eachFunction(&s.entry, func(e *die) bool {
			s.define(u, e)
			return len(s.found) != wanted
		})
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.found) == wanted {
		s.done[u.table] = true
	}
	s.addDir(u, place)
	for _, def := range s.found {
		def.unit = place + 1
		if old := &s.definitionScan.found[def.key]; old.line == 0 || def.unit < old.unit {
			*old = def.definition
		}
	}
}

// addDir sets the compilation directory of a line table. The first unit wins.
func (s *definitionScan) addDir(u *unit, place uint64) {
	if first, ok := s.first[u.table]; u.dir != nil && (!ok || place < first) {
		s.dirs[u.table], s.first[u.table] = u.dir, place
	}
}

// define finds the wanted functions in the ranges of an entry.
func (s *definitionWorker) define(u *unit, e *die) {
	var def definition
	read := false
	for _, r := range u.pieces(e) {
		from, _ := s.keys.search(r.low)
		to := from
		for ; to < len(s.keys.sorted) && s.keys.sorted[to] < r.high; to++ {
			if s.seen[to] == s.units {
				continue
			}
			if !read {
				def, read = u.definition(e, s.keys.sorted[to]), true
			}
			if def.line == 0 {
				continue // the line table may have it
			}
			s.seen[to] = s.units
			s.found = append(s.found, foundDefinition{to, def})
		}
		// In damaged files, any number of functions can overlap.
		if s.listed.Add(int64(to-from)) > maxListed {
			panic("functions overlap")
		}
	}
}

// definition returns the location in an entry, or in the declaration or abstract function that
// it refers to. If these have none, as with -gline-tables-only, and the code at the address was
// inlined, it returns the location of the outermost inlined call.
func (u *unit) definition(e *die, address uint64) definition {
	def := definition{table: -1}
	of, entry := u, *e
	file := false
	for range 8 {
		if def.line == 0 {
			def.line = entry.declLine.n
		}
		if def.column == 0 && entry.declLine.n == def.line {
			def.column = entry.declColumn.n
		}
		if !file && entry.declFile.form != 0 {
			file = true
			def.setFile(u, of, entry.declFile.n)
		}
		if file && def.line != 0 {
			return def
		}
		v := entry.origin
		if v.form == 0 {
			v = entry.specification
		}
		to, next, ok := of.refer(v)
		if !ok {
			break
		}
		of, entry = to, next
	}
	return u.outermost(e, address)
}

func (def *definition) setFile(u, of *unit, file uint64) {
	def.table, def.file, def.dir = of.table, file, of.dir
	if of.d != u.d {
		def.path = of.file(file)
	}
}

// outermost returns the location of the outermost call that was inlined at an address of a
// function. That is the first entry that contains the address.
func (u *unit) outermost(e *die, address uint64) (def definition) {
	t := u.abbreviations()
	for at := e.next; ; {
		if at < u.first || at-u.first > uint64(len(u.data)) {
			return def
		}
		// Inlined calls of the function come before the next function.
		start, ok := t.seek(roleInlined|roleFunction, u.data, int(at-u.first), u.unitKind)
		if !ok {
			return def
		}
		c := cursor{b: u.data[start:], order: u.d.o.f.ByteOrder}
		var call die
		if !u.entryFor(roleInlined, &c, u.first+uint64(start), &call) || call.tag != tagInlined {
			return def
		}
		if call.callLine.n != 0 && call.callFile.form != 0 && u.contains(&call, address) {
			def = definition{line: call.callLine.n, column: call.callColumn.n}
			def.setFile(u, u, call.callFile.n)
			return def
		}
		at = call.next
	}
}

// contains reports whether the ranges of an entry contain an address.
func (u *unit) contains(e *die, address uint64) bool {
	return contain(u.pieces(e), address)
}

func contain(pieces []addressRange, address uint64) bool {
	return slices.ContainsFunc(pieces, func(r addressRange) bool { return r.low <= address && address < r.high })
}
