//go:build linux && amd64

package recorder_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/xray-tools/xray/internal/test/testenv"
	"github.com/xray-tools/xray/symbolize"
)

const attributesProgram = `
#include <xray/recorder.h>
#ifdef __cplusplus
extern "C" {
int tiny(int a), logged(int a), usual(int a), large(int a), controls(void);
}
#endif
XRAY_ALWAYS_INSTRUMENT int tiny(int a) { return a; }
XRAY_LOG_ARGS(1) int logged(int a) { return a; }
int usual(int a) { return a; }
XRAY_NEVER_INSTRUMENT int large(int a) { for (int i = 0; i < a; i++) __asm__ volatile(""); return a; }
XRAY_NEVER_INSTRUMENT int controls(void) { xray_event("", 0); xray_mark(""); return xray_present() + xray_start("") + xray_stop(); }
XRAY_NEVER_INSTRUMENT int main(void) { if (controls() == 1) return 1; return tiny(1) + logged(1) + usual(1) + large(1) - 4; }
`

// The attributes of the header select functions in clang and in GCC, in C and in C++.
func TestAttributes(t *testing.T) {
	testenv.Need(t, "clang-22", "gcc")
	dir := t.TempDir()
	source := filepath.Join(dir, "program.c")
	if err := os.WriteFile(source, []byte(attributesProgram), 0o666); err != nil {
		t.Fatal(err)
	}
	build := func(program string, args ...string) {
		t.Helper()
		args = slices.Concat(args, []string{"-Iruntime", "-Wall", "-Werror", source, "-o", program})
		if out, err := exec.Command(args[0], args[1:]...).CombinedOutput(); err != nil {
			t.Fatalf("%v: %v\n%s", args, err, out)
		}
		if err := exec.Command(program).Run(); err != nil {
			t.Errorf("%v: %v", args, err)
		}
	}
	program := filepath.Join(dir, "program")
	for _, language := range []string{"c", "c++"} {
		build(program, "clang-22", "-x", language, "-O1", "-fxray-instrument", "-fxray-instruction-threshold=4", "-lstdc++")
		table, err := symbolize.Load(program, symbolize.Options{})
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, f := range table.Map().Functions {
			name, _, _ := strings.Cut(symbolize.Label(table, f.ID), "(")
			names = append(names, name)
		}
		slices.Sort(names)
		if diff := cmp.Diff([]string{"logged", "tiny"}, names); diff != "" {
			t.Errorf("%s: functions with sleds:\n%s", language, diff)
		}
		table.Close()
	}
	// GCC's hooks get the addresses of the functions that call them. The header's own functions have
	// none, although GCC instruments inlined functions, too.
	for _, cc := range []string{"gcc", "g++"} {
		testenv.Need(t, cc)
		build(program, cc, "-O1", "-finstrument-functions")
		checkHooks(t, program)
	}
}

// checkHooks checks which functions of attributesProgram call GCC's hooks.
func checkHooks(t *testing.T, program string) {
	t.Helper()
	out, err := exec.Command("objdump", "-d", "--no-show-raw-insn", program).Output()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		function string
		hooked   bool
	}{{"usual", true}, {"tiny", true}, {"large", false}, {"controls", false}, {"main", false}} {
		_, body, found := strings.Cut(string(out), "<"+c.function+">:\n")
		if !found {
			t.Errorf("no function %s", c.function)
		}
		body, _, _ = strings.Cut(body, "\n\n")
		if strings.Contains(body, "__cyg_profile_func_enter") != c.hooked {
			t.Errorf("GCC instruments %s: %t, want %t", c.function, !c.hooked, c.hooked)
		}
	}
}
