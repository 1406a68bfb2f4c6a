package symbolize

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/xray-tools/xray/internal/test/elftest"
	"github.com/xray-tools/xray/internal/test/testenv"
	"github.com/xray-tools/xray/reader"
)

// targets are all ELF targets that clang can instrument.
var targets = []string{
	"x86_64-linux-gnu", "aarch64-linux-gnu", "armv7-linux-gnueabihf", "powerpc64le-linux-gnu",
	"mips-linux-gnu", "mipsel-linux-gnu", "mips64-linux-gnuabi64", "mips64el-linux-gnuabi64",
	"riscv64-linux-gnu", "riscv32-linux-gnu", "loongarch64-linux-gnu", "hexagon-linux-musl", "s390x-linux-gnu",
}

// targetSource has functions on known lines.
const targetSource = `extern "C" {
volatile int global;
[[clang::xray_always_instrument]]
int first(int a) {  // line 4
  if (a > 7)
    return global;
  global += a;
  return a + 1;
}
[[clang::xray_always_instrument, clang::xray_log_args(1)]]
int second(int a) {  // line 11
  global = global * a;
  return global;
}
[[clang::xray_never_instrument]]
int bare(int a) { return global / a; }
[[clang::xray_always_instrument]]
static int third(int a) {  // line 18
  global -= a;
  return global;
}
[[clang::xray_always_instrument]]
int fourth(int a) { return third(global) + third(a); }  // line 23
}
`

// checkMap compares a map's functions with the file's symbol table as the standard library reads
// it.
func checkMap(t *testing.T, path string, table *Table, sections bool) {
	t.Helper()
	f, err := elf.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	symbols, err := f.Symbols()
	if err != nil {
		t.Fatal(err)
	}
	byName := make(map[string]elf.Symbol)
	for _, s := range symbols {
		if elf.ST_TYPE(s.Info) == elf.STT_FUNC {
			byName[s.Name] = s
		}
	}
	m := table.Map()
	want := map[string]bool{"first": true, "second": true, "third": true, "fourth": true}
	if len(m.Functions) != len(want) {
		t.Fatalf("got %d functions, want %d", len(m.Functions), len(want))
	}
	lines := map[string]int{"first": 4, "second": 11, "third": 18, "fourth": 23}
	for i, fn := range m.Functions {
		if int(fn.ID) != i+1 {
			t.Errorf("function %d: got ID %d", i, fn.ID)
		}
		s, ok := table.Func(fn.ID)
		linkage := s.Linkage
		if strings.HasPrefix(linkage, "_ZL5third") {
			linkage = "third" // names with local linkage are mangled even in extern "C"
		}
		if !ok || !want[linkage] {
			t.Errorf("function %d: got %+v", fn.ID, s)
			continue
		}
		delete(want, linkage)
		if fn.Address != byName[s.Linkage].Value {
			t.Errorf("%s: got address %#x, want %#x as of the symbol", linkage, fn.Address, byName[s.Linkage].Value)
		}
		line := lines[linkage]
		if f.Machine == elf.EM_S390 && s.Line == line+1 {
			line++ // the compiler gives the entry the line of the first statement
		}
		if s.Line != line || filepath.Base(s.File) != "main.cc" || !filepath.IsAbs(s.File) {
			t.Errorf("%s: got %s:%d, want line %d", linkage, s.File, s.Line, line)
		}
		entry := Entry
		if linkage == "second" {
			entry = LogArgsEntry
		}
		n := 0
		for _, sled := range m.Sleds {
			if sled.ID != fn.ID {
				continue
			}
			size := byName[s.Linkage].Size
			if sled.Function != fn.Address || sled.Address-fn.Address >= size {
				t.Errorf("%s, of %d bytes at %#x: got sled %+v", linkage, size, fn.Address, sled)
			}
			if !sled.AlwaysInstrument || sled.Version != 2 {
				t.Errorf("%s: wrong sled %+v", linkage, sled)
			}
			if n++; (n == 1) != (sled.Kind == entry) {
				t.Errorf("%s: sled %d: wrong kind %v", linkage, n, sled.Kind)
			}
		}
		// On Hexagon, fourth may end in a tail call, which has no sled.
		if n < 2 && !(linkage == "fourth" && f.Machine == elf.EM_QDSP6) {
			t.Errorf("%s: got %d sleds", linkage, n)
		}
	}
	if sections && m.Functions[0].Address != m.Functions[1].Address {
		t.Error("functions are not in separate sections")
	}
}

// Maps are correct for object files of every target, with and without a section for each function,
// and for shared objects linked from them.
func TestTargets(t *testing.T) {
	testenv.Need(t, "clang++-22", "ld.lld-22")
	for _, target := range targets {
		for _, dwarf := range []string{"-gdwarf-4", "-gdwarf-5"} {
			args := []string{"--target=" + target, "-c", "-O1", "-fno-inline", "-fPIC", dwarf}
			t.Run(target+dwarf, func(t *testing.T) {
				t.Parallel()
				object := elftest.Compile(t, targetSource, args...)
				checkMap(t, object, load(t, object), false)

				sectioned := elftest.Compile(t, targetSource, append(args, "-ffunction-sections")...)
				checkMap(t, sectioned, load(t, sectioned), true)

				linked := object + ".so"
				elftest.Run(t, "ld.lld-22", "-shared", "--build-id=0xfeedc0de", object, "-o", linked)
				table := load(t, linked)
				checkMap(t, linked, table, false)
				if got := table.Object(); got.BuildID != "feedc0de" || got.Path != linked {
					t.Errorf("got object %+v", got)
				}
				first := table.Map().Functions[0].Address
				if o := table.Object(); first < o.Start || first >= o.Limit {
					t.Errorf("the function at %#x is outside the executable segment, %#x to %#x", first, o.Start, o.Limit)
				}
			})
		}
	}
}

// The expected sleds of files in the corpus are from disassembly.
func TestCorpusObjects(t *testing.T) {
	corpus := os.Getenv("XRAY_CORPUS")
	if corpus == "" {
		t.Skip("XRAY_CORPUS is not set")
	}
	want := map[string][]uint64{ // function, entry and other sleds, for each function
		"aarch64-linux-gnu":       {0, 0, 0x44, 0x68, 0x68, 0x98, 0xbc, 0xbc, 0xec},
		"armv7-linux-gnueabihf":   {0, 0, 0x40, 0x68, 0x68, 0x9c, 0xc4, 0xc4, 0xf8},
		"hexagon-linux-musl":      {0, 0, 0x2c, 0x50, 0x50, 0x80, 0x80, 0xa8},
		"loongarch64-linux-gnu":   {0, 0, 0x5c, 0xac, 0xac, 0xec, 0x140, 0x140, 0x180},
		"mips-linux-gnu":          {0, 8, 0x70, 0xac, 0xb4, 0x118, 0x154, 0x15c, 0x1a4},
		"mips64el-linux-gnuabi64": {0, 0, 0x84, 0xd0, 0xd0, 0x154, 0x1a0, 0x1a0, 0x1fc},
		"mipsel-linux-gnu":        {0, 8, 0x70, 0xac, 0xb4, 0x118, 0x154, 0x15c, 0x1a4},
		"powerpc64le-linux-gnu":   {0, 8, 0x60, 0x90, 0x98, 0xe8, 0x120, 0x128, 0x158},
		"riscv32-linux-gnu":       {0, 0, 0x4e, 0x7c, 0x7e, 0xba, 0xee, 0xf0, 0x12c},
		"riscv64-linux-gnu":       {0, 0, 0x66, 0xac, 0xae, 0x102, 0x14e, 0x150, 0x1a4},
		"s390x-linux-gnu":         {0, 0, 0x42, 0x60, 0x66, 0x84, 0xa0, 0xa6, 0xc6},
		"x86_64-linux-gnu":        {0, 0, 0x1a, 0x30, 0x30, 0x42, 0x60, 0x60, 0x7a},
	}
	for target, want := range want {
		table := load(t, filepath.Join(corpus, "samples/elf/t-"+target+".o"))
		var got []uint64
		names := ""
		last := reader.FuncID(0)
		for _, s := range table.Map().Sleds {
			if s.ID != last {
				last = s.ID
				names += Label(table, s.ID) + " "
				got = append(got, s.Function)
			}
			got = append(got, s.Address)
		}
		if diff := cmp.Diff(want, got); diff != "" || names != "foo tail la " {
			t.Errorf("%s: names %s(-want +got)\n%s", target, names, diff)
		}
	}
}

// absolute makes a shared object with a map of an old version, whose addresses are only in the
// dynamic relocations.
func absolute(order elftest.ByteOrder, class elf.Class, machine elf.Machine, version byte, inPlace bool) []byte {
	word := 8
	if class == elf.ELFCLASS32 {
		word = 4
	}
	const base = 0x3000
	addresses := []uint64{0x1000, 0x1020, 0x1040, 0x1060}
	functions := []uint64{0x1000, 0x1000, 0x1040, 0x1040}
	relative := map[elf.Machine]uint64{elf.EM_AARCH64: 1027, elf.EM_ARM: 23, elf.EM_X86_64: 8, elf.EM_S390: 12}
	absoluteType := map[elf.Machine]uint64{elf.EM_AARCH64: 257, elf.EM_ARM: 2, elf.EM_X86_64: 1, elf.EM_S390: 22}[machine]
	var sleds, relocs []byte
	reloc := func(at, symbol, kind, addend uint64) {
		info := symbol<<32 | kind
		if word == 4 {
			info = symbol<<8 | kind
		}
		relocs = append(relocs, elftest.Words(order, word, at, info)...)
		if !inPlace {
			relocs = append(relocs, elftest.Words(order, word, addend)...)
		}
	}
	for i := range addresses {
		at := uint64(base + len(sleds))
		a, f := uint64(0), uint64(0)
		if inPlace {
			a = addresses[i]
		}
		if i >= 2 && inPlace {
			f = 0x10 // the symbol is 16 bytes before the function
		}
		sleds = append(sleds, elftest.Sled(order, word, a, f, byte(i%2), 1, version)...)
		reloc(at, 0, relative[machine], addresses[i])
		symbol, addend := uint64(1), uint64(0)
		if i >= 2 {
			symbol, addend = 2, 0x10
		}
		reloc(at+uint64(word), symbol, absoluteType, addend)
	}
	symbol := func(name uint32, address, size uint64) []byte {
		b := order.AppendUint32(nil, name)
		if word == 4 {
			b = append(b, elftest.Words(order, 4, address, size)...)
			return append(b, order.AppendUint16([]byte{byte(elf.STT_FUNC), 0}, 3)...)
		}
		b = append(b, byte(elf.STT_FUNC), 0)
		b = order.AppendUint16(b, 3)
		return append(b, elftest.Words(order, 8, address, size)...)
	}
	symbols := append(symbol(0, 0, 0), symbol(1, 0x1000, 0x30)...)
	symbols = append(symbols, symbol(9, functions[2]-0x10, 0x40)...)
	kind := elf.SHT_RELA
	if inPlace {
		kind = elf.SHT_REL
	}
	return elftest.File(order, class, machine, elf.ET_DYN,
		elftest.Section{Name: ".dynsym", Kind: elf.SHT_DYNSYM, Flags: elf.SHF_ALLOC, Link: 2, Data: symbols},
		elftest.Section{Name: ".dynstr", Kind: elf.SHT_STRTAB, Flags: elf.SHF_ALLOC, Data: []byte("\x00_Z3onev\x00two\x00")},
		elftest.Section{Name: ".text", Kind: elf.SHT_PROGBITS, Flags: elf.SHF_ALLOC | elf.SHF_EXECINSTR, Address: 0x1000, Data: make([]byte, 0x80)},
		elftest.Section{Name: ".rel.dyn", Kind: kind, Flags: elf.SHF_ALLOC, Link: 1, Data: relocs},
		// --emit-relocs leaves these in linked files. They do not apply at load time.
		elftest.Section{Name: ".rela" + mapSection, Kind: kind, Link: 1, Info: 6, Data: relocs[:len(relocs)/2]},
		elftest.Section{Name: mapSection, Kind: elf.SHT_PROGBITS, Flags: elf.SHF_ALLOC | elf.SHF_WRITE, Address: base, Data: sleds},
	)
}

// Maps of versions 0 and 1 contain addresses. In shared objects, these come from dynamic
// relocations.
func TestDynamicRelocations(t *testing.T) {
	for _, c := range []struct {
		order   elftest.ByteOrder
		class   elf.Class
		machine elf.Machine
		version byte
		inPlace bool
	}{
		{binary.LittleEndian, elf.ELFCLASS64, elf.EM_AARCH64, 0, false},
		{binary.LittleEndian, elf.ELFCLASS64, elf.EM_X86_64, 1, false},
		{binary.LittleEndian, elf.ELFCLASS32, elf.EM_ARM, 0, true},
		{binary.BigEndian, elf.ELFCLASS64, elf.EM_S390, 1, false},
	} {
		t.Run(fmt.Sprintf("%v/version=%d", c.machine, c.version), func(t *testing.T) {
			data := absolute(c.order, c.class, c.machine, c.version, c.inPlace)
			table := new(Table)
			if err := table.read(bytes.NewReader(data), int64(len(data))); err != nil {
				t.Fatal(err)
			}
			want := []Sled{
				{ID: 1, Address: 0x1000, Function: 0x1000, Kind: Entry, AlwaysInstrument: true, Version: c.version},
				{ID: 1, Address: 0x1020, Function: 0x1000, Kind: Exit, AlwaysInstrument: true, Version: c.version},
				{ID: 2, Address: 0x1040, Function: 0x1040, Kind: Entry, AlwaysInstrument: true, Version: c.version},
				{ID: 2, Address: 0x1060, Function: 0x1040, Kind: Exit, AlwaysInstrument: true, Version: c.version},
			}
			if diff := cmp.Diff(want, table.Map().Sleds); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
			// The second function is inside its symbol.
			if a, b := Label(table, 1), Label(table, 2); a != "one()" || b != "two" {
				t.Errorf("got names %q and %q", a, b)
			}
		})
	}
}

// IDs count changes of the function in map order. If a function's sleds are not together, it has
// several IDs.
func TestIDs(t *testing.T) {
	order := binary.LittleEndian
	for _, word := range []int{4, 8} {
		class := elf.ELFCLASS64
		if word == 4 {
			class = elf.ELFCLASS32
		}
		var sleds []byte
		const base = 0x8001 // maps are not aligned
		for i, f := range []uint64{0, 0, 0x100, 0x40, 0x40, 0x100} {
			here := base + uint64(len(sleds))
			sleds = append(sleds, elftest.Sled(order, word, f+4-here, f-here-uint64(word), byte(i%6), byte(i%2), 2+byte(i))...)
		}
		data := elftest.File(order, class, elf.EM_386, elf.ET_EXEC,
			elftest.Section{Name: mapSection, Kind: elf.SHT_PROGBITS, Flags: elf.SHF_ALLOC, Address: base, Data: sleds})
		m, _, err := parseMap(bytes.NewReader(data), int64(len(data)))
		if err != nil {
			t.Fatal(err)
		}
		want := &Map{
			Machine: elf.EM_386, Class: class, ByteOrder: order,
			Sleds: []Sled{
				{ID: 1, Address: 4, Function: 0, Kind: Entry, Version: 2},
				{ID: 1, Address: 4, Function: 0, Kind: Exit, AlwaysInstrument: true, Version: 3},
				{ID: 2, Address: 0x104, Function: 0x100, Kind: TailExit, Version: 4},
				{ID: 3, Address: 0x44, Function: 0x40, Kind: LogArgsEntry, AlwaysInstrument: true, Version: 5},
				{ID: 3, Address: 0x44, Function: 0x40, Kind: CustomEvent, Version: 6},
				{ID: 4, Address: 0x104, Function: 0x100, Kind: TypedEvent, AlwaysInstrument: true, Version: 7},
			},
			Functions: []Function{{ID: 1}, {ID: 2, Address: 0x100}, {ID: 3, Address: 0x40}, {ID: 4, Address: 0x100}},
		}
		if diff := cmp.Diff(want, m, cmpopts.IgnoreUnexported(Function{})); diff != "" {
			t.Errorf("words of %d bytes: (-want +got)\n%s", word, diff)
		}
	}
}

func TestMapErrors(t *testing.T) {
	order := binary.LittleEndian
	sled := elftest.Sled(order, 8, 0, 0, byte(Entry), 0, 2)
	exec := func(data []byte) string {
		return string(elftest.File(order, elf.ELFCLASS64, elf.EM_X86_64, elf.ET_EXEC,
			elftest.Section{Name: mapSection, Kind: elf.SHT_PROGBITS, Flags: elf.SHF_ALLOC, Address: 0x1000, Data: data}))
	}
	object := func(info uint64, at uint64) string {
		return string(elftest.File(order, elf.ELFCLASS64, elf.EM_X86_64, elf.ET_REL,
			elftest.Section{Name: mapSection, Kind: elf.SHT_PROGBITS, Flags: elf.SHF_ALLOC, Data: sled},
			elftest.Section{Name: ".rela" + mapSection, Kind: elf.SHT_RELA, Info: 1, Data: elftest.Words(order, 8, at, info, 0)}))
	}
	good := exec(sled)
	for _, c := range []struct{ name, data, want string }{
		{"empty", "", "the file is empty"},
		{"trace", "\x03\x00\x00\x00\x03\x00\x00\x00", "is this the trace itself?"},
		{"mach-o", "\xcf\xfa\xed\xfe\x07\x00\x00\x01", "Mach-O files are not supported"},
		{"archive", "!<arch>\nfoo.o/", "static library"},
		{"windows", "MZ\x90\x00", "Windows"},
		{"text", "hello there\n", "not a YAML instrumentation map"},
		{"truncated", good[:40], "EOF"},
		{"not built with xray", string(elftest.File(order, elf.ELFCLASS64, elf.EM_X86_64, elf.ET_EXEC)), "no xray_instr_map section"},
		{"odd size", exec(sled[:31]), "31 bytes are not a whole number of 32-byte sleds"},
		{"kind", exec(elftest.Sled(order, 8, 0, 0, 6, 0, 2)), "offset 0x0: unknown sled kind 6"},
		{"relocation type", object(0x99, 0), "unknown relocation type 153 of EM_X86_64"},
		{"relocation place", object(24, 28), "relocation at 0x1c is outside of xray_instr_map"},
		{"relocation target", object(24, 0), "points outside all sections"},
	} {
		_, _, err := parseMap(strings.NewReader(c.data), int64(len(c.data)))
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got error %v, want %q", c.name, err, c.want)
		}
	}
	path := filepath.Join(t.TempDir(), "missing")
	if _, err := Load(path, Options{}); err == nil || strings.Count(err.Error(), path) != 1 {
		t.Errorf("missing file: got error %v", err)
	}
	if _, err := LoadMap(t.TempDir()); err == nil || !strings.Contains(err.Error(), "regular file") {
		t.Errorf("folder: got error %v", err)
	}
	testenv.Need(t, "mkfifo")
	pipe := filepath.Join(t.TempDir(), "pipe") // nobody writes to it
	elftest.Run(t, "mkfifo", pipe)
	if _, err := LoadMap(pipe); err == nil || !strings.Contains(err.Error(), "regular file") {
		t.Errorf("map in a pipe: got error %v", err)
	}
	if _, err := Load(pipe, Options{}); err == nil || !strings.Contains(err.Error(), "regular file") {
		t.Errorf("binary in a pipe: got error %v", err)
	}
	if names := withoutSleds(pipe, regexp.MustCompile(".")); names != nil {
		t.Errorf("a pipe has functions: %q", names)
	}
	if IsSharedObject(pipe) || IsProgram(pipe) {
		t.Error("a pipe was taken for a program")
	}
}
