package symbolize

import (
	"bytes"
	"compress/zlib"
	"debug/elf"
	"encoding/binary"
	"strings"
	"testing"
)

// What is small in the file must not fill the memory.
func TestBombs(t *testing.T) {
	// section reads a compressed section that says how large it is.
	section := func(size int, content []byte) ([]byte, error) {
		b := bytes.NewBuffer(words(binary.LittleEndian, 8, uint64(elf.COMPRESS_ZLIB), uint64(size), 1))
		w := zlib.NewWriter(b)
		w.Write(content)
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		file := testELF(binary.LittleEndian, elf.ELFCLASS64, elf.EM_X86_64, elf.ET_EXEC, testSection{
			name: ".debug_str", kind: elf.SHT_PROGBITS, flags: elf.SHF_COMPRESSED, data: b.Bytes(),
		})
		o, err := newObject(bytes.NewReader(file), int64(len(file)))
		if err != nil {
			t.Fatal(err)
		}
		return o.section(".debug_str").bytes()
	}
	const mb = 1 << 20
	zeros := make([]byte, 4*mb)
	if b, err := section(mb, zeros[:mb]); err != nil || len(b) != mb {
		t.Errorf("a section of 1 MB: %d bytes, %v", len(b), err)
	}
	// Nothing is unpacked before the size is looked at.
	if b, err := section(160*mb, nil); err == nil || !strings.Contains(err.Error(), "set XRAY_UNPACK_LIMIT") {
		t.Errorf("a section of 160 MB: %d bytes, %v", len(b), err)
	}
	if b, err := section(120*mb, nil); err == nil || strings.Contains(err.Error(), "set XRAY_UNPACK_LIMIT") {
		t.Errorf("a section of 120 MB that is empty: %d bytes, %v", len(b), err)
	}
	t.Setenv(UnpackLimitVariable, "3M")
	if b, err := section(4*mb, zeros); err == nil || !strings.Contains(err.Error(), "set XRAY_UNPACK_LIMIT") {
		t.Errorf("a section of 4 MB of 3: %d bytes, %v", len(b), err)
	}
	t.Setenv(UnpackLimitVariable, "4M")
	if b, err := section(4*mb, zeros); err != nil || len(b) != 4*mb {
		t.Errorf("a section of 4 MB that is allowed: %d bytes, %v", len(b), err)
	}
	if b, err := unpackXZ(packXZ(t, zeros), 4*mb); err != nil || len(b) != 4*mb {
		t.Errorf("xz data of 4 MB: %d bytes, %v", len(b), err)
	}
	if b, err := unpackXZ(packXZ(t, zeros), 4*mb-1); err == nil || !strings.Contains(err.Error(), "too many bytes") {
		t.Errorf("xz data of more than 4 MB: %d bytes, %v", len(b), err)
	}
}

// What is unpacked from a section counts like what is compressed in it again.
func TestNestedBomb(t *testing.T) {
	t.Setenv(UnpackLimitVariable, "4M")
	inside := func(size int) error {
		b := bytes.NewBuffer(words(binary.LittleEndian, 8, uint64(elf.COMPRESS_ZLIB), uint64(size), 1))
		w := zlib.NewWriter(b)
		w.Write(make([]byte, size))
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		file := func(sections ...testSection) []byte {
			return testELF(binary.LittleEndian, elf.ELFCLASS64, elf.EM_X86_64, elf.ET_EXEC, sections...)
		}
		mini := file(testSection{name: ".debug_str", kind: elf.SHT_PROGBITS, flags: elf.SHF_COMPRESSED, data: b.Bytes()},
			testSection{name: ".padding", kind: elf.SHT_PROGBITS, data: make([]byte, 2<<20)})
		data := file(testSection{name: ".gnu_debugdata", kind: elf.SHT_PROGBITS, data: packXZ(t, mini)})
		o, err := newObject(bytes.NewReader(data), int64(len(data)))
		if err != nil {
			t.Fatal(err)
		}
		m, err := o.miniDebug()
		if err != nil {
			t.Fatal(err)
		}
		_, err = m.section(".debug_str").bytes()
		return err
	}
	if err := inside(1 << 20); err != nil {
		t.Error(err)
	}
	if err := inside(3 << 20); err == nil || !strings.Contains(err.Error(), "set XRAY_UNPACK_LIMIT") {
		t.Errorf("3 MB in 2 MB of 4: %v", err)
	}
}
