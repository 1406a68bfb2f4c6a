package symbolize

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/xray-tools/xray/internal/test/testenv"
)

// byteOrder is what both byte orders of encoding/binary implement.
type byteOrder interface {
	binary.ByteOrder
	binary.AppendByteOrder
}

// testSection is a section of an ELF file that a test makes.
type testSection struct {
	name       string
	kind       elf.SectionType
	flags      elf.SectionFlag
	address    uint64
	link, info uint32
	data       []byte
}

// testELF assembles an ELF file from sections. Their indexes count from 1.
func testELF(order byteOrder, class elf.Class, machine elf.Machine, kind elf.Type, sections ...testSection) []byte {
	word, headerSize, sectionSize := 8, 64, 64
	if class == elf.ELFCLASS32 {
		word, headerSize, sectionSize = 4, 52, 40
	}
	names := []byte{0}
	all := append([]testSection{{}}, sections...)
	all = append(all, testSection{name: ".shstrtab", kind: elf.SHT_STRTAB})
	var nameAt []int
	for _, s := range all {
		nameAt = append(nameAt, len(names))
		names = append(append(names, s.name...), 0)
	}
	all[len(all)-1].data = names
	body := make([]byte, headerSize)
	var at []int
	for _, s := range all {
		at = append(at, len(body))
		body = append(body, s.data...)
	}
	table := len(body)
	num := func(b []byte, size int, v uint64) []byte {
		switch size {
		case 2:
			return order.AppendUint16(b, uint16(v))
		case 4:
			return order.AppendUint32(b, uint32(v))
		}
		return order.AppendUint64(b, v)
	}
	for i, s := range all {
		size := len(s.data)
		body = num(body, 4, uint64(nameAt[i]))
		body = num(body, 4, uint64(s.kind))
		body = num(body, word, uint64(s.flags))
		body = num(body, word, s.address)
		body = num(body, word, uint64(at[i]))
		body = num(body, word, uint64(size))
		body = num(body, 4, uint64(s.link))
		body = num(body, 4, uint64(s.info))
		body = num(body, word, 1)
		body = num(body, word, 0)
	}
	data := byte(elf.ELFDATA2LSB)
	if order == byteOrder(binary.BigEndian) {
		data = byte(elf.ELFDATA2MSB)
	}
	h := append([]byte(elf.ELFMAG), byte(class), data, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0)
	h = num(h, 2, uint64(kind))
	h = num(h, 2, uint64(machine))
	h = num(h, 4, 1)
	h = num(h, word, 0) // entry
	h = num(h, word, 0) // program headers
	h = num(h, word, uint64(table))
	h = num(h, 4, 0)
	h = num(h, 2, uint64(headerSize))
	h = num(h, 2, 0)
	h = num(h, 2, 0)
	h = num(h, 2, uint64(sectionSize))
	h = num(h, 2, uint64(len(all)))
	h = num(h, 2, uint64(len(all)-1))
	copy(body, h)
	return body
}

// words encodes integers of one size.
func words(order byteOrder, size int, values ...uint64) []byte {
	var b []byte
	for _, v := range values {
		if size == 4 {
			b = order.AppendUint32(b, uint32(v))
		} else {
			b = order.AppendUint64(b, v)
		}
	}
	return b
}

// sledBytes encodes a sled.
func sledBytes(order byteOrder, word int, address, function uint64, kind SledKind, always, version byte) []byte {
	b := words(order, word, address, function)
	b = append(b, byte(kind), always, version)
	return append(b, make([]byte, 4*word-len(b))...)
}

// built holds what compile has made, by source and arguments: compilers are by
// far the slowest part of these tests.
var built struct {
	sync.Mutex
	dir    string
	result map[string]func() (string, error)
}

func TestMain(m *testing.M) {
	built.result = make(map[string]func() (string, error))
	var err error
	if built.dir, err = os.MkdirTemp("", "symbolize"); err != nil {
		panic(err)
	}
	status := m.Run()
	os.RemoveAll(built.dir)
	os.Exit(status)
}

// compile builds a source file in a folder of its own with clang, once, and
// returns the path of the result.
func compile(t testing.TB, source string, args ...string) string {
	t.Helper()
	const compiler = "clang++-22"
	testenv.Need(t, compiler)
	for _, arg := range args {
		if linker, ok := strings.CutPrefix(arg, "-fuse-ld="); ok {
			testenv.Need(t, "ld."+linker)
		}
	}
	key := source + strings.Join(args, "\x00")
	built.Lock()
	build, ok := built.result[key]
	if !ok {
		build = sync.OnceValues(func() (string, error) {
			dir, err := os.MkdirTemp(built.dir, "")
			if err != nil {
				return "", err
			}
			if err := os.WriteFile(filepath.Join(dir, "main.cc"), []byte(source), 0o666); err != nil {
				return "", err
			}
			output := filepath.Join(dir, "out")
			args := append([]string{"-fxray-instrument", "-fno-xray-link-deps", "main.cc", "-o", output}, args...)
			cmd := exec.Command(compiler, args...)
			cmd.Dir = dir // a relative path, as most build systems give
			if out, err := cmd.CombinedOutput(); err != nil {
				return "", fmt.Errorf("%q: %w\n%s", cmd.Args, err, out)
			}
			return output, nil
		})
		built.result[key] = build
	}
	built.Unlock()
	path, err := build()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// run returns what a command prints.
func run(t testing.TB, name string, args ...string) string {
	t.Helper()
	testenv.Need(t, name)
	cmd := exec.Command(name, args...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s %q: %v\n%s", name, args, err, stderr.Bytes())
	}
	return string(out)
}

func load(t testing.TB, path string) *Table {
	t.Helper()
	table, err := Load(path, Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { table.Close() })
	return table
}
