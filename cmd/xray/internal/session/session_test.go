package session

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/pflag"

	"github.com/xray-tools/xray/cmd/xray/internal/cli"
	"github.com/xray-tools/xray/internal/tracetext"
	"github.com/xray-tools/xray/internal/tracewrite"
	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/reader/calls"
)

// recorded is a trace of xray's recorder with calls of 1 and 2 at 1 GHz.
const recorded = "xray fdr frequency=1000000000 free=5852594d46445231\nthread 0 tsc=1000\n" +
	"metadata 1 `{\"pid\":700,\"recorder\":\"1\",\"mode\":\"record\",\"complete\":true}`\n" +
	"thread 701 pid=700 tsc=1000\nenter 1 +0\nenter 2 +1000\nexit 2 +3000\nexit 1 +1000\nenter 2 +5000\nexit 2 +500\n"

// open opens a trace with flags. It returns what is written to standard error, too.
func open(t *testing.T, inputs Inputs, trace []byte, args ...string) (*Session, *bytes.Buffer, error) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "trace.xray")
	if err := os.WriteFile(file, trace, 0o666); err != nil {
		t.Fatal(err)
	}
	flags := pflag.NewFlagSet("test", pflag.ContinueOnError)
	inputs.AddFlags(flags)
	if err := flags.Parse(args); err != nil {
		t.Fatal(err)
	}
	stderr := new(bytes.Buffer)
	s, err := inputs.Open(&cli.Streams{Stdout: cli.Text{Raw: io.Discard}, Stderr: cli.Text{Raw: stderr}}, "test", file)
	if err == nil {
		t.Cleanup(func() { s.Close() })
	}
	return s, stderr, err
}

func parse(t *testing.T, text string) []byte {
	t.Helper()
	trace, err := tracetext.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return trace
}

// sums is an analysis that takes everything.
type sums struct {
	durations []uint64
	left      map[reader.FuncID]uint64
}

func (s *sums) Calls(b *calls.Batch) error {
	for i := range b.Calls {
		s.durations = append(s.durations, b.Calls[i].Duration)
	}
	return nil
}

func (s *sums) Merge(o *sums) { s.durations = append(s.durations, o.durations...) }

func (s *sums) Unrecorded(_ reader.Thread, _ int, of *reader.BudgetFunction, fn reader.FuncID) {
	s.left[fn] += of.Counted + of.Estimated
}

// The estimates of a budget go to every analysis that takes them, in scope, if they are known and the scope
// selects by function alone.
func TestEstimates(t *testing.T) {
	t.Parallel()
	budget := reader.Budget{Share: 30_000, From: 1000, To: 9000, Functions: []reader.BudgetFunction{
		{Func: 1, Counted: 4}, {Func: 2, Estimated: 30, Error: 2}, {Func: 3},
	}}
	unknown := budget
	unknown.To = 0
	for _, c := range []struct {
		budget  reader.Budget
		args    []string
		limited bool
		left    map[reader.FuncID]uint64
	}{
		{budget, nil, true, map[reader.FuncID]uint64{1: 4, 2: 30}},
		{budget, []string{"--func", "#2$"}, true, map[reader.FuncID]uint64{2: 30}},
		{budget, []string{"--from", "1us"}, false, nil},
		{budget, []string{"--thread", "701"}, false, nil},
		{budget, []string{"--max-depth", "1"}, false, nil},
		{budget, []string{"--min-duration", "1ns"}, false, nil},
		{unknown, nil, false, nil},
	} {
		s, _, err := open(t, Inputs{Scope: ByCall}, tracewrite.AppendBudget(parse(t, recorded), &c.budget, 1000), c.args...)
		if err != nil {
			t.Fatal(err)
		}
		sink, run, err := Analyze(s, s.Scope, calls.Options{Shards: 1}, func() *sums { return &sums{left: map[reader.FuncID]uint64{}} })
		if err != nil {
			t.Fatal(err)
		}
		if c.left == nil {
			c.left = map[reader.FuncID]uint64{}
		}
		if diff := cmp.Diff(c.left, sink.left); diff != "" || run.Limited != c.limited {
			t.Errorf("%v, known until %d: limited %v\n%s", c.args, c.budget.To, run.Limited, diff)
		}
		said := strings.Join(s.Caveats(run), "\n")
		if known := c.budget.To > 0; strings.Contains(said, "did not record about 34 calls of 3 functions") != known || strings.Contains(said, "An unknown number of calls is missing") == known {
			t.Errorf("%v: caveats: %s", c.args, said)
		}
	}
}

// Flags choose calls, and times count from the start of the trace.
func TestScope(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		args      []string
		durations []uint64
		says      string
		fails     string
	}{
		{nil, []uint64{3000, 5000, 500}, "", ""},
		{[]string{"--func", "#2"}, []uint64{3000, 500}, "", ""},
		{[]string{"--func", "main"}, nil, `no function matches --func "main": without a map (-m), functions are named by number, like #18`, ""},
		{[]string{"--max-depth", "1"}, []uint64{5000, 500}, "", ""},
		{[]string{"--min-duration", "1us"}, []uint64{3000, 5000}, "", ""},
		{[]string{"--from", "6us"}, []uint64{500}, "", ""},
		{[]string{"--to", "6us"}, []uint64{3000, 5000}, "", ""},
		{[]string{"--last", "600ticks"}, []uint64{500}, "", ""},
		{[]string{"--around", "#1$#1"}, []uint64{3000, 5000}, "", ""},
		{[]string{"--around", "#2$#slowest:1"}, []uint64{3000, 3001}, "", ""},
		{[]string{"--thread", "702"}, nil, "no thread 702; the threads are 700/701", ""},
		{[]string{"--from", "1h"}, nil, "the trace has nothing at or after --from 1h", ""},
		{[]string{"--around", "#2$#3"}, nil, "", "there is no call 3: the trace has 2"},
		{[]string{"--around", "#2$#slowest:2"}, nil, "", "these calls are at 2 separate times, but test supports only one"},
		{[]string{"--from", "2us", "--to", "1us"}, nil, "", "--to must be later than --from"},
		{[]string{"--last", "1us", "--to", "1us"}, nil, "", "--last cannot be used with --from and --to"},
		{[]string{"--margin", "1us"}, nil, "", "--margin requires --around"},
		{[]string{"--thread", "x"}, nil, "", "is neither a thread ID nor PROCESS/THREAD"},
		{[]string{"--min-duration", "much"}, nil, "", `--min-duration: "much" is not a time`},
	} {
		s, stderr, err := open(t, Inputs{Scope: ByCall}, parse(t, recorded), c.args...)
		if c.fails != "" {
			if err == nil || !strings.Contains(err.Error(), c.fails) {
				t.Errorf("%v: got error %v, want %s", c.args, err, c.fails)
			}
			continue
		}
		if err != nil {
			t.Errorf("%v: %v", c.args, err)
			continue
		}
		sink, run, err := Analyze(s, s.Scope, calls.Options{Shards: 1}, func() *sums { return new(sums) })
		if err != nil {
			t.Fatal(err)
		}
		s.Summary(run.Stats)
		if diff := cmp.Diff(c.durations, sink.durations); diff != "" || !strings.Contains(stderr.String(), c.says) {
			t.Errorf("%v: %s\n%s", c.args, diff, stderr)
		}
	}
}

// With --strict, what is lost and exits without an entry are errors. Without it, the summary says so.
func TestStrict(t *testing.T) {
	t.Parallel()
	trace := parse(t, "xray fdr frequency=1000000000\nthread 7 pid=7 tsc=1000\nexit 5 +10\nenter 2 +10\nexit 2 +10\n")
	run := func(args ...string) (string, error) {
		s, stderr, err := open(t, Inputs{}, trace, args...)
		if err != nil {
			t.Fatal(err)
		}
		_, found, err := Analyze(s, s.Scope, calls.Options{}, calls.NewDiscard)
		if err == nil {
			s.Summary(found.Stats)
		}
		return stderr.String(), err
	}
	if _, err := run("--strict"); err == nil || !strings.HasSuffix(err.Error(), "thread 7/7: exit of #5 at 1010 ticks has no entry (1 in all)") {
		t.Errorf("got error %v", err)
	}
	if said, err := run(); err != nil || !strings.Contains(said, "1 exit without an entry; run xray info ") {
		t.Errorf("got %v, %q", err, said)
	}
}
