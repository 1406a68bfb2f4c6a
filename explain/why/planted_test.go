//go:build linux && amd64

package why_test

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/xray-tools/xray/explain/why"
	"github.com/xray-tools/xray/internal/test/testenv"
	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/report"
	"github.com/xray-tools/xray/symbolize"
)

// The programs of testdata have a known cause of slowness and print it. The test records and
// explains each, and requires the right first cause for all.
var plantedPrograms = []struct {
	name     string
	recorded recording
	slow     why.Rule // zero means the 99th percentile
}{
	{name: "tree", slow: why.Rule{Quantile: 0.95, Text: "p95"}},
	{name: "stall", recorded: basic},
	{name: "pool"},
	{name: "future", recorded: fdr, slow: over5ms},
	{name: "journal"},
	{name: "convoy", recorded: fdr, slow: over5ms},
	{name: "retry", slow: why.Rule{Quantile: 0.95, Text: "p95"}},
	{name: "coldstart"},
	{name: "shard"},
	{name: "orders"},
	{name: "pause", slow: over5ms},
	{name: "memory"},
	{name: "errors", recorded: basic},
	{name: "chain"},
	{name: "two", slow: over5ms},
	{name: "backend", slow: over5ms},
	{name: "render", recorded: oursPruned},
	{name: "arena"},
	{name: "logpipe", slow: over5ms},
	{name: "eventloop", slow: over5ms},
	{name: "twoloops"},
	{name: "coldpages", slow: why.Rule{Quantile: 0.95, Text: "p95"}},
}

var over5ms = why.Rule{Ticks: 5_000_000, Text: ">5ms"}

// tries is how often a program is recorded until a report is complete. On a busy machine, preemption can hide any cause,
// or what other threads did meanwhile. Then why says less, but never anything wrong.
const tries = 5

// alone is held for reading by the first recordings, which run beside each other, and for writing by others.
var alone sync.RWMutex

func TestPlanted(t *testing.T) {
	for _, p := range plantedPrograms {
		t.Run(p.name+"/"+p.recorded.String(), func(t *testing.T) {
			t.Parallel()
			program := compileRequests(t, p.name)
			record := func(by sync.Locker) (run planted, busy bool) {
				by.Lock()
				defer by.Unlock()
				busy = testenv.Busy(func() { run = p.recorded.run(t, program) })
				return run, busy
			}
			var by sync.Locker = alone.RLocker()
			for try, quiet := 1, false; ; try, by = try+1, &alone {
				run, busy := record(by)
				quiet = quiet || try > 1 && !busy
				r := run.explain(t, p.slow)
				truth := readTruth(t, run.said)
				least := told
				for i := range truth {
					least = min(least, truth[i].judge(r, i, run.names))
				}
				switch {
				case least == told:
					return
				case least == wrong:
					t.Errorf("want %v, got\n%s", truth, run.text(r))
					return
				case try < tries:
					t.Logf("recording %d is not explained:\n%s", try, run.text(r))
				case quiet || least < doubted:
					t.Errorf("after %d recordings, want %v, got\n%s", try, truth, run.text(r))
					return
				default:
					t.Logf("the machine is busy: %v is not certain:\n%s", truth, run.text(r))
					return
				}
			}
		})
	}
}

// These programs have no planted cause. If a thread is stopped in short calls, the recorder keeps
// calls that it usually drops. That is not a new path.
func TestPlantedNothing(t *testing.T) {
	for name, recordings := range map[string][]recording{
		"steady": {basic, basicPruned, ours},
		"busy":   {ours, oursPruned},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			program := compileRequests(t, name)
			for _, how := range recordings {
				run := how.run(t, program)
				r := run.explain(t, why.Rule{})
				if len(r.Causes) > 0 {
					t.Errorf("%v: unexpected cause %s:\n%s", how, short(run.names, r.Causes[0].Func), run.text(r))
				}
				told := slices.ContainsFunc(r.Warnings, func(w string) bool { return strings.Contains(w, "dropped") })
				if !told && (how == oursPruned || how == basicPruned) {
					t.Errorf("%v: wrong warnings: %q", how, r.Warnings)
				}
			}
		})
	}
}

// short returns a function's short name.
func short(names symbolize.Names, fn reader.FuncID) string {
	return symbolize.Shorten(symbolize.Label(names, fn))
}

// truth is a cause as a program prints it: its kind, and words key=value. A bar separates
// alternatives. The kind event-loop is what calls wait for before they begin.
type truth struct {
	kind  string
	words []string
}

func readTruth(t *testing.T, said string) (list []truth) {
	t.Helper()
	for line := range strings.Lines(said) {
		words := strings.Fields(line)
		list = append(list, truth{words[0], words[1:]})
	}
	if len(list) == 0 {
		t.Fatal("the program printed no cause")
	}
	return list
}

// find returns the index of the matching cause, or -1.
func (want *truth) find(r *why.Report, names symbolize.Names) int {
	if want.kind == "event-loop" {
		if l := r.Loop; l != nil && want.says(func(key, value string) bool {
			return value == map[string]string{"function": short(names, l.Func), "busy": short(names, l.Busy), "requests": map[bool]string{true: "yes", false: "no"}[l.Requests]}[key]
		}) {
			return 0
		}
		return -1
	}
	return slices.IndexFunc(r.Causes, func(c why.Cause) bool {
		if !slices.Contains(strings.Split(want.kind, "|"), c.Kind.String()) {
			return false
		}
		return want.says(func(key, value string) bool { return matches(r, &c, names, key, value) })
	})
}

// says reports whether all words are true.
func (want *truth) says(is func(key, value string) bool) bool {
	return !slices.ContainsFunc(want.words, func(word string) bool {
		key, value, _ := strings.Cut(word, "=")
		return !slices.ContainsFunc(strings.Split(value, "|"), func(v string) bool { return is(key, v) })
	})
}

// judgement is what a report says about a planted cause.
type judgement int

const (
	wrong   judgement = iota // another cause
	silent                   // nothing
	doubted                  // less than all, or that preemption may be the reason
	told                     // all
)

// judge judges what a report says about the planted cause with an index.
func (want *truth) judge(r *why.Report, index int, names symbolize.Names) judgement {
	if at := want.find(r, names); at == 0 || at > 0 && index > 0 {
		return told
	}
	its := func(fn reader.FuncID) bool {
		return slices.ContainsFunc(want.words, func(word string) bool {
			functions, is := strings.CutPrefix(word, "function=")
			return is && slices.Contains(strings.Split(functions, "|"), short(names, fn))
		})
	}
	at := slices.IndexFunc(r.Causes, func(c why.Cause) bool { return its(c.Func) })
	switch {
	case at >= 0 && r.Causes[at].Holder != nil && !want.holds(r, &r.Causes[at], names), at < 0 && index == 0 && len(r.Causes) > 0:
		return wrong
	case at >= 0:
		return doubted
	}
	at = slices.IndexFunc(r.Suspects, func(s why.Suspect) bool { return its(s.Func) })
	if at < 0 || at > index || r.Suspects[at].Doubt != why.Unheld && r.Suspects[at].Doubt != why.Preemption {
		return silent
	}
	return doubted
}

// holds reports whether a cause has the planted holder.
func (want *truth) holds(r *why.Report, c *why.Cause, names symbolize.Names) bool {
	return slices.ContainsFunc(want.words, func(word string) bool {
		key, value, _ := strings.Cut(word, "=")
		return key == "holder" && slices.ContainsFunc(strings.Split(value, "|"), func(v string) bool { return matches(r, c, names, key, v) })
	})
}

// matches compares a cause with one word of the truth.
func matches(r *why.Report, c *why.Cause, names symbolize.Names, key, value string) bool {
	associated := func(has func(a *why.Association) bool) bool {
		return slices.ContainsFunc(c.Associations, func(a why.Association) bool { return has(&a) })
	}
	switch key {
	case "function":
		return short(names, c.Func) == value
	case "path":
		return slices.ContainsFunc(c.Paths, func(p why.CausePath) bool {
			var path []string
			for _, fn := range p.Path {
				path = append(path, short(names, fn))
			}
			return strings.Join(path, ">") == value
		})
	case "holder":
		return c.Holder != nil && short(names, c.Holder.Self) == value
	case "evidence": // for the holder
		return c.Holder != nil && c.Holder.Evidence.String() == value
	case "because": // another cause, which makes the holder slow
		return c.Holder != nil && c.Holder.Cause > 0 && short(names, r.Causes[c.Holder.Cause-1].Func) == value
	case "lock":
		return fmt.Sprintf("%#x", c.Lock) == value
	case "thread":
		return associated(func(a *why.Association) bool {
			return a.Kind == key && strconv.Itoa(int(a.Thread.Thread)) == value
		})
	case "spins":
		return c.Spins == (value == "yes")
	case "behind":
		return (c.Queue != nil) == (value == "yes")
	case "faults":
		return (c.Faulted >= 0.5) == (value == "yes")
	case "start":
		return associated(func(a *why.Association) bool { return a.Kind == key })
	case "in-time":
		return associated(func(a *why.Association) bool { return a.Kind == "period" || a.Kind == "bursts" })
	case "argument":
		return associated(func(a *why.Association) bool {
			return a.Kind == key && fmt.Sprintf("%s:%d", short(names, a.Func), a.Value) == value
		})
	case "event":
		return associated(func(a *why.Association) bool { return a.Kind == key && a.Text == value })
	}
	panic("a program says " + key)
}

// text returns the report as text.
func (r *planted) text(found *why.Report) string {
	return written(found, r.names, why.View{All: true}, report.Text)
}
