//go:build linux && amd64

package recorder

import (
	"maps"
	"strings"
	"testing"

	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/symbolize"
)

// profiled are the calls of a trace's profiles by path, and the profiles.
func profiled(t *testing.T, program, path string) (map[string]int64, []reader.Profile) {
	t.Helper()
	table, err := symbolize.Load(program, symbolize.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer table.Close()
	trace, err := reader.Open(reader.Options{}, path)
	if err != nil {
		t.Fatal(err)
	}
	defer trace.Close()
	if first, ok := trace.Losses().First(); ok {
		t.Errorf("%v", first)
	}
	r := trace.Recording(0)
	for _, l := range r.Losses {
		t.Errorf("%d lost: %s", l.Count, l.Cause)
	}
	calls := map[string]int64{}
	for _, p := range r.Profiles {
		names := make([]string, len(p.Paths))
		inside := make([]uint64, len(p.Paths)) // time of the calls from there
		for i, path := range p.Paths {
			names[i] = symbolize.Label(table, path.Func)
			if path.Parent >= 0 {
				// What a handler called that interrupted an exit is of the function whose
				// time is already over.
				if names[i] != "handler" {
					inside[path.Parent] += path.Total
				}
				names[i] = names[path.Parent] + ";" + names[i]
			}
			calls[names[i]] += int64(path.Count)
			if path.Open > 0 {
				t.Errorf("%d calls of %s are open", path.Open, names[i])
			}
			if path.Count > 0 && (path.Min > path.Max || path.Total < path.Max || path.Total > path.Max*path.Count) {
				t.Errorf("%s: %d calls from %d to %d ticks took %d", names[i], path.Count, path.Min, path.Max, path.Total)
			}
		}
		for i, path := range p.Paths {
			if inside[i] > path.Total {
				t.Errorf("%s took %d ticks, and what it called %d", names[i], path.Total, inside[i])
			}
		}
	}
	return calls, r.Profiles
}

// profileProgram runs testdata/paths.c and compares its paths with those profiled.
// What signal handlers did is left out.
func profileProgram(t *testing.T, args ...string) []reader.Profile {
	t.Helper()
	l := library(t)
	program := buildProgram(t, "clang-19", "paths.c", "-O2", "-fno-optimize-sibling-calls")
	out, stderr, traces := recordProgram(t, &l, "mode=profile", program, args...)
	if stderr != "" || len(traces) != 1 {
		t.Fatal(stderr, traces)
	}
	got, profiles := profiled(t, program, traces[0])
	maps.DeleteFunc(got, func(path string, _ int64) bool { return strings.Contains(path, "handler") })
	if want := counted(t, out); !maps.Equal(got, want) {
		for path := range want {
			if got[path] != want[path] {
				t.Errorf("%s: %d calls, and there were %d", path, got[path], want[path])
			}
			delete(got, path)
		}
		for path, n := range got {
			t.Errorf("%s: %d calls, and there is no such path", path, n)
		}
	}
	return profiles
}

// Every path has the calls that were made: after a longjmp, whatever the order of
// callees, in threads at once.
func TestProfile(t *testing.T) {
	if profiles := profileProgram(t, "-4"); len(profiles) != 4 {
		t.Errorf("%d profiles of 4 threads", len(profiles))
	}
}

// Threads that come after one another share a few profiles.
func TestProfileOfManyThreads(t *testing.T) {
	profiles := profileProgram(t, "300")
	if len(profiles) > 40 {
		t.Errorf("%d profiles of 300 threads, of which one runs at a time", len(profiles))
	}
	shared := 0
	for _, p := range profiles {
		if p.Thread == 0 {
			shared++
		}
	}
	if shared == 0 {
		t.Error("no profile was of several threads")
	}
}

// Handlers on a stack of their own, at any instruction, change nothing in the calls
// that they interrupt.
func TestProfileUnderSignals(t *testing.T) {
	profileProgram(t, "1", "signals")
}

// A longjmp that nobody notices would make paths ever deeper.
func TestProfileFindsFramesThatWereLeft(t *testing.T) {
	archive := buildArchive(t, edit{"profile.c", "for (; n && is_left(frame_at(p, n - 1, folded), bound); n--)", "for (; n > bound; n--)"})
	program := buildLinked(t, "clang-19", archive, "paths.c", "-O2", "-fno-optimize-sibling-calls")
	_, _, traces := recordProgram(t, nil, "mode=profile", program, "1")
	if calls, _ := profiled(t, program, traces[0]); calls["work;looper;jump"] == 10 {
		t.Error("a profile that looks at no frames is as good")
	}
}

// A call whose place on the stack of open calls is given away before it was read is
// taken for that of a signal handler.
func TestProfileUnderSignalsFindsWrongOrder(t *testing.T) {
	archive := buildArchive(t,
		edit{"profile.c", "	*(volatile uint64_t *)&p->depth = n - 1;\n	c->ticks", "	c->ticks"},
		edit{"profile.c", "	uint64_t start = f->start,", "	*(volatile uint64_t *)&p->depth = n - 1;\n	uint64_t start = f->start,"})
	program := buildLinked(t, "clang-19", archive, "paths.c", "-O2", "-fno-optimize-sibling-calls")
	for range 400 { // one in four finds it
		out, _, traces := recordProgram(t, nil, "mode=profile", program, "1", "signals")
		got, _ := profiled(t, program, traces[0])
		maps.DeleteFunc(got, func(path string, _ int64) bool { return strings.Contains(path, "handler") })
		if !maps.Equal(got, counted(t, out)) {
			return
		}
	}
	t.Error("the wrong order is as good")
}
