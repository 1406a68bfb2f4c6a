package debuginfo

import (
	"bytes"
	"compress/zlib"
	"debug/elf"
	"encoding/binary"
	"strings"
	"testing"

	"github.com/xray-tools/xray/internal/test/elftest"
)

// A section with more units than any program has is refused as damaged.
func TestTooManyUnits(t *testing.T) {
	table := elftest.LineTable(4, []byte("\x00/a.cc\x00\x00\x00\x00\x00"), elftest.Row{Address: 0x1000, Line: 7}, elftest.Row{Address: 0x1040})
	find := func(lines []byte) (Location, error) {
		data := elftest.Mapped(elftest.DebugPart("line", lines))
		o, err := NewELF(bytes.NewReader(data), int64(len(data)))
		if err != nil {
			t.Fatal(err)
		}
		found, _, err := newDebugData(o).findLines([]uint64{0x1000}, []uint64{0x1040})
		return found[0], err
	}
	// A little padding is no damage.
	if got, err := find(append(make([]byte, 400), table...)); err != nil || got.Line != 7 {
		t.Errorf("padding: got %+v, error %v", got, err)
	}
	if _, err := find(make([]byte, 4*maxEmptyUnits+4)); err == nil || !strings.Contains(err.Error(), "too short") {
		t.Errorf("very many empty units: got error %v", err)
	}
	if _, err := find(bytes.Repeat([]byte("\x07\x00\x00\x00\x02\x00\x00\x00\x00\x00\x00"), maxSectionUnits+1)); err == nil || !strings.Contains(err.Error(), " units, ") {
		t.Errorf("very many units: got error %v", err)
	}
}

// Data that are small in the file must not fill the memory.
func TestBombs(t *testing.T) {
	// section reads a compressed section with a claimed size.
	section := func(size int, content []byte) ([]byte, error) {
		b := bytes.NewBuffer(elftest.Words(binary.LittleEndian, 8, uint64(elf.COMPRESS_ZLIB), uint64(size), 1))
		w := zlib.NewWriter(b)
		w.Write(content)
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		file := elftest.File(binary.LittleEndian, elf.ELFCLASS64, elf.EM_X86_64, elf.ET_EXEC, elftest.Section{
			Name: ".debug_str", Kind: elf.SHT_PROGBITS, Flags: elf.SHF_COMPRESSED, Data: b.Bytes(),
		})
		o, err := NewELF(bytes.NewReader(file), int64(len(file)))
		if err != nil {
			t.Fatal(err)
		}
		return o.section(".debug_str").Bytes()
	}
	const mb = 1 << 20
	zeros := make([]byte, 4*mb)
	if b, err := section(mb, zeros[:mb]); err != nil || len(b) != mb {
		t.Errorf("section of 1 MB: got %d bytes, error %v", len(b), err)
	}
	// The size is checked before anything is unpacked.
	if b, err := section(160*mb, nil); err == nil || !strings.Contains(err.Error(), "set XRAY_UNPACK_LIMIT") {
		t.Errorf("section of 160 MB: got %d bytes, error %v", len(b), err)
	}
	if b, err := section(120*mb, nil); err == nil || strings.Contains(err.Error(), "set XRAY_UNPACK_LIMIT") {
		t.Errorf("empty section that claims 120 MB: got %d bytes, error %v", len(b), err)
	}
	t.Setenv(UnpackLimitVariable, "3M")
	if b, err := section(4*mb, zeros); err == nil || !strings.Contains(err.Error(), "set XRAY_UNPACK_LIMIT") {
		t.Errorf("section of 4 MB with a limit of 3 MB: got %d bytes, error %v", len(b), err)
	}
	t.Setenv(UnpackLimitVariable, "4M")
	if b, err := section(4*mb, zeros); err != nil || len(b) != 4*mb {
		t.Errorf("section of 4 MB within the limit: got %d bytes, error %v", len(b), err)
	}
}
