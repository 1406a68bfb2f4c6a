package tracegen

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"math"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// decoded is the content of a trace, found by the simplest decoder: the tests must not trust the
// generator's own counts.
type decoded struct {
	records, open int64
	calls         map[uint32]int64
	ticks         map[uint32]uint64
	entries       map[uint32]int64
	metadata      map[byte]int
	first, least  uint64 // TSC of the first record, smallest TSC
	unmatched     int64  // exits of other calls than the innermost one
}

// state is the state of one thread while decoding.
type state struct {
	stack []frame
	tsc   uint64
}

func newDecoded() *decoded {
	return &decoded{
		calls: map[uint32]int64{}, ticks: map[uint32]uint64{}, entries: map[uint32]int64{},
		metadata: map[byte]int{},
	}
}

func (d *decoded) add(t *state, fn uint32, k kind, tsc uint64) {
	if d.records == 0 {
		d.first, d.least = tsc, tsc
	}
	d.least = min(d.least, tsc)
	d.records++
	if k == enter {
		d.entries[fn]++
		d.open++
		t.stack = append(t.stack, frame{start: tsc, fn: fn})
		return
	}
	top := len(t.stack) - 1
	for top >= 0 && t.stack[top].fn != fn {
		d.unmatched++
		top--
	}
	if top < 0 {
		d.unmatched++
		return
	}
	d.calls[fn]++
	d.ticks[fn] += tsc - t.stack[top].start
	d.open--
	t.stack = t.stack[:top]
}

// decodeFDR follows blocks by their extents and fails on any flaw.
func decodeFDR(t *testing.T, b []byte) *decoded {
	t.Helper()
	d := newDecoded()
	threads := map[uint32]*state{}
	last := map[uint32]uint64{} // wall clock of a thread's last block
	for b = b[32:]; len(b) > 0; {
		if b[0] != 0x0f {
			t.Fatalf("got byte 0x%x, want extents", b[0])
		}
		n := le.Uint64(b[1:])
		if n > fdrBuffer {
			t.Fatalf("got a block of %d bytes", n)
		}
		block := b[16 : 16+n]
		b = b[16+n:]
		for i, kind := range []byte{0x01, 0x09, 0x13, 0x05} {
			if block[16*i] != kind {
				t.Fatalf("block begins with metadata 0x%x at position %d, want 0x%x", block[16*i], i, kind)
			}
		}
		tid := le.Uint32(block[1:])
		micros := le.Uint64(block[17:])*1_000_000 + uint64(le.Uint32(block[25:]))
		if micros <= last[tid] {
			t.Fatalf("thread %d: wall clock goes from %d to %d", tid, last[tid], micros)
		}
		last[tid] = micros
		s := threads[tid]
		if s == nil {
			s = &state{}
			threads[tid] = s
		}
		for block = block[48:]; len(block) > 0; {
			if block[0]&1 != 0 {
				d.metadata[block[0]>>1]++
				at := 1
				if block[0] == 0x05 {
					at = 3
				}
				if tsc := le.Uint64(block[at:]); tsc >= s.tsc {
					s.tsc = tsc
				} else {
					t.Fatalf("thread %d: TSC goes from %d to %d", tid, s.tsc, tsc)
				}
				block = block[16:]
				continue
			}
			w := le.Uint32(block)
			s.tsc += uint64(le.Uint32(block[4:]))
			d.add(s, w>>4, kind(w>>1&7), s.tsc)
			block = block[8:]
		}
	}
	return d
}

func decodeBasic(b []byte) *decoded {
	d := newDecoded()
	threads := map[uint32]*state{}
	for b = b[32:]; len(b) > 0; b = b[32:] {
		tid := le.Uint32(b[16:])
		if threads[tid] == nil {
			threads[tid] = &state{}
		}
		d.add(threads[tid], le.Uint32(b[4:]), kind(b[3]), le.Uint64(b[8:]))
	}
	return d
}

func decodeYAML(t *testing.T, b []byte) *decoded {
	t.Helper()
	line := regexp.MustCompile(`^  - \{ type: 0, func-id: (\d+), function: '(\d+)', cpu: \d+, thread: (\d+), process: 4711, kind: (\S+), tsc: (\d+), data: '' \}$`)
	d := newDecoded()
	threads := map[uint32]*state{}
	_, records, _ := strings.Cut(string(b), "records:\n")
	for l := range strings.Lines(strings.TrimSuffix(records, "...\n")) {
		m := line.FindStringSubmatch(strings.TrimSuffix(l, "\n"))
		if m == nil {
			t.Fatalf("not a record: %q", l)
		}
		var fn, tid uint32
		var tsc uint64
		if _, err := fmt.Sscan(m[1]+" "+m[3]+" "+m[5], &fn, &tid, &tsc); err != nil {
			t.Fatal(err)
		}
		if threads[tid] == nil {
			threads[tid] = &state{}
		}
		k := map[string]kind{"function-enter": enter, "function-exit": exit, "function-tail-exit": tailExit}[m[4]]
		d.add(threads[tid], fn, k, tsc)
	}
	return d
}

func generate(t *testing.T, opts Options) (*decoded, *Truth) {
	t.Helper()
	var buf bytes.Buffer
	truth, err := Generate(&buf, opts)
	if err != nil {
		t.Fatal(err)
	}
	switch opts.Format {
	case Basic:
		return decodeBasic(buf.Bytes()), truth
	case YAML:
		return decodeYAML(t, buf.Bytes()), truth
	}
	return decodeFDR(t, buf.Bytes()), truth
}

func TestTruth(t *testing.T) {
	for _, opts := range []Options{
		{Records: 200_000},
		{Records: 200_000, Seed: 7, Format: Basic},
		{Records: 20_000, Format: YAML},
		{Records: 100_001, Threads: 3, Functions: 150},
		{Records: 100_000, Open: true},
		{Records: 200_000, Unwind: true},
		{Records: 200_000, Random: true},
		{Records: 200_000, Spread: true},
		{Records: 100_000, Spread: true, Open: true, Format: Basic},
		{Records: 100_001, Random: true, Format: Basic, Open: true},
		{Records: 200_000, Unwind: true, Open: true, Format: Basic},
		{Records: 7, Threads: 16},
	} {
		t.Run(fmt.Sprintf("%+v", opts), func(t *testing.T) {
			d, truth := generate(t, opts)
			if d.records != opts.Records || truth.Records != opts.Records {
				t.Errorf("%d records in the trace, %d counted, want %d", d.records, truth.Records, opts.Records)
			}
			if d.least < d.first {
				t.Errorf("got a record at %d, before the first at %d", d.least, d.first)
			}
			if d.open != truth.Open {
				t.Errorf("got %d calls without an exit, want %d as counted", d.open, truth.Open)
			}
			wantOpen := opts.Open || opts.Unwind
			if !wantOpen && d.open != opts.Records%2 {
				t.Errorf("got %d calls open at the end", d.open)
			}
			if wantOpen && d.open == 0 {
				t.Error("every call has an exit")
			}
			if (d.unmatched > 0) != opts.Unwind {
				t.Errorf("got %d exits that leave an inner call open", d.unmatched)
			}
			for id := range truth.Calls {
				fn := uint32(id)
				got := []any{d.entries[fn], d.calls[fn], d.ticks[fn]}
				want := []any{truth.Entries[id], truth.Calls[id], truth.Ticks[id]}
				if diff := cmp.Diff(want, got); diff != "" {
					t.Fatalf("function %d: entries, calls, ticks (-counted +found):\n%s", id, diff)
				}
			}
		})
	}
}

// The three formats must hold the same calls for the same seed, so that measurements are
// comparable.
func TestFormatsHoldTheSame(t *testing.T) {
	_, want := generate(t, Options{Records: 30_000})
	for _, f := range []Format{Basic, YAML} {
		_, got := generate(t, Options{Records: 30_000, Format: f})
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-fdr +got):\n%s", f, diff)
		}
	}
}

// Traces must look like those of real programs, within wide bounds.
func TestShape(t *testing.T) {
	const records = 1_000_000
	for seed := range uint64(3) {
		d, truth := generate(t, Options{Records: records, Seed: seed})
		used, tail := 0, 0
		var most int64
		for _, n := range truth.Entries {
			most = max(most, n)
			if n > 0 {
				used++
			}
		}
		prog := newProgram(seed, 2000)
		for id, f := range prog.funcs {
			if f.tail && d.calls[uint32(id)] > 0 {
				tail++
			}
		}
		if used < 1000 {
			t.Errorf("seed %d: only %d of 2000 functions are called", seed, used)
		}
		if most < records/2/100 {
			t.Errorf("seed %d: the most popular function has only %d calls", seed, most)
		}
		if truth.Depth < 10 || truth.Depth > 40 {
			t.Errorf("seed %d: got calls %d deep", seed, truth.Depth)
		}
		if tail == 0 {
			t.Errorf("seed %d: no tail calls", seed)
		}
		if d.metadata[2] < records/20_000 || d.metadata[3] == 0 {
			t.Errorf("seed %d: %d NewCPUId and %d TSCWrap records", seed, d.metadata[2], d.metadata[3])
		}
	}
}

// From the first to the last thousandth, the durations of a function without
// callees must spread over about six decades with Options.Spread, and over one without.
func TestSpread(t *testing.T) {
	for _, spread := range []bool{false, true} {
		prog := newProgram(1, 2000)
		var longest []uint64 // durations of the most popular function without callees
		durations := map[uint32][]uint64{}
		threads := newThreads(prog, &Truth{
			Entries: make([]int64, 2001), Calls: make([]int64, 2001), Ticks: make([]uint64, 2001),
		}, Options{Seed: 1, Threads: 1, Records: 2_000_000, Spread: spread})
		var enter uint64
		for th := threads[0]; th.left > 0; {
			r := th.next()
			if r.kind == exit && len(prog.funcs[r.fn].sites) == 0 {
				d := append(durations[r.fn], r.tsc-enter)
				durations[r.fn] = d
				if len(d) > len(longest) {
					longest = d
				}
			}
			enter = r.tsc
		}
		slices.Sort(longest)
		n := len(longest)
		decades := math.Log10(float64(longest[n-1-n/1000]) / float64(longest[n/1000]))
		if want := map[bool]float64{true: 6, false: 1.2}[spread]; n < 10_000 || math.Abs(decades-want) > 0.7 {
			t.Errorf("spread %v: got %d durations over %.1f decades, want %.1f", spread, n, decades, want)
		}
	}
}

func sum(t *testing.T, opts Options) string {
	t.Helper()
	h := sha256.New()
	if _, err := Generate(h, opts); err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("%x", h.Sum(nil)[:8])
}

func TestReproducible(t *testing.T) {
	a := sum(t, Options{Records: 100_000, Seed: 3})
	if b := sum(t, Options{Records: 100_000, Seed: 3}); a != b {
		t.Errorf("the same seed gave %s and %s", a, b)
	}
	if b := sum(t, Options{Records: 100_000, Seed: 4}); a == b {
		t.Error("two seeds gave the same bytes")
	}
}

func TestRuns(t *testing.T) {
	_, first := generate(t, Options{Records: 100_000, Seed: 3})
	_, second := generate(t, Options{Records: 100_000, Seed: 3, Run: 1})
	if reflect.DeepEqual(first.Calls, second.Calls) {
		t.Error("two runs made the same calls")
	}
	for id, n := range first.Calls {
		if n > 1000 && second.Calls[id] < n/10 {
			t.Errorf("function %d has %d calls in one run and %d in another of the same program", id, n, second.Calls[id])
		}
	}
}

func TestBadOptions(t *testing.T) {
	for _, opts := range []Options{
		{Format: "xml"}, {Records: -1}, {Threads: -1}, {Threads: 1 << 20}, {Functions: 99}, {Functions: 1 << 20},
	} {
		if _, err := Generate(io.Discard, opts); err == nil {
			t.Errorf("%+v was accepted", opts)
		}
	}
}

// failingWriter fails after some bytes.
type failingWriter struct{ left int }

var errFull = errors.New("disk full")

func (w *failingWriter) Write(p []byte) (int, error) {
	if w.left -= len(p); w.left < 0 {
		return 0, errFull
	}
	return len(p), nil
}

func TestWriteError(t *testing.T) {
	for _, left := range []int{0, 1 << 20} {
		if _, err := Generate(&failingWriter{left}, Options{}); !errors.Is(err, errFull) {
			t.Errorf("after %d bytes: got error %v, want %v", left, err, errFull)
		}
	}
}

func TestMap(t *testing.T) {
	var b strings.Builder
	if err := WriteMap(&b, 0); err != nil {
		t.Fatal(err)
	}
	line := regexp.MustCompile(`(?m)^- \{ id: \d+, address: 0x[0-9A-F]+, function: 0x[0-9A-F]+, kind: (function-enter|function-exit|tail-exit), always-instrument: false, function-name: '[^']+', version: 2 \}$`)
	if n := len(line.FindAllString(b.String(), -1)); n != 6000 {
		t.Errorf("got %d sleds, want 6000", n)
	}
	names := map[string]bool{}
	for id := 1; id <= maxFunctions; id++ {
		names[Name(id)] = true
	}
	if len(names) != maxFunctions {
		t.Errorf("got only %d distinct names", len(names))
	}
}

func BenchmarkGenerate(b *testing.B) {
	for _, f := range []Format{FDR, Basic, YAML} {
		b.Run("format="+string(f), func(b *testing.B) {
			const records = 1_000_000
			for b.Loop() {
				if _, err := Generate(io.Discard, Options{Format: f, Records: records}); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/records, "ns/record")
		})
	}
}
