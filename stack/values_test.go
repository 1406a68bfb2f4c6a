package stack

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/reader/calls"
	"github.com/xray-tools/xray/symbolize"
)

// Divided paths are those of a program that calls a function for each value. Functions 1 and 2 have values, which
// depend on when a call starts and are unknown until it ends.
func TestDivide(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		script, open := "", 0
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			switch n := rapid.IntRange(0, 7).Draw(t, "step"); {
			case n < 4:
				script += fmt.Sprintf("%d ", n)
				open++
			case n < 6:
				script += fmt.Sprintf("+%d ", n)
			case open > 0:
				script += ". "
				open--
			}
		}
		p := (&program{paths: calls.NewPaths()}).run(strings.ReplaceAll(script, "0", "4") + strings.Repeat(" !", open))
		group := func(c *calls.Call) int {
			if c.Func > 2 {
				return 0
			}
			return int(c.Start % 3)
		}
		keep := func(c *calls.Call) bool { return c.Func != 2 }
		a := New(Options{Divide: &Divide{
			By: func(fn reader.FuncID) bool { return fn <= 2 },
			Group: func(b *calls.Batch, i int, scratch []calls.Recorded) (int, []calls.Recorded) {
				return group(&b.Calls[i]), scratch
			},
			Keep: keep,
		}})
		want := map[string]uint64{}
		for i := range p.calls {
			if err := a.Calls(&calls.Batch{Paths: p.paths, Calls: p.calls[i : i+1]}); err != nil {
				t.Fatal(err)
			}
			if !keep(&p.calls[i]) || p.calls[i].Self == 0 {
				continue
			}
			path, depth := "", p.calls[i].Depth+1
			for k := i; k < len(p.calls); k++ { // callers end later
				c := &p.calls[k]
				if c.Depth+1 != depth {
					continue
				}
				frames := fmt.Sprintf("#%d", c.Func)
				if g := group(c); g > 0 {
					frames = fmt.Sprintf("n = %d;%s", g, frames)
				}
				path = strings.TrimSuffix(frames+";"+path, ";")
				depth--
			}
			want[path] += p.calls[i].Self
		}
		var out strings.Builder
		names := symbolize.WithValues(nil, []string{"", "n = 1", "n = 2"})
		if err := a.Report(gigahertz).WriteFolded(&out, names, FoldedView{}); err != nil {
			t.Fatal(err)
		}
		got := map[string]uint64{}
		for line := range strings.Lines(out.String()) {
			at := strings.LastIndexByte(line, ' ')
			var n uint64
			fmt.Sscan(line[at:], &n)
			got[line[:at]] += n
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("%s: (-want +got):\n%s", script, diff)
		}
	})
}
