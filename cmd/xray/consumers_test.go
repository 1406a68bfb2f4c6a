package main

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"iter"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/xray-tools/xray/internal/test/testenv"
)

// The tests in this file feed our output formats to the programs that read them.

// produce runs the program and returns what it prints.
func produce(t *testing.T, args ...string) string {
	t.Helper()
	o := runHere(append([]string{"xray"}, args...)...)
	if o.status != exitOK {
		t.Fatalf("xray %s: %v", strings.Join(args, " "), o)
	}
	return o.stdout
}

// consumedTraces returns the recorded traces by name, each with the options for reading it.
func consumedTraces(t *testing.T) map[string][]string {
	t.Helper()
	dir := filepath.Join("..", "..", "testdata")
	found, err := filepath.Glob(filepath.Join(dir, "*.xray"))
	if err != nil || len(found) == 0 {
		t.Fatalf("no traces in %s: %v", dir, err)
	}
	traces := map[string][]string{}
	for _, path := range found {
		name := filepath.Base(path)
		if strings.HasSuffix(name, "-profiling.xray") {
			continue // sums without single calls, of a clock without a rate
		}
		traces[name] = []string{path}
		if strings.HasPrefix(name, "kvserver") {
			traces[name] = []string{"-m", filepath.Join(dir, "kvserver"), path}
		}
	}
	return traces
}

// sums are the calls of a function and their total and self times in nanoseconds. For a recursive
// function, Total counts only outermost calls.
type sums struct{ Count, Self, Total int64 }

// accounted returns the sums that account prints, by function.
func accounted(t *testing.T, args ...string) map[string]sums {
	t.Helper()
	var report struct {
		Functions []struct {
			Function    string
			Count, Open int64
			Self        int64 `json:"self_ns"`
			Total       int64 `json:"total_ns"`
		}
	}
	text := produce(t, append([]string{"account", "--format", "json"}, args...)...)
	if err := json.Unmarshal([]byte(text), &report); err != nil {
		t.Fatalf("%v in %.300s", err, text)
	}
	all := map[string]sums{}
	for _, row := range report.Functions {
		s := all[row.Function]
		all[row.Function] = sums{s.Count + row.Count + row.Open, s.Self + row.Self, s.Total + row.Total}
	}
	return all
}

// agree compares the sums of a consumer with those of account. Times may differ by slack
// nanoseconds per call.
func agree(t *testing.T, got, want map[string]sums, slack int64) {
	t.Helper()
	if len(want) == 0 {
		t.Fatal("account has no calls")
	}
	for function, w := range want {
		g, ok := got[function]
		most := slack * w.Count
		if !ok || g.Count != w.Count || max(g.Self-w.Self, w.Self-g.Self) > most || max(g.Total-w.Total, w.Total-g.Total) > most {
			t.Errorf("%s: got %+v, want %+v as in account", function, g, w)
		}
	}
	for function, g := range got {
		if _, ok := want[function]; !ok {
			t.Errorf("%s: got %+v, but account lacks the function", function, g)
		}
	}
}

// sumsOfCalls returns the number of calls and their total time in nanoseconds, by function.
func sumsOfCalls(t *testing.T, args ...string) map[string][2]int64 {
	t.Helper()
	rows, err := csv.NewReader(strings.NewReader(produce(t, append([]string{"convert", "-f", "csv"}, args...)...))).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	function, duration := slices.Index(rows[0], "function"), slices.Index(rows[0], "duration_ns")
	sums := map[string][2]int64{}
	for _, row := range rows[1:] {
		ns, err := strconv.ParseInt(row[duration], 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		s := sums[row[function]]
		sums[row[function]] = [2]int64{s[0] + 1, s[1] + ns}
	}
	return sums
}

func TestGraphsInGraphviz(t *testing.T) {
	t.Parallel()
	testenv.Need(t, "dot")
	kvserver := filepath.Join("..", "..", "testdata", "kvserver-fdr.xray")
	for name, args := range consumedTraces(t) {
		for _, command := range [][]string{
			{"graph"},
			{"graph", "-e", "count,p99", "-v", "self,max", "-c", "p99", "-b", "count"},
			{"graph-diff", kvserver},
		} {
			dot := exec.Command("dot", "-Tsvg")
			dot.Stdin = strings.NewReader(produce(t, append(command, args...)...))
			var svg, errs bytes.Buffer
			dot.Stdout, dot.Stderr = &svg, &errs
			if err := dot.Run(); err != nil || errs.Len() > 0 || !strings.Contains(svg.String(), "<svg") {
				t.Errorf("%s %v: dot: %v\n%.1000s", name, command, err, errs.String())
			}
		}
	}
}

// pprofTop returns the flat and cumulative values that go tool pprof prints, by function.
func pprofTop(t *testing.T, pprof, sample, file string) map[string][2]int64 {
	t.Helper()
	text, err := exec.Command(pprof, "-top", "-unit=ns", "-nodecount=100000", "-nodefraction=0", "-sample_index="+sample, file).CombinedOutput()
	if err != nil || !strings.Contains(string(text), "Type: "+sample) {
		t.Fatalf("go tool pprof: %v\n%.1000s", err, text)
	}
	values := map[string][2]int64{}
	for _, m := range regexp.MustCompile(`(?m)^ *(\d+)(?:ns)? +[\d.]+% +[\d.]+% +(\d+)(?:ns)? +[\d.]+% +(.*)$`).FindAllStringSubmatch(string(text), -1) {
		values[m[3]] = [2]int64{number(t, m[1]), number(t, m[2])}
	}
	return values
}

// number parses a number with or without thousands separators.
func number(t *testing.T, text string) int64 {
	t.Helper()
	n, err := strconv.ParseInt(strings.ReplaceAll(text, ",", ""), 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func TestProfilesInPprof(t *testing.T) {
	testenv.Need(t, "go")
	// Ask for pprof's path once: the go command takes longer than pprof.
	where, err := exec.Command("go", "tool", "-n", "pprof").Output()
	if err != nil {
		t.Fatal(err)
	}
	pprof := strings.TrimSpace(string(where))
	for name, args := range consumedTraces(t) {
		file := filepath.Join(t.TempDir(), "profile.pb.gz")
		produce(t, append([]string{"convert", "-f", "pprof", "-o", file}, args...)...)
		got := map[string]sums{}
		for function, calls := range pprofTop(t, pprof, "calls", file) {
			got[function] = sums{Count: calls[0]}
		}
		for function, times := range pprofTop(t, pprof, "self", file) {
			got[function] = sums{got[function].Count, times[0], times[1]}
		}
		want := accounted(t, args...)
		if len(got) == 0 && strings.HasPrefix(name, "header-only") {
			continue
		}
		t.Run(name, func(t *testing.T) { agree(t, got, want, 1) })
	}
	// pprof can subtract profiles: a profile minus itself is empty.
	var files []string
	for _, name := range []string{"kvserver-fdr.xray", "kvserver-basic.xray"} {
		file := filepath.Join(t.TempDir(), "profile.pb.gz")
		produce(t, append([]string{"convert", "-f", "pprof", "-o", file}, consumedTraces(t)[name]...)...)
		files = append(files, file)
	}
	for i, want := range []string{"0, 0% of", "kv::"} {
		text, err := exec.Command(pprof, "-top", "-diff_base", files[0], files[i]).CombinedOutput()
		if err != nil || !strings.Contains(string(text), want) || strings.Contains(string(text), "kv::") != (i == 1) {
			t.Errorf("go tool pprof -diff_base: %v; want %q in\n%.1000s", err, want, text)
		}
	}
}

// callgrind_annotate prints the same times as account, and the callers' call counts add up to each
// function's.
func TestProfilesInCallgrindAnnotate(t *testing.T) {
	testenv.Need(t, "callgrind_annotate")
	file := filepath.Join(t.TempDir(), "callgrind.out")
	args := consumedTraces(t)["kvserver-fdr.xray"]
	produce(t, append([]string{"convert", "-f", "callgrind", "-o", file}, args...)...)
	annotate := func(option, line string) (matches [][]string) {
		text, err := exec.Command("callgrind_annotate", "--threshold=100", "--auto=no", option, file).CombinedOutput()
		if err != nil {
			t.Fatalf("callgrind_annotate: %v\n%s", err, text)
		}
		return regexp.MustCompile(line).FindAllStringSubmatch(string(text), -1)
	}
	const function = `(?m)^ *([\d,]+) \([ \d.]+%\)  \S+?:(.*) \[.*\]$`
	got := map[string]sums{}
	for _, m := range annotate("--inclusive=no", function) {
		got[m[2]] = sums{Self: number(t, m[1])}
	}
	for _, m := range annotate("--inclusive=yes", function) {
		got[m[2]] = sums{Self: got[m[2]].Self, Total: number(t, m[1])}
	}
	for _, m := range annotate("--tree=calling", `(?m)^ *[\d,]+ \([ \d.]+%\)  >   \S+?:(.*) \(([\d,]+)x\) \[.*\]$`) {
		s := got[m[1]]
		s.Count += number(t, m[2])
		got[m[1]] = s
	}
	want := accounted(t, args...)
	leaveOut(t, want, func(c calledOnce) bool { return c.Depth == 0 }, args...) // it has no callers
	// A recursive call is not a call from another function.
	got[recursive] = sums{want[recursive].Count, got[recursive].Self, got[recursive].Total}
	agree(t, got, want, 0)
}

// recursive is the function of kvserver that calls itself.
const recursive = "kv::sumNested(char const*&, int)"

// Tables of calls have the same calls and times as account.
func TestTablesOfCalls(t *testing.T) {
	args := consumedTraces(t)["kvserver-fdr.xray"]
	want := accounted(t, args...)
	delete(want, recursive) // tables do not say which calls of a recursive function are outermost
	t.Run("csv", func(t *testing.T) {
		got := map[string]sums{}
		rows, err := csv.NewReader(strings.NewReader(produce(t, append([]string{"convert", "-f", "csv"}, args...)...))).ReadAll()
		if err != nil {
			t.Fatal(err)
		}
		column := map[string]int{}
		for i, name := range rows[0] {
			column[name] = i
		}
		for _, row := range rows[1:] {
			s := got[row[column["function"]]]
			got[row[column["function"]]] = sums{s.Count + 1, s.Self + number(t, row[column["self_ns"]]), s.Total + number(t, row[column["duration_ns"]])}
		}
		delete(got, recursive)
		agree(t, got, want, 0)
	})
	t.Run("json", func(t *testing.T) {
		got := map[string]sums{}
		for c := range callsOf(t, args...) {
			s := got[c.Function]
			got[c.Function] = sums{s.Count + 1, s.Self + c.Self, s.Total + c.Duration}
		}
		delete(got, recursive)
		agree(t, got, want, 0)
	})
}

// calledOnce is a call, as convert -f json writes it.
type calledOnce struct {
	Function string
	Depth    int
	Self     int64 `json:"self_ns"`
	Duration int64 `json:"duration_ns"`
}

// callsOf returns all calls of a trace.
func callsOf(t *testing.T, args ...string) iter.Seq[calledOnce] {
	t.Helper()
	lines := produce(t, append([]string{"convert", "-f", "json"}, args...)...)
	return func(yield func(calledOnce) bool) {
		for line := range strings.Lines(lines) {
			var c calledOnce
			if err := json.Unmarshal([]byte(line), &c); err != nil {
				t.Fatal(err)
			}
			if !yield(c) {
				return
			}
		}
	}
}

// leaveOut subtracts the calls of one kind from the counts of sums.
func leaveOut(t *testing.T, all map[string]sums, kind func(calledOnce) bool, args ...string) {
	t.Helper()
	for c := range callsOf(t, args...) {
		if kind(c) {
			s := all[c.Function]
			s.Count--
			all[c.Function] = s
		}
	}
}
