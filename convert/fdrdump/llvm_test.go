package fdrdump

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/xray-tools/xray/internal/test/testenv"
	"github.com/xray-tools/xray/internal/tracetext"
	"github.com/xray-tools/xray/reader"
)

type recordSeq = iter.Seq2[reader.Record, error]

type dumper func(io.Writer, *reader.Header, recordSeq) error

// run dumps a binary trace. It appends an error as the last line.
func run(t testing.TB, data []byte, dump dumper) string {
	t.Helper()
	trace, err := reader.OpenReaderAt(bytes.NewReader(data), int64(len(data)), "trace")
	if err != nil {
		t.Fatal(err)
	}
	h := trace.Header(0)
	var out bytes.Buffer
	if err := dump(&out, &h, trace.Records(0)); err != nil {
		fmt.Fprintln(&out, "error:", err)
	}
	return out.String()
}

// assemble returns the trace of a text.
func assemble(t testing.TB, text string) []byte {
	t.Helper()
	data, err := tracetext.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func TestLLVM(t *testing.T) {
	for _, tt := range []struct{ name, trace, want, wantVerify string }{
		{"version 5", `xray fdr
thread 11 pid=7 wall=703.000040 cpu=1 tsc=1000
enter 6
enter-arg 3 +170
arg 100
cpu 2 tsc=5
custom "hello" +90
typed 513 "TT" -7
exit 3 +1152
tsc-wrap 99
tail-exit 6 +1
zeros 61
thread 12 pid=7 wall=703.000041`,
			`<Buffer: size = 183 bytes>
<Thread ID: 11>
<Wall Time: seconds = 703.000040>
<PID: 7>
<CPU: id = 1, tsc = 1000>
<Function Enter: #6 delta = +0>
<Function Enter With Arg: #3 delta = +170>
<Call Argument: data = 100 (hex = 0x64)>
<CPU: id = 2, tsc = 5>
<Custom Event: delta = +90, size = 5, data = 'hello'>
<Typed Event: delta = +-7, type = 513, size = 2, data = 'TT'
<Function Exit: #3 delta = +1152>
<TSC Wrap: base = 99>
<Function Tail Exit: #6 delta = +1>
<Buffer: size = 64 bytes>
<Thread ID: 12>
<Wall Time: seconds = 703.000041>
<PID: 7>
<CPU: id = 0, tsc = 0>
`, `
[New Block]
Preamble: 
<Thread ID: 11>
<Wall Time: seconds = 703.000040>
<PID: 7>

Body:
 <CPU: id = 1, tsc = 1000>

-  <Function Enter: #6 delta = +0>
-  <Function Enter With Arg: #3 delta = +170>
 : <Call Argument: data = 100 (hex = 0x64)>
 <CPU: id = 2, tsc = 5>

*  <Custom Event: delta = +90, size = 5, data = 'hello'>
*  <Typed Event: delta = +-7, type = 513, size = 2, data = 'TT'
-  <Function Exit: #3 delta = +1152>

Metadata: <TSC Wrap: base = 99>

-  <Function Tail Exit: #6 delta = +1>

[New Block]
Preamble: 
<Thread ID: 12>
<Wall Time: seconds = 703.000041>
<PID: 7>

Body:
 <CPU: id = 0, tsc = 0>
`},
		{"version 1", `xray fdr version=1 buffer=200
thread 11 wall=703.000040
custom "hi" tsc=5
end-of-buffer
bytes 4041
zeros auto
thread 12`,
			`<Thread ID: 11>
<Wall Time: seconds = 703.000040>
<CPU: id = 0, tsc = 0>
<Custom Event: tsc = 5, cpu = 0, size = 2, data = 'hi'>
<End of Buffer>
<Thread ID: 12>
<Wall Time: seconds = 0.000000>
<CPU: id = 0, tsc = 0>
`, `
[New Block]
Preamble: 
<Thread ID: 11>
<Wall Time: seconds = 703.000040>

Body:
 <CPU: id = 0, tsc = 0>

*  <Custom Event: tsc = 5, cpu = 0, size = 2, data = 'hi'>
 *** <End of Buffer>

[New Block]
Preamble: 
<Thread ID: 12>
<Wall Time: seconds = 0.000000>

Body:
 <CPU: id = 0, tsc = 0>
`},
		{"cut off", "xray fdr\nextents 80\nnew-buffer 1\nwall-clock 0.000000\npid 1\ncpu 0\nbytes 120000",
			`<Buffer: size = 80 bytes>
<Thread ID: 1>
<Wall Time: seconds = 0.000000>
<PID: 1>
<CPU: id = 0, tsc = 0>
error: offset 0x70: Function record: need 8 bytes, have 3
`, `
[New Block]
Preamble: 
<Thread ID: 1>
<Wall Time: seconds = 0.000000>
<PID: 1>

Body:
 <CPU: id = 0, tsc = 0>
error: offset 0x70: Function record: need 8 bytes, have 3
`},
		{"no clock", "xray fdr\nextents auto\nnew-buffer 1\nwall-clock 0.000000\nenter 1",
			`<Buffer: size = 40 bytes>
<Thread ID: 1>
<Wall Time: seconds = 0.000000>
<Function Enter: #1 delta = +0>
`, `
[New Block]
Preamble: 
<Thread ID: 1>
<Wall Time: seconds = 0.000000>
error: BlockVerifier: Invalid transition from WallClockTime to Function.
`},
		{"basic", "xray basic", "error: not a flight data recorder log, but a basic one\n", "error: not a flight data recorder log, but a basic one\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			data := assemble(t, tt.trace)
			if diff := cmp.Diff(tt.want, run(t, data, LLVM)); diff != "" {
				t.Error("plain:", diff)
			}
			if diff := cmp.Diff(tt.wantVerify, run(t, data, LLVMVerify)); diff != "" {
				t.Error("verify:", diff)
			}
		})
	}
}

// drawText draws a trace that llvm-xray can read. Its blocks are in time order and belong
// to one thread, because llvm-xray prints threads in the order of a hash table. If legal is
// false, one record is out of place.
func drawText(t *rapid.T, legal bool) string {
	version := rapid.IntRange(1, 5).Draw(t, "version")
	custom := `custom "hello" tsc=5`
	switch {
	case version == 4:
		custom += " cpu=300"
	case version == 5:
		custom = `custom "hello" -5`
	}
	lines := []string{
		"enter 1 +4294967295", "exit 268435455 +0", "tail-exit 3 +5", "enter-arg 2",
		"enter-arg 1 +5\narg 5\narg 18446744073709551615",
		"cpu 65535 tsc=18446744073709551615", "tsc-wrap 7", custom, `typed 513 "it's" -8`,
	}
	misplaced := []string{"enter 1\ntsc-wrap 8\narg 5", "pid 7", "wall-clock 4294967296.000001"}
	var b strings.Builder
	fmt.Fprintf(&b, "xray fdr version=%d\n", version)
	blocks := 1
	if version > 1 && legal { // llvm-xray takes the padding of version 1 for records
		blocks = rapid.IntRange(1, 4).Draw(t, "blocks")
	}
	for i := range blocks {
		fmt.Fprintf(&b, "thread 7 wall=1.%06d cpu=1 tsc=1000", i)
		if version >= 3 {
			b.WriteString(" pid=7")
		}
		b.WriteByte('\n')
		for range rapid.IntRange(0, 12).Draw(t, "records") {
			fmt.Fprintln(&b, rapid.SampledFrom(lines).Draw(t, "record"))
		}
		if !legal {
			fmt.Fprintln(&b, rapid.SampledFrom(misplaced).Draw(t, "misplaced"))
		}
		if version < 2 {
			b.WriteString("end-of-buffer\n")
		}
	}
	return b.String()
}

// TestAgainstLLVM compares with llvm-xray on random traces.
func TestAgainstLLVM(t *testing.T) {
	testenv.Need(t, "llvm-xray-22")
	path := filepath.Join(t.TempDir(), "trace")
	for seed := range 30 {
		text := rapid.Custom(func(t *rapid.T) string { return drawText(t, seed%3 > 0) }).Example(seed)
		data := assemble(t, text)
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		for _, tt := range []struct {
			args []string
			dump dumper
		}{
			{[]string{"fdr-dump", path}, LLVM},
			{[]string{"fdr-dump", "--verify", path}, LLVMVerify},
		} {
			out, err := exec.Command("llvm-xray-22", tt.args...).Output()
			want := string(out)
			if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
				want += strings.Replace(string(exit.Stderr), "llvm-xray: ", "error: ", 1)
			} else if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, run(t, data, tt.dump)); diff != "" {
				t.Errorf("%v of\n%s\n%s", tt.args[:len(tt.args)-1], text, diff)
			}
		}
	}
}

// TestCorpus compares with outputs of llvm-xray that the folder XRAY_CORPUS holds.
func TestCorpus(t *testing.T) {
	root := os.Getenv("XRAY_CORPUS")
	if root == "" {
		t.Skip("XRAY_CORPUS is not set")
	}
	for trace, output := range map[string]string{
		"traces/fdr-v5-two-threads-custom-event.xray": "fdr-v5-two-threads-custom-event.fdr-dump.txt",
		"gen/v3.fdr": "gen-v3.fdr-dump.txt", "gen/v4.fdr": "gen-v4.fdr-dump.txt", "gen/v5.fdr": "gen-v5.fdr-dump.txt",
	} {
		t.Run(output, func(t *testing.T) {
			data, err := os.ReadFile(filepath.Join(root, "samples", trace))
			if err != nil {
				t.Fatal(err)
			}
			want, err := os.ReadFile(filepath.Join(root, "samples/outputs", output))
			if err != nil {
				t.Fatal(err)
			}
			text, _, _ := strings.Cut(string(want), "[exit status 0]\n")
			if trace == "gen/v3.fdr" {
				// Only version 4 has a CPU in custom events. llvm-xray also reads these
				// bytes as one in version 3.
				text = strings.ReplaceAll(text, "cpu = 2, size", "cpu = 0, size")
			}
			if diff := cmp.Diff(text, run(t, data, LLVM)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestVerifier(t *testing.T) {
	verify := func(ks ...reader.RecordKind) error {
		var v Verifier
		for _, k := range ks {
			if err := v.Record(k); err != nil {
				return err
			}
		}
		return v.End()
	}
	start := []reader.RecordKind{reader.BufferExtents, reader.NewBuffer, reader.WallClock, reader.PID, reader.NewCPUID}
	for _, tt := range []struct {
		kinds []reader.RecordKind
		want  string
	}{
		{nil, "BlockVerifier: Invalid terminal condition Unknown, malformed block."},
		{start[:1], "BlockVerifier: Invalid terminal condition BufferExtents, malformed block."},
		{start[:4], "BlockVerifier: Invalid terminal condition PIDEntry, malformed block."},
		{start, ""},
		{start[1:], ""},
		{[]reader.RecordKind{reader.NewBuffer, reader.WallClock, reader.NewCPUID, reader.EndOfBuffer, reader.PID, reader.EndOfBuffer}, ""},
		{[]reader.RecordKind{reader.NewBuffer, reader.WallClock, reader.NewCPUID, reader.EndOfBuffer, reader.NewBuffer},
			"BlockVerifier: Invalid terminal condition NewBuffer, malformed block."},
		{start[2:], "BlockVerifier: Invalid transition from Unknown to WallClockTime."},
		{append(start[:5:5], reader.CallArgument), "BlockVerifier: Invalid transition from NewCPUId to CallArg."},
		{append(start[:5:5], reader.Function, reader.CallArgument, reader.CallArgument, reader.TSCWrap, reader.TypedEvent), ""},
		{append(start[:5:5], reader.CustomEvent, reader.BufferExtents), "BlockVerifier: Invalid transition from CustomEvent to BufferExtents."},
	} {
		got := ""
		if err := verify(tt.kinds...); err != nil {
			got = err.Error()
		}
		if got != tt.want {
			t.Errorf("%v: got %q, want %q", tt.kinds, got, tt.want)
		}
	}
}

func TestReadErrors(t *testing.T) {
	want := errors.New("disk gone")
	records := func(yield func(reader.Record, error) bool) {
		if yield(reader.Record{Kind: reader.NewBuffer, Size: 16, Thread: 5}, nil) {
			yield(reader.Record{}, want)
		}
	}
	for name, dump := range map[string]dumper{"plain": LLVM, "verify": LLVMVerify, "annotated": annotate} {
		var out bytes.Buffer
		if err := dump(&out, &reader.Header{Type: reader.FDR, Version: 5}, records); !errors.Is(err, want) {
			t.Errorf("%s: %v", name, err)
		}
		if !strings.Contains(out.String(), "5") {
			t.Errorf("%s: the record before the error is missing: %q", name, out.String())
		}
	}
}

func annotate(w io.Writer, h *reader.Header, records recordSeq) error {
	_, err := Annotate(w, h, records, Options{Verify: true})
	return err
}
