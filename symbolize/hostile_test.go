package symbolize

import (
	"bytes"
	"compress/zlib"
	"debug/elf"
	"encoding/binary"
	"runtime"
	"slices"
	"testing"
	"time"
)

// hostileFiles are files of less than 10 MB that are there to exhaust the memory.
func hostileFiles(t *testing.T) map[string][]byte {
	order := binary.LittleEndian
	packed := func(size int) []byte {
		b := bytes.NewBuffer(words(order, 8, uint64(elf.COMPRESS_ZLIB), uint64(size), 1))
		w, _ := zlib.NewWriterLevel(b, zlib.BestSpeed)
		if _, err := w.Write(make([]byte, min(size, 120<<20))); err != nil {
			t.Fatal(err)
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		return b.Bytes()
	}
	file := func(class elf.Class, sections ...testSection) []byte {
		sled := sledBytes(order, 8, ^uint64(0xFFF), ^uint64(0x1007), Entry, 1, 2)
		return testELF(order, class, elf.EM_X86_64, elf.ET_EXEC, append([]testSection{
			{name: mapSection, kind: elf.SHT_PROGBITS, flags: elf.SHF_ALLOC, address: 0x2000, data: sled},
		}, sections...)...)
	}
	debug := func(name string, flags elf.SectionFlag, data []byte) testSection {
		return testSection{name: ".debug_" + name, kind: elf.SHT_PROGBITS, flags: flags, data: data}
	}
	const compressed = elf.SHF_COMPRESSED
	unit := append(words(order, 4, 8)[:4], 4, 0, 0, 0, 0, 0, 8, 1)
	one := packed(120 << 20)
	big := packed(4 << 30)
	all := map[string][]byte{
		"sections": file(elf.ELFCLASS64, debug("info", compressed, one), debug("abbrev", compressed, one), debug("str", compressed, one),
			debug("line", compressed, one), debug("line_str", compressed, one), debug("addr", compressed, one)),
		"one section": file(elf.ELFCLASS64, debug("info", compressed, big), debug("line", compressed, big)),
		"a map":       file(elf.ELFCLASS64, testSection{name: mapSection, kind: elf.SHT_PROGBITS, flags: elf.SHF_ALLOC | compressed, address: 0x3000, data: one}),
		"names": file(elf.ELFCLASS64, testSection{name: ".symtab", kind: elf.SHT_SYMTAB, link: 3, data: make([]byte, 48)},
			testSection{name: ".strtab", kind: elf.SHT_STRTAB, flags: compressed, data: one}),
		"units": file(elf.ELFCLASS64, debug("info", 0, slices.Repeat(unit, 700_000)), debug("abbrev", 0, []byte("\x01\x11\x00\x00\x00\x00")),
			debug("line", 0, lineTableBytes(4, []byte("\x00"), []row{{address: 0x1000, line: 1}, {address: 0x1040}}))),
	}
	// Every section has the same name, which is as long as the file.
	long := testSection{name: string(bytes.Repeat([]byte("x"), 4<<20)), kind: elf.SHT_PROGBITS}
	all["section names"] = file(elf.ELFCLASS64, slices.Repeat([]testSection{long}, 2)...)
	return all
}

// No file of 10 MB takes 500 MB, or long.
func TestHostileFiles(t *testing.T) {
	for name, data := range hostileFiles(t) {
		if len(data) > 10<<20 {
			t.Errorf("%s: %d bytes", name, len(data))
		}
		stop, peak := make(chan struct{}), make(chan uint64)
		runtime.GC()
		var before runtime.MemStats
		runtime.ReadMemStats(&before)
		go func() {
			var most uint64
			for tick := time.NewTicker(5 * time.Millisecond); ; {
				select {
				case <-stop:
					peak <- most
					return
				case <-tick.C:
					var now runtime.MemStats
					runtime.ReadMemStats(&now)
					most = max(most, now.HeapAlloc)
				}
			}
		}()
		exercise(data)
		close(stop)
		if n := <-peak; n > before.HeapAlloc+450<<20 {
			t.Errorf("%s: %d MB for a file of %d bytes", name, (n-before.HeapAlloc)>>20, len(data))
		}
	}
}
