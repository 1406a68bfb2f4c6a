package debuginfo

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"math/rand/v2"
	"testing"

	"github.com/xray-tools/xray/internal/test/elftest"
)

// If several tables describe an address, the first one counts, whichever goroutine finishes first.
func TestFirstTableWins(t *testing.T) {
	var lines []byte
	for i := range uint64(200) {
		lines = append(lines, elftest.LineTable(4, []byte("\x00/a.cc\x00\x00\x00\x00\x00"), elftest.Row{Address: 0x1000, Line: 1 + i}, elftest.Row{Address: 0x1040})...)
	}
	data := elftest.File(binary.LittleEndian, elf.ELFCLASS64, elf.EM_X86_64, elf.ET_EXEC,
		elftest.Section{Name: ".debug_line", Kind: elf.SHT_PROGBITS, Data: lines})
	o, err := NewELF(bytes.NewReader(data), int64(len(data)))
	if err != nil {
		t.Fatal(err)
	}
	for range 20 {
		got, _, err := newDebugData(o).findLines([]uint64{0x1000}, []uint64{0x1040})
		if want := (Location{"/a.cc", 1, 0}); err != nil || got[0] != want {
			t.Fatalf("got %+v, error %v, want %+v", got, err, want)
		}
	}
}

// A list of 2^40 files without any content takes no time.
func TestEndlessFileList(t *testing.T) {
	table := &lineTable{order: binary.LittleEndian, version: 5, lists: []byte("\x00\x00\x01\x01\x19\x80\x80\x80\x80\x80\x20")}
	if got := filePath(table, 1<<39); got != "" {
		t.Errorf("got path %q", got)
	}
}

func filePath(t *lineTable, file uint64) string {
	var files lineFiles
	files.read(t)
	path, _ := files.file(file, new(debugData))
	return path
}

// debugSections are the sections that describe inlined calls.
type debugSections struct{ info, abbrev, ranges, rnglists, addr, index []byte }

// exerciseSections looks for inlined calls in debug information without a program. It returns how
// many calls its first functions have.
func exerciseSections(t testing.TB, s debugSections, split bool) (inlined int) {
	suffix := ""
	if split {
		suffix = ".dwo"
	}
	part := func(name string, data []byte) elftest.Section {
		return elftest.Section{Name: ".debug_" + name, Kind: elf.SHT_PROGBITS, Data: data}
	}
	data := elftest.File(binary.LittleEndian, elf.ELFCLASS64, elf.EM_X86_64, elf.ET_EXEC,
		part("info"+suffix, s.info), part("abbrev"+suffix, s.abbrev), part("ranges", s.ranges),
		part("rnglists"+suffix, s.rnglists), part("addr", s.addr), part("cu_index", s.index),
		part("loclists"+suffix, s.rnglists), part("loc"+suffix, s.ranges), part("types"+suffix, s.info))
	o, err := NewELF(bytes.NewReader(data), int64(len(data)))
	if err != nil {
		t.Fatal(err)
	}
	b := &Binary{elf: o, lines: o}
	i := newDebugInfo(b)
	b.info = func() *debugInfo { return i }
	_ = b.UnitFunctions(func(UnitFunction) {}) // damage is no fault
	for id := range uint64(4) {
		if u := i.main.packed(id); u != nil {
			u.index()
		}
	}
	for _, p := range i.pieces[:min(len(i.pieces), 4)] {
		if u := i.unitAt(p.low); u != nil && u.index() == nil {
			for _, f := range u.subprograms[:min(len(u.subprograms), 4)] {
				b.eachInlined(f.low, func(_ int, u *unit, e *die) bool {
					u.function(*e)
					u.pieces(e)
					inlined++
					return true
				})
				var calls []uint64
				for _, addresses := range b.callSites(f.low) {
					calls = append(calls, addresses...)
				}
				b.inside(f.low, calls, make([][]InlinedCall, len(calls)))
			}
		}
	}
	exerciseTypes(b, i)
	return inlined
}

// exerciseTypes reads the parameters of the first functions and what their types consist of.
func exerciseTypes(b *Binary, i *debugInfo) {
	b.path = "program"
	left := 2000
	var visit func(t *Type, depth int)
	visit = func(t *Type, depth int) {
		if left--; t == nil || left < 0 || depth > 6 {
			return
		}
		t.Size()
		t.Enumerators()
		t.TemplateArguments()
		t.NonTrivial()
		list, _ := t.Members()
		for _, m := range list[:min(len(list), 20)] {
			visit(m.Type, depth+1)
		}
		visit(t.Elem(), depth+1)
		visit(t.Resolve(), depth+1)
	}
	for _, p := range i.pieces[:min(len(i.pieces), 4)] {
		for _, s := range p.unit.subprograms[:min(len(p.unit.subprograms), 20)] {
			f, err := b.FunctionAt(s.low)
			if err != nil {
				continue
			}
			visit(f.Result, 0)
			visit(b.VariableType(s.low, "g"), 0)
			for _, p := range f.Parameters {
				visit(p.Type, 0)
			}
		}
	}
}

// realSections returns sections of a program in testdata. The first unit is truncated.
func realSections(t testing.TB) debugSections {
	f, err := elf.Open("../../testdata/kvserver")
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

// Real debug information with changed bytes is read or refused without a panic.
func TestDamagedSections(t *testing.T) {
	s := realSections(t)
	if exerciseSections(t, s, false) == 0 {
		t.Error("no inlined calls in undamaged data")
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
				// Prefer the first bytes of a section. They matter most.
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
	for _, sections := range [][]elftest.Section{elftest.Nested(10_000), elftest.ManyAbbreviations(10_000), elftest.FunctionsAt(10_000)} {
		f.Add(sections[0].Data, sections[1].Data, []byte{}, []byte{}, []byte{}, []byte{}, false)
	}
	f.Add(bytes.Repeat(elftest.SmallUnit, 1000), []byte(elftest.UnitAbbrev), []byte{}, []byte{}, []byte{}, []byte{}, false)
	f.Fuzz(func(t *testing.T, info, abbrev, ranges, rnglists, addr, index []byte, split bool) {
		elftest.Bounded(t, elftest.FuzzMemory(len(info)+len(abbrev)+len(ranges)+len(rnglists)+len(addr)+len(index)), func() {
			exerciseSections(t, debugSections{info, abbrev, ranges, rnglists, addr, index}, split)
		})
	})
}

func FuzzLineTable(f *testing.F) {
	var b elftest.LineProgram
	b.Sequence(elftest.Row{Address: 0x1000, Line: 4}, elftest.Row{Address: 0x1040})
	f.Add([]byte("\x05\x00\x08\x00\x20\x00\x00\x00\x01\x01\x01\xfd\x0c\x0d\x00\x01\x01\x01\x01\x00\x00\x00\x01\x00\x00\x01\x01\x01\x1f\x01\x00\x00\x00\x00\x02\x01\x08\x02\x0b\x01a\x00\x00"+string(b.Bytes)), false)
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
