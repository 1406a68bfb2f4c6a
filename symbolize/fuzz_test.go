package symbolize

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"io"
	"math/rand/v2"
	"runtime"
	"strings"
	"testing"

	"github.com/ulikunitz/xz"
)

// exercise does with a file all that the package can do.
func exercise(data []byte) {
	t := new(Table)
	if t.read(bytes.NewReader(data), int64(len(data))) != nil {
		return
	}
	t.Locate()
	WriteYAML(io.Discard, t.Map(), t)
	WriteCSV(io.Discard, t.Map(), t)
	t.CompilationDirs()
	t.SourceFiles()
	for _, f := range t.Map().Functions {
		Label(t, f.ID)
		Location(t, f.ID)
		t.Inlined(f.ID)
		t.Frames(f.ID)
		CallFrames(t, []Call{{f.ID, 1}, {f.ID, f.ID}})
	}
}

// seeds are small files of all kinds.
func seeds(t testing.TB) [][]byte {
	all := [][]byte{
		absolute(binary.LittleEndian, elf.ELFCLASS64, elf.EM_AARCH64, 0, false),
		absolute(binary.LittleEndian, elf.ELFCLASS32, elf.EM_ARM, 0, true),
		absolute(binary.BigEndian, elf.ELFCLASS64, elf.EM_S390, 1, false),
		[]byte("---\n- { id: 1, address: 0x10, function: 0x10, kind: function-enter, always-instrument: true, function-name: 'f()', version: 2 }\n...\n"),
	}
	return append(all, debugObject())
}

// debugObject makes a linked file with a map, symbols and line tables of
// versions 4 and 5, without a compiler.
func debugObject() []byte {
	order := binary.LittleEndian
	sled := func(at, f uint64) []byte {
		return sledBytes(order, 8, f-0x2000-at, f-0x2000-at-8, Entry, 1, 2)
	}
	sleds := append(sled(0, 0x1000), sled(32, 0x1040)...)
	symbol := func(name uint32, address, size uint64) []byte {
		b := order.AppendUint32(nil, name)
		b = append(b, byte(elf.STT_FUNC), 0, 1, 0)
		return append(b, words(order, 8, address, size)...)
	}
	symbols := append(append(symbol(0, 0, 0), symbol(1, 0x1000, 0x40)...), symbol(8, 0x1040, 0x40)...)
	lines := lineTableBytes(4, []byte("inc\x00\x00a.cc\x00\x01\x00\x00\x00"), []row{{address: 0x1000, line: 4}, {address: 0x1040}})
	lines = append(lines, lineTableBytes(5, []byte("\x01\x01\x1f\x01\x00\x00\x00\x00\x02\x01\x08\x02\x0b\x02a.cc\x00\x00b.cc\x00\x00"),
		[]row{{address: 0x1040, line: 9}, {address: 0x1080}})...)
	info := []byte("\x00\x00\x00\x00\x04\x00\x00\x00\x00\x00\x08\x01\x00\x00\x00\x00/src\x00")
	info[0] = byte(len(info) - 4)
	return testELF(order, elf.ELFCLASS64, elf.EM_X86_64, elf.ET_EXEC,
		testSection{name: ".text", kind: elf.SHT_PROGBITS, flags: elf.SHF_ALLOC | elf.SHF_EXECINSTR, address: 0x1000, data: make([]byte, 0x80)},
		testSection{name: mapSection, kind: elf.SHT_PROGBITS, flags: elf.SHF_ALLOC, address: 0x2000, data: sleds},
		testSection{name: ".symtab", kind: elf.SHT_SYMTAB, link: 4, data: symbols},
		testSection{name: ".strtab", kind: elf.SHT_STRTAB, data: []byte("\x00_Z1fv\x00\x00g\x00")},
		testSection{name: ".debug_line", kind: elf.SHT_PROGBITS, data: lines},
		testSection{name: ".debug_line_str", kind: elf.SHT_PROGBITS, data: []byte("/dir\x00")},
		testSection{name: ".debug_info", kind: elf.SHT_PROGBITS, data: info},
		testSection{name: ".debug_abbrev", kind: elf.SHT_PROGBITS, data: []byte("\x01\x11\x00\x10\x17\x1b\x08\x00\x00\x00")},
		testSection{name: ".note.gnu.build-id", kind: elf.SHT_NOTE, data: []byte("\x04\x00\x00\x00\x02\x00\x00\x00\x03\x00\x00\x00GNU\x00\xab\xcd\x00\x00")},
	)
}

// lineTableBytes encodes a line table with its length.
func lineTableBytes(version uint16, lists []byte, rows []row) []byte {
	order := binary.LittleEndian
	var b tableBuilder
	b.sequence(rows)
	header := []byte{1, 1, 1, 0xFD, 12, 13, 0, 1, 1, 1, 1, 0, 0, 0, 1, 0, 0, 1}
	header = append(header, lists...)
	body := order.AppendUint16(nil, version)
	if version == 5 {
		body = append(body, 8, 0)
	}
	body = order.AppendUint32(body, uint32(len(header)))
	body = append(append(body, header...), b.program...)
	return append(order.AppendUint32(nil, uint32(len(body))), body...)
}

// Where several tables describe an address, the first one counts, whichever
// worker comes first.
func TestFirstTableWins(t *testing.T) {
	var lines []byte
	for i := range uint64(200) {
		lines = append(lines, lineTableBytes(4, []byte("\x00/a.cc\x00\x00\x00\x00\x00"), []row{{address: 0x1000, line: 1 + i}, {address: 0x1040}})...)
	}
	data := testELF(binary.LittleEndian, elf.ELFCLASS64, elf.EM_X86_64, elf.ET_EXEC,
		testSection{name: ".debug_line", kind: elf.SHT_PROGBITS, data: lines})
	o, err := newObject(bytes.NewReader(data), int64(len(data)))
	if err != nil {
		t.Fatal(err)
	}
	for range 20 {
		got, _, err := newDebugData(o).findLines([]uint64{0x1000}, []uint64{0x1040})
		if want := (location{"/a.cc", 1, 0}); err != nil || got[0] != want {
			t.Fatalf("%+v, %v, want %+v", got, err, want)
		}
	}
}

// A list of 2^40 files that take no space each ends at once.
func TestEndlessFileList(t *testing.T) {
	table := &lineTable{order: binary.LittleEndian, version: 5, lists: []byte("\x00\x00\x01\x01\x19\x80\x80\x80\x80\x80\x20")}
	if got := filePath(table, 1<<39); got != "" {
		t.Errorf("path %q", got)
	}
}

func filePath(t *lineTable, file uint64) string {
	var files lineFiles
	files.read(t)
	path, _ := files.file(file, new(debugData))
	return path
}

// The seed that the fuzzers start from works.
func TestDebugObject(t *testing.T) {
	data := debugObject()
	table := new(Table)
	if err := table.read(bytes.NewReader(data), int64(len(data))); err != nil {
		t.Fatal(err)
	}
	if err := table.Locate(); err != nil {
		t.Fatal(err)
	}
	for i, want := range []Symbol{
		{Name: "f()", Linkage: "_Z1fv", File: "/src/inc/a.cc", Line: 4, Address: 0x1000},
		{Name: "g", Linkage: "g", File: "/dir/b.cc", Line: 9, Address: 0x1040},
	} {
		if got, _ := table.Func(table.Map().Functions[i].ID); got != want {
			t.Errorf("got %+v, want %+v", got, want)
		}
	}
	if got := table.Object().BuildID; got != "abcd" {
		t.Errorf("build id %q", got)
	}
}

// Every prefix and every changed byte of a file is taken or refused, in memory
// that the size of the file bounds.
func TestCorruption(t *testing.T) {
	for _, seed := range seeds(t) {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		for n := range seed {
			exercise(seed[:n])
		}
		data := bytes.Clone(seed)
		tries := len(seed)
		for i := range data {
			for _, c := range []byte{0, 1, 0x7F, 0x80, 0xFF, data[i] + 1, data[i] ^ 0x10} {
				data[i] = c
				exercise(data)
				tries++
			}
			data[i] = seed[i]
		}
		runtime.ReadMemStats(&after)
		if per := (after.TotalAlloc - before.TotalAlloc) / uint64(tries); per > 4<<20 {
			t.Errorf("%d bytes allocated for each file of %d bytes", per, len(seed))
		}
	}
}

// A small file that names a million functions by the ends of one long string
// does not get memory for each.
func TestSharedStrings(t *testing.T) {
	const functions, length = 4_000, 100_000
	order := binary.LittleEndian
	var sleds, symbols []byte
	for i := range uint64(functions) {
		sleds = append(sleds, sledBytes(order, 8, 0x1000+i, 0x1000+i, Entry, 1, 1)...)
		symbols = order.AppendUint32(symbols, uint32(1+i))
		symbols = append(symbols, byte(elf.STT_FUNC), 0, 1, 0)
		symbols = append(symbols, words(order, 8, 0x1000+i, 1)...)
	}
	data := testELF(order, elf.ELFCLASS64, elf.EM_X86_64, elf.ET_EXEC,
		testSection{name: mapSection, kind: elf.SHT_PROGBITS, flags: elf.SHF_ALLOC, address: 0x9000, data: sleds},
		testSection{name: ".symtab", kind: elf.SHT_SYMTAB, link: 3, data: symbols},
		testSection{name: ".strtab", kind: elf.SHT_STRTAB, data: append(bytes.Repeat([]byte("x"), length), 0)})
	table := new(Table)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	if err := table.read(bytes.NewReader(data), int64(len(data))); err != nil {
		t.Fatal(err)
	}
	runtime.ReadMemStats(&after)
	if got := len(Label(table, functions)); got != length-functions {
		t.Errorf("the last name has %d bytes", got)
	}
	if got := after.TotalAlloc - before.TotalAlloc; got > 16<<20 {
		t.Errorf("%d bytes allocated for a file of %d", got, len(data))
	}
}

// fuzzMemory is what may be allocated, freed or not, for an input of so many bytes. Each
// function is asked for in many ways, and abbreviations are read anew for each core.
func fuzzMemory(size int) uint64 { return 256<<20 + 4096*uint64(size) }

func FuzzLoad(f *testing.F) {
	for _, s := range seeds(f) {
		f.Add(s)
	}
	f.Setenv(UnpackLimitVariable, "4M")
	for _, s := range hostileFiles(f, 200) {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		bounded(t, fuzzMemory(len(data)), func() { exercise(data) })
	})
}

// debugSections are the parts of debug information that describe inlined calls.
type debugSections struct{ info, abbrev, ranges, rnglists, addr, index []byte }

// exerciseSections looks for inlined calls in debug information without a program, and
// returns how many there are in its first functions.
func exerciseSections(t testing.TB, s debugSections, split bool) (inlined int) {
	suffix := ""
	if split {
		suffix = ".dwo"
	}
	part := func(name string, data []byte) testSection {
		return testSection{name: ".debug_" + name, kind: elf.SHT_PROGBITS, data: data}
	}
	data := testELF(binary.LittleEndian, elf.ELFCLASS64, elf.EM_X86_64, elf.ET_EXEC,
		part("info"+suffix, s.info), part("abbrev"+suffix, s.abbrev), part("ranges", s.ranges),
		part("rnglists"+suffix, s.rnglists), part("addr", s.addr), part("cu_index", s.index))
	o, err := newObject(bytes.NewReader(data), int64(len(data)))
	if err != nil {
		t.Fatal(err)
	}
	table := &Table{elf: o, lines: o}
	table.info = func() *debugInfo { return newDebugInfo(table) }
	i := table.debugInfo()
	i.prepare()
	for id := range uint64(4) {
		if u := i.main.packed(id); u != nil {
			u.index()
		}
	}
	table.info = func() *debugInfo { return i }
	for _, p := range i.pieces[:min(len(i.pieces), 4)] {
		if u := i.unitAt(p.low); u != nil && u.index() == nil {
			for _, f := range u.subprograms[:min(len(u.subprograms), 4)] {
				table.eachInlined(f.low, func(_ int, u *unit, e *die) bool {
					u.function(*e)
					u.pieces(e)
					inlined++
					return true
				})
				var calls []uint64
				for _, addresses := range table.callSites(f.low) {
					calls = append(calls, addresses...)
				}
				table.inside(f.low, calls)
			}
		}
	}
	return inlined
}

// realSections are those of a program in testdata, of which the first unit is cut short.
func realSections(t testing.TB) debugSections {
	f, err := elf.Open(kvserver)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	part := func(name string, most int) []byte {
		s := f.Section(".debug_" + name)
		if s == nil {
			return nil
		}
		b, err := s.Data()
		if err != nil {
			t.Fatal(err)
		}
		return b[:min(len(b), most)]
	}
	s := debugSections{info: part("info", 1<<17), abbrev: part("abbrev", 1<<14), rnglists: part("rnglists", 1<<16), addr: part("addr", 1<<16)}
	binary.LittleEndian.PutUint32(s.info, uint32(len(s.info)-4))
	return s
}

// Every changed byte of real debug information is read or refused.
func TestDamagedSections(t *testing.T) {
	s := realSections(t)
	if exerciseSections(t, s, false) == 0 {
		t.Error("no inlined calls in what was not damaged")
	}
	random := rand.New(rand.NewPCG(1, 2))
	for range 300 {
		damaged := s
		for _, part := range []*[]byte{&damaged.info, &damaged.abbrev, &damaged.rnglists, &damaged.addr} {
			if len(*part) == 0 {
				continue
			}
			*part = bytes.Clone(*part)
			for range 1 + random.IntN(4) {
				// The first bytes of a section matter most.
				(*part)[random.IntN(1+random.IntN(len(*part)))] = byte(random.Uint32())
			}
		}
		exerciseSections(t, damaged, false)
	}
}

func FuzzDebugInfo(f *testing.F) {
	s := realSections(f)
	f.Add(s.info, s.abbrev, []byte{}, s.rnglists, s.addr, []byte{}, false)
	f.Add([]byte{}, []byte{}, []byte{}, []byte{}, []byte{}, []byte("\x05\x00\x00\x00\x02\x00\x00\x00\x01\x00\x00\x00\x02\x00\x00\x00"), true)
	for _, sections := range [][]testSection{nested(10_000), manyAbbreviations(10_000), functionsAt(10_000)} {
		f.Add(sections[0].data, sections[1].data, []byte{}, []byte{}, []byte{}, []byte{}, false)
	}
	f.Add(bytes.Repeat(smallUnit, 1000), []byte(unitAbbrev), []byte{}, []byte{}, []byte{}, []byte{}, false)
	f.Fuzz(func(t *testing.T, info, abbrev, ranges, rnglists, addr, index []byte, split bool) {
		bounded(t, fuzzMemory(len(info)+len(abbrev)+len(ranges)+len(rnglists)+len(addr)+len(index)), func() {
			exerciseSections(t, debugSections{info, abbrev, ranges, rnglists, addr, index}, split)
		})
	})
}

func FuzzXZ(f *testing.F) {
	var b bytes.Buffer
	w, err := xz.NewWriter(&b)
	if err != nil {
		f.Fatal(err)
	}
	w.Write(bytes.Repeat([]byte("symbols "), 100))
	if err := w.Close(); err != nil {
		f.Fatal(err)
	}
	f.Add(b.Bytes())
	f.Add(packXZ(f, make([]byte, 1<<20)))
	f.Fuzz(func(t *testing.T, data []byte) {
		const limit = 4 << 20
		bounded(t, fuzzMemory(len(data)), func() { _, _ = unpackXZ(data, limit) })
	})
}

// What another compressor packed is unpacked; what was damaged or asks for much memory
// is refused.
func TestUnpackXZ(t *testing.T) {
	plain := bytes.Repeat([]byte("a symbol and another one; "), 10_000)
	for _, check := range []byte{xz.CRC32, xz.CRC64, xz.SHA256} {
		var b bytes.Buffer
		w, err := xz.WriterConfig{CheckSum: check, BlockSize: 60_000}.NewWriter(&b)
		if err != nil {
			t.Fatal(err)
		}
		w.Write(plain)
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		data := b.Bytes()
		if got, err := unpackXZ(data, xzLimit); err != nil || !bytes.Equal(got, plain) {
			t.Fatalf("check %d: %d bytes, %v; want %d", check, len(got), err, len(plain))
		}
		for n := range data {
			if _, err := unpackXZ(data[:n], xzLimit); err == nil {
				t.Fatalf("check %d: the first %d bytes of %d were taken", check, n, len(data))
			}
		}
		if check == xz.CRC32 {
			data[len(data)/2] ^= 0x40
			if got, err := unpackXZ(data, xzLimit); err == nil {
				t.Errorf("damage was not seen: %v", bytes.Equal(got, plain))
			}
		}
		large := bytes.Clone(data)
		if i := bytes.Index(large[:64], []byte{0x21, 1}); i > 0 {
			large[i+2] = 40 // a dictionary of 4 GiB
			if _, err := unpackXZ(large, xzLimit); err == nil || !strings.Contains(err.Error(), "dictionary") {
				t.Errorf("a dictionary of 4 GiB: %v", err)
			}
		}
	}
}

func FuzzYAMLMap(f *testing.F) {
	f.Add([]byte("---\n- { id: 1, address: 0x10, function: 0x10, kind: function-enter, always-instrument: true, function-name: 'f()', version: 2 }\n...\n"))
	f.Add([]byte("- id: 1\n  address: 16\n  function: 16\n  kind: tail-exit\n  always-instrument: no\n"))
	for _, text := range hostileMaps(1000) {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		bounded(t, fuzzMemory(len(data)), func() { _, _ = parseYAMLMap(data) })
		fast := newMapBuilder()
		if !fast.scan(data) {
			return
		}
		// What the fast path takes, the YAML parser takes in the same way.
		slow := newMapBuilder()
		if err := guard(func() error { return slow.parse(data) }); err != nil {
			t.Fatalf("only the fast path takes %q: %v", data, err)
		}
		if a, b := len(fast.m.Sleds), len(slow.m.Sleds); a != b {
			t.Fatalf("%d sleds and %d in %q", a, b, data)
		}
		for i := range fast.m.Sleds {
			if fast.m.Sleds[i] != slow.m.Sleds[i] {
				t.Fatalf("%+v and %+v in %q", fast.m.Sleds[i], slow.m.Sleds[i], data)
			}
		}
		for i := range fast.m.Functions {
			if fast.m.Functions[i] != slow.m.Functions[i] {
				t.Fatalf("%+v and %+v in %q", fast.m.Functions[i], slow.m.Functions[i], data)
			}
		}
	})
}

func FuzzLineTable(f *testing.F) {
	var b tableBuilder
	b.sequence([]row{{address: 0x1000, line: 4}, {address: 0x1040}})
	f.Add([]byte("\x05\x00\x08\x00\x20\x00\x00\x00\x01\x01\x01\xfd\x0c\x0d\x00\x01\x01\x01\x01\x00\x00\x00\x01\x00\x00\x01\x01\x01\x1f\x01\x00\x00\x00\x00\x02\x01\x08\x02\x0b\x01a\x00\x00"+string(b.program)), false)
	f.Fuzz(func(t *testing.T, data []byte, wide bool) {
		table, err := parseLineTable(data, binary.LittleEndian, wide, 8)
		if err != nil {
			return
		}
		s := seeker{
			wanted: wanted{starts: []uint64{1, 0x1000, 0x1008}, ends: []uint64{0x1000, 0x1008, 0x2000}},
			report: func(_ int, r row) { filePath(table, r.file) },
		}
		table.run(&s)
		filePath(table, 1)
	})
}
