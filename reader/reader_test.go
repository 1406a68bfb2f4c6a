package reader_test

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/klauspost/compress/zstd"

	"github.com/xray-tools/xray/internal/tracetext"
	"github.com/xray-tools/xray/reader"
)

// open assembles and opens a text trace.
func open(t testing.TB, text string) *reader.Trace {
	t.Helper()
	b, err := tracetext.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return openBytes(t, b)
}

// writeTrace assembles a text trace and writes it to a file. It returns the path.
func writeTrace(t testing.TB, text string) string {
	t.Helper()
	b, err := tracetext.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "trace")
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func openBytes(t testing.TB, b []byte) *reader.Trace {
	t.Helper()
	tr, err := reader.OpenReaderAt(bytes.NewReader(b), int64(len(b)), "test.xray")
	if err != nil {
		t.Fatal(err)
	}
	return tr
}

// line returns an event with all that belongs to it as text.
func line(b *reader.Block, i int) string {
	e := b.Events[i]
	s := fmt.Sprintf("%d/%d cpu%d %s #%d @%d", b.Thread.Process, b.Thread.Thread, e.CPU,
		strings.TrimPrefix(e.Kind.String(), "function-"), e.Func, e.TSC)
	for _, a := range b.Args {
		if a.Event == i {
			s += fmt.Sprintf(" arg=%d", a.Value)
		}
	}
	for _, p := range b.Payloads {
		if p.Event == i {
			s += fmt.Sprintf(" type=%d %q", p.Type, p.Data)
		}
	}
	return s
}

func events(t testing.TB, tr *reader.Trace, order reader.Order) []string {
	t.Helper()
	var lines []string
	for b, err := range tr.Blocks(order) {
		if err != nil {
			t.Fatal(err)
		}
		for i := range b.Events {
			lines = append(lines, line(b, i))
		}
	}
	return lines
}

func losses(tr *reader.Trace) []string {
	var lines []string
	for _, l := range tr.Losses().Samples() {
		lines = append(lines, fmt.Sprintf("%v at %d: %d bytes, %d records", l.Cause, l.Offset, l.Bytes, l.Records))
	}
	return lines
}

// Each case is a trace as recorders write it, or with damage that llvm-xray cannot handle. It
// checks the events in thread order and the losses.
func TestDecode(t *testing.T) {
	tests := []struct {
		name, text, events, losses string
	}{
		{"basic: kinds and arguments", `
xray basic
enter 1 tsc=100 tid=5 pid=4 cpu=3
enter-arg 2 tsc=110 tid=5 pid=4
arg 2 77 tid=5 pid=4
arg 2 78 tid=5 pid=4
tail-exit 2 tsc=120 tid=5 pid=4
exit 1 tsc=130 tid=5 pid=4
`, `
4/5 cpu3 enter #1 @100
4/5 cpu0 enter-arg #2 @110 arg=77 arg=78
4/5 cpu0 tail-exit #2 @120
4/5 cpu0 exit #1 @130
`, ``},
		{"basic: packed ids of shared objects are negative from object 128 on", `
xray basic
enter -2147483646 tsc=1
enter 16777217 tsc=2
`, `
0/0 cpu0 enter #-2147483646 @1
0/0 cpu0 enter #16777217 @2
`, ``},
		{"basic: an argument may follow a plain entry", `
xray basic
enter 2 tsc=1 tid=1
arg 2 7 tid=1
`, `
0/1 cpu0 enter #2 @1 arg=7
`, ``},
		{"basic: orphan arguments", `
xray basic
arg 1 1 tid=1
enter 2 tsc=1 tid=1
arg 3 2 tid=1
arg 2 3 tid=9
exit 2 tsc=2 tid=1
arg 2 4 tid=1
`, `
0/1 cpu0 enter #2 @1
0/1 cpu0 exit #2 @2
`, `
orphan-argument at 32: 32 bytes, 1 records
orphan-argument at 96: 32 bytes, 1 records
orphan-argument at 128: 32 bytes, 1 records
orphan-argument at 192: 32 bytes, 1 records
`},
		{"basic: behind an orphan there are only orphans", `
xray basic
enter-arg 2 tsc=1 tid=1
arg 2 7 tid=1
arg 3 6 tid=1
arg 2 5 tid=1
exit 2 tsc=2 tid=1
`, `
0/1 cpu0 enter-arg #2 @1 arg=7
0/1 cpu0 exit #2 @2
`, `
orphan-argument at 96: 32 bytes, 1 records
orphan-argument at 128: 32 bytes, 1 records
`},
		{"basic: an entry whose argument was not recorded", `
xray basic
enter 2 tsc=1 tid=1
enter-arg 2 tsc=2 tid=1
exit 2 tsc=3 tid=1
`, `
0/1 cpu0 enter #2 @1
0/1 cpu0 enter-arg #2 @2
0/1 cpu0 exit #2 @3
`, ``},
		{"basic: an argument of another process is an orphan since version 3 only", `
xray basic version=2
enter 2 tsc=1 tid=1
arg 2 3 tid=1 pad=ee
`, `
0/1 cpu0 enter #2 @1 arg=3
`, ``},
		{"basic: garbage in the padding where version 3 has the process", `
xray basic version=1 fill=aa
enter 2 tsc=1 tid=1
exit 2 tsc=3 tid=1
`, `
0/1 cpu0 enter #2 @1
0/1 cpu0 exit #2 @3
`, ``},
		{"basic: no records", `xray basic flags=0xaaaaaaab free=aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa`, ``, ``},
		{"basic: bad records, zeros and a cut end", `
xray basic
enter 2 tsc=1 tid=1
bytes 0700000000000000 0000000000000000 0000000000000000 0000000000000000
bytes 0000000900000000 0000000000000000 0000000000000000 0000000000000000
zeros 32
exit 2 tsc=3 tid=1
bytes 00000000020000
`, `
0/1 cpu0 enter #2 @1
0/1 cpu0 exit #2 @3
`, `
truncated-file at 192: 7 bytes, 1 records
bad-record at 64: 32 bytes, 1 records
bad-record at 96: 32 bytes, 1 records
`},
		{"basic: big-endian", `
xray basic order=big
enter-arg 2 tsc=72623859790382856 tid=1 pid=258 cpu=9
arg 2 3 tid=1 pid=258
exit 2 tsc=72623859790382858 tid=1 pid=258
`, `
258/1 cpu9 enter-arg #2 @72623859790382856 arg=3
258/1 cpu0 exit #2 @72623859790382858
`, ``},
		{"basic: a forked child writes its parent's records again", `
xray basic
enter 1 tsc=1 tid=5 pid=5
enter 2 tsc=2 tid=5 pid=5
enter 3 tsc=3 tid=6 pid=6
enter 1 tsc=1 tid=5 pid=5
enter 2 tsc=2 tid=5 pid=5
exit 2 tsc=2 tid=5 pid=5
`, `
5/5 cpu0 enter #1 @1
5/5 cpu0 enter #2 @2
6/6 cpu0 enter #3 @3
5/5 cpu0 exit #2 @2
`, `
duplicate-run at 128: 64 bytes, 2 records
`},
		{"basic: the copy may begin inside a run, and come after others", `
xray basic
enter 1 tsc=1 tid=5 pid=5
enter 2 tsc=2 tid=5 pid=5
enter-arg 3 tsc=2 tid=5 pid=5
arg 3 9 tid=5 pid=5
enter 4 tsc=4 tid=5 pid=5
enter 9 tsc=3 tid=6 pid=5
enter 5 tsc=5 tid=5 pid=5
enter 9 tsc=4 tid=6 pid=5
enter-arg 3 tsc=2 tid=5 pid=5
arg 3 9 tid=5 pid=5
enter 4 tsc=4 tid=5 pid=5
enter 9 tsc=7 tid=7 pid=7
`, `
5/5 cpu0 enter #1 @1
5/5 cpu0 enter #2 @2
5/5 cpu0 enter-arg #3 @2 arg=9
5/5 cpu0 enter #4 @4
5/6 cpu0 enter #9 @3
5/5 cpu0 enter #5 @5
5/6 cpu0 enter #9 @4
7/7 cpu0 enter #9 @7
`, `
duplicate-run at 288: 96 bytes, 3 records
`},
		{"basic: records of a forked process whose clock was set back are no copies", `
xray basic
enter 1 tsc=100 tid=5 pid=5
exit 1 tsc=110 tid=5 pid=5
enter 9 tsc=7 tid=6 pid=6
enter 1 tsc=10 tid=5 pid=5
exit 1 tsc=20 tid=5 pid=5
`, `
5/5 cpu0 enter #1 @100
5/5 cpu0 exit #1 @110
6/6 cpu0 enter #9 @7
5/5 cpu0 enter #1 @10
5/5 cpu0 exit #1 @20
`, ``},
		{"basic: nothing but bad records", `
xray basic
bytes 0700000000000000 0000000000000000 0000000000000000 0000000000000000
arg 1 1 tid=1
`, ``, `
bad-record at 32: 32 bytes, 1 records
orphan-argument at 64: 32 bytes, 1 records
`},
		{"basic: a clock that steps back is no fork", `
xray basic
enter 1 tsc=100 tid=5 pid=5
enter 2 tsc=102 tid=6 pid=5
enter 1 tsc=90 tid=5 pid=5
`, `
5/5 cpu0 enter #1 @100
5/6 cpu0 enter #2 @102
5/5 cpu0 enter #1 @90
`, ``},
		{"basic: a newer version", `
xray basic version=4
enter 1 tsc=100
`, `
0/0 cpu0 enter #1 @100
`, `
newer-version at 0: 0 bytes, 0 records
`},
		{"fdr: all records of version 5", `
xray fdr
thread 11 pid=7 wall=1.000020 cpu=2 tsc=1000
enter 3 +0
enter 4 +10
arg 100
custom "a\x00b" +5
typed 513 "TT" -3
tail-exit 4 +4
cpu 9 tsc=2000
exit 3 +1
tsc-wrap 5
enter 268435455 +4294967295
`, `
7/11 cpu2 enter #3 @1000
7/11 cpu2 enter-arg #4 @1010 arg=100
7/11 cpu2 custom-event #4 @1015 type=0 "a\x00b"
7/11 cpu2 typed-event #4 @1012 type=513 "TT"
7/11 cpu2 tail-exit #4 @1016
7/11 cpu9 exit #3 @2001
7/11 cpu9 enter #268435455 @4294967300
`, ``},
		{"fdr: custom events of version 4 name clock and CPU", `
xray fdr version=4
thread 11 pid=7 wall=1.000000 cpu=2 tsc=1000
enter 3 +1
custom "x" tsc=5000 cpu=6
exit 3 +1
`, `
7/11 cpu2 enter #3 @1001
7/11 cpu6 custom-event #3 @5000 type=0 "x"
7/11 cpu2 exit #3 @1002
`, ``},
		{"fdr: custom events of version 3 have garbage where version 4 has the CPU", `
xray fdr version=3 fill=ee
thread 11 pid=7 wall=1.000000 cpu=2 tsc=1000
custom "x" tsc=5000
exit 3 +1
`, `
7/11 cpu2 custom-event #0 @5000 type=0 "x"
7/11 cpu2 exit #3 @1001
`, ``},
		{"fdr: version 2 takes the thread for the process", `
xray fdr version=2
thread 11 wall=1.000000 cpu=2 tsc=1000
enter 3 +0
zeros 24
thread 12 wall=1.000000 cpu=2 tsc=1000
enter 4 +0
zeros 7
`, `
11/11 cpu2 enter #3 @1000
12/12 cpu2 enter #4 @1000
`, ``},
		{"fdr: version 1 jumps by buffers, whatever stands behind EndOfBuffer", `
xray fdr version=1 buffer=128
thread 11 wall=1.000000 cpu=2 tsc=1000
enter 3 +0
custom "odd" tsc=1001
end-of-buffer
bytes 0f0f0f01010101
zeros auto
thread 12 wall=1.000000 cpu=2 tsc=1000
enter 4 +0
`, `
0/11 cpu2 enter #3 @1000
0/11 cpu2 custom-event #3 @1001 type=0 "odd"
0/12 cpu2 enter #4 @1000
`, ``},
		{"fdr: padding of zeros, with the kind of an extents record in it, and behind the last block", `
xray fdr
thread 11 pid=7 wall=1.000000 cpu=2 tsc=1000
enter 3 +0
zeros 30
bytes 0f
zeros 40
thread 11 pid=7 wall=2.000000 cpu=2 tsc=2000
exit 3 +0
zeros 61
`, `
7/11 cpu2 enter #3 @1000
7/11 cpu2 exit #3 @2000
`, `
bad-block at 150: 1 bytes, 0 records
`},
		{"fdr: empty blocks, and blocks without records", `
xray fdr
extents 0
extents auto
new-buffer 4
extents auto
new-buffer 4
wall-clock 1.000000
thread 11 pid=7 wall=1.000000 cpu=2 tsc=1000
thread 11 pid=7 wall=1.100000 cpu=2 tsc=2000
enter 3 +0
`, `
7/11 cpu2 enter #3 @2000
`, ``},
		{"fdr: the extents of typed events are short, and so is the block", `
xray fdr
extents 108
new-buffer 11
wall-clock 1.000000
pid 7
cpu 0 tsc=1000
enter 3 +1
typed 7 "payload" +1
enter 5 +3
bytes 2200000002
thread 12 pid=7 wall=1.000000 cpu=0 tsc=1000
enter 9 +1
`, `
7/11 cpu0 enter #3 @1001
7/11 cpu0 typed-event #3 @1002 type=7 "payload"
7/11 cpu0 enter #5 @1005
7/12 cpu0 enter #9 @1001
`, `
short-block at 151: 5 bytes, 1 records
`},
		{"fdr: blocks of a thread come by seconds, then microseconds", `
xray fdr
thread 11 pid=7 wall=8.000010 cpu=0 tsc=3000
exit 1 +0
thread 11 pid=7 wall=7.000030 cpu=0 tsc=2000
enter 2 +0
thread 11 pid=7 wall=7.000020 cpu=0 tsc=1000
enter 1 +0
`, `
7/11 cpu0 enter #1 @1000
7/11 cpu0 enter #2 @2000
7/11 cpu0 exit #1 @3000
`, ``},
		{"fdr: a block that stands there twice", `
xray fdr
thread 11 pid=7 wall=8.000010 cpu=0 tsc=3000
enter 1 +0
thread 11 pid=7 wall=8.000010 cpu=0 tsc=3000
enter 1 +0
thread 11 pid=7 wall=8.000010 cpu=0 tsc=3000
exit 1 +0
`, `
7/11 cpu0 enter #1 @3000
7/11 cpu0 exit #1 @3000
`, `
duplicate-run at 136: 72 bytes, 0 records
`},
		{"fdr: the file ends inside a record", `
xray fdr
extents 4000
new-buffer 11
wall-clock 1.000000
pid 7
cpu 0 tsc=1000
enter 3 +1
bytes 4200
`, `
7/11 cpu0 enter #3 @1001
`, `
truncated-file at 122: 3926 bytes, 0 records
`},
		{"fdr: extents that reach over the next block", `
xray fdr
extents 90
new-buffer 11
wall-clock 1.000000
pid 7
cpu 0 tsc=1000
enter 3 +1
thread 12 pid=7 wall=1.000000 cpu=0 tsc=1000
enter 9 +1
`, `
7/11 cpu0 enter #3 @1001
7/12 cpu0 enter #9 @1001
`, ``},
		{"fdr: extents that end before the block does", `
xray fdr
extents 67
new-buffer 11
wall-clock 1.000000
pid 7
cpu 0 tsc=1000
enter 3 +1
exit 3 +1
thread 12 pid=7 wall=1.000000 cpu=0 tsc=1000
enter 9 +1
`, `
7/11 cpu0 enter #3 @1001
7/11 cpu0 exit #3 @1002
7/12 cpu0 enter #9 @1001
`, ``},
		{"fdr: lost extents", `
xray fdr
extents 72
new-buffer 11
wall-clock 1.000000
pid 7
cpu 0 tsc=1000
enter 3 +1
bytes ffffffffffffffffffffffffffffffff
new-buffer 12
wall-clock 1.000000
pid 7
cpu 0 tsc=1000
enter 9 +1
`, `
7/11 cpu0 enter #3 @1001
7/12 cpu0 enter #9 @1001
`, `
bad-block at 120: 16 bytes, 0 records
`},
		{"fdr: a bad record ends its block, not the file", `
xray fdr
thread 11 pid=7 wall=1.000000 cpu=0 tsc=1000
enter 3 +1
bytes 0800000000000000
exit 3 +1
thread 12 pid=7 wall=1.000000 cpu=0 tsc=1000
enter 9 +1
`, `
7/11 cpu0 enter #3 @1001
7/12 cpu0 enter #9 @1001
`, `
bad-record at 120: 16 bytes, 1 records
`},
		{"fdr: records before the clock of their block", `
xray fdr
extents auto
new-buffer 11
wall-clock 1.000000
pid 7
enter 3 +1
exit 3 +1
cpu 0 tsc=1000
enter 4 +1
`, `
7/11 cpu0 enter #4 @1001
`, `
no-clock at 96: 16 bytes, 2 records
`},
		{"fdr: orphan arguments", `
xray fdr
thread 11 pid=7 wall=1.000000 cpu=0 tsc=1000
arg 1
enter 3 +1
exit 3 +1
arg 2
`, `
7/11 cpu0 enter #3 @1001
7/11 cpu0 exit #3 @1002
`, `
orphan-argument at 112: 16 bytes, 1 records
orphan-argument at 144: 16 bytes, 1 records
`},
		{"fdr: zeros inside a block are the unused rest of a buffer", `
xray fdr
extents 96
new-buffer 11
wall-clock 1.000000
pid 7
cpu 0 tsc=1000
enter 3 +1
zeros 24
`, `
7/11 cpu0 enter #3 @1001
`, ``},
		{"fdr: no blocks", `xray fdr`, ``, ``},
		{"fdr: an event without payload", `
xray fdr
thread 11 pid=7 wall=1.000000 cpu=0 tsc=1000
custom "" +1
`, `
7/11 cpu0 custom-event #0 @1001 type=0 ""
`, ``},
		{"fdr: big-endian", `
xray fdr order=big
thread 11 pid=7 wall=1.000020 cpu=258 tsc=1000
enter 3 +0
enter-arg 4 +10
arg 100
typed 513 "TT" -3
exit 268435455 +16909060
`, `
7/11 cpu258 enter #3 @1000
7/11 cpu258 enter-arg #4 @1010 arg=100
7/11 cpu258 typed-event #4 @1007 type=513 "TT"
7/11 cpu258 exit #268435455 @16910067
`, ``},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			tr := open(t, test.text)
			got := strings.Join(events(t, tr, reader.ThreadOrder), "\n")
			if diff := cmp.Diff(strings.TrimSpace(test.events), got); diff != "" {
				t.Errorf("events (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(strings.TrimSpace(test.losses), strings.Join(losses(tr), "\n")); diff != "" {
				t.Errorf("losses (-want +got):\n%s", diff)
			}
			sameInAllOrders(t, tr)
		})
	}
}

// sameInAllOrders checks that every way to read a trace gives each thread the same events, and that
// time order is ordered by time.
func sameInAllOrders(t *testing.T, tr *reader.Trace) {
	t.Helper()
	want := events(t, tr, reader.ThreadOrder)
	lost := losses(tr)
	slices.Sort(want)
	check := func(how string, got []string) {
		t.Helper()
		slices.Sort(got)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("events in %s (-thread order +got):\n%s", how, diff)
		}
		if diff := cmp.Diff(lost, losses(tr)); diff != "" {
			t.Errorf("losses in %s (-thread order +got):\n%s", how, diff)
		}
	}
	check("time order", events(t, tr, reader.TimeOrder))
	check("file order", events(t, tr, reader.FileOrder))
	for _, n := range []int{1, 2, 3} {
		got := make([][]string, n)
		err := tr.Each(n, func(shard int, b *reader.Block) error {
			for i := range b.Events {
				got[shard] = append(got[shard], line(b, i))
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		check(fmt.Sprintf("%d shards", n), slices.Concat(got...))
	}
	var got []string
	err := tr.EachPacked(1, func(_ int, b *reader.Block) error {
		b = unpacked(b)
		for i := range b.Events {
			got = append(got, line(b, i))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	check("packed blocks", got)
}

// unpacked expands the events of a block as the documentation of Packed says.
func unpacked(b *reader.Block) *reader.Block {
	if b.Packed.Len() == 0 {
		return b
	}
	u := *b
	tsc := b.Packed.TSC
	for r := b.Packed.Records; len(r) > 0; {
		if b.Packed.Basic {
			u.Events = append(u.Events, reader.Event{
				TSC: binary.LittleEndian.Uint64(r[8:]), Func: reader.FuncID(binary.LittleEndian.Uint32(r[4:])),
				CPU: uint16(r[2]), Kind: reader.Kind(r[3]),
			})
			r = r[32:]
			continue
		}
		w := binary.LittleEndian.Uint64(r)
		tsc += w >> 32
		u.Events = append(u.Events, reader.Event{
			TSC: tsc, Func: reader.FuncID(uint32(w) >> 4), CPU: b.Packed.CPU, Kind: reader.Kind(w >> 1 & 7),
		})
		r = r[8:]
	}
	for _, e := range u.Events {
		if e.Kind > reader.TailExit {
			panic(fmt.Sprintf("%v in packed records", e.Kind))
		}
	}
	return &u
}

// Runs of every length are read correctly, packed or not, whatever follows them.
func TestPackedRuns(t *testing.T) {
	behind := []string{
		"", "arg 7\n", "enter-arg 3 +2\narg 8\nexit 3 +1\n", "enter-arg 3 +2\n", "cpu 4 tsc=99\n",
		"custom \"x\" +1\n", "zeros 8\n", "enter 3 +2147483648\nexit 3 +4294967295\n",
	}
	for i, rest := range behind {
		for n := range 40 {
			run := strings.Repeat("enter 2 +1\n", n)
			if n%8 == 3 {
				run += "enter-arg 2 +1\n" // without its argument
			}
			tr := open(t, "xray fdr\nthread 1 pid=1 tsc=5\n"+run+rest+"enter 4 +1\n"+run+"exit 4 +1\ntail-exit 9 +1\n")
			sameInAllOrders(t, tr)
			if t.Failed() {
				t.Fatalf("failed for a run of %d, case %d", n, i)
			}
		}
	}
	// A custom event has the function of the previous record, even if that is in another block.
	tr := open(t, "xray fdr\nthread 1 pid=1 wall=1.000000 tsc=5\n"+strings.Repeat("enter 6 +1\n", 20)+
		"thread 2 pid=1 wall=1.000000 tsc=5\n"+strings.Repeat("enter 7 +1\n", 20)+
		"thread 1 pid=1 wall=2.000000 tsc=50\ncustom \"x\" +1\n")
	sameInAllOrders(t, tr)
}

func TestTimeOrder(t *testing.T) {
	tests := []struct{ name, text, want string }{
		{"basic", `
xray basic
enter 1 tsc=10 tid=1
enter 2 tsc=30 tid=1
exit 2 tsc=25 tid=1
exit 1 tsc=40 tid=1
enter 3 tsc=5 tid=2
enter 4 tsc=30 tid=2
exit 4 tsc=50 tid=2
`, `
0/2 cpu0 enter #3 @5
0/1 cpu0 enter #1 @10
0/1 cpu0 enter #2 @30
0/1 cpu0 exit #2 @25
0/2 cpu0 enter #4 @30
0/1 cpu0 exit #1 @40
0/2 cpu0 exit #4 @50
`},
		{"fdr", `
xray fdr
thread 1 wall=1.000000 tsc=10
enter 1 +0
exit 1 +20
thread 2 wall=1.000000 tsc=20
enter-arg 2 +0
arg 5
exit 2 +20
`, `
0/1 cpu0 enter #1 @10
0/2 cpu0 enter-arg #2 @20 arg=5
0/1 cpu0 exit #1 @30
0/2 cpu0 exit #2 @40
`},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got := strings.Join(events(t, open(t, test.text), reader.TimeOrder), "\n")
			if diff := cmp.Diff(strings.TrimSpace(test.want), got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// A log of several chunks, with threads that take turns at every record and arguments at every
// place of a chunk.
func TestLongBasicLog(t *testing.T) {
	var text strings.Builder
	text.WriteString("xray basic\n")
	for i := range 70_000 {
		tid := 1 + i%3
		if i < 20_000 {
			tid = 1 + i/1000%3 // runs, as recorders write them
		}
		fmt.Fprintf(&text, "enter-arg %d tsc=%d tid=%d pid=1\narg %d %d tid=%d pid=1\n", 1+i%9, 10+i, tid, 1+i%9, i, tid)
		if i%1001 == 0 { // so that pairs do not always begin at even places
			fmt.Fprintf(&text, "arg %d 5 tid=%d pid=1\n", 1+i%9, tid)
		}
	}
	tr := open(t, text.String())
	got := events(t, tr, reader.TimeOrder)
	if len(got) != 70_000 {
		t.Fatalf("got %d events, want 70000", len(got))
	}
	for i, s := range got {
		want := fmt.Sprintf("#%d @%d arg=%d", 1+i%9, 10+i, i)
		if i%1001 == 0 {
			want += " arg=5"
		}
		if !strings.HasSuffix(s, want) {
			t.Fatalf("event %d: got %q", i, s)
		}
	}
	sameInAllOrders(t, tr)
}

// A block with a payload larger than any buffer of the reader.
func TestLargePayload(t *testing.T) {
	big := strings.Repeat("payload ", 100_000)
	tr := open(t, fmt.Sprintf("xray fdr\nthread 1 tsc=5\nenter 1 +0\ncustom %q +1\nexit 1 +2\n", big))
	got := events(t, tr, reader.ThreadOrder)
	if len(got) != 3 || !strings.HasSuffix(got[1], fmt.Sprintf("@6 type=0 %q", big)) || !strings.HasSuffix(got[2], "@8") {
		t.Errorf("got %d events", len(got))
	}
	sameInAllOrders(t, tr)
}

func TestCompressedAndPiped(t *testing.T) {
	raw, err := tracetext.Parse("xray fdr\nthread 1 pid=1 tsc=5\nenter 1 +0\nexit 1 +3\n")
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"1/1 cpu0 enter #1 @5", "1/1 cpu0 exit #1 @8"}
	var gz bytes.Buffer
	w := gzip.NewWriter(&gz)
	w.Write(raw)
	w.Close()
	enc, err := zstd.NewWriter(nil)
	if err != nil {
		t.Fatal(err)
	}
	inputs := map[string][]byte{"plain": raw, "gzip": gz.Bytes(), "zstd": enc.EncodeAll(raw, nil)}
	for name, data := range inputs {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "trace")
			if err := os.WriteFile(path, data, 0o600); err != nil {
				t.Fatal(err)
			}
			for _, p := range []string{path, "-"} {
				tr, err := reader.Open(reader.Options{Stdin: bytes.NewReader(data)}, p)
				if err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(want, events(t, tr, reader.ThreadOrder)); diff != "" {
					t.Errorf("%s (-want +got):\n%s", p, diff)
				}
				if err := tr.Close(); err != nil {
					t.Error(err)
				}
			}
		})
	}
	t.Run("broken gzip", func(t *testing.T) {
		cut := gz.Bytes()[:gz.Len()-6]
		tr, err := reader.Open(reader.Options{Stdin: bytes.NewReader(cut)}, "-")
		if err != nil {
			t.Fatal(err)
		}
		defer tr.Close()
		if n := tr.Losses().Total[reader.TruncatedFile].Losses; n == 0 {
			t.Error("a truncated gzip stream did not count as a loss")
		}
	})
}

// Streams too large for memory are spooled to a file.
func TestSpool(t *testing.T) {
	var raw bytes.Buffer
	head, err := tracetext.Parse("xray basic\nenter 1 tsc=7 tid=1 pid=1\n")
	if err != nil {
		t.Fatal(err)
	}
	raw.Write(head)
	const records = 600_000
	for range records - 1 {
		raw.Write(head[32:])
	}
	tr, err := reader.Open(reader.Options{Stdin: &raw}, "-")
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for b, err := range tr.Blocks(reader.ThreadOrder) {
		if err != nil {
			t.Fatal(err)
		}
		n += len(b.Events)
	}
	if n != records {
		t.Errorf("got %d events, want %d", n, records)
	}
	if err := tr.Close(); err != nil {
		t.Error(err)
	}
}

// Several files have separate sets of threads.
func TestSeveralFiles(t *testing.T) {
	var paths []string
	for _, text := range []string{
		"xray basic\nenter 1 tsc=10 tid=1 pid=1\nexit 1 tsc=30 tid=1 pid=1\n",
		"xray fdr\nthread 1 pid=1 tsc=20\nenter 2 +0\n",
	} {
		paths = append(paths, writeTrace(t, text))
	}
	tr, err := reader.Open(reader.Options{}, paths...)
	if err != nil {
		t.Fatal(err)
	}
	defer tr.Close()
	var got []string
	for b, err := range tr.Blocks(reader.TimeOrder) {
		if err != nil {
			t.Fatal(err)
		}
		for i := range b.Events {
			got = append(got, fmt.Sprint(b.Thread.File, " ", line(b, i)))
		}
	}
	want := []string{"0 1/1 cpu0 enter #1 @10", "1 1/1 cpu0 enter #2 @20", "0 1/1 cpu0 exit #1 @30"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// A trace that shrinks while it is read gives an error, not a crash.
func TestShrinkingFile(t *testing.T) {
	for _, text := range []string{
		"xray basic\n" + strings.Repeat("enter 1 tsc=7 tid=1 pid=1\n", 5000),
		"xray fdr\nthread 1 pid=1 tsc=5\n" + strings.Repeat("enter 1 +0\nexit 1 +3\n", 5000),
	} {
		path := writeTrace(t, text)
		tr, err := reader.Open(reader.Options{}, path)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.Truncate(path, 100); err != nil {
			t.Fatal(err)
		}
		for _, n := range []int{1, 2} {
			if err := tr.Each(n, func(int, *reader.Block) error { return nil }); !errors.Is(err, io.ErrUnexpectedEOF) {
				t.Errorf("%d shards: got error %v", n, err)
			}
		}
		for _, order := range []reader.Order{reader.FileOrder, reader.ThreadOrder, reader.TimeOrder} {
			var last error
			for _, err := range tr.Blocks(order) {
				last = err
			}
			if !errors.Is(last, io.ErrUnexpectedEOF) {
				t.Errorf("order %d: got error %v", order, last)
			}
		}
		if err := tr.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestRefused(t *testing.T) {
	tests := []struct{ name, data, want string }{
		{"empty", "", "the file is empty"},
		{"short header", "\x03\x00\x00\x00\x03", "the header needs 32 bytes, the file has 5"},
		{"elf", "\x7fELF\x02\x01\x01\x00\x00\x00", "neither with a version and type nor with YAML"},
		{"version 0", strings.Repeat("\x00", 40), "neither with a version"},
		{"profile", "forpyarx\x24\x04\x18\x20\x00\x00\x00\x00", "has 16"},
		{"text", "hello\n", "YAML"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			_, err := reader.OpenReaderAt(strings.NewReader(test.data), int64(len(test.data)), "f")
			if err == nil || !strings.Contains(err.Error(), test.want) || !strings.HasPrefix(err.Error(), "f: ") {
				t.Errorf("got error %v, want %q for file f", err, test.want)
			}
			if !errors.Is(err, reader.ErrNotTrace) {
				t.Errorf("%v is not ErrNotTrace", err)
			}
		})
	}
}

func TestYAML(t *testing.T) {
	const head = "---\nheader:\n  version:         3\n  type:            0\n  constant-tsc:    true\n  nonstop-tsc:     false\n  cycle-frequency: 2600000000\n"
	tests := []struct{ name, text, want string }{
		{"as llvm-xray writes it", head + `records:
  - { type: 0, func-id: 3, function: 'f(int, char)', args: [ 100, 7 ], cpu: 2, thread: 5, process: 4, kind: function-enter-arg, tsc: 1795216120777737896, data: '' }
  - { type: 0, func-id: 3, function: '3', cpu: 2, thread: 5, process: 4, kind: custom-event, tsc: 12, data: 'it''s' }
  - { type: 513, func-id: 3, function: '3', cpu: 2, thread: 5, process: 4, kind: typed-event, tsc: 13, data: "a\0b\xff\n\u00e9" }
...
`, `
4/5 cpu2 enter-arg #3 @1795216120777737896 arg=100 arg=7
4/5 cpu2 custom-event #3 @12 type=0 "it's"
4/5 cpu2 typed-event #3 @13 type=513 "a\x00b\xff\né"
`},
		{"no records", head + "records:         []\n...\n", ``},
		{"cut off", head + "records:\n  - { type: 0, func-id: 3, cpu: 2, kind: function-enter, tsc: 7 }\n  - { type: 0, fun", `
0/0 cpu2 enter #3 @7
`},
		{"comments, other spacing and order", head + `records:
# a comment
  - {cpu: 1, kind: function-enter, type: 0, tsc: 0x10,   func-id: -3 }   # another

  - { cpu: 1, kind: function-exit, type: 0, tsc: 17 }
`, `
0/0 cpu1 enter #-3 @16
0/0 cpu1 exit #0 @17
`},
		{"block mappings, which llvm-xray does not write", head + `records:
  - type: 0
    cpu: 1
    args: [5]
    kind: function-enter
    tsc: 16
    func-id: 3
`, `
0/0 cpu1 enter #3 @16 arg=5
`},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			tr := openBytes(t, []byte(test.text))
			want := reader.Header{Version: 3, ConstantTSC: true, CycleFrequency: 2600000000}
			got := tr.Header(0)
			got.ByteOrder = nil
			if got != want {
				t.Errorf("got header %+v, want %+v", got, want)
			}
			if diff := cmp.Diff(strings.TrimSpace(test.want), strings.Join(events(t, tr, reader.FileOrder), "\n")); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if cut := tr.Losses().Total[reader.TruncatedFile]; (cut.Losses > 0) != (test.name == "cut off") {
				t.Errorf("got cut off %+v", cut)
			}
			sameInAllOrders(t, tr)
		})
	}
	for _, test := range []struct{ name, text, want string }{
		{"unknown key", head + "records:\n  - { type: 0, cpu: 0, kind: function-enter, tsc: 1, color: red }\n...\n", `offset 0x8e: line 9: record: unknown key "color"`},
		{"unknown kind", head + "records:\n  - { type: 0, cpu: 0, kind: function-left, tsc: 1 }\n...\n", `line 9: record: unknown kind "function-left"`},
		{"missing key", head + "records:\n  - { type: 0, cpu: 0, kind: function-enter }\n...\n", "is missing"},
		{"number", head + "records:\n  - { type: 0, cpu: 0, kind: function-enter, tsc: x1 }\n...\n", "line 9"},
		{"no header", "records:\n  - { type: 0, cpu: 0, kind: function-enter, tsc: 1 }\n", `no "version" in a header`},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, err := reader.OpenReaderAt(strings.NewReader(test.text), int64(len(test.text)), "f")
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got error %v, want %q", err, test.want)
			}
		})
	}
}

// Records cover the whole file without gaps.
func TestRecordsCoverTheFile(t *testing.T) {
	files, err := filepath.Glob("../testdata/*.xray")
	if err != nil || len(files) == 0 {
		t.Fatal("no traces in testdata", err)
	}
	if corpus := os.Getenv("XRAY_CORPUS"); corpus != "" {
		for _, pattern := range []string{"samples/traces/*.xray", "samples/gen/*.fdr", "samples/gen/*.log"} {
			more, err := filepath.Glob(filepath.Join(corpus, pattern))
			if err != nil || len(more) == 0 {
				t.Fatal("no traces in XRAY_CORPUS", pattern, err)
			}
			files = append(files, more...)
		}
	}
	for _, file := range files {
		tr, err := reader.Open(reader.Options{}, file)
		if errors.Is(err, reader.ErrNotTrace) {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		if tr.Header(0).Type == reader.Profiling {
			continue // it has no records
		}
		pos := int64(32)
		functions := 0
		for r, err := range tr.Records(0) {
			if r.Size == 0 {
				t.Fatal(err)
			}
			if (err != nil) != (r.Kind == reader.Damage) {
				t.Errorf("%s: %v record at %#x with error %v", file, r.Kind, r.Offset, err)
			}
			if r.Offset != pos {
				t.Fatalf("%s: got a record at %#x, want %#x", file, r.Offset, pos)
			}
			pos += int64(r.Size)
			if r.Kind == reader.Function || r.Kind == reader.BasicFunction {
				functions++
			}
		}
		if pos != tr.Size(0) {
			t.Errorf("%s: records end at %#x, want %#x", file, pos, tr.Size(0))
		}
		sameInAllOrders(t, tr)
		tr.Close()
	}
}
