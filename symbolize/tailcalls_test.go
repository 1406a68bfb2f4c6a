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

const tailProgram = `
#define NOINLINE __attribute__((noinline))
volatile int sum;
extern int helper(int);
extern int plain(int);
NOINLINE int finish(int i) { return sum += i; }
__attribute__((noinline, xray_never_instrument)) int unlock(int i) { return sum -= i; }
int (*volatile chosen)(int) = finish;
NOINLINE int to_recorded(int i) { sum++; return finish(i); }
NOINLINE int to_unrecorded(int i) { sum++; return unlock(i); }
NOINLINE int to_helper(int i) { sum++; return helper(i); }
NOINLINE int to_plain(int i) { sum++; return plain(i); }
NOINLINE int to_chosen(int i) { sum++; return chosen(i); }
NOINLINE int either(int i) { sum++; return i ? finish(i) : helper(i); }
NOINLINE int even(int);
NOINLINE int odd(int i) { sum++; return i ? even(i - 1) : finish(i); }
NOINLINE int even(int i) { sum--; return i ? odd(i - 1) : 0; }
int main(void) { return to_recorded(1) + to_unrecorded(2) + to_helper(3) + to_plain(4) + to_chosen(5) + either(6) + even(7); }
`

const tailLibrary = `
volatile int more;
__attribute__((noinline)) int inner(int i) { return more += i; }
int helper(int i) { more++; return inner(i); }
__attribute__((xray_never_instrument)) int plain(int i) { return more -= i; }
`

// Targets of tail calls are as in the source, including those in other objects.
func TestFindTailCalls(t *testing.T) {
	for _, test := range []struct {
		clang string
		flags []string
	}{
		{"clang-14", nil}, {"clang-19", nil}, {"clang-22", nil},
		{"clang-22", []string{"-fno-plt"}},
		{"clang-22", []string{"-fcf-protection=full", "-fuse-ld=lld"}},
		{"clang-22", []string{"-no-pie", "-Wl,-z,now"}},
	} {
		t.Run(test.clang+strings.Join(test.flags, ""), func(t *testing.T) {
			t.Parallel()
			testenv.Need(t, test.clang)
			dir := t.TempDir()
			compile := func(source, text string, args ...string) *Table {
				t.Helper()
				if err := os.WriteFile(filepath.Join(dir, source), []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
				args = append([]string{"-O2", "-fxray-instrument", "-fxray-instruction-threshold=1", source}, append(args, test.flags...)...)
				cmd := exec.Command(test.clang, args...)
				cmd.Dir = dir
				if said, err := cmd.CombinedOutput(); err != nil {
					if strings.Contains(string(said), "invalid linker name") {
						testenv.Need(t, "ld.lld")
					}
					t.Fatalf("%v\n%s", err, said)
				}
				table, err := Load(filepath.Join(dir, args[len(args)-len(test.flags)-1]), Options{})
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { table.Close() })
				return table
			}
			library := compile("library.c", tailLibrary, "-shared", "-fPIC", "-o", "library.so")
			program := compile("program.c", tailProgram, "library.so", "-o", "program")
			if t.Failed() {
				return
			}
			names := NewPacked(Objects{0: program, 3: library}, false)
			checkTails(t, names, FindTailCalls(names),
				"either finish", "either helper", "odd finish", "to_helper helper", "to_recorded finish", "helper inner")
			// Without the library, targets in it are unknown.
			checkTails(t, program, FindTailCalls(program), "either finish", "odd finish", "to_recorded finish")
			checkTails(t, names, FindTailCalls(names, library), "either finish", "odd finish", "to_recorded finish")
			f := FindTailCalls(program)
			if f.sleds[jumpUnknown] != 1 || f.sleds[jumpUnrecorded] != 1 || f.sleds[jumpImported] != 3 {
				t.Errorf("got sleds by kind %v", f.sleds)
			}
		})
	}
}

// checkTails compares tail calls with pairs of names.
func checkTails(t *testing.T, names Names, found *TailCalls, want ...string) {
	t.Helper()
	var ids []reader.FuncID
	eachFunction(names, func(id reader.FuncID, _ *Table, _ int) { ids = append(ids, id) })
	var got []string
	for _, from := range ids {
		for _, to := range ids {
			if found.Continue(from, to) {
				got = append(got, Label(names, from)+" "+Label(names, to))
			}
		}
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// decodeJump returns nothing for code that is not a jump.
func TestDecodeJump(t *testing.T) {
	for _, test := range []struct {
		code          string
		address, slot uint64
	}{
		{"\xe9\x10\x00\x00\x00", 0x1015, 0},
		{"\xeb\xfe", 0x1000, 0},
		{"\xf3\x0f\x1e\xfa\xff\x25\x10\x00\x00\x00", 0, 0x101a}, // endbr64; jmp *16(%rip)
		{"\xf2\xff\x25\xf0\xff\xff\xff", 0, 0xff7},              // bnd jmp *-16(%rip)
		{"\xff\xe0", 0, 0},                                      // jmp *%rax
		{"\xff\x24\xc5\x00\x10\x00\x00", 0, 0},                  // jmp *0x1000(,%rax,8)
		{"\x75\x10", 0x1012, 0},                                 // jne
		{"\x0f\x8e\x10\x00\x00\x00", 0x1016, 0},                 // jle
		{"\x0f\x9e\xc0", 0, 0},                                  // setle
		{"\xe8\x10\x00\x00\x00", 0, 0},                          // call
		{"\xe9\x10", 0, 0},
		{"", 0, 0},
	} {
		if address, slot := decodeJump([]byte(test.code), 0x1000); address != test.address || slot != test.slot {
			t.Errorf("% x: got %#x, %#x; want %#x, %#x", test.code, address, slot, test.address, test.slot)
		}
	}
}
