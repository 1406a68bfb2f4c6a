// Bench compares bin/xray with llvm-xray: wall time, CPU time and peak memory of whole processes,
// on traces that it generates. It prints Markdown.
//
//	go run ./internal/test/bench                  1 M and 10 M records
//	BENCH=full go run ./internal/test/bench       50 M records as well
//	go run ./internal/test/bench -run account -records 1000000,200000000 -peer ""
//
// The programs take turns, so a machine that gets busier slows all of them alike, and each figure
// is the median of several runs. It does not measure the disk: traces have just been written and
// come from memory, and outputs are discarded. On a busy machine, CPU time is more meaningful than
// wall time: there are rates and ratios of both. Bytes are those of the output per record, and a
// call has two records. Peak memory is at least what this program itself needs (8 MB), because
// child processes inherit it in Linux.
package main

import (
	"bytes"
	"cmp"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"github.com/xray-tools/xray/internal/test/tracegen"
)

func main() {
	if err := run(os.Args[1:], os.Stdout, os.Stderr); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return
		}
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// job is a task for both programs on one input.
type job struct {
	name, format string
	records      int64 // of the trace; functions for extract
	unit         string
	outputs      bool     // its output grows with the trace and is measured, too
	ours, theirs []string // theirs is nil if the peer cannot do this
}

// program is one column of the comparison.
type program struct {
	name  string
	path  string
	procs int // GOMAXPROCS; 0 for the peer
}

func run(args []string, stdout, stderr io.Writer) error {
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.SetOutput(stderr)
	ours := flags.String("xray", "bin/xray", "our program")
	peer := flags.String("peer", "llvm-xray-22", "the program to compare with; none when empty")
	sizes := flags.String("records", "", "records of the traces, separated by commas")
	repeat := flags.Int("n", 3, "runs of each, of which the median counts")
	only := flags.String("run", "", "only jobs with names that match this expression")
	functions := flags.Int("functions", 24500, "functions of the program for extract; 0 leaves it out")
	dir := flags.String("dir", "", "where to put traces; a temporary folder when empty")
	if err := flags.Parse(args); err != nil {
		return err
	}
	records, err := parseSizes(*sizes)
	if err != nil {
		return err
	}
	match, err := regexp.Compile(*only)
	if err != nil {
		return fmt.Errorf("-run: %w", err)
	}
	if *repeat < 1 {
		return errors.New("-n: at least one run is needed")
	}

	path, err := filepath.Abs(*ours)
	if err != nil {
		return err
	}
	if _, err := os.Stat(path); err != nil {
		return fmt.Errorf("our program: %w: run make build", err)
	}
	programs := []program{{"xray, 1 core", path, 1}}
	if n := runtime.NumCPU(); n > 1 {
		programs = append(programs, program{fmt.Sprintf("xray, %d cores", n), path, n})
	}
	if *peer != "" {
		path, err := exec.LookPath(*peer)
		if err != nil {
			fmt.Fprintf(stderr, "bench: %v: measuring our program alone\n", err)
		} else {
			programs = append(programs, program{name: filepath.Base(path), path: path})
		}
	}
	if *dir == "" {
		if *dir, err = os.MkdirTemp("", "xray-bench-"); err != nil {
			return err
		}
		defer os.RemoveAll(*dir)
	}

	fmt.Fprintf(stdout, "%s/%s, %d cores, %s, medians of %d runs\n\n", runtime.GOOS, runtime.GOARCH, runtime.NumCPU(), runtime.Version(), *repeat)
	fmt.Fprintln(stdout, "| job | input | size | program | wall s | CPU s | peak MB | M/s | M/CPU s | × wall | × CPU | bytes out |")
	fmt.Fprintln(stdout, "|---|---|--:|---|--:|--:|--:|--:|--:|--:|--:|--:|")
	instrMap := filepath.Join(*dir, "map.yaml")
	if err := create(instrMap, func(w io.Writer) error { return tracegen.WriteMap(w, 0) }); err != nil {
		return err
	}
	var failed error // the first failure of our program
	for _, n := range records {
		for _, in := range inputs {
			trace := filepath.Join(*dir, fmt.Sprintf("%s-%d.xray", in.name, n))
			jobs := slices.DeleteFunc(traceJobs(trace, instrMap, in, n), func(j job) bool {
				return !match.MatchString(j.name)
			})
			if len(jobs) == 0 {
				continue
			}
			if err := create(trace, func(w io.Writer) error {
				_, err := tracegen.Generate(w, tracegen.Options{Format: in.format, Seed: 1, Records: n, Spread: in.spread})
				return err
			}); err != nil {
				return err
			}
			for _, j := range jobs {
				failed = cmp.Or(failed, measureJob(stdout, j, programs, *repeat))
			}
			if err := os.Remove(trace); err != nil {
				return err
			}
		}
	}
	if *functions == 0 || !match.MatchString("extract") {
		return failed
	}
	binary, err := compile(*dir, *functions)
	if err != nil {
		fmt.Fprintf(stderr, "bench: extract is left out: %v\n", err)
		return failed
	}
	return cmp.Or(failed, measureJob(stdout, job{
		name: "extract", format: "elf", records: int64(*functions), unit: "functions",
		ours: []string{"extract", "-s", binary}, theirs: []string{"extract", "-s", binary},
	}, programs, *repeat))
}

func parseSizes(s string) ([]int64, error) {
	if s == "" {
		sizes := []int64{1e6, 1e7}
		if os.Getenv("BENCH") == "full" {
			sizes = append(sizes, 5e7)
		}
		return sizes, nil
	}
	var sizes []int64
	for f := range strings.SplitSeq(s, ",") {
		n, err := strconv.ParseInt(f, 10, 64)
		if err != nil || n <= 0 {
			return nil, fmt.Errorf("-records: %q is not a positive number", f)
		}
		sizes = append(sizes, n)
	}
	return sizes, nil
}

// input is a kind of trace.
type input struct {
	name   string
	format tracegen.Format
	spread bool // durations spread over six decades
}

var inputs = []input{
	{"fdr", tracegen.FDR, false},
	{"basic", tracegen.Basic, false},
	{"fdr, spread", tracegen.FDR, true},
	{"basic, spread", tracegen.Basic, true},
}

// traceJobs lists the jobs for a trace. For basic logs and spread durations, it has only jobs that
// read them differently.
func traceJobs(trace, instrMap string, in input, records int64) []job {
	add := func(name string, ours, theirs []string) job {
		j := job{name: name, format: in.name, records: records, unit: "records", ours: append(ours, trace)}
		if theirs != nil {
			j.theirs = append(theirs, trace)
		}
		return j
	}
	write := func(name string, ours, theirs []string) job {
		j := add(name, ours, theirs)
		j.outputs = true
		return j
	}
	convert := func(format string, theirs []string) job {
		return write("convert "+format, []string{"convert", "-f", format, "-m", instrMap}, theirs)
	}
	account := add("account", []string{"account", "-m", instrMap}, []string{"account", "-m", instrMap})
	if in.format == tracegen.Basic || in.spread {
		return []job{account}
	}
	return []job{
		account,
		add("stack", []string{"stack", "--format", "folded", "-m", instrMap},
			[]string{"stack", "-m", instrMap, "--all-stacks", "--stack-format=flame", "--aggregation-type=time"}),
		add("graph", []string{"graph", "-m", instrMap, "-e", "sum"}, []string{"graph", "-m", instrMap, "-e", "sum"}),
		write("convert raw", []string{"convert", "-f", "raw"}, []string{"convert", "-f", "raw"}),
		write("convert yaml", []string{"convert", "-f", "yaml"}, []string{"convert", "-f", "yaml"}),
		convert("chrome", []string{"convert", "-f", "trace_event", "-y", "-m", instrMap}),
		convert("perfetto", nil),
		convert("viztracer", nil),
		convert("speedscope", nil),
		convert("firefox", nil),
		convert("pprof", nil),
		convert("callgrind", nil),
		convert("folded", nil),
		convert("csv", nil),
		convert("json", nil),
		write("html", []string{"html", "--max-calls", strconv.FormatInt(records, 10), "-m", instrMap}, nil),
	}
}

// measureJob runs the programs in turn and prints a row for each. It returns an error if our
// program failed. A failure of the peer is only in its row.
func measureJob(out io.Writer, j job, programs []program, repeat int) error {
	costs := make([][]cost, len(programs))
	failures := make([]error, len(programs))
	argv := func(p program) []string {
		if p.procs == 0 {
			return j.theirs
		}
		return j.ours
	}
	for range repeat {
		for i, p := range programs {
			if argv(p) == nil || failures[i] != nil {
				continue
			}
			c, err := measure(p, argv(p))
			if err != nil {
				failures[i] = err
				continue
			}
			costs[i] = append(costs[i], c)
		}
	}
	sizes := make([]string, len(programs))
	for i, p := range programs {
		if j.outputs && argv(p) != nil && failures[i] == nil {
			var n int64
			n, failures[i] = outputSize(p, argv(p))
			sizes[i] = fmt.Sprintf("%.1f", float64(n)/float64(j.records))
		}
	}
	var peerWall, peerCPU float64
	for i, p := range programs {
		if p.procs == 0 && failures[i] == nil && len(costs[i]) > 0 {
			peerWall, peerCPU = median(costs[i], cost.wallSeconds), median(costs[i], cost.cpuSeconds)
		}
	}
	var failed error
	for i, p := range programs {
		if argv(p) == nil {
			continue
		}
		if failures[i] != nil && p.procs > 0 {
			failed = fmt.Errorf("%s: %w", j.name, failures[i])
		}
		fmt.Fprintf(out, "| %s | %s | %s | %s | ", j.name, j.format, grouped(j.records)+" "+j.unit, p.name)
		if failures[i] != nil {
			fmt.Fprintf(out, "%s ||||||||\n", strings.ReplaceAll(failures[i].Error(), "|", "/"))
			continue
		}
		wall, cpu := median(costs[i], cost.wallSeconds), median(costs[i], cost.cpuSeconds)
		ratios := " | "
		if p.procs > 0 && peerWall > 0 {
			ratios = fmt.Sprintf("%.1f | %.1f", peerWall/wall, peerCPU/cpu)
		}
		millions := float64(j.records) / 1e6
		fmt.Fprintf(out, "%.3f | %.3f | %.0f | %.2f | %.2f | %s | %s |\n", wall, cpu,
			median(costs[i], cost.peakMB), millions/wall, millions/cpu, ratios, sizes[i])
	}
	return failed
}

// median returns the middle of one figure of several runs.
func median(costs []cost, figure func(cost) float64) float64 {
	values := make([]float64, len(costs))
	for i, c := range costs {
		values[i] = figure(c)
	}
	slices.SortFunc(values, cmp.Compare)
	return (values[(len(values)-1)/2] + values[len(values)/2]) / 2
}

// grouped writes a number with a space between thousands.
func grouped(n int64) string {
	s := strconv.FormatInt(n, 10)
	var b bytes.Buffer
	for i, c := range s {
		if i > 0 && (len(s)-i)%3 == 0 {
			b.WriteByte(' ')
		}
		b.WriteRune(c)
	}
	return b.String()
}

func create(name string, write func(io.Writer) error) error {
	f, err := os.Create(name)
	if err != nil {
		return err
	}
	if err := write(f); err != nil {
		_ = f.Close() // the first error counts
		return err
	}
	return f.Close()
}
