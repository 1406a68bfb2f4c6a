package symbolize

import (
	"bytes"
	"compress/zlib"
	"debug/elf"
	"encoding/binary"
	"io"
	"strings"
	"testing"

	"github.com/ulikunitz/xz"
)

// What is small in the file must not fill the memory.
func TestBombs(t *testing.T) {
	compress := func(size int, to func(io.Writer) io.WriteCloser) []byte {
		var b bytes.Buffer
		w := to(&b)
		_, err := w.Write(make([]byte, size))
		if err == nil {
			err = w.Close()
		}
		if err != nil {
			t.Fatal(err)
		}
		return b.Bytes()
	}
	byZlib := func(w io.Writer) io.WriteCloser { return zlib.NewWriter(w) }
	section := func(size int) ([]byte, error) {
		header := words(binary.LittleEndian, 8, uint64(elf.COMPRESS_ZLIB), uint64(size), 1)
		file := testELF(binary.LittleEndian, elf.ELFCLASS64, elf.EM_X86_64, elf.ET_EXEC, testSection{
			name: ".debug_str", kind: elf.SHT_PROGBITS, flags: elf.SHF_COMPRESSED, data: append(header, compress(size, byZlib)...),
		})
		o, err := newObject(bytes.NewReader(file), int64(len(file)))
		if err != nil {
			t.Fatal(err)
		}
		return o.section(".debug_str").bytes()
	}
	if b, err := section(1 << 20); err != nil || len(b) != 1<<20 {
		t.Errorf("a section of 1 MB: %d bytes, %v", len(b), err)
	}
	if b, err := section(160 << 20); err == nil || !strings.Contains(err.Error(), "set XRAY_UNPACK_LIMIT") {
		t.Errorf("a section of 160 MB: %d bytes, %v", len(b), err)
	}
	t.Setenv(UnpackLimitVariable, "1G")
	if b, err := section(160 << 20); err != nil || len(b) != 160<<20 {
		t.Errorf("a section of 160 MB that is allowed: %d bytes, %v", len(b), err)
	}
	byXZ := func(w io.Writer) io.WriteCloser {
		z, err := xz.NewWriter(w)
		if err != nil {
			t.Fatal(err)
		}
		return z
	}
	if b, err := unpackXZ(compress(1<<20, byXZ)); err != nil || len(b) != 1<<20 {
		t.Errorf("xz data of 1 MB: %d bytes, %v", len(b), err)
	}
	if b, err := unpackXZ(compress(65<<20, byXZ)); err == nil || !strings.Contains(err.Error(), "too many bytes") {
		t.Errorf("xz data of 65 MB: %d bytes, %v", len(b), err)
	}
}
