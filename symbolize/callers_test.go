package symbolize

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/xray-tools/xray/internal/test/testenv"
	"github.com/xray-tools/xray/reader"
)

const callersProgram = `
#include <setjmp.h>
#include <stdlib.h>
#define NOINLINE __attribute__((noinline))
#define UNRECORDED __attribute__((noinline, xray_never_instrument))
volatile int sum;
jmp_buf place;
NOINLINE int plain(int i) { sum += i; return sum; }
NOINLINE int tailed(int i) { sum += 2 * i; return sum; }
NOINLINE int in_data(int i) { sum += 3 * i; return sum; }
NOINLINE int in_code(int i) { sum += 4 * i; return sum; }
NOINLINE int behind(int i) { sum += 5 * i; return sum; }
NOINLINE int behind_taken(int i) { sum += 6 * i; return sum; }
NOINLINE int recursive(int i) { if (i > 0) sum += recursive(i - 1) + recursive(i - 2); return sum; }
int (*const table[])(int) = { in_data, abs };
UNRECORDED int inner(int i) { sum -= behind(i); return sum; }
UNRECORDED int outer(int i) { sum -= inner(i); return sum; }
UNRECORDED int taken(int i) { sum -= behind_taken(i); return sum; }
NOINLINE int calls(int i) { sum += plain(i); sum += recursive(i); return sum; }
NOINLINE int jumps(int i) { sum++; return tailed(i); }
NOINLINE int before(int i) { sum += jumps(i); return sum; } // it is open in tailed, and jumps is not
NOINLINE int passes(int i) { sum += outer(i); return sum; }
NOINLINE int chooses(int i, int (*f)(int)) { sum += f(i) + table[i % 2](i); return sum; }
int main(int argc, char **argv) {
	if (setjmp(place))
		return 1;
	return calls(argc) + before(argc) + passes(argc) + chooses(argc, argc ? in_code : taken);
}
`

// The callers of functions are as in the source, however the file was linked.
func TestFindCallers(t *testing.T) {
	for _, test := range []struct {
		clang string
		flags []string
	}{
		{"clang-14", nil}, {"clang-19", nil}, {"clang-22", nil},
		{"clang-22", []string{"-fno-plt"}},
		{"clang-22", []string{"-fcf-protection=full", "-fuse-ld=lld", "-Wl,-z,pack-relative-relocs"}},
		{"clang-22", []string{"-no-pie", "-fno-pie"}},
		{"clang-22", []string{"-rdynamic"}},
	} {
		t.Run(test.clang+strings.Join(test.flags, ""), func(t *testing.T) {
			t.Parallel()
			testenv.Need(t, test.clang)
			dir := t.TempDir()
			program := filepath.Join(dir, "program")
			if err := os.WriteFile(program+".c", []byte(callersProgram), 0o600); err != nil {
				t.Fatal(err)
			}
			args := append([]string{"-O2", "-fxray-instrument", "-fxray-instruction-threshold=1", program + ".c", "-o", program}, test.flags...)
			if said, err := exec.Command(test.clang, args...).CombinedOutput(); err != nil {
				if strings.Contains(string(said), "invalid linker name") {
					testenv.Need(t, "ld.lld")
				}
				t.Fatalf("%v\n%s", err, said)
			}
			table, err := Load(program, Options{})
			if err != nil {
				t.Fatal(err)
			}
			defer table.Close()
			if !table.canLand() {
				t.Error("canLand: got false, want true")
			}
			want := []string{
				"before: main", "behind: passes", "calls: main", "chooses: main", "jumps: before", "main: ", "passes: main", "plain: calls",
				"recursive: calls recursive", "tailed: before jumps",
			}
			if slices.Contains(test.flags, "-rdynamic") {
				want = []string{"main: "} // other objects may look up all others
			}
			if got := callersOf(table, findCallers(table)); !slices.Equal(got, want) {
				t.Errorf("got %q, want %q", got, want)
			}
			if got := callersOf(table, findCallers(table, table)); got != nil {
				t.Errorf("for a wrong file: got %q", got)
			}
			if out, err := exec.Command("strip", program).CombinedOutput(); err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			stripped, err := Load(program, Options{})
			if err != nil {
				t.Fatal(err)
			}
			defer stripped.Close()
			if got := callersOf(table, findCallers(stripped)); got != nil {
				t.Errorf("without symbols: got %q", got)
			}
		})
	}
}

// callersOf returns the names of the callers of all functions with known callers.
func callersOf(names *Table, c *Callers) (list []string) {
	for id, callers := range c.of {
		var labels []string
		for _, from := range callers {
			if c.CanCall(from, id) {
				labels = append(labels, Label(names, from))
			}
		}
		if c.CanCall(reader.FuncID(1<<20), id) {
			labels = append(labels, "any")
		}
		slices.Sort(labels)
		list = append(list, Label(names, id)+": "+strings.Join(labels, " "))
	}
	slices.Sort(list)
	return list
}

// Only the C library calls main, when no call is open. So functions that main alone calls have no
// callers with sleds if main has none.
func TestCallersOfUnrecordedMain(t *testing.T) {
	testenv.Need(t, "clang-22")
	const text = `
#include <setjmp.h>
volatile int sum;
jmp_buf place;
__attribute__((noinline)) int inner(int i) { sum += i; return sum; }
__attribute__((noinline)) int outer(int i) { sum += inner(i); return sum; }
__attribute__((noinline)) int other(int i) { sum += i; return sum; }
__attribute__((xray_never_instrument)) int main(int argc, char **argv) {
	int sum = setjmp(place) ? 1 : outer(argc);
	return sum + other(argc);
}
`
	program := filepath.Join(t.TempDir(), "program")
	if err := os.WriteFile(program+".c", []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if said, err := exec.Command("clang-22", "-O1", "-fxray-instrument", "-fxray-instruction-threshold=1", program+".c", "-o", program).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, said)
	}
	table, err := Load(program, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer table.Close()
	c := findCallers(table)
	if got, want := callersOf(table, c), []string{"inner: outer", "other: ", "outer: "}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	ids := make(map[string]reader.FuncID)
	for id := range c.of {
		ids[Label(table, id)] = id
	}
	if !c.CanReach(ids["outer"], ids["inner"]) || c.CanReach(ids["inner"], ids["outer"]) || c.CanReach(ids["outer"], ids["other"]) || !c.CanReach(ids["inner"], 1000) {
		t.Error("wrong functions can reach each other")
	}
}
