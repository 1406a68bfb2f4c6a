package main

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/xray-tools/xray/internal/test/testenv"
	"github.com/xray-tools/xray/internal/tracetext"
	"github.com/xray-tools/xray/reader"
)

// TestLLVMDifferential compares llvm-xray with this program in its place, over recorded traces,
// the samples of $XRAY_CORPUS, and random traces, with many combinations of options. Output and
// exit status must be equal, or differ as docs/dev/llvm-xray.md explains. A documented difference
// that no run shows is an error, too. Without XRAY_SOAK=1, the command lines are divided among
// the traces of the corpus and the random ones.
func TestLLVMDifferential(t *testing.T) {
	t.Parallel()
	testenv.Need(t, llvmXRay)
	runs := make(chan *sideBySide)
	var (
		wg   sync.WaitGroup
		mu   sync.Mutex
		hits = map[string]int{}
		bad  []*sideBySide
	)
	for range 2 {
		wg.Go(func() {
			for r := range runs {
				r.theirs, r.ours = runLLVM(r.args...), runHere(append([]string{"llvm-xray"}, r.args...)...)
				names, ok := r.explain()
				mu.Lock()
				for _, name := range names {
					hits[name]++
				}
				if !ok {
					bad = append(bad, r)
				}
				mu.Unlock()
			}
		})
	}
	documented(t)
	total := 0
	for _, r := range differentialRuns(t) {
		runs <- r
		total++
	}
	close(runs)
	wg.Wait()
	slices.SortFunc(bad, func(a, b *sideBySide) int {
		return strings.Compare(strings.Join(a.args, " "), strings.Join(b.args, " "))
	})
	for i, r := range bad {
		if i == 30 {
			t.Errorf("... and %d more", len(bad)-i)
			break
		}
		diff := cmp.Diff(strings.Split(r.theirs.String(), "\n"), strings.Split(r.ours.String(), "\n"))
		t.Errorf("llvm-xray %s (-theirs +ours):\n%.1500s", strings.Join(r.args, " "), diff)
	}
	for _, d := range differences {
		if hits[d.anchor] == 0 && (!d.corpus || os.Getenv("XRAY_CORPUS") != "") {
			t.Errorf("no run shows the difference %q", d.anchor)
		}
	}
	t.Logf("%d runs; differences met: %v", total, hits)
}

// documented checks that docs/dev/llvm-xray.md and the list of differences have the same anchors.
func documented(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "dev", "llvm-xray.md"))
	if err != nil {
		t.Fatal(err)
	}
	var listed, tested []string
	for _, m := range regexp.MustCompile(`<a id="([a-z-]+)">`).FindAllStringSubmatch(string(page), -1) {
		listed = append(listed, m[1])
	}
	for _, d := range differences {
		tested = append(tested, d.anchor)
	}
	slices.Sort(listed)
	slices.Sort(tested)
	if diff := cmp.Diff(listed, tested); diff != "" {
		t.Errorf("differences in docs/dev/llvm-xray.md and in the test (-listed +tested):\n%s", diff)
	}
}

const llvmXRay = "llvm-xray-22"

func runLLVM(args ...string) output {
	var stdout, stderr bytes.Buffer
	cmd := exec.Command(llvmXRay, args...)
	// If it crashes, it need not spend a second on a stack trace.
	cmd.Env = append(os.Environ(), "LLVM_DISABLE_SYMBOLIZATION=1")
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	status := cmd.ProcessState.ExitCode()
	if err != nil && status == 0 {
		status = -1
	}
	return output{stdout.String(), stderr.String(), status}
}

// sideBySide is a command line and what both programs do with it.
type sideBySide struct {
	args         []string
	trace        string // the trace among the arguments, or ""
	theirs, ours output
}

func (r *sideBySide) command() string {
	if len(r.args) == 0 {
		return ""
	}
	return r.args[0]
}

func (r *sideBySide) has(args ...string) bool {
	for _, arg := range args {
		if slices.Contains(r.args, arg) {
			return true
		}
	}
	return false
}

// differentialRuns returns all command lines to compare.
func differentialRuns(t *testing.T) []*sideBySide {
	var runs []*sideBySide
	add := func(trace string, args ...string) {
		runs = append(runs, &sideBySide{args: append(args, trace), trace: trace})
	}
	traces := slices.Concat(writtenTraces(t), recordedTraces(t))
	whole := len(traces) // of these, each runs with all lines
	traces = append(traces, corpusTraces(t)...)
	for seed := range uint64(24) {
		traces = append(traces, randomTrace(t, seed))
	}
	const shares = 6
	soak := os.Getenv("XRAY_SOAK") == "1"
	for i, trace := range traces {
		for n, line := range commandLines {
			if soak || i < whole || n%shares == i%shares {
				add(trace, strings.Fields(line)...)
			}
		}
		if !soak && i >= whole && i%shares != 0 {
			continue
		}
		if i > 0 {
			add(trace, "graph-diff", "-k", "-d", "-e", "sum", "-c", "count", "-v", "max", "-b", "sum", traces[i-1])
		}
		// Of the many ways to sort and color, try a few on each trace.
		n := i % len(llvmSorts)
		add(trace, "account", "-k", "-d", "-s", llvmSorts[n], "-r", "dsc")
		add(trace, "graph", "-k", "-c", llvmSorts[(n+1)%len(llvmSorts)], "-b", llvmSorts[(n+2)%len(llvmSorts)],
			"-e", llvmSorts[(n+3)%len(llvmSorts)], "-v", llvmSorts[(n+4)%len(llvmSorts)])
	}
	sample := randomTrace(t, 2)
	quotes := quotedNames(t)
	for _, line := range []string{"account -f csv", "graph", "convert -f trace_event -y"} {
		add(sample, append(strings.Fields(line), "-m", quotes)...)
	}
	for trace, m := range tracesWithMaps(t, sample) {
		for _, line := range []string{
			"account -k", "account -k -fcsv", "account -k -f csv", "convert -f yaml -y", "convert -f trace_event -y", "graph -k -d",
			"graph-diff -k -d " + trace, "stack -k", "stack -k -all -stack-format flame",
			"convert -f yaml -y --no-demangle",
		} {
			add(trace, append(strings.Fields(line), "-m", m)...)
		}
	}
	for _, m := range append(mapFiles(t), quotes) {
		for _, line := range []string{"extract", "extract -s", "extract -s -no-demangle", "extract -s --no-demangle --demangle"} {
			runs = append(runs, &sideBySide{args: append(strings.Fields(line), m)})
		}
	}
	for _, line := range slices.Concat(oddCommandLines, responseFiles(t, sample)) {
		args := strings.Fields(line)
		for i := range args {
			args[i] = strings.ReplaceAll(args[i], "TRACE", sample)
		}
		r := &sideBySide{args: args}
		if r.has(sample) {
			r.trace = sample
		}
		runs = append(runs, r)
	}
	return runs
}

// commandLines run on every trace. The trace is the last argument.
var commandLines = []string{
	"account", "account -k", "account -d", "account -d -k -f csv", "account -recursive-calls-only -k -d",
	"account --keep-going --sort=func", "account -kd -top=2",
	"convert", "convert -f yaml", "convert -f=yaml -s=false", "convert --output-format trace_event",
	"graph", "graph -k", "graph -d -k -e sum -v count -c sum -b max",
	"stack", "stack -k", "stack -k --per-thread-stacks", "stack -k -aggregate-threads",
	"stack -k --all-stacks --stack-format=flame", "stack -k -all -stack-format flame -aggregation-type=count -aggregate-threads",
	"fdr-dump", "fdr-dump -verify",
}

var llvmSorts = []string{"count", "min", "med", "90p", "99p", "max", "sum"}

// oddCommandLines test the parsing of options rather than traces.
var oddCommandLines = []string{
	"account", "account TRACE TRACE", "account --nope TRACE", "account -s", "account -s bogus TRACE", "account -p x TRACE",
	"account -p 0x2 TRACE", "account -k=maybe TRACE", "account -kd TRACE", "account --kd TRACE", "account -dk=false TRACE",
	"account -k -fcsv TRACE", "account -kf csv TRACE", "account -f=csv -k -- TRACE", "account -k -k TRACE", "account -k -s count -s sum TRACE",
	"account -m= -k TRACE", "account -p= -k TRACE", "account -kz TRACE", "account /does/not/exist", "account -m /does/not/exist TRACE",
	"account -o /does/not/exist TRACE", "account -k -o - TRACE", "account --help", "stack --help", "convert -help", "extract -h",
	"fdr-dump --help", "graph-diff --help", "graph --help", "account --help-list",
	"convert -o /does/not/exist TRACE", "convert /does/not/exist", "convert -m /does/not/exist /does/not/exist", "convert -f bogus TRACE",
	"convert -f yaml -s false TRACE",
	"graph /does/not/exist", "graph -m /does/not/exist TRACE", "graph -o /does/not/exist -k TRACE", "graph -e bogus TRACE",
	"graph-diff TRACE", "graph-diff -k TRACE /does/not/exist", "graph-diff -t x TRACE TRACE", "graph-diff -k -o /does/not/exist TRACE TRACE",
	"graph-diff -k1 -k2=true -d1 TRACE TRACE", "graph-diff -k -t 2 TRACE TRACE",
	"stack", "stack /does/not/exist", "stack -k /does/not/exist", "stack -m /does/not/exist TRACE", "stack --all-stacks TRACE", "stack -stack-format=flame TRACE",
	"stack -per-thread-stacks -aggregate-threads TRACE", "stack -stack-format=flame -m /does/not/exist /does/not/exist",
	"stack -k -aggregate-threads TRACE TRACE",
	"extract", "extract /does/not/exist", "extract /bin/sh", "extract --symbolize=maybe TRACE", "fdr-dump /does/not/exist", "fdr-dump",
	"acount TRACE", "", "--help", "--version", "--nope", "account -",
}

// responseFiles returns command lines with arguments in files.
func responseFiles(t *testing.T, sample string) []string {
	dir := t.TempDir()
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	relative, err := filepath.Rel(here, dir)
	if err != nil {
		t.Fatal(err)
	}
	lines := []string{"@" + dir, "@" + filepath.Join(dir, "missing.rsp"), "@missing.rsp account", "-k @" + sample + "/x"}
	for name, text := range map[string]string{
		"whole.rsp":      "account -k TRACE",
		"rest.rsp":       "-k\r\n -f csv\t-s 'sum' \"TRACE\"\n",
		"empty.rsp":      " \n",
		"unquoted.rsp":   `-a'b c'd "-e\"f" -g\ h '-i\'j' -m"" '' \-p -x\\y "-l` + "\nm\" -n\\\no -q\\",
		"open.rsp":       `-x "-y\`,
		"zero.rsp":       "-x\x00-y\f-z\v-w",
		"bom.rsp":        "\xef\xbb\xbf-f csv TRACE",
		"utf16.rsp":      "\xff\xfe-\x00z\x00\xe9\x00 \x00T\x00",
		"utf16be.rsp":    "\xfe\xff\x00-\x00z",
		"utf16odd.rsp":   "\xff\xfe-\x00z",
		"twice.rsp":      "@" + dir + "/empty.rsp @" + dir + "/empty.rsp @" + dir + "/rest.rsp",
		"dangling.rsp":   "-k @missing.rsp",
		"relative.rsp":   "@" + relative + "/rest.rsp",
		"beside.rsp":     "@rest.rsp",
		"recursive.rsp":  "@" + dir + "/recursive2.rsp",
		"recursive2.rsp": "@" + dir + "/recursive.rsp",
	} {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(strings.ReplaceAll(text, "TRACE", sample)), 0o666); err != nil {
			t.Fatal(err)
		}
		lines = append(lines, "@"+path)
	}
	for _, line := range slices.Clone(lines) {
		lines = append(lines, "account "+line, "account -- "+line, "account -m "+line+" TRACE")
	}
	return lines
}

// recordedTraces returns the project's recorded traces.
func recordedTraces(t *testing.T) []string {
	return globbed(t, filepath.Join("..", "..", "testdata", "*.xray"))
}

// corpusTraces returns the traces of the corpus.
func corpusTraces(t *testing.T) []string {
	corpus := os.Getenv("XRAY_CORPUS")
	if corpus == "" {
		return nil
	}
	samples := filepath.Join(corpus, "samples")
	return globbed(t, filepath.Join(samples, "traces", "*.xray"), filepath.Join(samples, "gen", "*.log"),
		filepath.Join(samples, "gen", "*.fdr"), filepath.Join(samples, "gen", "*.yaml"))
}

func globbed(t *testing.T, patterns ...string) []string {
	t.Helper()
	var traces []string
	for _, p := range patterns {
		found, err := filepath.Glob(p)
		if err != nil {
			t.Fatal(err)
		}
		traces = append(traces, found...)
	}
	return traces
}

// writtenTraces returns small traces, each for something that recorders seldom write.
func writtenTraces(t *testing.T) []string {
	var traces []string
	add := func(name string, content []byte) {
		path := filepath.Join(t.TempDir(), name)
		if err := os.WriteFile(path, content, 0o666); err != nil {
			t.Fatal(err)
		}
		traces = append(traces, path)
	}
	for name, text := range map[string]string{
		"padding.xray": `
xray fdr
thread 11 pid=7 wall=1.000020 cpu=0 tsc=1000
enter 3 +0
exit 3 +25
zeros 61
thread 12 pid=7 wall=2.000030 cpu=0 tsc=2000
enter 3 +0
exit 3 +25
zeros 100
`,
		"typed.xray": `
xray fdr
thread 11 pid=7 wall=1.000020 cpu=0 tsc=1000
enter 3 +0
typed 513 "payload" +7
exit 3 +25
`,
		"garbage.xray": `
xray fdr
thread 11 pid=7 wall=1.000020 cpu=0 tsc=1000
enter 3 +0
exit 3 +25
bytes ffffffffffff
`,
	} {
		b, err := tracetext.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		add(name, b)
	}
	const header = "---\nheader:\n  version: %d\n  type: 0\n  constant-tsc: true\n  nonstop-tsc: true\n  cycle-frequency: 0\nrecords:\n"
	record := func(process int, kind string, tsc int) string {
		return fmt.Sprintf("  - { type: 0, func-id: 1, cpu: 0, thread: 5, process: %d, kind: function-%s, tsc: %d }\n", process, kind, tsc)
	}
	add("version-3.yaml", []byte(fmt.Sprintf(header, 3)+record(7, "enter", 10)+record(7, "exit", 30)+"...\n"))
	add("shared-thread-id.yaml", []byte(fmt.Sprintf(header, 1)+record(7, "enter", 10)+record(8, "enter", 20)+
		record(7, "exit", 30)+record(8, "exit", 50)+"...\n"))
	add("clock-back.yaml", []byte(fmt.Sprintf(header, 1)+record(7, "enter", 10)+record(7, "enter", 50)+
		record(7, "exit", 40)+record(7, "exit", 60)+"...\n"))
	slices.Sort(traces)
	return traces
}

// quotedNames compiles a C++ file whose function has quotes in its name.
func quotedNames(t *testing.T) string {
	testenv.Need(t, "clang-22")
	dir := t.TempDir()
	source, object := filepath.Join(dir, "q.cc"), filepath.Join(dir, "q.o")
	if err := os.WriteFile(source, []byte("unsigned long long operator\"\" _q(unsigned long long n) { return n; }\n"), 0o666); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("clang-22", "-c", "-fxray-instrument", "-fxray-instruction-threshold=1", "-o", object, source)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return object
}

// tracesWithMaps returns the instrumentation map of each trace's program.
func tracesWithMaps(t *testing.T, sample string) map[string]string {
	dir := filepath.Join("..", "..", "testdata")
	pairs := map[string]string{
		sample: filepath.Join(dir, "kvserver"), // another program's trace: any map with these IDs will do
		filepath.Join(dir, "kvserver-basic.xray"): filepath.Join(dir, "kvserver"),
		filepath.Join(dir, "clang14-fdr.xray"):    filepath.Join(dir, "clang14.yaml"),
		filepath.Join(dir, "kvserver-fdr.xray"):   filepath.Join(dir, "kvserver"),
	}
	if corpus := os.Getenv("XRAY_CORPUS"); corpus != "" {
		special := filepath.Join(corpus, "samples", "traces", "basic-v3-special-names.xray")
		pairs[special] = filepath.Join(corpus, "samples", "maps", "basic-v3-special-names.yaml")
	}
	return pairs
}

func mapFiles(t *testing.T) []string {
	dir := filepath.Join("..", "..", "testdata")
	files := []string{filepath.Join(dir, "kvserver"), filepath.Join(dir, "kvserver.yaml")}
	if corpus := os.Getenv("XRAY_CORPUS"); corpus != "" {
		for _, p := range []string{"elf/*", "maps/*.yaml", "gen/m?.yaml"} {
			found, err := filepath.Glob(filepath.Join(corpus, "samples", p))
			if err != nil {
				t.Fatal(err)
			}
			files = append(files, found...)
		}
	}
	return files
}

// randomTrace writes a trace as YAML version 1, which llvm-xray reads. Records are in order of
// time, because llvm-xray refuses others. Even seeds give balanced traces.
func randomTrace(t *testing.T, seed uint64) string {
	r := rand.New(rand.NewPCG(seed, 1))
	frequency := []uint64{0, 1000, 1_000_000_000, 2_600_000_000}[r.IntN(4)]
	var b strings.Builder
	fmt.Fprintf(&b, "---\nheader:\n  version: 1\n  type: 0\n  constant-tsc: true\n  nonstop-tsc: true\n  cycle-frequency: %d\nrecords:\n", frequency)
	threads := 1 + r.IntN(3)
	stacks := make([][]int, threads)
	tsc := uint64(1000)
	write := func(thread, fn int, kind string) {
		tsc += uint64(r.IntN(50)) + 1
		fmt.Fprintf(&b, "  - { type: 0, func-id: %d, cpu: %d, thread: %d, process: 7, kind: %s, tsc: %d }\n",
			fn, thread, 100+thread, kind, tsc)
	}
	exit := func(thread int) {
		s := stacks[thread]
		kind := "function-exit"
		if r.IntN(8) == 0 {
			kind = "function-tail-exit"
		}
		write(thread, s[len(s)-1], kind)
		stacks[thread] = s[:len(s)-1]
	}
	for range 20 + r.IntN(200) {
		thread := r.IntN(threads)
		switch fn := 1 + r.IntN(6); {
		case r.IntN(2) == 0 && len(stacks[thread]) < 12:
			write(thread, fn, "function-enter")
			stacks[thread] = append(stacks[thread], fn)
		case seed%2 == 1 && r.IntN(12) == 0:
			// Lose a record: pop the stack without an exit, or write an exit of any
			// function.
			if n := len(stacks[thread]); n > 0 && r.IntN(2) == 0 {
				stacks[thread] = stacks[thread][:n-1]
			} else {
				write(thread, fn, "function-exit")
			}
		case len(stacks[thread]) > 0:
			exit(thread)
		}
	}
	if seed%2 == 0 {
		for thread := range stacks {
			for len(stacks[thread]) > 0 {
				exit(thread)
			}
		}
	}
	b.WriteString("...\n")
	path := filepath.Join(t.TempDir(), fmt.Sprintf("random-%d.yaml", seed))
	if err := os.WriteFile(path, []byte(b.String()), 0o666); err != nil {
		t.Fatal(err)
	}
	return path
}

// facts are the properties of a trace on which differences depend.
type facts struct {
	readable    bool
	yaml        bool
	header      reader.Header
	losses      int64
	events      int
	threads     int
	processes   int
	stepsBack   bool // within a thread
	beforeFirst bool // a record is earlier than the first of the file
	typed       bool // has typed events
}

var factsOf sync.Map

// facts returns the properties of the run's trace.
func (r *sideBySide) facts() *facts {
	f, _ := factsOf.LoadOrStore(r.trace, sync.OnceValue(func() *facts { return readFacts(r.trace) }))
	return f.(func() *facts)()
}

// some reports whether any trace among the arguments has a property.
func (r *sideBySide) some(such func(*facts) bool) bool {
	for _, arg := range r.args[min(1, len(r.args)):] {
		one := sideBySide{trace: arg}
		if _, err := os.Stat(arg); err == nil && such(one.facts()) {
			return true
		}
	}
	return false
}

func readFacts(path string) *facts {
	f := &facts{}
	t, err := reader.Open(reader.Options{}, path)
	if err != nil {
		return f
	}
	defer t.Close()
	f.readable, f.header = true, t.Header(0)
	last := map[reader.Thread]uint64{}
	processes := map[int32]bool{}
	var first uint64
	for b, err := range t.Blocks(reader.FileOrder) {
		if err != nil {
			return &facts{}
		}
		processes[b.Thread.Process] = true
		f.yaml = b.Offset < 0
		for _, e := range b.Events {
			if f.events == 0 {
				first = e.TSC
			}
			f.events++
			f.beforeFirst = f.beforeFirst || e.TSC < first
			f.stepsBack = f.stepsBack || e.TSC < last[b.Thread]
			last[b.Thread] = e.TSC
			f.typed = f.typed || e.Kind == reader.Typed
		}
	}
	f.threads, f.processes = len(last), len(processes)
	f.losses = t.Losses().Count()
	return f
}
