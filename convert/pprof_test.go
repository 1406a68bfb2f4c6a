package convert

import (
	"bytes"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"github.com/google/pprof/profile"
	"pgregory.net/rapid"

	"github.com/xray-tools/xray/internal/test/testenv"
	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/reader/calls"
	"github.com/xray-tools/xray/symbolize"
)

// trace is a calls.Source in memory.
type trace []*reader.Block

func (tr trace) Each(n int, fn func(int, *reader.Block) error) error {
	for _, b := range tr {
		if err := fn(b.Index%n, b); err != nil {
			return err
		}
	}
	return nil
}

// runPprof makes a profile on this number of shards.
func runPprof(t rapid.TB, tr trace, opts Options, shards int) *Pprof {
	t.Helper()
	p, _, err := calls.Run(tr, calls.Options{Paths: true, Shards: shards}, func() *Pprof { return NewPprof(opts) })
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func pprofBytes(t rapid.TB, p *Pprof) []byte {
	t.Helper()
	var out bytes.Buffer
	if err := p.Write(&out); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func parsePprof(t rapid.TB, p *Pprof) *profile.Profile {
	t.Helper()
	prof, err := profile.ParseData(pprofBytes(t, p))
	if err == nil {
		err = prof.CheckValid()
	}
	if err != nil {
		t.Fatal(err)
	}
	return prof
}

// twoThreads has main calling work and leaf on one thread, and work alone on another.
func twoThreads() trace {
	return trace{
		{Thread: reader.Thread{Process: 7, Thread: 8}, Events: []reader.Event{
			{TSC: 1000, Func: 1}, {TSC: 1100, Func: 2}, {TSC: 1150, Func: 3}, {TSC: 1160, Func: 3, Kind: reader.Exit},
			{TSC: 1200, Func: 2, Kind: reader.Exit}, {TSC: 1300, Func: 2}, {TSC: 1350, Func: 2, Kind: reader.TailExit},
			{TSC: 2000, Func: 1, Kind: reader.Exit},
		}},
		{Index: 1, Thread: reader.Thread{Process: 7, Thread: 6}, Events: []reader.Event{
			{TSC: 1000, Func: 2}, {TSC: 5000, Func: 2, Kind: reader.Exit},
			{TSC: 5000, Func: 1}, {TSC: 6000, Func: 2}, // both left open
		}},
	}
}

// folded returns a profile's samples as text.
func folded(prof *profile.Profile) []string {
	var lines []string
	for _, s := range prof.Sample {
		var line strings.Builder
		for i := len(s.Location) - 1; i >= 0; i-- {
			line.WriteString(s.Location[i].Line[0].Function.Name + ";")
		}
		for _, label := range []string{"process", "thread"} {
			for _, v := range s.NumLabel[label] {
				fmt.Fprintf(&line, " %s=%d", label, v)
			}
		}
		for _, v := range s.Label["trace"] {
			line.WriteString(" trace=" + v)
		}
		lines = append(lines, fmt.Sprint(line.String(), " ", s.Value[0], " ", s.Value[1]))
	}
	return lines
}

func TestPprof(t *testing.T) {
	oneGHz := Options{Header: oneGHz, Names: names{1: "main", 2: "work", 3: "leaf"}}
	half := oneGHz
	half.Header.CycleFrequency = 2_000_000_000
	unknown := Options{}
	threads := oneGHz
	threads.Threads = true
	files := threads
	files.Files = []string{"a.xray", "b.xray"}
	tests := []struct {
		name     string
		opts     Options
		unit     string
		duration int64
		want     []string
	}{
		{"together", oneGHz, "nanoseconds", 5000, []string{
			"main; 2 1850", "main;work; 3 140", "main;work;leaf; 1 10", "work; 1 4000",
		}},
		{"threads", threads, "nanoseconds", 5000, []string{
			"main; process=7 thread=6 1 1000", "main; process=7 thread=8 1 850",
			"main;work; process=7 thread=6 1 0", "main;work; process=7 thread=8 2 140",
			"main;work;leaf; process=7 thread=8 1 10", "work; process=7 thread=6 1 4000",
		}},
		{"files", files, "nanoseconds", 5000, []string{
			"main; process=7 thread=6 trace=a.xray 1 1000", "main; process=7 thread=8 trace=a.xray 1 850",
			"main;work; process=7 thread=6 trace=a.xray 1 0", "main;work; process=7 thread=8 trace=a.xray 2 140",
			"main;work;leaf; process=7 thread=8 trace=a.xray 1 10", "work; process=7 thread=6 trace=a.xray 1 4000",
		}},
		{"2 GHz", half, "nanoseconds", 2500, []string{
			"main; 2 925", "main;work; 3 70", "main;work;leaf; 1 5", "work; 1 2000",
		}},
		{"unknown frequency", unknown, "ticks", 0, []string{
			"#1; 2 1850", "#1;#2; 3 140", "#1;#2;#3; 1 10", "#2; 1 4000",
		}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			prof := parsePprof(t, runPprof(t, twoThreads(), test.opts, 1))
			if diff := cmp.Diff(test.want, folded(prof)); diff != "" {
				t.Errorf("samples (-want +got):\n%s", diff)
			}
			if got := *prof.SampleType[1]; got.Type != "self" || got.Unit != test.unit || prof.DefaultSampleType != "self" {
				t.Errorf("got sample type %v, default %s", got, prof.DefaultSampleType)
			}
			if prof.DurationNanos != test.duration {
				t.Errorf("got duration %d ns, want %d", prof.DurationNanos, test.duration)
			}
			if said := len(prof.Comments) > 0; said != (test.unit == "ticks") {
				t.Errorf("got comments %q", prof.Comments)
			}
		})
	}
}

// TestPprofIsReproducible shards random traces in different ways. The bytes must be equal and
// nothing may be lost.
func TestPprofIsReproducible(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		opts := Options{
			Header: oneGHz, Threads: rapid.Bool().Draw(t, "threads"),
			Names: names{1: genHostileName.Draw(t, "name"), 2: "f"},
		}
		tr := trace(genBlocks(t, true))
		first := runPprof(t, tr, opts, 1)
		want := pprofBytes(t, first)
		for shards := 2; shards <= 4; shards++ {
			if got := pprofBytes(t, runPprof(t, tr, opts, shards)); !bytes.Equal(got, want) {
				t.Fatalf("the profile of %d shards differs from that of 1", shards)
			}
		}
		// The order in which paths were found must not matter either.
		backwards := trace{}
		for _, index := range []int{1, 0} {
			for _, b := range tr {
				if b.Index == index {
					backwards = append(backwards, b)
				}
			}
		}
		if got := pprofBytes(t, runPprof(t, backwards, opts, 1)); !bytes.Equal(got, want) {
			t.Fatal("the order of threads changes the profile")
		}

		var sum tally
		if _, _, err := calls.Run(tr, calls.Options{Shards: 1}, func() summer { return summer{&sum} }); err != nil {
			t.Fatal(err)
		}
		var got tally
		prof := parsePprof(t, first)
		for _, fn := range prof.Function {
			if !utf8.ValidString(fn.Name) {
				t.Fatalf("the name %q is not valid in protocol buffers", fn.Name)
			}
		}
		for _, s := range prof.Sample {
			got.calls += uint64(s.Value[0])
			got.selfTSC += uint64(s.Value[1])
		}
		if got != sum {
			t.Fatalf("got sums %+v, want %+v as of the calls", got, sum)
		}
	})
}

// summer sums all calls.
type summer struct{ *tally }

func (s summer) Calls(b *calls.Batch) error {
	for _, c := range b.Calls {
		s.calls++
		s.selfTSC += c.Self
	}
	return nil
}

func (s summer) Merge(summer) {}

// TestPprofOfDeepRecursion has a trace whose profile would need 40 GB with all frames.
func TestPprofOfDeepRecursion(t *testing.T) {
	const depth = 100_000
	b := &reader.Block{}
	for i := range depth {
		b.Events = append(b.Events, reader.Event{TSC: uint64(i), Func: reader.FuncID(1 + i%2)})
	}
	b.Events = append(b.Events, reader.Event{TSC: depth, Func: 9}, reader.Event{TSC: depth + 5, Func: 9, Kind: reader.Exit})
	prof := parsePprof(t, runPprof(t, trace{b}, Options{}, 1))
	// All complete paths, then one path for each function beyond the gap.
	if got, want := len(prof.Sample), maxFrames+3; got != want {
		t.Fatalf("got %d samples, want %d", got, want)
	}
	var callCount int64
	for _, s := range prof.Sample {
		callCount += s.Value[0]
		if len(s.Location) == maxFrames+1 && s.Location[1].Line[0].Function.Name != "(frames omitted)" {
			t.Errorf("long path: got %q after the innermost frame", s.Location[1].Line[0].Function.Name)
		}
	}
	if callCount != depth+1 {
		t.Errorf("got %d calls, want %d", callCount, depth+1)
	}
}

func TestShortenKeepsPathsThatFit(t *testing.T) {
	long := calls.NewPaths()
	path := calls.PathID(0)
	for range maxFrames {
		path = long.Child(path, 1)
	}
	longer := long.Child(path, 2)
	short, ids := shorten(long)
	if diff := cmp.Diff(long.Frames(nil, path), short.Frames(nil, ids[path])); diff != "" {
		t.Errorf("a path of %d frames was changed:\n%s", maxFrames, diff)
	}
	want := append(long.Frames(nil, path)[:maxFrames-1], 0, 2)
	if diff := cmp.Diff(want, short.Frames(nil, ids[longer])); diff != "" {
		t.Errorf("a path of one frame more (-want +got):\n%s", diff)
	}
}

func TestPprofNeedsPaths(t *testing.T) {
	err := NewPprof(Options{}).Calls(&calls.Batch{Calls: make([]calls.Call, 1)})
	if err == nil || !strings.Contains(err.Error(), "Options.Paths") {
		t.Errorf("got error %v, want one about Options.Paths", err)
	}
}

func TestPprofSaturates(t *testing.T) {
	p := NewPprof(Options{})
	b := &calls.Batch{Paths: calls.NewPaths(), Calls: []calls.Call{{Func: 1, Self: math.MaxUint64, Duration: math.MaxUint64}}}
	b.Calls[0].Path = b.Paths.Child(0, 1)
	if err := p.Calls(b); err != nil {
		t.Fatal(err)
	}
	if got := parsePprof(t, p).Sample[0].Value[1]; got != math.MaxInt64 {
		t.Errorf("got self time %d", got)
	}
}

func TestPprofWithoutCalls(t *testing.T) {
	prof := parsePprof(t, runPprof(t, nil, Options{Header: oneGHz}, 2))
	if len(prof.Sample) != 0 || prof.DurationNanos != 0 {
		t.Errorf("got samples %v, duration %d", prof.Sample, prof.DurationNanos)
	}
}

// traced builds a program whose code has main, work and leaf at the beginnings of lines. It returns
// the names and the trace of twoThreads with the program's IDs.
func traced(t *testing.T, code string, flags ...string) (*symbolize.Table, trace) {
	t.Helper()
	testenv.Need(t, "clang-22")
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "work.c"), []byte(code), 0o644); err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(dir, "work")
	clang := exec.Command("clang-22", append(flags, "-g", "-fxray-instrument", "-fno-xray-link-deps",
		"-Wl,--build-id=0x0123456789abcdef", "-o", program, filepath.Join(dir, "work.c"))...)
	if text, err := clang.CombinedOutput(); err != nil {
		t.Fatalf("clang-22: %v\n%s", err, text)
	}
	table, err := symbolize.Load(program, symbolize.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { table.Close() })
	id := map[string]reader.FuncID{}
	for _, f := range table.Map().Functions {
		id[symbolize.Label(table, f.ID)] = f.ID
	}
	tr := twoThreads()
	for _, b := range tr {
		for i := range b.Events {
			e := &b.Events[i]
			e.Func = []reader.FuncID{0, id["main"], id["work"], id["leaf"]}[e.Func]
		}
	}
	return table, tr
}

// TestPprofInlines checks that inlined functions stand between their callers and callees, with the
// lines of calls, and that values do not change.
func TestPprofInlines(t *testing.T) {
	table, tr := traced(t, `#define TRACED __attribute__((xray_always_instrument, noinline))
#define INLINE static inline __attribute__((always_inline, xray_never_instrument))
TRACED int leaf(int x) { __asm__ volatile(""); return x + 1; }
INLINE int deep(int x) {
	return leaf(x) * 2;
}
TRACED int work(int x) {
	return deep(x) + 1;
}
TRACED int main(int argc, char **argv) {
	int x = work(argc);
	return work(x) + 1;
}
`, "-O2")
	opts := Options{Header: oneGHz, Names: table, Inlines: true}
	prof := parsePprof(t, runPprof(t, tr, opts, 1))
	var got []string
	for _, s := range prof.Sample {
		var frames []string
		for _, l := range s.Location {
			for _, line := range l.Line {
				if filepath.Base(line.Function.Filename) != "work.c" {
					t.Errorf("%s: got file %q", line.Function.Name, line.Function.Filename)
				}
				frames = append(frames, fmt.Sprintf("%s:%d", line.Function.Name, line.Line))
			}
		}
		got = append(got, fmt.Sprint(strings.Join(frames, " "), s.Value))
	}
	// Self time stays with the traced function. main calls work on two lines.
	want := []string{"work:7[1 4000]", "main:10[2 1850]", "work:7 main:10[3 140]", "leaf:3 deep:5 work:8 main:10[1 10]"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if !prof.Mapping[0].HasInlineFrames {
		t.Error("the mapping does not have HasInlineFrames")
	}
	opts.Inlines = false
	if prof := parsePprof(t, runPprof(t, tr, opts, 1)); prof.Mapping[0].HasInlineFrames || len(prof.Location) != 3 {
		t.Errorf("without the option: got inlined frames in %v", prof)
	}
}

// TestPprofInGoTool reads a profile of a real program with `go tool pprof`.
func TestPprofInGoTool(t *testing.T) {
	testenv.Need(t, "go")
	table, tr := traced(t, `__attribute__((xray_always_instrument)) int leaf(int x) { return x + 1; }
__attribute__((xray_always_instrument)) int work(int x) { return leaf(x) * 2; }
__attribute__((xray_always_instrument)) int main(void) { return work(3); }
`)
	program, out := table.Object().Path, filepath.Join(t.TempDir(), "work.pprof")
	opts := Options{Header: oneGHz, Names: table, Threads: true}
	if err := os.WriteFile(out, pprofBytes(t, runPprof(t, tr, opts, 1)), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		args []string
		want []string // fields of lines
	}{
		{[]string{"-top"}, []string{
			"Type: self",
			"Duration: 5us, Total samples = 6us",
			"4.14us 69.00% 69.00% 4.15us 69.17% work",
			"1.85us 30.83% 99.83% 2us 33.33% main",
		}},
		{[]string{"-top", "-sample_index=calls"}, []string{"4 57.14% 57.14% 5 71.43% work"}},
		{[]string{"-top", "-tagfocus=thread=6"}, []string{"4us 66.67% 66.67% 4us 66.67% work"}},
		{[]string{"-tags"}, []string{"5us (83.33%): 6 1us (16.67%): 8"}},
		{[]string{"-raw"}, []string{
			"Samples:", "calls/count self/nanoseconds[dflt]",
			program + " 0123456789abcdef [FN][FL][LN]",
			program + ".c:2:0 s=2",
		}},
		{[]string{"-list=work"}, []string{"4.14us 4.15us (flat, cum) 69.17% of Total"}},
	} {
		text, err := exec.Command("go", append(append([]string{"tool", "pprof"}, test.args...), out)...).CombinedOutput()
		if err != nil {
			t.Fatalf("go tool pprof %v: %v\n%s", test.args, err, text)
		}
		squeezed := strings.Join(strings.Fields(string(text)), " ")
		for _, want := range test.want {
			if !strings.Contains(squeezed, want) {
				t.Errorf("go tool pprof %v: want %q in\n%s", test.args, want, text)
			}
		}
	}
}

func TestPprofHoldsWhatEncodingTakes(t *testing.T) {
	t.Parallel()
	chain := func(functions int) trace {
		var tr trace
		for thread := range 3 {
			b := &reader.Block{Index: thread, Thread: reader.Thread{Process: 1, Thread: int32(thread + 1)}}
			for i := range functions {
				b.Events = append(b.Events, reader.Event{TSC: uint64(i), Func: reader.FuncID(i + 1)})
			}
			tr = append(tr, b)
		}
		return tr
	}
	threads := Options{Header: oneGHz, Threads: true}
	for _, tt := range []struct {
		name        string
		tr          trace
		opts        Options
		least, most int64
	}{
		// The budget of paths allows for shallow paths.
		{"shallow", chain(10), Options{Header: oneGHz}, 0, 0},
		{"deep", chain(200), Options{Header: oneGHz}, 200 * 1000, 200 * 4000},
		// A path in three threads is three samples.
		{"threads", chain(10), threads, 30 * 500, 30 * 1500},
		{"deep threads", chain(200), threads, 600 * 2000, 600 * 4000},
	} {
		one, three := runPprof(t, tt.tr, tt.opts, 1), runPprof(t, tt.tr, tt.opts, 3)
		if one.Memory() < tt.least || one.Memory() > tt.most {
			t.Errorf("%s: %d bytes, want %d to %d", tt.name, one.Memory(), tt.least, tt.most)
		}
		if one.Memory() != three.Memory() {
			t.Errorf("%s: three shards hold %d bytes, one holds %d", tt.name, three.Memory(), one.Memory())
		}
	}
}
