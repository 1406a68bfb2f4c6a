package stack

import (
	"bytes"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/xray-tools/xray/internal/test/testenv"
	"github.com/xray-tools/xray/reader"
)

const llvmXRay = "llvm-xray-22"

// llvm runs llvm-xray stack and returns its output.
func llvm(t *rapid.T, args ...string) string {
	out, err := exec.Command(llvmXRay, append([]string{"stack", "-k"}, args...)...).Output()
	if err != nil {
		t.Fatalf("%s stack %s: %v", llvmXRay, strings.Join(args, " "), err)
	}
	return string(out)
}

// llvmView draws options of llvm-xray stack.
func llvmView(t *rapid.T) (LLVMView, []string) {
	var v LLVMView
	var args []string
	switch rapid.IntRange(0, 2).Draw(t, "threads") {
	case 1:
		v.AggregateThreads, args = true, append(args, "--aggregate-threads")
	case 2:
		v.PerThreadStacks, args = true, append(args, "--per-thread-stacks")
	}
	return v, args
}

// randomEvents draws the events of one or more threads, one thread after another, because
// llvm-xray's result for a call without callees depends on the previous event of any thread. For
// aggregated threads there is only one, because llvm-xray crashes or mixes threads up when it
// merges them.
func randomEvents(t *rapid.T, v LLVMView) string {
	var b strings.Builder
	tsc := uint64(1000)
	threads := 1
	if !v.AggregateThreads {
		threads = rapid.IntRange(1, 3).Draw(t, "threads")
	}
	for thread := range threads {
		var stack []int
		for range rapid.IntRange(1, 40).Draw(t, "events") {
			tsc += rapid.Uint64Range(1, 5000).Draw(t, "ticks")
			kind, fn := "enter", 0
			if len(stack) == 0 || rapid.IntRange(0, 2).Draw(t, "enter") == 0 {
				fn = rapid.IntRange(1, 4).Draw(t, "function")
				stack = append(stack, fn)
			} else {
				// Some exits are missing, and some are of functions that were never
				// entered. The latter end all calls.
				at := max(0, len(stack)-1-max(0, rapid.IntRange(-8, 2).Draw(t, "missing")))
				kind, fn = "exit", stack[at]
				if rapid.IntRange(0, 19).Draw(t, "unmatched") == 0 {
					at, fn = 0, 99
				}
				stack = stack[:at]
			}
			fmt.Fprintf(&b, "  - { type: 0, func-id: %d, cpu: 1, thread: %d, kind: function-%s, tsc: %d }\n",
				fn, thread+1, kind, tsc)
		}
	}
	return b.String()
}

func TestLLVMHuman(t *testing.T) {
	testenv.Need(t, llvmXRay)
	rapid.Check(t, func(rt *rapid.T) {
		v, args := llvmView(rt)
		path := writeYAML(t, rapid.SampledFrom([]uint64{0, 2601000000}).Draw(rt, "frequency"), randomEvents(rt, v))
		want := llvm(rt, append(args, path)...)
		var got bytes.Buffer
		if err := run(t, path, v.Options()).WriteLLVM(&got, nil, v); err != nil {
			rt.Fatal(err)
		}
		if diff := cmp.Diff(stackSections(want), stackSections(got.String())); diff != "" {
			rt.Fatalf("%v (-llvm +ours):\n%s\n%s\n%s", args, diff, want, got.String())
		}
	})
}

// stackSections removes the order of hash tables from llvm-xray's output: of threads, and of stacks
// with equal weights. Lists of ten keep only their first weights, because llvm-xray cuts off other
// stacks of the last weight.
func stackSections(s string) map[string][]string {
	sections := make(map[string][]string)
	title, thread := "", ""
	for block := range strings.SplitSeq(s, "\n\n") {
		block = strings.Trim(block, "\n")
		if name, rest, ok := strings.Cut(block, ":\n"); ok && strings.HasPrefix(name, "Thread ") {
			thread, block = name, rest
		} else if strings.HasPrefix(block, "Thread ") {
			thread = strings.TrimSuffix(block, ":")
			continue
		}
		if strings.HasPrefix(block, "Unique") || strings.HasPrefix(block, "Top") {
			title = thread + block
			sections[title] = []string{}
			continue
		}
		if block != "" {
			sections[title] = append(sections[title], block)
		}
	}
	for title, stacks := range sections {
		if len(stacks) == llvmTop {
			last, _, _ := strings.Cut(stacks[llvmTop-1], "\n")
			for i := range stacks {
				if line, _, _ := strings.Cut(stacks[i], "\n"); line == last {
					stacks[i] = line
				}
			}
		}
		slices.Sort(stacks)
		sections[title] = stacks
	}
	return sections
}

// Flame stacks equal llvm-xray's, except that they have self times where llvm-xray includes
// callees.
func TestLLVMFlame(t *testing.T) {
	testenv.Need(t, llvmXRay)
	rapid.Check(t, func(rt *rapid.T) {
		v, args := llvmView(rt)
		path := writeYAML(t, 0, randomEvents(rt, v))
		v.AllStacks, v.Flame, v.AggregationType = true, true, Count
		want := llvm(rt, append(args, "--all-stacks", "--stack-format=flame", "--aggregation-type=count", path)...)
		var got bytes.Buffer
		if err := run(t, path, v.Options()).WriteLLVM(&got, nil, v); err != nil {
			rt.Fatal(err)
		}
		lines := func(s string) []string {
			all := strings.Split(strings.TrimSpace(strings.ReplaceAll(s, "; ", " ")), "\n")
			slices.Sort(all)
			return all
		}
		if diff := cmp.Diff(lines(want), lines(got.String())); diff != "" {
			rt.Fatalf("%v (-llvm +ours):\n%s", args, diff)
		}
	})
}

func TestWriteLLVM(t *testing.T) {
	long := strings.Repeat("n", 61)
	var got bytes.Buffer
	v := LLVMView{PerThreadStacks: true}
	r := collect(t, v.Options(), "1 +10 2 +5 . .", "3 +1 !").Report(reader.Clock{})
	if err := r.WriteLLVM(&got, names{1: "main", 2: long}, v); err != nil {
		t.Fatal(err)
	}
	rows := `lvl   function                                                            count              sum
#0    main                                                                    1               15
#1    ` + strings.Repeat("n", 57) + `...            1                5
`
	want := "Thread 1:\n\nUnique Stacks: 1\nTop 10 Stacks by leaf sum:\n\nSum: 5\n" + rows +
		"\n\nTop 10 Stacks by leaf count:\n\nCount: 1\n" + rows + "\n\n\n" +
		"Thread 2:\n\nUnique Stacks: 0\nTop 10 Stacks by leaf sum:\n\n\nTop 10 Stacks by leaf count:\n\n\n\n"
	if diff := cmp.Diff(want, got.String()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}

	got.Reset()
	v = LLVMView{AllStacks: true, Flame: true}
	r = collect(t, v.Options(), "1 +10 2 +5 . .", "3 +1 !").Report(reader.Clock{})
	if err := r.WriteLLVM(&got, names{1: "main", 2: "a;b"}, v); err != nil {
		t.Fatal(err)
	}
	want = "thread_1;main 10\nthread_1;main;a:b 5\nthread_2;#3 0\n"
	if diff := cmp.Diff(want, got.String()); diff != "" {
		t.Errorf("flame (-want +got):\n%s", diff)
	}
}

func TestLLVMErrors(t *testing.T) {
	r := New(Options{}).Report(reader.Clock{})
	for _, test := range []struct {
		view LLVMView
		want error
	}{
		{LLVMView{PerThreadStacks: true, AggregateThreads: true}, ErrThreadOptions},
		{LLVMView{AllStacks: true}, ErrNeedsFlame},
		{LLVMView{Flame: true}, ErrNeedsAll},
		{LLVMView{}, ErrNoCalls},
	} {
		if err := r.WriteLLVM(new(bytes.Buffer), nil, test.view); !errors.Is(err, test.want) {
			t.Errorf("%+v: got error %v, want %v", test.view, err, test.want)
		}
	}
}

// TestLLVMAcrossThreads checks that a stack's callers are those of the threads that have it, and
// that of stacks with equal weight the later function comes first.
func TestLLVMAcrossThreads(t *testing.T) {
	view := LLVMView{AggregateThreads: true}
	// Both threads call 2 from 1. Only the first calls 3 from 1. 4 has the same weight.
	r := collect(t, view.Options(), "1 2 +10 . +1 3 +5 . .", "1 2 +20 . +2 . 4 +5 .").Report(reader.Clock{})
	var b strings.Builder
	if err := r.WriteLLVM(&b, nil, view); err != nil {
		t.Fatal(err)
	}
	var got []string
	for line := range strings.Lines(b.String()) {
		got = append(got, strings.Join(strings.Fields(line), " "))
	}
	bySum, _, _ := strings.Cut(strings.Join(got, "\n"), "Top 10 Stacks by leaf count")
	want := `
Unique Stacks: 3
Top 10 Stacks by leaf sum:

Sum: 30
lvl function count sum
#0 #1 2 38
#1 #2 2 30

Sum: 5
lvl function count sum
#0 #4 1 5

Sum: 5
lvl function count sum
#0 #1 1 16
#1 #3 1 5

`
	if diff := cmp.Diff(strings.TrimSpace(want), strings.TrimSpace(bySum)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
