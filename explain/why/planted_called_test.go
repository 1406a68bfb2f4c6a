//go:build linux && amd64

package why_test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/xray-tools/xray/internal/test/elftest"
	"github.com/xray-tools/xray/internal/test/testenv"
)

// calledPrograms have a cause whose reason is what requests are called with, or has nothing to do with it. The cause
// and its reason are written as plantedCause writes them. A busy machine may hide how the time grows.
var calledPrograms = []struct {
	mode, source string
	args         []string
	want         string // regular expression
	quick        bool   // part of make test
}{
	{"category", "called.cpp", nil, `^slower encode when r\.op = COMPRESS$`, false},
	{"threshold", "called.cpp", nil, `^slower encode when r\.size > 4096$`, false},
	{"linear", "called.cpp", nil, `^slower encode when r\.size > (1024|2048)(, power 1)?$`, false},
	{"quadratic", "called.cpp", nil, `^slower encode when r\.size > 1024(, power 2)?$`, true},
	{"interaction", "called.cpp", nil, `^slower encode when (r\.op = COMPRESS and r\.size > 4096|r\.size > 4096 and r\.op = COMPRESS)$`, true},
	{"text", "called.cpp", nil, `^slower encode when length of r\.key > 20$`, false},
	{"result", "called.cpp", nil, `^slower find when result = -1$`, false},
	{"reuse", "called.cpp", nil, `^slower encode when r\.op = COMPRESS$`, false}, // not of some connections
	{"load", "called.cpp", nil, `^(slower store|no cause)$`, true},               // r.op and r.size are of the rush, too
	{"null", "called.cpp", nil, `^slower encode$`, true},
	{"linear", "called.c", []string{"--args", "^handle$: r->method, r->body.size(), r->tries"}, `^slower checksum when r->body\.size\(\) > (1024|2048)(, power 1)?$`, false},
	{"category", "called.rs", []string{"--args", "handle$: r.tenant, r.key"}, `^slower look_up when r\.tenant (= 17|> 16)$`, false},
}

var calledValues = []string{"--args", `^handle: r.op, r.connection, r.size, r.key`, "--args", "^encode: r.op", "--args", "^store: id", "--results", "^find"}

// why names what slow requests are called with where that is the reason, and nothing where it is not. With
// XRAY_SOAK=1, each program is recorded 20 times, with other numbers. Otherwise, it is recorded until a report names the
// cause, as in TestPlanted.
func TestPlantedReasons(t *testing.T) {
	recordings, least := tries, 1
	soak := os.Getenv("XRAY_SOAK") == "1"
	if soak {
		recordings, least = 20, 19
	}
	compiled := map[string]string{}
	for _, p := range calledPrograms {
		if !p.quick && !soak {
			continue
		}
		if compiled[p.source] == "" {
			compiled[p.source] = compileCalled(t, p.source)
		}
		t.Run(p.mode+" "+filepath.Ext(p.source), func(t *testing.T) {
			if compiled[p.source] == "" {
				t.Skip("the compiler has no XRay")
			}
			args := p.args
			if args == nil {
				args = calledValues
			}
			want := regexp.MustCompile(p.want)
			falsely := !strings.Contains(p.want, "when")
			right, trends := 0, 0
			for seed := 1; seed <= recordings && (soak || right == 0); seed++ {
				got, text := plantedCause(t, compiled[p.source], p.mode, seed, args)
				if want.MatchString(got) {
					right++
					if strings.Contains(got, "power") {
						trends++
					}
					continue
				}
				t.Logf("recording %d: got %q, want %s\n%s", seed, got, p.want, text)
				if falsely && strings.Contains(got, "when") {
					t.Errorf("recording %d has a reason: %s", seed, got)
				}
			}
			t.Logf("%d of %d right, %d with a trend", right, recordings, trends)
			if right < least || soak && strings.Contains(p.want, "power") && 2*trends < recordings {
				t.Errorf("%d of %d right, %d with a trend", right, recordings, trends)
			}
		})
	}
}

func compileCalled(t *testing.T, source string) string {
	switch path := filepath.Join("testdata", source); filepath.Ext(source) {
	case ".c":
		return elftest.Build(t, "clang-22", "called", path, "-g", "-O2", "-fxray-instrument", "-fxray-instruction-threshold=1")
	case ".rs":
		testenv.Need(t, "rustc")
		program := filepath.Join(t.TempDir(), "called")
		cmd := exec.Command("rustc", "-O", "-g", "-Z", "instrument-xray=instruction-threshold=1", "-C", "symbol-mangling-version=v0", "-o", program, path)
		cmd.Env = append(os.Environ(), "RUSTC_BOOTSTRAP=1")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Logf("rustc does not support XRay: %s", out)
			return ""
		}
		return program
	default:
		return compilePlanted(t, "called", "-g", "-I"+library(t).Include(), path)
	}
}

// why says that a cgroup's CPU quota stops the program. The test needs a cgroup of its own.
func TestPlantedQuota(t *testing.T) {
	t.Parallel()
	group := quotaGroup(t)
	program := compilePlanted(t, "quota", "-I"+library(t).Include(), filepath.Join("testdata", "quota.cpp"))
	trace := filepath.Join(t.TempDir(), "trace")
	cmd := exec.Command("sh", "-c", `echo $$ > "$0/cgroup.procs" && exec "$@"`, group, elftest.Xray(t), "record", "-q", "-o", trace, "--", program)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	out, err := exec.Command(elftest.Xray(t), "why", "--root", "^handleRequest", trace).Output()
	if err != nil {
		t.Fatal(err)
	}
	if want := "lost time): it is preempted: the CPU quota of the cgroup /" + filepath.Base(group); !strings.Contains(strings.Join(strings.Fields(string(out)), " "), want) {
		t.Errorf("want %q in:\n%s", want, out)
	}
}

// quotaGroup returns a cgroup that gets 20 ms of CPU time in each 50 ms.
func quotaGroup(t *testing.T) string {
	t.Helper()
	name := "xray-" + strconv.Itoa(os.Getpid())
	for at, quota := range map[string]map[string]string{
		"/sys/fs/cgroup/cpu": {"cpu.cfs_period_us": "50000", "cpu.cfs_quota_us": "20000"}, "/sys/fs/cgroup": {"cpu.max": "20000 50000"},
	} {
		group := filepath.Join(at, name)
		if _, err := os.Stat(filepath.Join(at, "cgroup.procs")); err != nil || os.Mkdir(group, 0o755) != nil {
			continue
		}
		t.Cleanup(func() { os.Remove(group) })
		ok := true
		for file, text := range quota {
			ok = ok && os.WriteFile(filepath.Join(group, file), []byte(text), 0) == nil
		}
		if ok {
			return group
		}
	}
	t.Skip("may not create a cgroup with a CPU quota")
	return ""
}

// plantedCause records a program, and returns its first cause as "KIND FUNCTION when CONDITIONS, power N", and what why
// says about it.
func plantedCause(t *testing.T, program, mode string, seed int, args []string) (cause, text string) {
	t.Helper()
	trace := filepath.Join(t.TempDir(), "trace")
	record := append([]string{"record", "-q", "-o", trace}, args...)
	record = append(record, "--", program, mode, strconv.Itoa(seed))
	if out, err := exec.Command(elftest.Xray(t), record...).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	says := func(flags ...string) string {
		out, err := exec.Command(elftest.Xray(t), append(append([]string{"why", "--root", `^(called::)?handle(\(|$)`}, flags...), trace)...).Output()
		if err != nil {
			t.Fatal(err)
		}
		return string(out)
	}
	var report struct {
		Causes []struct {
			Kind, Function string
			CalledWith     []struct {
				Conditions []struct {
					Expression, Op, Value string
					Length                bool
				}
				Power int
			} `json:"called_with"`
		}
	}
	if err := json.Unmarshal([]byte(says("--format", "json")), &report); err != nil {
		t.Fatal(err)
	}
	text = says("--all")
	if len(report.Causes) == 0 {
		return "no cause", text
	}
	first := report.Causes[0]
	name, _, _ := strings.Cut(first.Function, "(")
	cause = first.Kind + " " + name
	for _, reason := range first.CalledWith {
		for i, c := range reason.Conditions {
			of := c.Expression
			if c.Length {
				of = "length of " + of
			}
			cause += fmt.Sprintf(" %s %s %s %s", []string{"when", "and"}[i], of, c.Op, c.Value)
		}
		if reason.Power > 0 {
			cause += fmt.Sprintf(", power %d", reason.Power)
		}
	}
	return cause, text
}
