package tracetext

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/xray-tools/xray/internal/test/elftest"
	"github.com/xray-tools/xray/internal/tracewrite"
	"github.com/xray-tools/xray/reader"
)

// format returns the text of data, and checks that it assembles to data.
func format(t interface {
	Helper()
	Fatalf(string, ...any)
}, data []byte) string {
	t.Helper()
	var out bytes.Buffer
	if err := Format(&out, bytes.NewReader(data), int64(len(data))); err != nil {
		t.Fatalf("Format: %v", err)
	}
	back, err := Parse(out.String())
	if err != nil {
		t.Fatalf("Parse: %v\n%s", err, out.String())
	}
	if !bytes.Equal(data, back) {
		t.Fatalf("the text assembles to other bytes: %s\n%s", cmp.Diff(data, back), out.String())
	}
	return out.String()
}

// canonical contains texts as Format writes them. They show every form.
var canonical = map[string]string{
	"fdr5": `xray fdr version=5 order=little flags=0x3 frequency=1000000000 buffer=16384
extents auto
new-buffer 11
wall-clock 703.124640
pid 7
cpu 3 tsc=1795215993615280629
enter 6 +0
enter-arg 3 +4294967295
arg 100
arg 18446744073709551615
custom "hello \"x\" é\x00\xff\n" -50
typed 513 "TT" +7
tsc-wrap 8589935592
tail-exit 3 +5
exit 268435455 +0
zeros 61
extents auto
new-buffer -1
wall-clock 703.124641
pid 7
cpu 3 tsc=5
extents auto
`,
	"recorder": strings.ReplaceAll(`xray fdr version=5 order=little flags=0x3 frequency=1000000000 buffer=16384 free=5852594d46445231
extents auto
new-buffer 0
wall-clock 0.000000
pid 0
cpu 0 tsc=5
metadata process '{"pid":7,"exe":"/a b #=+"}' +0
metadata addresses "\x00\x01" +0
custom "XRYM\x02\x00\x01\x00" +0
extents auto
new-buffer 7
wall-clock 0.000000
pid 7
cpu 0 tsc=5
metadata mark "a mark" -3
`, "'", "`"),
	"fdr5 of clang 22": `xray fdr version=5 order=little flags=0xaaaaaaab frequency=1000000000 buffer=16384 fill=aa
extents auto
new-buffer 11
wall-clock 703.124640
pid 7 pad=00
cpu 3 tsc=1 pad=0102030405
enter 6 +0
`,
	"fdr4": `xray fdr version=4 order=little flags=0x3 frequency=0 buffer=16384 free=01
extents auto
new-buffer 11
wall-clock 703 micros=1000000
pid 7
cpu 3 tsc=0
custom "" tsc=8589935848 cpu=2
`,
	"fdr3 big-endian": `xray fdr version=3 order=big flags=0x3 frequency=0 buffer=16384
extents auto
new-buffer 11
wall-clock 703.000000
pid 7
cpu 3 tsc=5
enter-arg 3 +4294967295
custom "x" tsc=8589935848 pad=010203
`,
	"fdr1": `xray fdr version=1 order=little flags=0x3 frequency=1 buffer=256
new-buffer 11
wall-clock 703.000000
cpu 3 tsc=5
end-of-buffer
zeros 192
new-buffer 12
wall-clock 703.000001
cpu 3 tsc=5
`,
	"cut off": `xray fdr version=5 order=little flags=0x3 frequency=1000000000 buffer=16384
extents 80
new-buffer 11
wall-clock 703.000000
pid 7
cpu 3 tsc=5
enter 1 +0
# CAUSE
bytes 120000
`,
	"basic3": `xray basic version=3 order=little flags=0x3 frequency=1000000000
enter-arg -3 tsc=100 tid=1 pid=-2 cpu=255
arg -3 18446744073709551615 tid=1 pid=-2 pad=01
exit 3 tsc=18446744073709551615 tid=-1 pid=1 cpu=0
`,
	"basic1 big-endian": `xray basic version=1 order=big flags=0x0 frequency=1 free=aa fill=aa
enter 3 tsc=100 tid=1 cpu=0
arg 3 5 tid=1 pad=0102030405060708090a0b0c0d0e
`,
	"header alone": `xray basic version=3 order=little flags=0x3 frequency=1000000000
`,
	"no trace": `bytes 78726179000000000000000000000021
zeros 65536
zeros 16
bytes 01
`,
	"empty": ``,
}

func TestCanonicalTexts(t *testing.T) {
	for name, text := range canonical {
		t.Run(name, func(t *testing.T) {
			data, err := Parse(text)
			if err != nil {
				t.Fatal(err)
			}
			got := format(t, data)
			// The wording of the reader's errors is not part of the format.
			lines := strings.Split(got, "\n")
			for i, l := range lines {
				if strings.HasPrefix(l, "#") {
					lines[i] = "# CAUSE"
				}
			}
			if diff := cmp.Diff(text, strings.Join(lines, "\n")); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestShorthand compares short forms with the long ones.
func TestShorthand(t *testing.T) {
	for _, tt := range []struct{ name, short, long string }{
		{"header", "xray fdr", "xray fdr version=5 order=little flags=0x3 frequency=1000000000 buffer=16384 free=0000000000000000 fill=00"},
		{"basic header", "xray basic", "xray basic version=3 order=little flags=3 frequency=1_000_000_000 free=00"},
		{"thread", "xray fdr\nthread 11 pid=7 wall=1.000020 cpu=2 tsc=1000\nenter 1",
			"xray fdr\nextents 72\nnew-buffer 11\nwall-clock 1.000020\npid 7\ncpu 2 tsc=1000\nenter 1 +0"},
		{"threads with padding and damage", "xray fdr\nthread 1\nbytes 01\nexit 1\nbytes 03\nzeros 5\nthread 2",
			"xray fdr\nextents 73\nnew-buffer 1\nwall-clock 0.000000\npid 0\ncpu 0\nbytes 01\nexit 1\nbytes 03\nzeros 5\n" +
				"extents 64\nnew-buffer 2\nwall-clock 0.000000\npid 0\ncpu 0"},
		{"thread of version 2", "xray fdr version=2\nthread 1 wall=5.000000", "xray fdr version=2\nextents 48\nnew-buffer 1\nwall-clock 5.000000\ncpu 0"},
		{"thread of version 1", "xray fdr version=1 buffer=100\nthread 1\nend-of-buffer\nzeros auto\nthread 2\nend-of-buffer\nzeros auto\nzeros auto",
			"xray fdr version=1 buffer=100\nnew-buffer 1\nwall-clock 0.000000\ncpu 0\nend-of-buffer\nzeros 36\n" +
				"new-buffer 2\nwall-clock 0.000000\ncpu 0\nend-of-buffer\nzeros 36"},
		{"big-endian extents", "xray fdr order=big\nextents auto\nenter 1", "xray fdr order=big\nextents 8\nenter 1"},
		{"numbers, comments, blanks", "# a trace\n\nxray basic # header\n\tenter 0x10 tsc=1_000 # \"\n", "xray basic\nenter 16 cpu=0 pid=0 tid=0 tsc=1000"},
		{"pad", "xray fdr\npid 1 pad=aa", "xray fdr\npid 1 pad=aaaaaaaaaaaaaaaaaaaaaa"},
		{"fill", "xray fdr fill=aa\npid 1", "xray fdr\npid 1 pad=aa"},
		{"comment sign in a string", "xray fdr\ncustom \"a # b\" # c", "xray fdr\ncustom \"a \\x23 b\" +0"},
		{"bytes", "bytes 01 0203\r\n", "bytes 010203"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			short, err := Parse(tt.short)
			if err != nil {
				t.Fatal(err)
			}
			long, err := Parse(tt.long)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(long, short); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestParseErrors(t *testing.T) {
	for _, tt := range []struct{ text, want string }{
		{"xray pdf", `line 1: unknown type "pdf": want fdr or basic`},
		{"xray", `line 1: type is missing`},
		{"xray fdr order=mixed", `line 1: unknown order "mixed": want little or big`},
		{"xray fdr version=65536", `line 1: version "65536": value out of range`},
		{"xray fdr color=1", `line 1: unexpected "color=1"`},
		{"xray basic buffer=1", `line 1: unexpected "buffer=1"`},
		{"xray fdr free=0102", `line 1: free: want 1 or 8 bytes, have 2`},
		{"xray fdr fill=xx", `line 1: fill: encoding/hex: invalid byte: U+0078 'x'`},
		{"xray fdr\nxray fdr", `line 2: the header must be the first line`},
		{"\nenter 1", `line 2: enter: text without an xray line may only have bytes and zeros`},
		{"xray fdr\ncall 1", `line 2: unknown record "call"`},
		{"xray basic\npid 1", `line 2: unknown record "pid"`},
		{"xray basic\nthread 1", `line 2: thread: basic logs have no blocks`},
		{"xray basic version=2\nenter 1 pid=1", `line 2: unexpected "pid=1"`},
		{"xray basic\nenter 1 cpu=256", `line 2: cpu "256": value out of range`},
		{"xray fdr\nenter 268435456", `line 2: function ID "268435456": value out of range`},
		{"xray fdr\nenter -1", `line 2: function ID "-1": invalid syntax`},
		{"xray fdr\nenter", `line 2: function ID is missing`},
		{"xray fdr\nenter pad=1", `line 2: function ID is missing`},
		{"xray fdr\nenter 1 -1", `line 2: delta -1: want 0 to 4294967295`},
		{"xray fdr\nenter 1 +1 +1", `line 2: unexpected "+1"`},
		{"xray fdr\nenter 1 pad=00", `line 2: unexpected "pad=00"`},
		{"xray fdr\ncustom \"x\" +2147483648", `line 2: delta +2147483648: want -2147483648 to 2147483647`},
		{"xray fdr\ncustom x", `line 2: payload x: want a quoted string`},
		{"xray fdr\ncustom", `line 2: payload is missing`},
		{"xray fdr\ncustom \"x", `line 2: the quoted string is not well-formed`},
		{"xray fdr version=3\ncustom \"x\" cpu=1", `line 2: unexpected "cpu=1"`},
		{"xray fdr\nwall-clock 1.5", `line 2: wall clock "1.5": want 6 digits of microseconds`},
		{"xray fdr\nwall-clock 1.00000x", `line 2: microseconds "00000x": invalid syntax`},
		{"xray fdr\npid 1 pad=0102", `line 2: pad: want 1 or 11 bytes, have 2`},
		{"bytes 0", `line 1: bytes: encoding/hex: odd length hex string`},
		{"zeros 65537", `line 1: 65537 zeros are more than 65536: use several lines`},
		{"zeros auto", `line 1: zeros auto needs a buffer size in the header`},
		{"xray fdr buffer=0\nzeros auto", `line 2: zeros auto needs a buffer size in the header`},
		{"zeros 1 2", `line 1: unexpected "2"`},
	} {
		data, err := Parse(tt.text)
		if err == nil {
			t.Errorf("%q: no error", tt.text)
		} else if err.Error() != tt.want {
			t.Errorf("%q: got error %q, want %q", tt.text, err, tt.want)
		} else if data != nil {
			t.Errorf("%q: got data and an error", tt.text)
		}
	}
}

// drawTrace draws a file that usually starts like a trace, and consists of records and
// garbage.
func drawTrace(t *rapid.T) []byte {
	h := &reader.Header{
		Type:       rapid.SampledFrom([]reader.Type{reader.Basic, reader.FDR}).Draw(t, "type"),
		Version:    rapid.Uint16Range(0, 6).Draw(t, "version"),
		ByteOrder:  rapid.SampledFrom(orders[:]).Draw(t, "order"),
		BufferSize: rapid.Uint64Range(0, 300).Draw(t, "buffer"),
	}
	data := tracewrite.AppendHeader(nil, h)
	for i := range data[4:] {
		if rapid.IntRange(0, 9).Draw(t, "flip") == 0 {
			data[4+i] = rapid.Byte().Draw(t, "garbage")
		}
	}
	block := -1
	for range rapid.IntRange(0, 40).Draw(t, "records") {
		r := &reader.Record{
			Kind:   reader.RecordKind(rapid.IntRange(0, int(reader.Damage)).Draw(t, "kind")),
			Func:   reader.FuncID(rapid.Int32().Draw(t, "function")),
			TSC:    rapid.Uint64().Draw(t, "tsc"),
			Micros: rapid.Uint32().Draw(t, "micros"),
			Delta:  rapid.Int64().Draw(t, "delta"),
			Value:  rapid.Uint64Range(0, 200).Draw(t, "value"),
		}
		if r.Kind == reader.CustomEvent || r.Kind == reader.TypedEvent || r.Kind == reader.Damage {
			r.Data = rapid.SliceOfN(rapid.SampledFrom([]byte{0, 0, 0, 1, 0x0f, 'a', '"', 0xff}), 0, 60).Draw(t, "data")
		}
		n := len(data)
		data = tracewrite.AppendRecord(data, h, r)
		if rapid.Bool().Draw(t, "unclean") {
			for _, s := range unusedOf(r.Kind, h.Version) {
				for i := s.From; i < s.To && n+i < len(data); i++ {
					data[n+i] = rapid.Byte().Draw(t, "garbage")
				}
			}
		}
		if r.Kind == reader.BufferExtents {
			if block >= 0 && rapid.Bool().Draw(t, "true extents") {
				h.ByteOrder.PutUint64(data[block-15:], uint64(n-block))
			}
			block = len(data)
		}
	}
	return data[:len(data)-rapid.IntRange(0, min(len(data), 20)).Draw(t, "cut")]
}

func TestEveryFileHasAText(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) { format(t, drawTrace(t)) })
	rapid.Check(t, func(t *rapid.T) { format(t, rapid.SliceOf(rapid.Byte()).Draw(t, "bytes")) })
}

// Every trace of the project has a text.
func TestTestdata(t *testing.T) {
	paths, err := filepath.Glob("../../testdata/*.xray")
	if err != nil || len(paths) < 15 {
		t.Fatalf("got %d traces, error %v", len(paths), err)
	}
	for _, path := range paths {
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if bytes.HasPrefix(data, []byte("forpyarx")) {
			continue // of profiling mode, which has no records
		}
		if text := format(t, data); !strings.HasPrefix(text, "xray ") {
			t.Errorf("%s: not the text of a trace: %.40q", path, text)
		}
	}
}

// Assembling a large trace needs bounded memory, or fails.
func TestAssembleStreams(t *testing.T) {
	var long strings.Builder
	long.WriteString("xray fdr\n")
	for range 100 {
		long.WriteString("thread 1\n" + strings.Repeat("enter 1 +1\n", 1000) + strings.Repeat("zeros 65536\n", 10))
	}
	elftest.Bounded(t, 16<<20, func() {
		var n counter
		if err := Assemble(&n, strings.NewReader(long.String())); err != nil {
			t.Error(err)
		}
		if want := 32 + 100*(5*16+8000+10*65536); int(n) != want {
			t.Errorf("got %d bytes, want %d", n, want)
		}
	})
	for text, want := range map[string]string{
		"xray fdr\nthread 1\n" + strings.Repeat("zeros 65536\n", 1025): "line 1026: a block of more than 67108864 bytes: write the number of its extents",
		"bytes" + strings.Repeat(" 00", maxTokens+1):                   "line 1: more than 65536 values",
		"xray fdr # " + strings.Repeat("x", maxLine+64<<10):            "line 1: longer than 67108864 bytes",
	} {
		if err := Assemble(io.Discard, strings.NewReader(text)); err == nil || err.Error() != want {
			t.Errorf("%.20q: got error %v, want %s", text, err, want)
		}
	}
}

type counter int64

func (c *counter) Write(b []byte) (int, error) {
	*c += counter(len(b))
	return len(b), nil
}

// A payload cannot send control sequences to the terminal that shows the text.
func TestTextIsPrintable(t *testing.T) {
	data, err := Parse("xray fdr\nthread 1\nmetadata process \"{\\\"exe\\\":\\u009b2J\\u202e\\x1b[2J}\"\ncustom \"\\u009b\\t\"\n")
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range format(t, data) {
		if r != '\n' && !strconv.IsPrint(r) {
			t.Errorf("got control character %U", r)
		}
	}
}

// TestCorpus runs on the files that XRAY_CORPUS names.
func TestCorpus(t *testing.T) {
	root := os.Getenv("XRAY_CORPUS")
	if root == "" {
		t.Skip("XRAY_CORPUS is not set")
	}
	err := filepath.WalkDir(filepath.Join(root, "samples"), func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if len(data) < 1<<20 {
			format(t, data)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestLongBlocks formats blocks whose text exceeds the held-back limit. Their extents keep
// their numbers.
func TestLongBlocks(t *testing.T) {
	data, err := Parse("xray fdr\nthread 1\n" + strings.Repeat("enter 1 +4000000000\n", 80_000) + "thread 2\nenter 1\n")
	if err != nil {
		t.Fatal(err)
	}
	text := format(t, data)
	if lines := strings.Split(text, "\n"); lines[1] != "extents 640064" || lines[80_006] != "extents auto" {
		t.Errorf("got lines %q and %q", lines[1], lines[80_006])
	}
}

func TestFormatReportsErrors(t *testing.T) {
	data, err := Parse("xray fdr\nthread 1\n" + strings.Repeat("enter 1 +1\n", 30_000))
	if err != nil {
		t.Fatal(err)
	}
	want := errors.New("disk full")
	if err := Format(failingWriter{want}, bytes.NewReader(data), int64(len(data))); !errors.Is(err, want) {
		t.Errorf("write error: got %v", err)
	}
	if err := Format(io.Discard, failingReader{want}, int64(len(data))); !errors.Is(err, want) {
		t.Errorf("read error: got %v", err)
	}
	long, err := Parse("xray basic\n" + strings.Repeat("enter 1 tsc=1\n", 100_000))
	if err != nil {
		t.Fatal(err)
	}
	in := &countingReader{r: bytes.NewReader(long)}
	if err := Format(failingWriter{want}, in, int64(len(long))); !errors.Is(err, want) || in.n > len(long)/2 {
		t.Errorf("log without blocks: got error %v after %d bytes", err, in.n)
	}
	if err := Format(iotest.TruncateWriter(io.Discard, 10), bytes.NewReader(data), int64(len(data))); err != nil {
		t.Errorf("got error %v, want none", err)
	}
}

type failingWriter struct{ err error }

func (w failingWriter) Write([]byte) (int, error) { return 0, w.err }

type countingReader struct {
	r io.ReaderAt
	n int
}

func (c *countingReader) ReadAt(b []byte, off int64) (int, error) {
	n, err := c.r.ReadAt(b, off)
	c.n += n
	return n, err
}

type failingReader struct{ err error }

func (r failingReader) ReadAt([]byte, int64) (int, error) { return 0, r.err }

// FuzzParse checks that Parse does not panic, and that the text of an accepted trace is
// stable.
func FuzzParse(f *testing.F) {
	for _, text := range canonical {
		f.Add(text)
	}
	f.Add("xray fdr version=1 buffer=100\nthread 1 pid=2 wall=3.000004 cpu=5 tsc=6\nzeros auto")
	f.Fuzz(func(t *testing.T, text string) {
		var data []byte
		var err error
		elftest.Bounded(t, 64<<20+2*maxZeros*uint64(len(text)), func() { data, err = Parse(text) })
		if err != nil {
			return
		}
		once := format(t, data)
		again, err := Parse(once)
		if err != nil {
			t.Fatal(err)
		}
		if twice := format(t, again); twice != once {
			t.Fatal(cmp.Diff(once, twice))
		}
	})
}

// FuzzFormat checks that every file has a text.
func FuzzFormat(f *testing.F) {
	for _, text := range canonical {
		data, err := Parse(text)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) { format(t, data) })
}

func ExampleParse() {
	data, err := Parse(`
		xray fdr frequency=1_000_000_000
		thread 11 pid=7 wall=1.000020 cpu=0 tsc=1000
		enter 3
		exit  3 +25    # 25 ticks later
	`)
	if err != nil {
		panic(err)
	}
	fmt.Println(len(data), "bytes")
	// Output: 128 bytes
}
