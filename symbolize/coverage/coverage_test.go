package coverage

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/xray-tools/xray/internal/test/testenv"
	"github.com/xray-tools/xray/symbolize"
	"github.com/xray-tools/xray/symbolize/debuginfo"
)

// source has functions of many lengths, with and without loops, and one of each special kind.
func source() string {
	var b strings.Builder
	b.WriteString("volatile int v;\nint plain(int);\n")
	for i := range 60 {
		fmt.Fprintf(&b, "int straight%d(int a) { %s return a; }\n", i, strings.Repeat("v += a; ", i))
	}
	b.WriteString(`
int looping(int a) { while (v < a) v++; return a; }
[[clang::xray_always_instrument]] int always(int a) { return a; }
[[clang::xray_never_instrument]] int never(int a) { ` + strings.Repeat("v += a; ", 100) + ` return a; }
static inline int inlined(int a) { v = a; return a; }
int calls(int a) { return inlined(a) + inlined(a + 1) + plain(a) + 1; }
int main(void) { return 0; }
`)
	return b.String()
}

// build compiles the source with a threshold, and a second file without sleds.
func build(t *testing.T, threshold int, flags ...string) string {
	t.Helper()
	testenv.Need(t, "clang-22")
	dir := t.TempDir()
	one, other, program := filepath.Join(dir, "one.c"), filepath.Join(dir, "other.c"), filepath.Join(dir, "program")
	for path, text := range map[string]string{one: source(), other: "int plain(int a) { volatile int b = a; return b; }\n"} {
		if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	compile := func(args ...string) {
		t.Helper()
		if out, err := exec.Command("clang-22", args...).CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	}
	compile(slices.Concat(flags, []string{"-O1", "-c", other, "-o", other + ".o"})...)
	compile(slices.Concat(flags, []string{"-O1", "-fxray-instrument", fmt.Sprintf("-fxray-instruction-threshold=%d", threshold), "-fno-xray-link-deps",
		one, other + ".o", "-o", program})...)
	return program
}

func readReport(t *testing.T, path string) *Report {
	t.Helper()
	table, err := symbolize.Load(path, symbolize.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer table.Close()
	r, err := Read(table.Binary(), table.Map().Sleds, func(s string) string { return s })
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// ours leaves out functions of the C library's start files.
func ours(r *Report) map[string]string {
	found := make(map[string]string)
	for _, f := range r.Without {
		if f.Reason != Unknown {
			found[f.Name] = f.Reason.String()
			if f.Reason == Short && (f.Missing == 0 || f.Instructions+f.Missing != r.Likely) {
				found[f.Name] += fmt.Sprintf(": %d of %d instructions, %d missing", f.Instructions, r.Likely, f.Missing)
			}
		}
	}
	return found
}

func TestReasons(t *testing.T) {
	r := readReport(t, build(t, 40, "-g"))
	got := ours(r)
	for name, why := range got {
		if strings.HasPrefix(name, "straight") && why == "short" {
			delete(got, name)
		}
	}
	want := map[string]string{"never": "never", "plain": "plain", "inlined": "inlined", "calls": "short", "main": "short"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	// Each straight function has an instruction per addition and at least a return.
	if r.Always != 1 || r.Threshold < 30 || r.Threshold > 50 {
		t.Errorf("%d always, threshold %d; want 1 and about 40", r.Always, r.Threshold)
	}
}

// No function has sleds for its length, so none that is short is said to be excluded by an attribute.
func TestNoThreshold(t *testing.T) {
	r := readReport(t, build(t, 5000, "-g"))
	got := ours(r)
	if r.Threshold != 0 || r.Likely != 200 || got["calls"] != "short" || got["main"] != "short" {
		t.Errorf("threshold %d, probably %d: %v", r.Threshold, r.Likely, got)
	}
	for fewest, want := range map[uint64]uint64{0: 200, 1: 1, 7: 7, 12: 20, 183: 200, 200: 200, 2000: 2000} {
		if got := likely(fewest); got != want {
			t.Errorf("%d instructions: got %d, want %d", fewest, got, want)
		}
	}
}

// The report's predictions for other thresholds match what the compiler then does.
func TestThresholds(t *testing.T) {
	predicted := make(map[uint64]uint64)
	for _, c := range readReport(t, build(t, 10, "-g")).Choices {
		predicted[c.Threshold] = c.Functions
	}
	for _, threshold := range []int{1, 5, 20, 50, 500} {
		r := readReport(t, build(t, threshold, "-g"))
		// The compiler counts an instruction or two more than there are.
		if got := predicted[uint64(threshold)]; got+3 < r.Functions || got > r.Functions+3 {
			t.Errorf("threshold %d: predicted %d functions with sleds, and there are %d", threshold, got, r.Functions)
		}
		if r.CodeBytes != 11*r.Sleds || r.TableBytes < 32*r.Sleds {
			t.Errorf("threshold %d: %d sleds take %d and %d bytes", threshold, r.Sleds, r.CodeBytes, r.TableBytes)
		}
	}
}

// Without debug information, short functions are still known by their code.
func TestWithoutDebugInformation(t *testing.T) {
	got := ours(readReport(t, build(t, 40)))
	if got["straight3"] != "short" || got["straight50"] != "" {
		t.Errorf("straight3 is %q, straight50 is %q; want short and nothing", got["straight3"], got["straight50"])
	}
}

// The report is the same if the symbols and the debug information are in other files.
func TestDebugInformationElsewhere(t *testing.T) {
	want := ours(readReport(t, build(t, 40, "-g")))
	if diff := cmp.Diff(want, ours(readReport(t, build(t, 40, "-g", "-gsplit-dwarf")))); diff != "" {
		t.Errorf("in .dwo files: %s", diff)
	}
	stripped := build(t, 40, "-g")
	for _, args := range [][]string{{"--only-keep-debug", stripped, stripped + ".debug"}, {"--strip-all", "--add-gnu-debuglink=" + stripped + ".debug", stripped}} {
		if out, err := exec.Command("objcopy", args...).CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	}
	if diff := cmp.Diff(want, ours(readReport(t, stripped))); diff != "" {
		t.Errorf("in a debug file: %s", diff)
	}
}

func FuzzRead(f *testing.F) {
	data, err := os.ReadFile("../../testdata/kvserver")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(uint32(0), []byte(nil))
	f.Add(uint32(0x28), []byte{1, 2, 3, 4})
	f.Add(uint32(len(data)-200), []byte("\xff\xff\xff\xff\xff\xff\xff\xff"))
	f.Fuzz(func(t *testing.T, at uint32, patch []byte) {
		damaged := slices.Clone(data)
		copy(damaged[int(at)%len(damaged):], patch)
		e, err := debuginfo.NewELF(bytes.NewReader(damaged), int64(len(damaged)))
		if err != nil {
			return
		}
		b, err := debuginfo.NewBinary(e, "", nil, debuginfo.Options{})
		if err != nil {
			return
		}
		defer b.Close()
		r, err := Read(b, nil, func(s string) string { return s })
		if err == nil && len(r.Without) > 1<<20 {
			t.Errorf("%d functions in %d bytes", len(r.Without), len(damaged))
		}
	})
}

// LLVM's runtime, which clang links in, is not taken for a part of the program.
func TestRuntimeIsNotTheProgram(t *testing.T) {
	for name, is := range map[string]bool{
		"_ZN11__sanitizer9VSNPrintfEPciPKcP13__va_list_tag": true,
		"_ZN6__xray15fdrLoggingFlushEv":                     true,
		"__xray_patch":                                      true,
		"_GLOBAL__sub_I_xray_interface.cpp":                 true,
		"_start":                                            false,
		"_ZN4xray5startEv":                                  false,
		"_Z6xray__i":                                        false,
	} {
		if runtimeName.MatchString(name) != is {
			t.Errorf("%s: expected %v", name, is)
		}
	}
}
