package fdrdump

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/symbolize"
)

// names knows two functions, one of them without a symbol.
type names struct{}

func (names) Func(id reader.FuncID) (symbolize.Symbol, bool) {
	switch id {
	case 1:
		return symbolize.Symbol{Name: "leaf(int)"}, true
	case 2:
		return symbolize.Symbol{Address: 0xabc}, true
	}
	return symbolize.Symbol{}, false
}

func TestAnnotate(t *testing.T) {
	for _, tt := range []struct {
		name, trace string
		opts        Options
		want        string
	}{
		{"state of two blocks", `xray fdr fill=aa
thread 11 pid=7 wall=703.000040 cpu=1 tsc=1000
enter 1 +1
enter-arg 2 +4294967295
arg 100
custom "hello" -5
tsc-wrap 7
cpu 2 tsc=50
exit 3 +1
extents auto
new-buffer 12
wall-clock 1.000000
tail-exit 1 +9
`, Options{Names: names{}}, `fdr log, version 5, little-endian, 1000000000 ticks per second, buffers of 16384 bytes
00000020  0f 9d 00 00 00 00 00 00 00 .. .. .. .. .. .. ..  BufferExtents  157 bytes, to 0xcd
00000030  01 0b 00 00 00 .. .. .. .. .. .. .. .. .. .. ..  NewBuffer      thread 11
00000040  09 bf 02 00 00 00 00 00 00 28 00 00 00 .. .. ..  WallClock      703.000040 s
00000050  13 07 00 00 00 .. .. .. .. .. .. .. .. .. .. ..  PID            process 7
00000060  05 01 00 e8 03 00 00 00 00 00 00 .. .. .. .. ..  NewCPUId       cpu 1, tsc 1000
00000070  10 00 00 00 01 00 00 00                          enter          tsc 1001 (+1)  thread 11  cpu 1  #1 leaf(int)
00000078  26 00 00 00 ff ff ff ff                          enter, args    tsc 4294968296 (+4294967295)  thread 11  cpu 1  #2 @(abc)
00000080  0d 64 00 00 00 00 00 00 00 .. .. .. .. .. .. ..  CallArgument   100 (0x64)
00000090  0b 05 00 00 00 fb ff ff ff .. .. .. .. .. .. ..  CustomEvent    tsc 4294968291 (-5)  thread 11  cpu 1  5 bytes "hello"
000000a0  68 65 6c 6c 6f
000000a5  07 07 00 00 00 00 00 00 00 .. .. .. .. .. .. ..  TSCWrap        tsc 7
000000b5  05 02 00 32 00 00 00 00 00 00 00 .. .. .. .. ..  NewCPUId       cpu 2, tsc 50
000000c5  32 00 00 00 01 00 00 00                          exit           tsc 51 (+1)  thread 11  cpu 2  #3
000000cd  0f 28 00 00 00 00 00 00 00 .. .. .. .. .. .. ..  BufferExtents  40 bytes, to 0x105
000000dd  01 0c 00 00 00 .. .. .. .. .. .. .. .. .. .. ..  NewBuffer      thread 12
000000ed  09 01 00 00 00 00 00 00 00 00 00 00 00 .. .. ..  WallClock      1.000000 s
000000fd  14 00 00 00 09 00 00 00                          tail exit      tsc ? (+9)  thread 12  cpu ?  #1 leaf(int)
records: 16, blocks: 2, bytes of padding: 0, bytes damaged: 0
`},
		{"damage, padding, violations", `xray fdr frequency=0
thread 11 cpu=1 tsc=1000
zeros 9944
bytes ` + strings.Repeat("ff", 60) + `
thread 12 wall=1.000000
pid 5
extents 100
new-buffer 1
bytes 120000
`, Options{Verify: true}, `fdr log, version 5, little-endian, unknown clock frequency, buffers of 16384 bytes
00000020  0f 40 00 00 00 00 00 00 00 .. .. .. .. .. .. ..  BufferExtents  64 bytes, to 0x70
00000030  01 0b 00 00 00 .. .. .. .. .. .. .. .. .. .. ..  NewBuffer      thread 11
00000040  09 00 00 00 00 00 00 00 00 00 00 00 00 .. .. ..  WallClock      0.000000 s
00000050  13 00 00 00 00 .. .. .. .. .. .. .. .. .. .. ..  PID            process 0
00000060  05 01 00 e8 03 00 00 00 00 00 00 .. .. .. .. ..  NewCPUId       cpu 1, tsc 1000
00000070  00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00  padding        9944 bytes
00002748  ff ff ff ff ff ff ff ff ff ff ff ff ff ff ff ff  !! damage      60 bytes: unknown metadata record kind 127
00002758  ff ff ff ff ff ff ff ff ff ff ff ff ff ff ff ff
00002768  ff ff ff ff ff ff ff ff ff ff ff ff ff ff ff ff
00002778  ... 12 more bytes
                                                           !! reading continues at the next block. If the file was damaged after recording, copy it again or record again
00002784  0f 50 00 00 00 00 00 00 00 .. .. .. .. .. .. ..  BufferExtents  80 bytes, to 0x27e4
00002794  01 0c 00 00 00 .. .. .. .. .. .. .. .. .. .. ..  NewBuffer      thread 12
000027a4  09 01 00 00 00 00 00 00 00 00 00 00 00 .. .. ..  WallClock      1.000000 s
000027b4  13 00 00 00 00 .. .. .. .. .. .. .. .. .. .. ..  PID            process 0
000027c4  05 00 00 00 00 00 00 00 00 00 00 .. .. .. .. ..  NewCPUId       cpu 0, tsc 0
000027d4  13 05 00 00 00 .. .. .. .. .. .. .. .. .. .. ..  PID            process 5
                                                           !! BlockVerifier: Invalid transition from NewCPUId to PIDEntry.
                                                           !! BlockVerifier: Invalid terminal condition PIDEntry, malformed block.
000027e4  0f 64 00 00 00 00 00 00 00 .. .. .. .. .. .. ..  BufferExtents  100 bytes, to 0x2858
000027f4  01 01 00 00 00 .. .. .. .. .. .. .. .. .. .. ..  NewBuffer      thread 1
00002804  12 00 00                                         !! damage      3 bytes: Function record: need 8 bytes, have 3
                                                           !! the file ends inside a record: let the program finish writing its log, or copy the file again
records: 13, blocks: 3, bytes of padding: 9944, bytes damaged: 63, violations: 2
`},
		{"basic, big-endian", `xray basic order=big
enter-arg 1 tsc=256 tid=5 pid=6 cpu=7
arg 1 9 tid=5 pid=6
`, Options{Names: names{}, Verify: true}, `basic log, version 3, big-endian, 1000000000 ticks per second
00000020  00 00 07 03 00 00 00 01 00 00 00 00 00 00 01 00  enter, args    tsc 256  process 6  thread 5  cpu 7  #1 leaf(int)
00000030  00 00 00 05 00 00 00 06 .. .. .. .. .. .. .. ..
00000040  00 01 .. .. 00 00 00 01 00 00 00 05 00 00 00 06  Argument       9 (0x9)  process 6  thread 5  of #1 leaf(int)
00000050  00 00 00 00 00 00 00 09 .. .. .. .. .. .. .. ..
records: 2, bytes damaged: 0
`},
		{"long payload, version 1 rest", `xray fdr version=1 buffer=200
thread 1
custom "` + strings.Repeat("0123456789", 10) + `" tsc=5
end-of-buffer
bytes 40
zeros auto
thread 2
end-of-buffer
zeros auto
`, Options{}, `fdr log, version 1, little-endian, 1000000000 ticks per second, buffers of 200 bytes
00000020  01 01 00 00 00 .. .. .. .. .. .. .. .. .. .. ..  NewBuffer      thread 1
00000030  09 00 00 00 00 00 00 00 00 00 00 00 00 .. .. ..  WallClock      0.000000 s
00000040  05 00 00 00 00 00 00 00 00 00 00 .. .. .. .. ..  NewCPUId       cpu 0, tsc 0
00000050  0b 64 00 00 00 05 00 00 00 00 00 00 00 .. .. ..  CustomEvent    tsc 5  thread 1  100 bytes "01234567890123456789012345678901234567890123456789012345678901234567890123456789"...
00000060  30 31 32 33 34 35 36 37 38 39 30 31 32 33 34 35
00000070  36 37 38 39 30 31 32 33 34 35 36 37 38 39 30 31
00000080  32 33 34 35 36 37 38 39 30 31 32 33 34 35 36 37
00000090  ... 52 more bytes
000000c4  03 .. .. .. .. .. .. .. .. .. .. .. .. .. .. ..  EndOfBuffer
000000d4  40 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00  unused         20 bytes: unused rest of the buffer
000000e4  00 00 00 00
000000e8  01 02 00 00 00 .. .. .. .. .. .. .. .. .. .. ..  NewBuffer      thread 2
000000f8  09 00 00 00 00 00 00 00 00 00 00 00 00 .. .. ..  WallClock      0.000000 s
00000108  05 00 00 00 00 00 00 00 00 00 00 .. .. .. .. ..  NewCPUId       cpu 0, tsc 0
00000118  03 .. .. .. .. .. .. .. .. .. .. .. .. .. .. ..  EndOfBuffer
00000128  00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00  padding        136 bytes
records: 9, blocks: 2, bytes of padding: 156, bytes damaged: 0
`},
		{"zeros of several causes, up to the end", `xray fdr
thread 1
zeros 65536
zeros 65536
zeros 3
`, Options{Verify: true}, `fdr log, version 5, little-endian, 1000000000 ticks per second, buffers of 16384 bytes
00000020  0f 40 00 00 00 00 00 00 00 .. .. .. .. .. .. ..  BufferExtents  64 bytes, to 0x70
00000030  01 01 00 00 00 .. .. .. .. .. .. .. .. .. .. ..  NewBuffer      thread 1
00000040  09 00 00 00 00 00 00 00 00 00 00 00 00 .. .. ..  WallClock      0.000000 s
00000050  13 00 00 00 00 .. .. .. .. .. .. .. .. .. .. ..  PID            process 0
00000060  05 00 00 00 00 00 00 00 00 00 00 .. .. .. .. ..  NewCPUId       cpu 0, tsc 0
00000070  00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00  padding        131075 bytes
records: 5, blocks: 1, bytes of padding: 131075, bytes damaged: 0, violations: 0
`},
		{"one stretch of damage, a short block", `xray fdr
extents auto
bytes ff
zeros 65536
zeros 65536
extents 71
new-buffer 1
wall-clock 0.000000
pid 7
cpu 0
bytes 12000000000000
`, Options{}, `fdr log, version 5, little-endian, 1000000000 ticks per second, buffers of 16384 bytes
00000020  0f 00 00 00 00 00 00 00 00 .. .. .. .. .. .. ..  BufferExtents  0 bytes, to 0x30
00000030  ff 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00  !! damage      131073 bytes: unknown metadata record kind 127
00000040  00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00
00000050  00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00
00000060  ... 131025 more bytes
                                                           !! reading continues at the next block. If the file was damaged after recording, copy it again or record again
00020031  0f 47 00 00 00 00 00 00 00 .. .. .. .. .. .. ..  BufferExtents  71 bytes, to 0x20088
00020041  01 01 00 00 00 .. .. .. .. .. .. .. .. .. .. ..  NewBuffer      thread 1
00020051  09 00 00 00 00 00 00 00 00 00 00 00 00 .. .. ..  WallClock      0.000000 s
00020061  13 07 00 00 00 .. .. .. .. .. .. .. .. .. .. ..  PID            process 7
00020071  05 00 00 00 00 00 00 00 00 00 00 .. .. .. .. ..  NewCPUId       cpu 0, tsc 0
00020081  12 00 00 00 00 00 00                             !! damage      7 bytes: Function record: need 8 bytes, have 7
                                                           !! the last record of a block is truncated: LLVM's recorder miscounts blocks with typed events. In a log without typed events, this is damage. Nothing else is affected
records: 6, blocks: 2, bytes of padding: 0, bytes damaged: 131080
`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := run(t, assemble(t, tt.trace), func(w io.Writer, h *reader.Header, records recordSeq) error {
				_, err := Annotate(w, h, records, tt.opts)
				return err
			})
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestAnnotateReportsWriteErrors(t *testing.T) {
	data := assemble(t, "xray fdr\nthread 1\n"+strings.Repeat("enter 1 +1\n", 5_000))
	trace, err := reader.OpenReaderAt(bytes.NewReader(data), int64(len(data)), "trace")
	if err != nil {
		t.Fatal(err)
	}
	h := trace.Header(0)
	sum, err := Annotate(failingWriter{}, &h, trace.Records(0), Options{})
	if !errors.Is(err, io.ErrClosedPipe) {
		t.Errorf("got error %v", err)
	}
	if sum.Records > 2_000 {
		t.Errorf("continued for %d records after the error", sum.Records)
	}
}

type failingWriter struct{}

func (failingWriter) Write([]byte) (int, error) { return 0, io.ErrClosedPipe }

// FuzzDump checks that any file can be dumped in every form, and that our form
// accounts for each of its bytes.
func FuzzDump(f *testing.F) {
	for _, text := range []string{
		"xray fdr\nthread 1\nenter 1 +1\ncustom \"x\"\nzeros 20\nthread 2\nenter-arg 1\narg 2",
		"xray fdr version=1 buffer=100\nthread 1\nend-of-buffer\nzeros auto\nthread 2",
		"xray fdr version=4\nthread 1\ncustom \"x\" cpu=5\nbytes ff",
		"xray basic order=big\nenter 1\narg 1 5\nbytes 00",
	} {
		f.Add(assemble(f, text))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		trace, err := reader.OpenReaderAt(bytes.NewReader(data), int64(len(data)), "trace")
		if err != nil {
			return
		}
		h := trace.Header(0)
		if h.ByteOrder == nil { // trace YAML
			return
		}
		_ = LLVM(io.Discard, &h, trace.Records(0))
		_ = LLVMVerify(io.Discard, &h, trace.Records(0))
		sum, err := Annotate(io.Discard, &h, trace.Records(0), Options{Names: names{}, Verify: true})
		if err != nil {
			t.Fatal(err)
		}
		bytes := sum.Damaged + sum.Padding + 32
		for r, err := range trace.Records(0) {
			if err == nil {
				bytes += int64(r.Size)
			}
		}
		if bytes != int64(len(data)) {
			t.Fatalf("got records of %d bytes, want %d", bytes, len(data))
		}
	})
}
