//go:build linux && amd64

package real

import (
	"encoding/csv"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/xray-tools/xray/internal/test/elftest"
)

// A program is built from Debian's unmodified sources.
type program struct {
	name   string
	source string   // Debian's name of the source package
	needs  []string // commands that the build or the loads need
	files  []string // headers and libraries that the build needs
	script string   // builds it, in bash, with $CC, $CXX and $CFLAGS
	loads  []load
}

// A load is a task for a program.
type load struct {
	name   string
	quick  bool   // part of make test
	root   bool   // needs root
	script string // in bash: "$@" precedes the recorded program, and $SRC is the build directory
	// drive talks to a server, or to a program over its standard streams. Loads without it end
	// by themselves.
	drive func(*session) (answer, error)
	// varies matches parts of the output that differ from run to run.
	varies *regexp.Regexp
	// exact are functions with exactly as many calls as in the counting build. Other functions
	// may have fewer, where calls were inlined, but not more.
	exact []string
	// random are functions whose calls differ from run to run. With scheduled, those of all
	// functions except the exact ones differ, because threads race.
	random    []string
	scheduled bool
	// cost marks the load that measures the cost of recording.
	cost bool
}

// An answer is a server's output, and how often its functions must have been called by its own
// statistics.
type answer struct {
	text  string
	calls map[string]int64
}

// A mode is a way to record. In each, account shows all calls that were made.
type mode struct {
	name  string
	flags []string
}

var modes = []mode{
	{"file", []string{"--limit", "4G"}}, // if a load takes too long, it fails and does not fill the disk
	{"ring", []string{"--ring", "512M"}},
	{"count", []string{"--count"}},
	{"profile", []string{"--profile"}},
	{"prune", []string{"--prune", "2us"}},
	{"libcalls", []string{"--libcalls=all", "--limit", "4G"}},
	{"compress", []string{"--compress", "--limit", "1G"}},
}

// scratch is a directory that the tests share.
var scratch string

func TestMain(m *testing.M) {
	flag.Parse()
	// Adopt daemons and workers when their parent ends, so that none of them outlives the test.
	const prSetChildSubreaper = 36
	if _, _, errno := syscall.RawSyscall(syscall.SYS_PRCTL, prSetChildSubreaper, 1, 0); errno != 0 {
		fmt.Fprintln(os.Stderr, "prctl:", errno)
		os.Exit(1)
	}
	var err error
	if scratch, err = os.MkdirTemp("", "xray-real-"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	interrupted := make(chan os.Signal, 1)
	signal.Notify(interrupted, syscall.SIGINT, syscall.SIGTERM)
	go func() {
		<-interrupted
		for killAll() {
			time.Sleep(10 * time.Millisecond)
		}
		os.RemoveAll(scratch)
		os.Exit(1)
	}()
	status := elftest.Tests{M: m}.Run()
	os.RemoveAll(scratch)
	os.Exit(status)
}

// thorough reports whether tests should take the time to try everything.
func thorough() bool { return os.Getenv("XRAY_REAL") != "" }

// eachLoad runs a test for each matching load: the quick ones, or all with XRAY_REAL.
func eachLoad(t *testing.T, isFor func(load) bool, test func(*testing.T, program, load)) {
	for _, p := range programs {
		t.Run(p.name, func(t *testing.T) {
			for _, l := range p.loads {
				if !l.quick && !thorough() || !isFor(l) {
					continue
				}
				t.Run(l.name, func(t *testing.T) {
					if l.root && os.Geteuid() != 0 {
						t.Skip("needs root")
					}
					test(t, p, l)
				})
			}
		})
	}
}

// A recorded program behaves as it does unrecorded, in every mode, and its trace has the calls that
// were made, however it ends.
func TestRecorded(t *testing.T) {
	eachLoad(t, func(load) bool { return true }, func(t *testing.T, p program, l load) {
		src := p.build(t, instrumented)
		if l.drive != nil {
			testDriven(t, l, src)
			return
		}
		want := outcome(t, l, run{src: src})
		if !strings.HasSuffix(want, "\nexit status 0\n") {
			t.Fatalf("the program fails unrecorded:\n%s", want)
		}
		var counted map[string]int64
		if l.exact != nil {
			counted = countedCalls(t, p, l)
		}
		for _, m := range modes {
			t.Run(m.name, func(t *testing.T) {
				s := startSession(t, l, run{src: src, record: m.flags})
				if got := s.outcome(t, l); got != want {
					t.Error("output differs from that without recording:", difference(want, got))
				}
				checkTraces(t, l, s)
				if counted != nil {
					compareCounts(t, l, calls(t, s), counted)
				}
			})
		}
	})
}

// testDriven runs a server in each mode with each ending. make test has each of them, but not all
// combinations.
func testDriven(t *testing.T, l load, src string) {
	want := driveUnrecorded(t, l, run{src: src})
	for i, m := range modes {
		for j, e := range endings {
			if !thorough() && (i+j)%len(endings) != 0 {
				continue
			}
			t.Run(m.name+"/"+e.name, func(t *testing.T) {
				s := startSession(t, l, run{src: src, record: m.flags})
				got, err := l.drive(s)
				if err != nil {
					t.Fatalf("%v\n%s", err, s.said())
				}
				if got.text != want.text {
					t.Error("answers differ from those without recording:", difference(want.text, got.text))
				}
				if err := errors.Join(e.end(s), s.wait()); err != nil {
					t.Fatal(err)
				}
				checkTraces(t, l, s)
				have := calls(t, s)
				for _, f := range slices.Sorted(maps.Keys(got.calls)) {
					if n := have[f]; n != got.calls[f] {
						t.Errorf("%s: %d calls recorded, %d by the program's statistics", f, n, got.calls[f])
					}
				}
			})
		}
	}
}

// outcome runs a load to its end.
func outcome(t *testing.T, l load, r run) string {
	t.Helper()
	return startSession(t, l, r).outcome(t, l)
}

// outcome is what a load printed and how it ended, without the varying parts.
func (s *session) outcome(t *testing.T, l load) string {
	t.Helper()
	if err := s.wait(); err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	for _, path := range []string{s.stdoutPath(), s.stderrPath()} {
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if l.varies != nil {
			data = l.varies.ReplaceAll(data, []byte("…"))
		}
		b.Write(data)
	}
	fmt.Fprintln(&b, <-s.ended)
	return b.String()
}

// difference shows where texts begin to differ.
func difference(unrecorded, recorded string) string {
	a, b := strings.SplitAfter(unrecorded, "\n"), strings.SplitAfter(recorded, "\n")
	same := 0
	for same < len(a) && same < len(b) && a[same] == b[same] {
		same++
	}
	head := func(lines []string) string { return strings.Join(lines[same:min(same+10, len(lines))], "") }
	return fmt.Sprintf("from line %d, unrecorded\n%s\nrecorded\n%s", same+1, head(a), head(b))
}

// countedCalls returns the calls by function that the counting build made.
func countedCalls(t *testing.T, p program, l load) map[string]int64 {
	t.Helper()
	raw := t.TempDir()
	outcome(t, l, run{src: p.build(t, counting), env: []string{"LLVM_PROFILE_FILE=" + raw + "/%p-%m.profraw"}})
	merged := filepath.Join(t.TempDir(), "merged")
	if out, err := exec.Command(profdata, "merge", "-o", merged, raw).CombinedOutput(); err != nil {
		t.Fatalf("%s merge: %v\n%s", profdata, err, out)
	}
	out, err := exec.Command(profdata, "show", "--all-functions", merged).Output()
	if err != nil {
		t.Fatalf("%s show: %v", profdata, err)
	}
	counts := map[string]int64{}
	name := ""
	for line := range strings.Lines(string(out)) {
		line = strings.TrimSpace(line)
		if n, ok := strings.CutPrefix(line, "Function count: "); ok {
			count, err := strconv.ParseInt(n, 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			counts[name] += count
		} else if n, ok := strings.CutSuffix(line, ":"); ok && !strings.Contains(n, ": ") {
			name = n[strings.LastIndexAny(n, ";:")+1:] // static functions are named file:function
		}
	}
	return counts
}

func compareCounts(t *testing.T, l load, recorded, counted map[string]int64) {
	t.Helper()
	for _, f := range l.exact {
		if recorded[f] != counted[f] || counted[f] == 0 {
			t.Errorf("%s: %d calls recorded, %d counted", f, recorded[f], counted[f])
		}
	}
	equal, wrong := 0, 0
	for _, f := range slices.Sorted(maps.Keys(recorded)) {
		n, ok := counted[f]
		if recorded[f] == n {
			equal++
		}
		if ok && recorded[f] > n && !l.scheduled && !slices.Contains(l.random, f) {
			if wrong++; wrong <= 10 {
				t.Errorf("%s: %d calls recorded, but only %d counted", f, recorded[f], n)
			}
		}
	}
	t.Logf("%d functions recorded, %d with all calls that were counted", len(recorded), equal)
}

// traceFiles returns the traces of a session.
func (s *session) traceFiles(t *testing.T) []string {
	t.Helper()
	traces, err := filepath.Glob(filepath.Join(s.traces, "*.xray*")) // a program that executed itself has several
	if err != nil {
		t.Fatal(err)
	}
	if len(traces) == 0 {
		t.Errorf("no trace\n%s", s.said())
	}
	return traces
}

// checkTraces reads the traces of a session and checks that nothing was lost.
func checkTraces(t *testing.T, l load, s *session) {
	t.Helper()
	for _, trace := range s.traceFiles(t) {
		out, err := exec.Command(elftest.Xray(t), "info", "--format", "json", trace).Output()
		if err != nil {
			t.Fatalf("info %s: %v\n%s", trace, err, out)
		}
		type finding struct{ Name, Text, Loss string }
		var info struct {
			Losses, Findings []finding
			Calls            int64
			Files            []struct {
				Stored int64 `json:"stored_bytes"` // 0 unless compressed
			}
		}
		if err := json.Unmarshal(out, &info); err != nil {
			t.Fatalf("info %s: %v", trace, err)
		}
		// The metadata is not compressed.
		if stored := info.Files[0].Stored; stored > 5*info.Calls+100_000 {
			t.Errorf("%s: %d bytes for %d calls", filepath.Base(trace), stored, info.Calls)
		}
		info.Findings = slices.DeleteFunc(info.Findings, func(f finding) bool {
			return f.Name != "recorder-losses"
		})
		for _, lost := range slices.Concat(info.Losses, info.Findings) {
			t.Errorf("%s: %s%s", filepath.Base(trace), lost.Text, lost.Loss)
		}
	}
}

// calls returns the recorded calls by function, of all traces of a session.
func calls(t *testing.T, s *session) map[string]int64 {
	t.Helper()
	sums := map[string]int64{}
	for _, trace := range s.traceFiles(t) {
		eachRow(t, trace, func(function string, value func(key string) float64) {
			sums[function] += int64(value("count") + value("open")) // the counting build does not count open calls
		})
	}
	return sums
}

// eachRow calls f with each function that account finds in a trace, and its values.
func eachRow(t *testing.T, trace string, f func(function string, value func(key string) float64)) {
	t.Helper()
	out, err := exec.Command(elftest.Xray(t), "account", "--format", "csv", "--names", "mangled", trace).Output()
	if err != nil {
		t.Fatalf("account %s: %v", trace, err)
	}
	rows, err := csv.NewReader(strings.NewReader(string(out))).ReadAll()
	if err != nil || len(rows) == 0 {
		t.Fatalf("account %s: %v", trace, err)
	}
	for _, row := range rows[1:] {
		f(row[slices.Index(rows[0], "function")], func(key string) float64 {
			cell := row[slices.Index(rows[0], key)]
			if cell == "" {
				return 0 // unknown
			}
			x, err := strconv.ParseFloat(cell, 64)
			if err != nil {
				t.Fatal(err)
			}
			return x
		})
	}
}
