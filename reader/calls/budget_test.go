package calls_test

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/xray-tools/xray/internal/test/tracegen"
	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/reader/calls"
)

// byPath sums calls by the names of their paths.
type byPath struct {
	paths *calls.Paths
	sums  map[calls.PathID]pathTotal
	total map[string]pathTotal
}

type pathTotal struct{ calls, self uint64 }

func (t pathTotal) plus(o pathTotal) pathTotal { return pathTotal{t.calls + o.calls, t.self + o.self} }

func newByPath() *byPath {
	return &byPath{sums: map[calls.PathID]pathTotal{}, total: map[string]pathTotal{}}
}

func (s *byPath) Calls(b *calls.Batch) error {
	s.paths = b.Paths
	for _, c := range b.Calls {
		s.sums[c.Path] = s.sums[c.Path].plus(pathTotal{1, c.Self})
	}
	return nil
}

// settle looks up the names of the paths.
func (s *byPath) settle() map[string]pathTotal {
	for id, t := range s.sums {
		name := fmt.Sprint(s.paths.Frames(nil, id))
		s.total[name] = s.total[name].plus(t)
	}
	s.sums = nil
	return s.total
}

func (s *byPath) Merge(o *byPath) {
	s.settle()
	for name, t := range o.settle() {
		s.total[name] = s.total[name].plus(t)
	}
}

// random returns a trace in which hardly any path occurs twice.
func random(t testing.TB, opts tracegen.Options) *reader.Trace {
	t.Helper()
	var buf bytes.Buffer
	if _, err := tracegen.Generate(&buf, opts); err != nil {
		t.Fatal(err)
	}
	trace, err := reader.OpenReaderAt(bytes.NewReader(buf.Bytes()), int64(buf.Len()), "generated")
	if err != nil {
		t.Fatal(err)
	}
	return trace
}

// Only light parts of the tree are folded, nothing is lost, and the result does not depend on how
// the trace is shared among goroutines.
func TestPathBudget(t *testing.T) {
	for _, opts := range []tracegen.Options{
		{Records: 20_000, Random: true, Threads: 7, Functions: 100},
		{Records: 20_000, Random: true, Threads: 7, Functions: 100, Open: true, Format: tracegen.Basic},
		{Records: 50_000, Threads: 7},
	} {
		trace := random(t, opts)
		full, stats, err := calls.Run(trace, calls.Options{Paths: true, Shards: 1}, newByPath)
		if err != nil {
			t.Fatal(err)
		}
		every := full.settle()
		for _, most := range []int{1, 100, 3000, len(every) / 2, len(every) + 2} {
			var first map[string]pathTotal
			for _, shards := range []int{1, 3} {
				budget := calls.NewPathBudget(most)
				run := calls.Options{Paths: true, Shards: shards, Budget: budget}
				for range 2 { // the second pass knows what to fold
					sink, got, err := calls.Run(trace, run, newByPath)
					if err != nil {
						t.Fatal(err)
					}
					sums := sink.settle()
					if first == nil {
						first = sums
					}
					if !cmp.Equal(first, sums, cmp.AllowUnexported(pathTotal{})) {
						t.Fatalf("got %+v, %d paths: %d shards give other sums", opts, most, shards)
					}
					if n := max(most, 16); len(sums) > n || len(every) < n && len(sums) != len(every) {
						t.Errorf("%+v: got %d of %d paths for a budget of %d", opts, len(sums), len(every), n)
					}
					if want := checkFolded(t, every, sums); want != got.Folded {
						t.Errorf("got %d folded calls, want %d", got.Folded, want)
					}
					if got.Calls != stats.Calls || got.Events != stats.Events {
						t.Errorf("got %d calls of %d events, want %d of %d", got.Calls, got.Events, stats.Calls, stats.Events)
					}
				}
			}
		}
	}
}

// checkFolded compares sums with those of all paths, and returns the number of folded calls.
func checkFolded(t *testing.T, every, sums map[string]pathTotal) (folded uint64) {
	t.Helper()
	var all, kept pathTotal
	for _, s := range every {
		all = all.plus(s)
	}
	for name, s := range sums {
		kept = kept.plus(s)
		if strings.Contains(name, fmt.Sprint(int(reader.Folded))) {
			folded += s.calls
		} else if s != every[name] {
			t.Errorf("%s: got %v, want %v", name, s, every[name])
		}
	}
	if all != kept {
		t.Errorf("all paths: got %v, want %v", kept, all)
	}
	return folded
}

// The heaviest paths of a program are kept with complete sums, even if it also has paths that it
// takes only once.
func TestPathBudgetKeepsHeavy(t *testing.T) {
	var events []reader.Event
	now := uint64(0)
	add := func(ticks uint64, fn int, kind reader.Kind) {
		now += ticks
		events = append(events, reader.Event{TSC: now, Func: reader.FuncID(fn), Kind: kind})
	}
	for i := range 20_000 {
		add(1, 1, reader.Enter)
		add(1, 2+i%50, reader.Enter)
		add(10, 2+i%50, reader.Exit)
		add(1, 1000+i, reader.Enter)
		add(1, 1, reader.Enter)
		add(1, 1, reader.Exit)
		add(1, 1000+i, reader.Exit)
		add(1, 1, reader.Exit)
	}
	var blocks source
	for ; len(events) > 0; events = events[min(len(events), 1000):] {
		blocks = append(blocks, reader.Block{Events: events[:min(len(events), 1000)]})
	}
	sink, stats, err := calls.Run(blocks, calls.Options{Paths: true, Shards: 1, Budget: calls.NewPathBudget(200)}, newByPath)
	if err != nil {
		t.Fatal(err)
	}
	sums := sink.settle()
	for fn := 2; fn < 52; fn++ {
		if got := sums[fmt.Sprint([]int{1, fn})]; got != (pathTotal{400, 4000}) {
			t.Errorf("function %d: got %v", fn, got)
		}
	}
	if folded := sums[fmt.Sprint([]int{1, int(reader.Folded)})]; folded.calls > stats.Folded || folded.calls < 39_000 {
		t.Errorf("got %d folded calls below function 1, %d in all", folded.calls, stats.Folded)
	}
}

// Roots are never folded, and calls outside of roots have no path.
func TestPathRoots(t *testing.T) {
	trace := random(t, tracegen.Options{Records: 20_000, Random: true, Functions: 100, Threads: 3})
	roots := func(fn reader.FuncID) bool { return fn == 7 || fn == 50 }
	count := func() *rootCounter { return &rootCounter{roots: roots} }
	plain, _, err := calls.Run(trace, calls.Options{Paths: true}, count)
	if err != nil {
		t.Fatal(err)
	}
	for _, budget := range []*calls.PathBudget{nil, calls.NewPathBudget(16), calls.RootsOnly()} {
		for _, shards := range []int{1, 2} {
			sink, stats, err := calls.Run(trace, calls.Options{Paths: true, Roots: roots, Budget: budget, Shards: shards}, count)
			if err != nil {
				t.Fatal(err)
			}
			if sink.outermost != plain.outermost || sink.outermost == 0 || sink.inside != plain.inside {
				t.Errorf("got %d outermost calls, %d inside; want %d and %d", sink.outermost, sink.inside, plain.outermost, plain.inside)
			}
			if (stats.Folded > 0) != (budget != nil) {
				t.Errorf("got %d folded calls, want none", stats.Folded)
			}
		}
	}
}

// rootCounter counts outermost calls of roots, and all calls inside them.
type rootCounter struct {
	roots             func(reader.FuncID) bool
	outermost, inside int
}

func (r *rootCounter) Calls(b *calls.Batch) error {
	for _, c := range b.Calls {
		frames := b.Paths.Frames(nil, c.Path)
		switch at := slices.IndexFunc(frames, r.roots); {
		case at < 0:
		case at == len(frames)-1 && r.roots(c.Func):
			r.outermost++
		default:
			r.inside++
		}
	}
	return nil
}

func (r *rootCounter) Merge(o *rootCounter) { r.outermost += o.outermost; r.inside += o.inside }

// Exits without an entry are reported once, however often the trace is read.
func TestPathBudgetUnmatched(t *testing.T) {
	var events []reader.Event
	for i := range 2000 {
		fn := reader.FuncID(i + 1)
		events = append(events, reader.Event{TSC: uint64(i), Func: fn}, reader.Event{TSC: uint64(i), Func: fn, Kind: reader.Exit},
			reader.Event{TSC: uint64(i), Func: fn, Kind: reader.Exit})
	}
	src := source{{Events: events[:3000]}, {Events: events[3000:]}}
	unmatched := 0
	opts := calls.Options{Paths: true, Shards: 1, Budget: calls.NewPathBudget(100), Unmatched: func(*calls.Unmatched) error {
		unmatched++
		return nil
	}}
	_, stats, err := calls.Run(src, opts, newByPath)
	if err != nil || unmatched != 2000 || stats.Unmatched != 2000 {
		t.Errorf("got %d exits reported, %d counted, error %v", unmatched, stats.Unmatched, err)
	}
	wrong := errors.New("one is enough")
	opts.Budget, opts.Unmatched = calls.NewPathBudget(100), func(*calls.Unmatched) error { return wrong }
	if _, _, err = calls.Run(src, opts, newByPath); !errors.Is(err, wrong) {
		t.Error(err)
	}
}

// source is the blocks of one thread.
type source []reader.Block

func (s source) Each(_ int, fn func(int, *reader.Block) error) error {
	for i := range s {
		if err := fn(0, &s[i]); err != nil {
			return err
		}
	}
	return nil
}
