//go:build linux && amd64

// Benchrecorder measures the cost of calls under the recorder in each of its modes, and compares it
// with the minimum for any recorder and with compiler-rt's recorders. It prints Markdown.
//
//	go run ./internal/test/benchrecorder
//	go run ./internal/test/benchrecorder -clang clang-22 -n 21 -check
//
// Run it at the root of the project. It compiles its workloads: a loop of calls of an empty
// function, and a program that parses, sorts and looks things up. Runs are short, and modes and
// programs take turns, so a machine that gets busier slows all of them alike. It measures the CPU
// time of the thread. Each figure is the median of all runs.
package main

import (
	"bytes"
	"context"
	"embed"
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"github.com/xray-tools/xray/recorder"
	"github.com/xray-tools/xray/recorder/build"
	"github.com/xray-tools/xray/recorder/observe"
)

func main() {
	if err := run(os.Args[1:], os.Stdout); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return
		}
		fmt.Fprintln(os.Stderr, "benchrecorder:", err)
		os.Exit(1)
	}
}

//go:embed programs
var programs embed.FS

// bench has what the measurements need: paths, and how often to run.
type bench struct {
	dir    string // of sources and builds
	runs   int    // of each mode in one process
	rounds int    // processes of each program
	lib    build.Library
}

// workload is a program that runs in all modes.
type workload struct {
	name, source string
	flags        []string
	perCall      bool // figures are ns per call; else CPU time relative to unpatched
	switches     bool // in each call, the thread is switched out
	events       bool // there are two events around each call
}

var workloads = []workload{
	{"a call of an empty function, ns", "loop.cc", []string{"-fxray-instruction-threshold=1"}, true, false, false},
	{"a part of a request, with a call in it, ns", "request.cc", []string{"-fxray-instruction-threshold=1"}, true, false, true},
	{"a call that waits for another thread, ns", "switch.cc", []string{"-fxray-instruction-threshold=1", "-pthread"}, true, true, false},
	{"a program, instrumented by default", "program.cc", nil, false, false, false},
	{"a program, all functions instrumented", "program.cc", []string{"-fxray-instruction-threshold=1"}, false, false, false},
}

// samples are measurements in ns by name.
type samples map[string][]float64

func (s samples) median(name string) float64 {
	values := slices.Sorted(slices.Values(s[name]))
	if len(values) == 0 {
		return math.NaN()
	}
	return values[len(values)/2]
}

func run(args []string, stdout io.Writer) error {
	flags := flag.NewFlagSet("benchrecorder", flag.ContinueOnError)
	clangs := flags.String("clang", "clang-14,clang-19,clang-22", "compilers of the programs")
	runs := flags.Int("n", 21, "runs of each mode in a process")
	rounds := flags.Int("rounds", 5, "processes of each program")
	check := flags.Bool("check", false, "fail when the recorder costs more than it may")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if *runs < 1 || *rounds < 1 {
		return errors.New("-n and -rounds: at least one run is needed")
	}
	dir, err := os.MkdirTemp("", "xray-benchrecorder-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	if err := os.CopyFS(dir, programs); err != nil {
		return err
	}
	lib, err := build.Runtime(context.Background(), "")
	if err != nil {
		return err
	}
	b := &bench{dir, *runs, *rounds, lib}
	names := strings.Split(*clangs, ",")
	fmt.Fprintf(stdout, "%d cores; medians of %d runs\n", runtime.NumCPU(), *runs**rounds)
	var missed error
	for _, w := range workloads {
		var columns []samples
		for _, clang := range names {
			s, err := b.measure(clang, w)
			if err != nil {
				return err
			}
			columns = append(columns, s)
		}
		printTable(stdout, w, names, columns)
		for i, s := range columns {
			missed = errors.Join(missed, judge(names[i], w, s))
		}
	}
	if *check {
		return missed
	}
	return nil
}

// build compiles the workload with one clang: alone, instrumented without a recorder, with our
// recorder, and with compiler-rt's.
func (b *bench) build(clang string, w workload) error {
	source := func(name string) string { return filepath.Join(b.dir, "programs", name) }
	headers, err := filepath.Abs(filepath.Join("recorder", "runtime"))
	if err != nil {
		return err
	}
	common := slices.Concat([]string{"-O2", "-Wall", "-Wno-unused-command-line-argument", "-I", source(""), "-isystem", headers}, w.flags)
	cxx := strings.Replace(clang, "clang", "clang++", 1)
	noStock, err := build.XRayFlags(context.Background(), clang, b.lib)
	if err != nil {
		return err
	}
	ours := slices.Concat(common, []string{"-fxray-instrument"})
	commands := [][]string{
		slices.Concat([]string{cxx}, common, []string{"-o", "plain", source(w.source), source("stock.cc")}),
		slices.Concat([]string{cxx, "-DSTOCK", "-fxray-modes=xray-fdr,xray-basic,xray-profiling"}, ours,
			[]string{"-o", "stock", source(w.source), source("stock.cc")}),
		slices.Concat([]string{clang, "-c", "-I", filepath.Join("recorder", "runtime")}, ours,
			[]string{"-o", filepath.Join(b.dir, "ours.o"), source("ours.c")}),
		slices.Concat([]string{cxx}, ours, []string{"-o", "ours", source(w.source), "ours.o"}, noStock.Link),
	}
	for i, argv := range commands {
		cmd := exec.Command(argv[0], argv[1:]...)
		if i != 2 { // for the runtime's header
			cmd.Dir = b.dir
		}
		if said, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("%s: %w\n%s", strings.Join(argv, " "), err, said)
		}
	}
	return nil
}

// stockModes are compiler-rt's recorders, with their options, and whether they find the frequency
// of the TSC.
var stockModes = []struct {
	name, mode, options string
	tsc                 bool
}{
	{"compiler-rt FDR, clock emulated", "xray-fdr", "func_duration_threshold_us=0", false},
	{"compiler-rt FDR, TSC", "xray-fdr", "func_duration_threshold_us=0", true},
	{"compiler-rt FDR, TSC, 5 µs", "xray-fdr", "func_duration_threshold_us=5", true},
	{"compiler-rt basic", "xray-basic", "func_duration_threshold_us=0", false},
	{"compiler-rt profiling", "xray-profiling", "", false},
}

// measure runs all variants of a workload in turn.
func (b *bench) measure(clang string, w workload) (samples, error) {
	if err := b.build(clang, w); err != nil {
		return nil, err
	}
	all := samples{}
	for range b.rounds {
		for _, ring := range []string{"262144", "1048576"} {
			s, err := b.ours(ring)
			if err != nil {
				return nil, err
			}
			for name, values := range s {
				if name == "record" && ring == "1048576" {
					name = "record, 1 MB"
				}
				all[name] = append(all[name], values...)
			}
			if ring == "262144" {
				without, err := b.run("start=0,offcpu=0,ring=" + ring)
				if err != nil {
					return nil, err
				}
				all["no switches"] = append(all["no switches"], without["record"]...)
				for i, v := range s["record"] {
					all["ratio"] = append(all["ratio"], v/s["floor"][i])
				}
			}
		}
		observed, err := b.observed()
		if err != nil {
			return nil, err
		}
		all["observed"] = append(all["observed"], observed...)
		values, err := b.stock("plain", "none", "", 0)
		if err != nil {
			return nil, err
		}
		all["plain"] = append(all["plain"], values...)
		for _, m := range stockModes {
			hz := 0.0
			if m.tsc {
				hz = all.median("hz")
			}
			values, err := b.stock("stock", m.mode, m.options, hz)
			if err != nil {
				return nil, err
			}
			all[m.name] = append(all[m.name], values...)
		}
	}
	return all, nil
}

// observed runs the program as `xray record` does, and returns the cost of recording if another
// process writes the trace.
func (b *bench) observed() ([]float64, error) {
	options := observe.Options{Session: 1 + rand.Uint64N(1<<53-1), Key: observe.NewKey(), Output: recorder.EscapeTemplate(filepath.Join(b.dir, "observed")) + ".%p"}
	observer, err := observe.Listen(options)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- observer.Run(ctx) }()
	s, err := b.run(fmt.Sprintf("start=1,observer=%s,session=%d", options.Address(), options.Session))
	for _, t := range observer.Settle().Traces {
		err = errors.Join(err, os.Remove(t.Path))
	}
	cancel()
	return s["record"], errors.Join(err, <-ended)
}

// ours runs the program with our recorder and a ring of this size.
func (b *bench) ours(ring string) (samples, error) { return b.run("start=0,ring=" + ring) }

// run runs the program with these options of the recorder.
func (b *bench) run(options string) (samples, error) {
	cmd := exec.Command(filepath.Join(b.dir, "ours"), strconv.Itoa(b.runs), filepath.Join(b.dir, "stream.xray"))
	cmd.Env = append(os.Environ(), recorder.EnvVar+"="+options)
	out, err := output(cmd)
	if err != nil {
		return nil, err
	}
	s := samples{}
	for line := range strings.Lines(string(out)) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		v, err := strconv.ParseFloat(value, 64)
		if err != nil {
			return nil, fmt.Errorf("%s says %q", cmd, line)
		}
		s[name] = append(s[name], v)
	}
	return s, nil
}

// stock runs a program with one of compiler-rt's recorders or none. hz is the frequency of the TSC
// that the recorder finds, or 0 if it finds none.
func (b *bench) stock(program, mode, options string, hz float64) ([]float64, error) {
	logs, err := os.MkdirTemp(b.dir, "logs")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(logs)
	cmd := exec.Command(filepath.Join(b.dir, program), strconv.Itoa(b.runs), mode, options)
	cmd.Env = append(os.Environ(), "XRAY_OPTIONS=xray_logfile_base="+filepath.Join(logs, "log."))
	if hz != 0 {
		cmd.Env = append(cmd.Env, fmt.Sprintf("TSC_KHZ=%.0f", hz/1000))
	}
	out, err := output(cmd)
	if err != nil {
		return nil, err
	}
	var values []float64
	for f := range strings.FieldsSeq(string(out)) {
		v, err := strconv.ParseFloat(f, 64)
		if err != nil {
			return nil, fmt.Errorf("%s says %q", cmd, f)
		}
		values = append(values, v)
	}
	return values, nil
}

func output(cmd *exec.Cmd) ([]byte, error) {
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("%s: %w\n%s", cmd, err, &stderr)
	}
	return out, nil
}

// rows are the figures of a table, by the names in samples.
var rows = []struct{ title, name string }{
	{"not instrumented", "plain"},
	{"instrumented, not patched", "unpatched"},
	{"patched, but off", "off"},
	{"count", "count"},
	{"a clock read and two stores for each event", "floor"},
	{"**record**, rings of 256 kB", "record"},
	{"the same without noticing switches", "no switches"},
	{"**record**, rings of 1 MB", "record, 1 MB"},
	{"record to a file that `xray record` writes", "observed"},
	{"record to a file that the program writes", "stream"},
	{"prune, 5 µs", "prune"},
	{"depth 1", "depth"},
	{"profile", "profile"},
}

func printTable(out io.Writer, w workload, clangs []string, columns []samples) {
	fmt.Fprintf(out, "\n| %s |", w.name)
	for _, clang := range clangs {
		fmt.Fprintf(out, " %s |", clang)
	}
	fmt.Fprintf(out, "\n|---|%s\n", strings.Repeat("--:|", len(clangs)))
	row := func(title, name string) {
		fmt.Fprintf(out, "| %s |", title)
		for _, s := range columns {
			fmt.Fprintf(out, " %s |", figure(w, s, name))
		}
		fmt.Fprintln(out)
	}
	for _, r := range rows {
		row(r.title, r.name)
	}
	for _, m := range stockModes {
		row(m.name, m.name)
	}
	if w.switches {
		fmt.Fprint(out, "| part of record: noticing and recording the switch |")
		for _, s := range columns {
			fmt.Fprintf(out, " %.0f |", s.median("record")-s.median("no switches"))
		}
		fmt.Fprintln(out)
		return
	}
	if w.events {
		return
	}
	if w.perCall {
		fmt.Fprint(out, "| record in relation to a clock read and two stores |")
		for _, s := range columns {
			fmt.Fprintf(out, " %.3f |", s.median("ratio"))
		}
		fmt.Fprintln(out)
		return
	}
	fmt.Fprint(out, "| million calls a second, unpatched |")
	for _, s := range columns {
		fmt.Fprintf(out, " %.1f |", s.median("calls")/s.median("unpatched")*1000)
	}
	fmt.Fprintln(out)
}

func figure(w workload, s samples, name string) string {
	v := s.median(name)
	switch {
	case math.IsNaN(v):
		return "-"
	case w.perCall:
		return fmt.Sprintf("%.1f", v)
	default:
		return fmt.Sprintf("%+.1f %%", 100*(v/s.median("unpatched")-1))
	}
}

// judge compares a loop's figures with the limits for the recorder. The limits leave room for the
// effect of other programs on the machine.
func judge(clang string, w workload, s samples) error {
	if !w.perCall || w.events {
		return nil
	}
	if w.switches {
		const limit = 3000
		if cost := s.median("record") - s.median("no switches"); !(cost <= limit) {
			return fmt.Errorf("%s: noticing a switch takes %.0f ns, more than %d ns", clang, cost, limit)
		}
		return nil
	}
	fdr := stockModes[1].name
	var missed []error
	for _, bound := range []struct {
		what  string
		value float64
		limit float64
	}{
		{"record in relation to a clock read and two stores", s.median("ratio"), 1.30},
		{"record in relation to " + fdr, s.median("record") / s.median(fdr), 0.35},
		{"count, ns", s.median("count"), 5},
	} {
		if !(bound.value <= bound.limit) {
			missed = append(missed, fmt.Errorf("%s: %s is %.2f, more than %.2f", clang, bound.what, bound.value, bound.limit))
		}
	}
	return errors.Join(missed...)
}
