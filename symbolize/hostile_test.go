package symbolize

import (
	"bytes"
	"compress/zlib"
	"debug/elf"
	"encoding/binary"
	"runtime"
	"runtime/metrics"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/ulikunitz/xz"
)

// hostileFiles are files of less than 10 MB that are there to exhaust the memory, or time,
// or smaller ones of the same structure.
func hostileFiles(t testing.TB, scale int) map[string][]byte {
	order := binary.LittleEndian
	pack := func(size int, content []byte) []byte {
		b := bytes.NewBuffer(words(order, 8, uint64(elf.COMPRESS_ZLIB), uint64(size), 1))
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
	debug := func(name string, flags elf.SectionFlag, data []byte) testSection {
		return testSection{name: ".debug_" + name, kind: elf.SHT_PROGBITS, flags: flags, data: data}
	}
	const compressed = elf.SHF_COMPRESSED
	one := pack(large, zeros)
	big := pack(4<<30/scale, zeros)
	// A unit that fills its section, and small ones that do.
	filled := slices.Concat(order.AppendUint32(nil, uint32(large-4)), smallUnit[4:], []byte{1}, zeros[len(smallUnit)+1:])
	small := bytes.Repeat([]byte("\x01\x00\x00\x00\x00"), large/5)
	abbrevs := []byte(unitAbbrev)
	table := lineTableBytes(4, []byte("\x00"), []row{{address: 0x1000, line: 1}, {address: 0x1040}})
	all := map[string][]byte{
		"sections": mapped(debug("info", compressed, one), debug("abbrev", compressed, one), debug("str", compressed, one),
			debug("line", compressed, one), debug("line_str", compressed, one), debug("addr", compressed, one)),
		"one section": mapped(debug("info", compressed, big), debug("line", compressed, big)),
		"a map":       mapped(testSection{name: mapSection, kind: elf.SHT_PROGBITS, flags: elf.SHF_ALLOC | compressed, address: 0x3000, data: one}),
		"names": mapped(testSection{name: ".symtab", kind: elf.SHT_SYMTAB, link: 3, data: make([]byte, 48)},
			testSection{name: ".strtab", kind: elf.SHT_STRTAB, flags: compressed, data: one}),
		"units":         manyUnits(700_000 / scale),
		"one unit":      mapped(debug("info", compressed, pack(large, filled)), debug("abbrev", 0, abbrevs), debug("line", 0, table)),
		"small units":   mapped(debug("info", compressed, pack(large, small)), debug("abbrev", 0, abbrevs), debug("line", compressed, pack(large, small))),
		"functions":     overlapping(8 << 20 / scale),
		"nested":        mapped(nested(8 << 20 / scale)...),
		"abbreviations": mapped(manyAbbreviations(4 << 20 / scale)...),
		"mini debug":    mapped(testSection{name: ".gnu_debugdata", kind: elf.SHT_PROGBITS, data: packXZ(t, zeros[:large/16])}),
		"in mini debug": mapped(testSection{name: ".gnu_debugdata", kind: elf.SHT_PROGBITS, data: packXZ(t, mapped(debug("info", compressed, pack(large, filled)), debug("line", compressed, one), debug("abbrev", 0, abbrevs)))}),
	}
	// Every section has the same name, which is as long as the file.
	long := testSection{name: string(bytes.Repeat([]byte("x"), 4<<20/scale)), kind: elf.SHT_PROGBITS}
	all["section names"] = mapped(slices.Repeat([]testSection{long}, 2)...)
	return all
}

// debugPart is a section of debug information.
func debugPart(name string, data []byte) testSection {
	return testSection{name: ".debug_" + name, kind: elf.SHT_PROGBITS, data: data}
}

// mapped is a program with a map of one function, at 0x1000.
func mapped(sections ...testSection) []byte {
	order := binary.LittleEndian
	sled := sledBytes(order, 8, ^uint64(0xFFF), ^uint64(0x1007), Entry, 1, 2)
	return testELF(order, elf.ELFCLASS64, elf.EM_X86_64, elf.ET_EXEC, append([]testSection{
		{name: mapSection, kind: elf.SHT_PROGBITS, flags: elf.SHF_ALLOC, address: 0x2000, data: sled},
	}, sections...)...)
}

// smallUnit is a unit of DWARF 4 with an entry that says nothing, of unitAbbrev.
var smallUnit = []byte("\x08\x00\x00\x00\x04\x00\x00\x00\x00\x00\x08\x01")

const unitAbbrev = "\x01\x11\x00\x00\x00\x00"

func manyUnits(count int) []byte {
	return mapped(debugPart("info", bytes.Repeat(smallUnit, count)), debugPart("abbrev", []byte(unitAbbrev)),
		debugPart("line", lineTableBytes(4, []byte("\x00"), []row{{address: 0x1000, line: 1}, {address: 0x1040}})))
}

// oneUnit is a unit of DWARF 4.
func oneUnit(entries []byte) []byte {
	body := append([]byte("\x04\x00\x00\x00\x00\x00\x08"), entries...)
	return append(binary.LittleEndian.AppendUint32(nil, uint32(len(body))), body...)
}

// overlapping is a program with functions that all are about all of it, and many that are
// asked for.
func overlapping(size int) []byte {
	var sleds []byte
	for i := range uint64(size / 64) {
		sleds = append(sleds, sledBytes(binary.LittleEndian, 8, 0x1000+16*i-0x4000-32*i, 0x1000+16*i-0x4000-32*i-8, Entry, 1, 2)...)
	}
	return testELF(binary.LittleEndian, elf.ELFCLASS64, elf.EM_X86_64, elf.ET_EXEC, append(functionsAt(size/2),
		testSection{name: mapSection, kind: elf.SHT_PROGBITS, flags: elf.SHF_ALLOC, address: 0x4000, data: sleds})...)
}

// functionsAt are the functions of overlapping.
func functionsAt(size int) []testSection {
	entry := binary.LittleEndian.AppendUint64([]byte{2}, 0x1000)
	entry = binary.LittleEndian.AppendUint32(entry, 1<<30)
	return []testSection{
		debugPart("info", oneUnit(append([]byte{1}, bytes.Repeat(entry, size/len(entry))...))),
		debugPart("abbrev", []byte("\x01\x11\x01\x00\x00\x02\x2e\x00\x11\x01\x12\x06\x00\x00\x00")),
	}
}

// nested are functions in each other, with many calls in the innermost.
func nested(size int) []testSection {
	function := binary.LittleEndian.AppendUint64([]byte{2}, 0x1000)
	function = binary.LittleEndian.AppendUint32(function, 1<<30)
	entries := slices.Concat([]byte{1}, bytes.Repeat(function, maxNesting-10), bytes.Repeat([]byte{3}, size))
	return []testSection{
		debugPart("info", oneUnit(entries)),
		debugPart("abbrev", []byte("\x01\x11\x01\x00\x00\x02\x2e\x01\x11\x01\x12\x06\x00\x00\x03\x1d\x00\x00\x00\x00")),
	}
}

// manyAbbreviations are units whose tables overlap.
func manyAbbreviations(size int) []testSection {
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
	return []testSection{debugPart("info", info), debugPart("abbrev", abbrevs)}
}

func packXZ(t testing.TB, data []byte) []byte {
	var b bytes.Buffer
	w, err := xz.NewWriter(&b)
	if err == nil {
		_, err = w.Write(data)
	}
	if err == nil {
		err = w.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// No file of 10 MB takes 500 MB, or long. What is unpacked is tried with an eighth of
// everything.
func TestHostileFiles(t *testing.T) {
	for name, data := range map[string][]byte{
		"units": manyUnits(700_000), "abbreviations": mapped(manyAbbreviations(8 << 20)...), "functions": overlapping(8 << 20), "nested": mapped(nested(8 << 20)...),
	} {
		hostile(t, name, data, 10<<20, 450<<20)
	}
	const scale = 8
	t.Setenv(UnpackLimitVariable, strconv.Itoa(unpackBase/scale))
	for name, data := range hostileFiles(t, scale) {
		if name != "units" && name != "abbreviations" {
			hostile(t, name+", scaled", data, 10<<20/scale, 450<<20/scale)
		}
	}
}

// hostile tells of a file that takes more bytes of memory than most.
func hostile(t *testing.T, name string, data []byte, size int, most uint64) {
	if len(data) > size {
		t.Errorf("%s: %d bytes", name, len(data))
	}
	runtime.GC()
	before := heap()
	stop, peak := make(chan struct{}), make(chan uint64)
	go func() {
		var most uint64
		for tick := time.NewTicker(time.Millisecond); ; {
			select {
			case <-stop:
				peak <- most
				return
			case <-tick.C:
				most = max(most, heap())
			}
		}
	}()
	bounded(t, 1<<40, func() { exercise(data) })
	close(stop)
	if n := <-peak; n > before+most {
		t.Errorf("%s: %d MB for a file of %d bytes", name, (n-before)>>20, len(data))
	}
}

// heap is how many bytes of the heap are in use or not yet collected.
func heap() uint64 {
	s := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	metrics.Read(s)
	return s[0].Value.Uint64()
}

// bounded fails where f allocates more bytes than most, freed or not, and ends the test
// where it does not come to an end.
func bounded(t testing.TB, most uint64, f func()) {
	defer time.AfterFunc(20*time.Second, func() { panic("this does not come to an end") }).Stop()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	if n := after.TotalAlloc - before.TotalAlloc; n > most {
		t.Errorf("%d bytes of memory, more than %d", n, most)
	}
}

// A section of more units than programs have is damaged, and says so.
func TestTooManyUnits(t *testing.T) {
	table := lineTableBytes(4, []byte("\x00/a.cc\x00\x00\x00\x00\x00"), []row{{address: 0x1000, line: 7}, {address: 0x1040}})
	find := func(lines []byte) (location, error) {
		data := mapped(debugPart("line", lines))
		o, err := newObject(bytes.NewReader(data), int64(len(data)))
		if err != nil {
			t.Fatal(err)
		}
		found, _, err := newDebugData(o).findLines([]uint64{0x1000}, []uint64{0x1040})
		return found[0], err
	}
	// Some padding is none of that.
	if got, err := find(append(make([]byte, 400), table...)); err != nil || got.line != 7 {
		t.Errorf("%+v, %v", got, err)
	}
	if _, err := find(make([]byte, 4*maxEmptyUnits+4)); err == nil || !strings.Contains(err.Error(), "are too short") {
		t.Errorf("very many empty units: %v", err)
	}
	if _, err := find(bytes.Repeat([]byte("\x07\x00\x00\x00\x02\x00\x00\x00\x00\x00\x00"), maxSectionUnits+1)); err == nil || !strings.Contains(err.Error(), "units, of which") {
		t.Errorf("very many units: %v", err)
	}
}
