package elftest

import (
	"bytes"
	"compress/zlib"
	"debug/elf"
	"encoding/binary"
	"runtime"
	"runtime/metrics"
	"slices"
	"testing"
	"time"
)

// HostileFiles returns files of less than 10 MB that try to exhaust memory or time. scale makes
// them smaller.
func HostileFiles(t testing.TB, scale int) map[string][]byte {
	order := binary.LittleEndian
	pack := func(size int, content []byte) []byte {
		b := bytes.NewBuffer(Words(order, 8, uint64(elf.COMPRESS_ZLIB), uint64(size), 1))
		w, _ := zlib.NewWriterLevel(b, zlib.BestSpeed)
		if _, err := w.Write(content); err != nil {
			t.Fatal(err)
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		return b.Bytes()
	}
	large := 120 << 20 / scale
	zeros := make([]byte, large)
	debug := func(name string, flags elf.SectionFlag, data []byte) Section {
		return Section{Name: ".debug_" + name, Kind: elf.SHT_PROGBITS, Flags: flags, Data: data}
	}
	const compressed = elf.SHF_COMPRESSED
	one := pack(large, zeros)
	big := pack(4<<30/scale, zeros)
	// A unit that fills its section, and small units that do.
	filled := slices.Concat(order.AppendUint32(nil, uint32(large-4)), SmallUnit[4:], []byte{1}, zeros[len(SmallUnit)+1:])
	small := bytes.Repeat([]byte("\x01\x00\x00\x00\x00"), large/5)
	abbrevs := []byte(UnitAbbrev)
	table := LineTable(4, []byte("\x00"), Row{Address: 0x1000, Line: 1}, Row{Address: 0x1040})
	all := map[string][]byte{
		"sections": Mapped(debug("info", compressed, one), debug("abbrev", compressed, one), debug("str", compressed, one),
			debug("line", compressed, one), debug("line_str", compressed, one), debug("addr", compressed, one)),
		"one section": Mapped(debug("info", compressed, big), debug("line", compressed, big)),
		"a map":       Mapped(Section{Name: "xray_instr_map", Kind: elf.SHT_PROGBITS, Flags: elf.SHF_ALLOC | compressed, Address: 0x3000, Data: one}),
		"names": Mapped(Section{Name: ".symtab", Kind: elf.SHT_SYMTAB, Link: 3, Data: make([]byte, 48)},
			Section{Name: ".strtab", Kind: elf.SHT_STRTAB, Flags: compressed, Data: one}),
		"units":         ManyUnits(700_000 / scale),
		"one unit":      Mapped(debug("info", compressed, pack(large, filled)), debug("abbrev", 0, abbrevs), debug("line", 0, table)),
		"small units":   Mapped(debug("info", compressed, pack(large, small)), debug("abbrev", 0, abbrevs), debug("line", compressed, pack(large, small))),
		"functions":     Overlapping(8 << 20 / scale),
		"nested":        Mapped(Nested(8 << 20 / scale)...),
		"abbreviations": Mapped(ManyAbbreviations(4 << 20 / scale)...),
	}
	// All sections have the same name, which is as long as the file.
	long := Section{Name: string(bytes.Repeat([]byte("x"), 4<<20/scale)), Kind: elf.SHT_PROGBITS}
	all["section names"] = Mapped(slices.Repeat([]Section{long}, 2)...)
	return all
}

// DebugPart returns a debug section.
func DebugPart(name string, data []byte) Section {
	return Section{Name: ".debug_" + name, Kind: elf.SHT_PROGBITS, Data: data}
}

// Mapped returns a program with a map of one function, at 0x1000.
func Mapped(sections ...Section) []byte {
	order := binary.LittleEndian
	sled := Sled(order, 8, ^uint64(0xFFF), ^uint64(0x1007), 0, 1, 2)
	return File(order, elf.ELFCLASS64, elf.EM_X86_64, elf.ET_EXEC, append([]Section{
		{Name: "xray_instr_map", Kind: elf.SHT_PROGBITS, Flags: elf.SHF_ALLOC, Address: 0x2000, Data: sled},
	}, sections...)...)
}

// SmallUnit is a DWARF 4 unit with an empty entry of UnitAbbrev.
var SmallUnit = []byte("\x08\x00\x00\x00\x04\x00\x00\x00\x00\x00\x08\x01")

// UnitAbbrev is the abbreviation of SmallUnit.
const UnitAbbrev = "\x01\x11\x00\x00\x00\x00"

// ManyUnits returns a program with many units of debug information.
func ManyUnits(count int) []byte {
	return Mapped(DebugPart("info", bytes.Repeat(SmallUnit, count)), DebugPart("abbrev", []byte(UnitAbbrev)),
		DebugPart("line", LineTable(4, []byte("\x00"), Row{Address: 0x1000, Line: 1}, Row{Address: 0x1040})))
}

// oneUnit returns a unit of DWARF 4.
func oneUnit(entries []byte) []byte {
	body := append([]byte("\x04\x00\x00\x00\x00\x00\x08"), entries...)
	return append(binary.LittleEndian.AppendUint32(nil, uint32(len(body))), body...)
}

// Overlapping returns a program with many functions that each cover all of it.
func Overlapping(size int) []byte {
	var sleds []byte
	for i := range uint64(size / 64) {
		sleds = append(sleds, Sled(binary.LittleEndian, 8, 0x1000+16*i-0x4000-32*i, 0x1000+16*i-0x4000-32*i-8, 0, 1, 2)...)
	}
	return File(binary.LittleEndian, elf.ELFCLASS64, elf.EM_X86_64, elf.ET_EXEC, append(FunctionsAt(size/2),
		Section{Name: "xray_instr_map", Kind: elf.SHT_PROGBITS, Flags: elf.SHF_ALLOC, Address: 0x4000, Data: sleds})...)
}

// FunctionsAt returns the debug sections of Overlapping.
func FunctionsAt(size int) []Section {
	entry := binary.LittleEndian.AppendUint64([]byte{2}, 0x1000)
	entry = binary.LittleEndian.AppendUint32(entry, 1<<30)
	return []Section{
		DebugPart("info", oneUnit(append([]byte{1}, bytes.Repeat(entry, size/len(entry))...))),
		DebugPart("abbrev", []byte("\x01\x11\x01\x00\x00\x02\x2e\x00\x11\x01\x12\x06\x00\x00\x00")),
	}
}

// Nested returns debug sections with nested functions, the innermost with many calls.
func Nested(size int) []Section {
	function := binary.LittleEndian.AppendUint64([]byte{2}, 0x1000)
	function = binary.LittleEndian.AppendUint32(function, 1<<30)
	entries := slices.Concat([]byte{1}, bytes.Repeat(function, 990), bytes.Repeat([]byte{3}, size))
	return []Section{
		DebugPart("info", oneUnit(entries)),
		DebugPart("abbrev", []byte("\x01\x11\x01\x00\x00\x02\x2e\x01\x11\x01\x12\x06\x00\x00\x03\x1d\x00\x00\x00\x00")),
	}
}

// ManyAbbreviations returns debug sections of units with overlapping abbreviation tables.
func ManyAbbreviations(size int) []Section {
	var info, abbrevs []byte
	for i := 0; len(info) < size/2; i++ {
		unit := binary.LittleEndian.AppendUint32(nil, 8)
		unit = append(unit, 4, 0)
		unit = binary.LittleEndian.AppendUint32(unit, uint32(5*(i%(size/10))))
		info = append(info, append(unit, 8, 1)...)
	}
	for i := range size / 10 {
		abbrevs = append(abbrevs, byte(1+i%100), 0x11, 0, 0, 0)
	}
	return []Section{DebugPart("info", info), DebugPart("abbrev", abbrevs)}
}

// FuzzMemory limits the bytes that may be allocated for an input. Each function is looked up in
// many ways, and each core reads abbreviations again.
func FuzzMemory(size int) uint64 { return 256<<20 + 4096*uint64(size) }

// Heap returns the bytes of the heap in use or not yet collected.
func Heap() uint64 {
	s := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	metrics.Read(s)
	return s[0].Value.Uint64()
}

// Bounded fails if f allocates more than most bytes in total, and ends the test if f does not
// return.
func Bounded(t testing.TB, most uint64, f func()) {
	defer time.AfterFunc(20*time.Second, func() { panic("this does not come to an end") }).Stop()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	if n := after.TotalAlloc - before.TotalAlloc; n > most {
		t.Errorf("%d bytes of memory, more than %d", n, most)
	}
}
