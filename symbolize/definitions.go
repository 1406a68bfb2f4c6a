package symbolize

import (
	"bufio"
	"fmt"
	"io"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
)

// definition is where the source defines a function, as the entry of the function in
// .debug_info says. The zero value says nothing.
type definition struct {
	unit               uint64 // place of the unit, which decides among several
	table              int64  // offset of the line table that has the file
	file, line, column uint64
	dir                string // of compilation
	path               string // instead of table and file, where it is of another object
}

// definitionScan reads .debug_info once, on all cores, and finds the definitions of the
// functions that start at given addresses. It holds some units in memory at a time.
type definitionScan struct {
	keys *addressIndex
	main *debugData

	mu    sync.Mutex
	found []definition // by index in keys; line is 0 where nothing was found
	dirs  map[int64]string
	done  map[int64]bool // line tables of units whose wanted functions are all found
	split []*unit        // what is left of units that were split off, and have wanted functions
	err   error

	listed atomic.Int64 // entries of lists of ranges
}

// unitBody is a unit on its way to a worker.
type unitBody struct {
	at   uint64 // in .debug_info
	head int    // bytes of the length before the body
	body []byte
}

// findDefinitions finds the definitions of the functions at the given addresses, which
// must be sorted and distinct. Damage hides only what it is about.
func (i *debugInfo) findDefinitions(keys []uint64) *definitionScan {
	s := &definitionScan{
		keys: indexAddresses(keys), main: i.main, found: make([]definition, len(keys)),
		dirs: make(map[int64]string), done: make(map[int64]bool),
	}
	d := i.main
	if d.info == nil || d.abbrev == nil || len(keys) == 0 {
		return s
	}
	s.err = s.run()
	slices.SortFunc(s.split, func(a, b *unit) int { return int(a.at) - int(b.at) })
	if len(s.split) > 0 {
		i.prepare() // which finds packages
	}
	for _, skeleton := range s.split {
		if u := i.split(skeleton); u != nil && u.load() == nil {
			s.scan(u, skeleton.at)
			u.data = nil
		}
	}
	return s
}

// run hands the units to workers.
func (s *definitionScan) run() error {
	r, err := s.main.info.open()
	if err != nil {
		return err
	}
	workers := min(runtime.GOMAXPROCS(0), 8)
	units := make(chan unitBody, workers)
	free := make(chan []byte, 3*workers)
	var wg sync.WaitGroup
	for range workers {
		d := s.main.clone()
		wg.Go(func() {
			for b := range units {
				if s.listed.Load() > maxListed {
					continue
				}
				if err := guard(func() error { s.unit(d, b); return nil }); err != nil {
					s.mu.Lock()
					s.err = err
					s.mu.Unlock()
				}
				select {
				case free <- b.body:
				default:
				}
			}
		})
	}
	err = s.dispatch(bufio.NewReaderSize(r, 64<<10), units, free)
	close(units)
	wg.Wait()
	if err != nil {
		err = fmt.Errorf("section %s: %w", s.main.info.s.Name, err)
	}
	return err
}

func (s *definitionScan) dispatch(r io.Reader, units chan<- unitBody, free <-chan []byte) error {
	size := s.main.info.s.Size
	for at := uint64(0); at+4 <= size; {
		b := unitBody{at: at, head: 4}
		length, wide, err := readUnitLength(r, s.main.o)
		if err != nil {
			return err
		}
		if wide {
			b.head = 12
		}
		at += uint64(b.head)
		if at > size || length > size-at {
			return fmt.Errorf("unit at %#x: %d bytes go beyond the section", b.at, length)
		}
		at += length
		select {
		case b.body = <-free:
		default:
		}
		if b.body, err = readN(b.body, r, length); err != nil {
			return fmt.Errorf("unit at %#x: %w", b.at, noEOF(err))
		}
		if length > 0 {
			units <- b
		}
	}
	return nil
}

// clone shares the sections that are in memory, and reads the others by itself, so that
// it may be used beside d.
func (d *debugData) clone() *debugData {
	c := newDebugData(d.o)
	c.alt = d.alt
	for _, p := range []struct{ from, to **section }{
		{&d.info, &c.info}, {&d.abbrev, &c.abbrev}, {&d.str, &c.str}, {&d.lineStr, &c.lineStr}, {&d.strOffsets, &c.strOffsets},
		{&d.addr, &c.addr}, {&d.ranges, &c.ranges}, {&d.rnglists, &c.rnglists}, {&d.line, &c.line},
	} {
		if *p.from != nil && !(*p.from).stored() {
			*p.to = *p.from
		}
	}
	return c
}

// unit looks at a unit of the main object.
func (s *definitionScan) unit(d *debugData, b unitBody) {
	u := &unit{d: d, at: b.at, addresses: d, lines: s.main, table: -1, end: b.at + uint64(b.head+len(b.body))}
	u.wide = b.head == 12
	c := cursor{b: b.body, order: d.o.f.ByteOrder}
	if !u.header(&c) || len(c.b) == 0 {
		return
	}
	u.first, u.data = u.end-uint64(len(c.b)), c.b
	var root die
	if !u.entry(&c, u.first, &root) {
		return
	}
	u.setRoot(&root)
	if u.kind == unitSkeleton || u.dwo != "" {
		if n, _ := s.wanted(u, &root); n != 0 {
			u.d, u.addresses, u.data, u.abbrevs = s.main, s.main, nil, nil
			s.mu.Lock()
			s.split = append(s.split, u)
			if u.dir != "" {
				s.dirs[u.table] = u.dir
			}
			s.mu.Unlock()
		}
		return
	}
	s.scan(u, u.at)
	if s.listed.Add(int64(u.listed)) > maxListed {
		panic("lists of ranges overlap")
	}
}

// maxListed bounds the entries of lists of ranges that are read for one purpose; units may
// share lists, so that a small file can have any number of them.
const maxListed = 1 << 25

// wanted counts the wanted functions in the ranges of an entry; -1 if it has none, and may
// have any.
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

// scan looks at the functions of a unit, whose data are in memory. place is that of the
// unit in the main object.
func (s *definitionScan) scan(u *unit, place uint64) {
	c := cursor{b: u.data, order: u.d.o.f.ByteOrder}
	var e die
	if !u.entry(&c, u.first, &e) {
		return
	}
	left, _ := s.wanted(u, &e)
	s.mu.Lock()
	if left == 0 {
		s.done[u.table] = true
		s.mu.Unlock()
		return
	}
	if u.dir != "" {
		s.dirs[u.table] = u.dir
	}
	s.mu.Unlock()
	for at := e.next; len(c.b) > 0; at = e.next {
		if !u.entryFor(roleFunction, &c, at, &e) {
			break // damage, or the padding at the end
		}
		if e.tag != tagSubprogram {
			continue
		}
		var def definition
		for _, r := range u.pieces(&e) {
			from, _ := s.keys.search(r.low)
			for k := from; k < len(s.keys.sorted) && s.keys.sorted[k] < r.high; k++ {
				if def.unit == 0 {
					def = u.definition(e, s.keys.sorted[k])
					def.unit = place + 1
				}
				if left--; !s.add(k, def) {
					left = -1 // the line table has to say it
				}
			}
		}
	}
	if left == 0 {
		s.mu.Lock()
		s.done[u.table] = true
		s.mu.Unlock()
	}
}

// add takes a definition over unless there is one of an earlier unit. It reports whether
// there is any.
func (s *definitionScan) add(k int, def definition) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if old := &s.found[k]; def.line != 0 && (old.line == 0 || def.unit < old.unit) {
		*old = def
	}
	return s.found[k].line != 0
}

// definition is what an entry says of the place of its function: itself, or the
// declaration or the abstract function that it refers to. Where these say nothing, as
// with -gline-tables-only, and the code at the address was inlined, the place is that of
// the outermost inlined call, which is in the function.
func (u *unit) definition(e die, address uint64) definition {
	def := definition{table: -1}
	of, entry := u, e
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

// outermost is the place of the outermost call that was inlined at an address of the
// function that an entry is about.
func (u *unit) outermost(e die, address uint64) definition {
	if !e.children || e.next < u.first || e.next-u.first > uint64(len(u.data)) {
		return definition{}
	}
	c := cursor{b: u.data[e.next-u.first:], order: u.d.o.f.ByteOrder}
	depth := 1
	for at := e.next; depth > 0 && depth < maxNesting; {
		var call die
		if !u.entryFor(roleInlined, &c, at, &call) {
			break
		}
		at = call.next
		if call.tag == 0 {
			depth--
			continue
		}
		if call.tag == tagInlined && call.callLine.n != 0 && call.callFile.form != 0 &&
			slices.ContainsFunc(u.pieces(&call), func(r addressRange) bool { return r.low <= address && address < r.high }) {
			def := definition{line: call.callLine.n, column: call.callColumn.n}
			def.setFile(u, u, call.callFile.n)
			return def
		}
		if call.children {
			depth++
		}
	}
	return definition{}
}
