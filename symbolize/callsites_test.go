package symbolize

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/xray-tools/xray/internal/test/elftest"
	"github.com/xray-tools/xray/reader"
)

// The test finds lines by their comments.
const callsSource = `#define TRACED __attribute__((xray_always_instrument, noinline))
#define INLINE static inline __attribute__((always_inline, xray_never_instrument))
extern "C" {
TRACED int leaf(int x) { asm volatile(""); return x + 1; }
TRACED int other(int x) { asm volatile(""); return x + 2; }
INLINE int deep(int x) {
	return leaf(x) * 2; // deep
}
INLINE int wrap(int x) {
	return deep(x) + 1; // wrap
}
TRACED int once(int x) { // once
	return wrap(x) - 3; // once wrap
}
TRACED int plain(int x) { // plain
	return leaf(x) * 5; // plain leaf
}
TRACED int twice(int x) { // twice
	x = wrap(x);
	return wrap(x) + other(x); // twice other
}
TRACED int mixed(int x) { // mixed
	return wrap(x) + leaf(x) * 3;
}
INLINE int deeper(int x) {
	return leaf(x) * 3;
}
TRACED int either(int x) { // either
	return deep(x) + deeper(x);
}
INLINE int pair(int x) {
	x = leaf(x) * 2;
	return leaf(x) * 3;
}
TRACED int both(int x) { // both
	return pair(x) - 1; // both pair
}
TRACED int again(int x) { // again
	x = leaf(x) * 3;
	return leaf(x) * 7;
}
__attribute__((noinline, xray_never_instrument)) int hidden(int x) {
	return other(x) * 2;
}
TRACED int through(int x) { // through
	return hidden(x) + 1;
}
TRACED int main(int argc, char **) { // main
	int (*volatile indirect)(int) = plain;
	return once(argc) + twice(argc) + mixed(argc) + either(argc) + both(argc) + again(argc) + through(argc) + indirect(argc);
}
}
`

func TestCallFrames(t *testing.T) {
	lines := map[string]int{}
	for i, line := range strings.Split(callsSource, "\n") {
		if _, what, ok := strings.Cut(line, "// "); ok {
			lines[what] = i + 1
		}
	}
	ways := []struct {
		caller, callee string
		frames         string // functions and the comments of their lines, innermost first
	}{
		{"once", "leaf", "deep(int):deep wrap(int):wrap once:once wrap"},
		{"plain", "leaf", "plain:plain leaf"},
		{"twice", "leaf", "deep(int):deep wrap(int):wrap twice:twice"},
		{"twice", "other", "twice:twice other"},
		{"mixed", "leaf", ""},
		{"either", "leaf", ""},
		{"both", "leaf", "pair(int):line 0 both:both pair"},
		{"again", "leaf", "again:again"},
		{"through", "other", ""}, // called by a function that is not in the trace
		{"main", "plain", ""},    // called through a pointer
		{"main", "leaf", ""},     // never called
	}
	for _, flags := range []string{"-O2 -g", "-O2 -gdwarf-4", "-O2 -g -gsplit-dwarf", "-O2 -g -flto -fuse-ld=lld-22", "-O2 -g1"} {
		t.Run(flags, func(t *testing.T) {
			table, err := Load(elftest.Compile(t, callsSource, strings.Fields(flags)...), Options{})
			if err != nil {
				t.Fatal(err)
			}
			defer table.Close()
			id := map[string]reader.FuncID{}
			for _, f := range table.Map().Functions {
				id[Label(table, f.ID)] = f.ID
			}
			var calls []Call
			want, got := map[Call]string{}, map[Call]string{}
			for _, w := range ways {
				c := Call{id[w.caller], id[w.callee]}
				calls = append(calls, c)
				if flags != "-O2 -g1" { // has no call sites
					want[c] = w.frames
				}
			}
			for i, frames := range CallFrames(table, calls) {
				var text []string
				for _, f := range frames {
					what := fmt.Sprint("line ", f.Line)
					for name, line := range lines {
						if line == f.Line {
							what = name
						}
					}
					if filepath.Base(f.File) != "main.cc" || f.Address == 0 {
						what += fmt.Sprintf(" in %s at %#x", f.File, f.Address)
					}
					text = append(text, f.Name+":"+what)
				}
				if len(frames) > 0 || want[calls[i]] != "" {
					got[calls[i]] = strings.Join(text, " ")
				}
				if want[calls[i]] == "" {
					delete(want, calls[i])
				}
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%v\n(-want +got):\n%s", id, diff)
			}
		})
	}
}
