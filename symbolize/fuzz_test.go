package symbolize

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"io"
	"runtime"
	"testing"

	"github.com/xray-tools/xray/internal/test/elftest"
	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/symbolize/debuginfo"
)

// exercise does everything with a file that the package can do.
func exercise(data []byte) {
	t := new(Table)
	if t.read(bytes.NewReader(data), int64(len(data))) != nil {
		return
	}
	t.locate()
	WriteYAML(io.Discard, t.Map(), t)
	WriteCSV(io.Discard, t.Map(), t)
	t.CompilationDirs()
	t.SourceFiles()
	FindTailCalls(t)
	findCallers(t).CanCall(1, 2)
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

// debugObject makes a linked file with a map, symbols and line tables of versions 4 and 5, without
// a compiler.
func debugObject() []byte {
	order := binary.LittleEndian
	sled := func(at, f uint64) []byte {
		return elftest.Sled(order, 8, f-0x2000-at, f-0x2000-at-8, byte(Entry), 1, 2)
	}
	sleds := append(sled(0, 0x1000), sled(32, 0x1040)...)
	symbol := func(name uint32, address, size uint64) []byte {
		b := order.AppendUint32(nil, name)
		b = append(b, byte(elf.STT_FUNC), 0, 1, 0)
		return append(b, elftest.Words(order, 8, address, size)...)
	}
	symbols := append(append(symbol(0, 0, 0), symbol(1, 0x1000, 0x40)...), symbol(8, 0x1040, 0x40)...)
	lines := elftest.LineTable(4, []byte("inc\x00\x00a.cc\x00\x01\x00\x00\x00"), elftest.Row{Address: 0x1000, Line: 4}, elftest.Row{Address: 0x1040})
	lines = append(lines, elftest.LineTable(5, []byte("\x01\x01\x1f\x01\x00\x00\x00\x00\x02\x01\x08\x02\x0b\x02a.cc\x00\x00b.cc\x00\x00"),
		elftest.Row{Address: 0x1040, Line: 9}, elftest.Row{Address: 0x1080})...)
	info := []byte("\x00\x00\x00\x00\x04\x00\x00\x00\x00\x00\x08\x01\x00\x00\x00\x00/src\x00")
	info[0] = byte(len(info) - 4)
	return elftest.File(order, elf.ELFCLASS64, elf.EM_X86_64, elf.ET_EXEC,
		elftest.Section{Name: ".text", Kind: elf.SHT_PROGBITS, Flags: elf.SHF_ALLOC | elf.SHF_EXECINSTR, Address: 0x1000, Data: make([]byte, 0x80)},
		elftest.Section{Name: mapSection, Kind: elf.SHT_PROGBITS, Flags: elf.SHF_ALLOC, Address: 0x2000, Data: sleds},
		elftest.Section{Name: ".symtab", Kind: elf.SHT_SYMTAB, Link: 4, Data: symbols},
		elftest.Section{Name: ".strtab", Kind: elf.SHT_STRTAB, Data: []byte("\x00_Z1fv\x00\x00g\x00")},
		elftest.Section{Name: ".debug_line", Kind: elf.SHT_PROGBITS, Data: lines},
		elftest.Section{Name: ".debug_line_str", Kind: elf.SHT_PROGBITS, Data: []byte("/dir\x00")},
		elftest.Section{Name: ".debug_info", Kind: elf.SHT_PROGBITS, Data: info},
		elftest.Section{Name: ".debug_abbrev", Kind: elf.SHT_PROGBITS, Data: []byte("\x01\x11\x00\x10\x17\x1b\x08\x00\x00\x00")},
		elftest.Section{Name: ".note.gnu.build-id", Kind: elf.SHT_NOTE, Data: []byte("\x04\x00\x00\x00\x02\x00\x00\x00\x03\x00\x00\x00GNU\x00\xab\xcd\x00\x00")},
	)
}

// tailObject makes a linked file of functions that end in tail calls, with the given code and
// dynamic relocations.
func tailObject(code, relocations []byte) []byte {
	order := binary.LittleEndian
	var sleds []byte
	for at := uint64(0); at < 64; at += 16 {
		word := uint64(len(sleds))
		sleds = append(sleds, elftest.Sled(order, 8, 0x1000+at-0x8000-word, 0x1000+at-0x8000-word-8, byte(TailExit), 1, 2)...)
	}
	symbol := order.AppendUint32(nil, 1)
	symbol = append(symbol, byte(elf.STB_GLOBAL)<<4|byte(elf.STT_FUNC), 0, 1, 0)
	symbol = append(symbol, elftest.Words(order, 8, 0x1010, 16)...)
	return elftest.File(order, elf.ELFCLASS64, elf.EM_X86_64, elf.ET_DYN,
		elftest.Section{Name: ".text", Kind: elf.SHT_PROGBITS, Flags: elf.SHF_ALLOC | elf.SHF_EXECINSTR, Address: 0x1000, Data: code},
		elftest.Section{Name: mapSection, Kind: elf.SHT_PROGBITS, Flags: elf.SHF_ALLOC, Address: 0x8000, Data: sleds},
		elftest.Section{Name: ".dynsym", Kind: elf.SHT_DYNSYM, Flags: elf.SHF_ALLOC, Link: 4, Data: append(make([]byte, 24), symbol...)},
		elftest.Section{Name: ".dynstr", Kind: elf.SHT_STRTAB, Flags: elf.SHF_ALLOC, Data: []byte("\x00f\x00")},
		elftest.Section{Name: ".rela.plt", Kind: elf.SHT_RELA, Flags: elf.SHF_ALLOC, Link: 3, Data: relocations},
	)
}

// tailCode has a jump to the next function, one to itself, one through a slot with the address of
// the second, and one through a register.
const tailCode = "\xeb\x09\x66\x0f\x1f\x84\x00\x00\x02\x00\x00\xe9\x00\x00\x00\x00" +
	"\xeb\x09\x66\x0f\x1f\x84\x00\x00\x02\x00\x00\xe9\xf0\xff\xff\xff" +
	"\xeb\x09\x66\x0f\x1f\x84\x00\x00\x02\x00\x00\xe9\x10\x00\x00\x00" +
	"\xeb\x09\x66\x0f\x1f\x84\x00\x00\x02\x00\x00\xff\xe0\x90\x90\x90" +
	"\xff\x25\xba\x0f\x00\x00" // jmp *0x2000

// tailRelocation is the relocation of the slot at 0x2000.
func tailRelocation() []byte { return elftest.Words(binary.LittleEndian, 8, 0x2000, 1<<32|7, 0) }

// For damaged binaries with tail calls, results are usable and nothing panics.
func FuzzTailCalls(f *testing.F) {
	f.Add([]byte(tailCode), tailRelocation())
	f.Fuzz(func(t *testing.T, code, relocations []byte) {
		table := new(Table)
		data := tailObject(code, relocations)
		if table.read(bytes.NewReader(data), int64(len(data))) != nil {
			return
		}
		findCallers(table)
		found := FindTailCalls(table)
		for from := range reader.FuncID(6) {
			if found.Continue(from, from) {
				t.Errorf("function %d continues itself", from)
			}
		}
		members := NewMembers(func(string) int { return 1 })
		for id := range reader.FuncID(6) {
			members.Passed(table, id)
		}
		for i := range code {
			decodeJump(code[i:], uint64(i))
		}
	})
}

// The fuzzer's seed is valid.
func TestTailObject(t *testing.T) {
	table := new(Table)
	data := tailObject([]byte(tailCode), tailRelocation())
	if err := table.read(bytes.NewReader(data), int64(len(data))); err != nil {
		t.Fatal(err)
	}
	found := FindTailCalls(table)
	if !found.Continue(1, 2) || !found.Continue(3, 2) || found.Continue(2, 2) || found.Continue(4, 2) {
		t.Errorf("got %+v", found)
	}
	if want := [jumpKinds]int{jumpUnknown: 1, jumpRecorded: 2, jumpImported: 1}; found.sleds != want {
		t.Errorf("got sleds by kind %v, want %v", found.sleds, want)
	}
}

// The fuzzers' seed is valid.
func TestDebugObject(t *testing.T) {
	data := debugObject()
	table := new(Table)
	if err := table.read(bytes.NewReader(data), int64(len(data))); err != nil {
		t.Fatal(err)
	}
	if err := table.locate(); err != nil {
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
		t.Errorf("got build ID %q", got)
	}
}

// Every prefix of a file, and every change of a byte, is accepted or refused in memory bounded by
// the file's size.
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
			t.Errorf("got %d bytes allocated for each file of %d bytes", per, len(seed))
		}
	}
}

// If a small file names a million functions by suffixes of one long string, the names do not take
// memory each.
func TestSharedStrings(t *testing.T) {
	const functions, length = 4_000, 100_000
	order := binary.LittleEndian
	var sleds, symbols []byte
	for i := range uint64(functions) {
		sleds = append(sleds, elftest.Sled(order, 8, 0x1000+i, 0x1000+i, byte(Entry), 1, 1)...)
		symbols = order.AppendUint32(symbols, uint32(1+i))
		symbols = append(symbols, byte(elf.STT_FUNC), 0, 1, 0)
		symbols = append(symbols, elftest.Words(order, 8, 0x1000+i, 1)...)
	}
	data := elftest.File(order, elf.ELFCLASS64, elf.EM_X86_64, elf.ET_EXEC,
		elftest.Section{Name: mapSection, Kind: elf.SHT_PROGBITS, Flags: elf.SHF_ALLOC, Address: 0x9000, Data: sleds},
		elftest.Section{Name: ".symtab", Kind: elf.SHT_SYMTAB, Link: 3, Data: symbols},
		elftest.Section{Name: ".strtab", Kind: elf.SHT_STRTAB, Data: append(bytes.Repeat([]byte("x"), length), 0)})
	table := new(Table)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	if err := table.read(bytes.NewReader(data), int64(len(data))); err != nil {
		t.Fatal(err)
	}
	runtime.ReadMemStats(&after)
	if got := len(Label(table, functions)); got != length-functions {
		t.Errorf("got a last name of %d bytes", got)
	}
	if got := after.TotalAlloc - before.TotalAlloc; got > 16<<20 {
		t.Errorf("got %d bytes allocated for a file of %d", got, len(data))
	}
}

func FuzzLoad(f *testing.F) {
	for _, s := range seeds(f) {
		f.Add(s)
	}
	f.Setenv(debuginfo.UnpackLimitVariable, "4M")
	for _, s := range elftest.HostileFiles(f, 200) {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		elftest.Bounded(t, elftest.FuzzMemory(len(data)), func() { exercise(data) })
	})
}

func FuzzYAMLMap(f *testing.F) {
	f.Add([]byte("---\n- { id: 1, address: 0x10, function: 0x10, kind: function-enter, always-instrument: true, function-name: 'f()', version: 2 }\n...\n"))
	f.Add([]byte("- id: 1\n  address: 16\n  function: 16\n  kind: tail-exit\n  always-instrument: no\n"))
	for _, text := range hostileMaps(1000) {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		elftest.Bounded(t, elftest.FuzzMemory(len(data)), func() { _, _ = parseYAMLMap(data) })
		fast := newMapBuilder()
		if !fast.scan(data) {
			return
		}
		// The YAML parser accepts what the fast path accepts, with the same result.
		slow := newMapBuilder()
		if err := debuginfo.Guard(func() error { return slow.parse(data) }); err != nil {
			t.Fatalf("only the fast path accepts %q: %v", data, err)
		}
		if a, b := len(fast.m.Sleds), len(slow.m.Sleds); a != b {
			t.Fatalf("%d sleds on the fast path, %d from the parser, in %q", a, b, data)
		}
		for i := range fast.m.Sleds {
			if fast.m.Sleds[i] != slow.m.Sleds[i] {
				t.Fatalf("got sled %+v on the fast path, %+v from the parser, in %q", fast.m.Sleds[i], slow.m.Sleds[i], data)
			}
		}
		for i := range fast.m.Functions {
			if fast.m.Functions[i] != slow.m.Functions[i] {
				t.Fatalf("got function %+v on the fast path, %+v from the parser, in %q", fast.m.Functions[i], slow.m.Functions[i], data)
			}
		}
	})
}
