//go:build linux && amd64

package recorder_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/xray-tools/xray/internal/test/elftest"
	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/reader/calls"
	"github.com/xray-tools/xray/symbolize"
)

func buildFibers(t *testing.T, clang string, flags ...string) string {
	t.Helper()
	deps := clangs[strings.Replace(clang, "++", "", 1)]
	return elftest.Build(t, clang, "fibers", slices.Concat([]string{"-g", "-fxray-instrument", deps, "testdata/fibers.cc"}, flags, []string{"-pthread", "-ldl"})...)
}

// stacksOf collects the names of the calls of each thread and fiber.
type stacksOf struct {
	name    func(reader.FuncID) string
	threads map[reader.Thread]map[string]int64
}

func (s *stacksOf) Calls(b *calls.Batch) error {
	of := s.threads[b.Thread]
	if of == nil {
		of = make(map[string]int64)
		s.threads[b.Thread] = of
	}
	for _, c := range b.Calls {
		of[s.name(c.Func)]++
	}
	return nil
}

func (s *stacksOf) Merge(*stacksOf) { panic("one shard") }

// callsOfStacks returns a line for each stack of a trace with the calls on it, in the form and order of
// testdata/fibers.cc.
func callsOfStacks(t *testing.T, program, path string) ([]string, *calls.Stats) {
	t.Helper()
	trace, err := reader.Open(reader.Options{}, path)
	if err != nil {
		t.Fatal(err)
	}
	defer trace.Close()
	table, err := symbolize.Load(program, symbolize.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer table.Close()
	s, stats, err := calls.Run(trace, calls.Options{Shards: 1}, func() *stacksOf {
		return &stacksOf{func(id reader.FuncID) string { return symbolize.Label(table, id) }, make(map[reader.Thread]map[string]int64)}
	})
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for _, of := range s.threads {
		lines = append(lines, countsOf(of))
	}
	slices.Sort(lines)
	return lines, stats
}

func countsOf(of map[string]int64) string {
	var words []string
	for name, n := range of {
		words = append(words, fmt.Sprintf("%s %d", name, n))
	}
	slices.Sort(words)
	return strings.Join(words, ", ")
}

// printedStacks are the lines that the program printed.
func printedStacks(t *testing.T, out string) []string {
	t.Helper()
	var lines []string
	for line := range strings.Lines(out) {
		of := make(map[string]int64)
		words := strings.Fields(line)
		for i := 0; i+1 < len(words); i += 2 {
			of[words[i]] = counted(t, words[i]+" "+words[i+1])[words[i]]
		}
		lines = append(lines, countsOf(of))
	}
	slices.Sort(lines)
	return lines
}

// Each stack has the calls that the program counted on it, and each entry its exit, however the program switches.
func TestFibers(t *testing.T) {
	t.Parallel()
	l := library(t)
	for _, build := range [][]string{{"-O1", "clang++-22"}, {"-O0", "clang++-22"}, {"-O2", "clang++-14"}} {
		program := buildFibers(t, build[1], build[0])
		for _, way := range []string{"ucontext", "assembly", "jumps", "direct"} {
			for _, options := range []string{"mode=record", "mode=prune,threshold=1", "mode=record,offcpu=0"} {
				args := []string{way, "3", "5"}
				if options != "mode=record" {
					args = []string{way, "0", "40"} // the first thread, and more stacks than its table has at first
				}
				out, stderr, traces := recordProgram(t, &l, options+",fibers=1", program, args...)
				if stderr != "" || len(traces) != 1 {
					t.Fatalf("%v %v %s: %d traces, %s", build, args, options, len(traces), stderr)
				}
				got, stats := callsOfStacks(t, program, traces[0])
				if want := printedStacks(t, out); !slices.Equal(got, want) || len(want) < 16 {
					t.Errorf("%v %v %s: got calls\n%s\nwant\n%s", build, args, options, strings.Join(got, "\n"), strings.Join(want, "\n"))
				}
				if stats.Unmatched+stats.Inferred+stats.Truncated+stats.Stacks != 0 || stats.MaxDepth < 100 {
					t.Errorf("%v %v %s: got %+v", build, args, options, stats)
				}
			}
		}
	}
}

// Of rings, only the latest chunks are kept. They say which stack they begin on.
func TestFibersOfRings(t *testing.T) {
	t.Parallel()
	l := library(t)
	program := buildFibers(t, "clang++-22", "-O1")
	_, _, traces := recordProgram(t, &l, "mode=record,fibers=1,stream=0,ring=131072", program, "assembly", "0", "60")
	got, stats := callsOfStacks(t, program, traces[0])
	resumes := 0
	for _, line := range got {
		if strings.Contains(line, "resume") {
			resumes++
			if strings.Contains(line, "step") {
				t.Errorf("the thread's own stack has calls of a fiber: %s", line)
			}
		}
	}
	if resumes != 1 || len(got) < 5 || stats.Inferred != 0 {
		t.Errorf("got %d stacks, %+v", len(got), stats)
	}
}

// A program on whose stacks the recorder gets lost fails the tests above.
func TestFibersFindMixedStacks(t *testing.T) {
	t.Parallel()
	for _, e := range []edit{
		{"trampoline_amd64.S", "	cmpq	$XR_FIBER_NEAR, %rax\n	jae	5f\n", ""},
		{"fibers.c", "	note(at(f, to));\n}", "}"},
	} {
		archive := buildArchive(t, e)
		program := buildFibers(t, "clang++-22", linkedWith(archive)...)
		out, _, traces := recordProgram(t, nil, "mode=record,fibers=1", program, "direct", "0", "5")
		if got, _ := callsOfStacks(t, program, traces[0]); slices.Equal(got, printedStacks(t, out)) {
			t.Errorf("%s: the broken runtime passed", e.file)
		}
	}
}
