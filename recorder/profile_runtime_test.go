//go:build linux && amd64

package recorder_test

import (
	"maps"
	"strings"
	"testing"

	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/symbolize"
)

// profiled returns the calls of a trace's profiles by path, and the profiles.
func profiled(t *testing.T, program, path string) (map[string]int64, []reader.Profile) {
	t.Helper()
	table, trace := openNamed(t, program, path)
	if first, ok := trace.Losses().First(); ok {
		t.Errorf("first loss: %v", first)
	}
	r := trace.Recording(0)
	for _, l := range r.Losses {
		t.Errorf("unexpected loss: %d, %s", l.Count, l.Cause)
	}
	calls := map[string]int64{}
	for _, p := range r.Profiles {
		names := make([]string, len(p.Paths))
		inside := make([]uint64, len(p.Paths)) // time of each path's callees
		for i, path := range p.Paths {
			names[i] = symbolize.Label(table, path.Func)
			if path.Parent >= 0 {
				// If a handler interrupts an exit, its calls belong to a function
				// whose time has already ended.
				if names[i] != "handler" {
					inside[path.Parent] += path.Total
				}
				names[i] = names[path.Parent] + ";" + names[i]
			}
			calls[names[i]] += int64(path.Count)
			if path.Open > 0 {
				t.Errorf("got %d open calls of %s, want none", path.Open, names[i])
			}
			if path.Count > 0 && (path.Min > path.Max || path.Total < path.Max || path.Total > path.Max*path.Count) {
				t.Errorf("%s: inconsistent times: %d calls, min %d, max %d, total %d ticks", names[i], path.Count, path.Min, path.Max, path.Total)
			}
		}
		for i, path := range p.Paths {
			if inside[i] > path.Total {
				t.Errorf("%s: got %d ticks, less than its callees' %d", names[i], path.Total, inside[i])
			}
		}
	}
	return calls, r.Profiles
}

// profileProgram runs testdata/paths.c and compares the paths it counted with the profile, without
// the calls of signal handlers.
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
				t.Errorf("%s: got %d calls, want %d", path, got[path], want[path])
			}
			delete(got, path)
		}
		for path, n := range got {
			t.Errorf("%s: got %d calls, want none", path, n)
		}
	}
	return profiles
}

// The profile has all calls of every path: after a longjmp, with callees in any order, and with
// several threads.
func TestProfile(t *testing.T) {
	if profiles := profileProgram(t, "-4"); len(profiles) != 4 {
		t.Errorf("got %d profiles, want 4", len(profiles))
	}
}

// Threads that run one after another share a few profiles.
func TestProfileOfManyThreads(t *testing.T) {
	profiles := profileProgram(t, "300")
	if len(profiles) > 40 {
		t.Errorf("got %d profiles for 300 threads that run one at a time", len(profiles))
	}
	shared := 0
	for _, p := range profiles {
		if p.Thread == 0 {
			shared++
		}
	}
	if shared == 0 {
		t.Error("no two threads share a profile")
	}
}

// Handlers on an alternate stack do not change the profile of the calls that they interrupt, at any
// instruction.
func TestProfileUnderSignals(t *testing.T) {
	profileProgram(t, "1", "signals")
}

// If the runtime does not notice longjmp, paths get deeper and deeper.
func TestProfileFindsFramesThatWereLeft(t *testing.T) {
	t.Parallel()
	archive := buildArchive(t, edit{"profile.c", "for (; n && is_left(frame_at(p, n - 1, folded), bound); n--)", "for (; n > bound; n--)"})
	program := buildLinked(t, "clang-19", archive, "paths.c", "-O2", "-fno-optimize-sibling-calls")
	_, _, traces := recordProgram(t, nil, "mode=profile", program, "1")
	if calls, _ := profiled(t, program, traces[0]); calls["work;looper;jump"] == 10 {
		t.Error("the broken runtime passed")
	}
}

// If the runtime frees an entry of its stack of open calls before it has read the entry, a signal
// handler overwrites it.
func TestProfileUnderSignalsFindsWrongOrder(t *testing.T) {
	t.Parallel()
	archive := buildArchive(t,
		edit{"profile.c", "	*(volatile uint64_t *)&p->depth = n - 1;\n	c->ticks", "	c->ticks"},
		edit{"profile.c", "	uint64_t start = f->start,", "	*(volatile uint64_t *)&p->depth = n - 1;\n	uint64_t start = f->start,"})
	program := buildLinked(t, "clang-19", archive, "paths.c", "-O2", "-fno-optimize-sibling-calls")
	for range 400 { // one run in four shows it
		out, _, traces := recordProgram(t, nil, "mode=profile", program, "1", "signals")
		got, _ := profiled(t, program, traces[0])
		maps.DeleteFunc(got, func(path string, _ int64) bool { return strings.Contains(path, "handler") })
		if !maps.Equal(got, counted(t, out)) {
			return
		}
	}
	t.Error("the broken runtime passed")
}
