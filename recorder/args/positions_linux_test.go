//go:build linux && amd64

package args

import (
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/xray-tools/xray/internal/test/elftest"
	"github.com/xray-tools/xray/internal/test/testenv"
)

// kindOfParameter is a type of the enumeration that TestPositions walks.
type kindOfParameter struct {
	declare string   // with $ for the name
	show    []string // expressions, with $ for the name
	init    func(r *rand.Rand) string
}

func numbers(format string, count int) func(r *rand.Rand) string {
	return func(r *rand.Rand) string {
		args := make([]any, count)
		for i := range args {
			args[i] = r.IntN(100)
		}
		return fmt.Sprintf(format, args...)
	}
}

func oneOf(list ...string) func(r *rand.Rand) string {
	return func(r *rand.Rand) string { return list[r.IntN(len(list))] }
}

var kindsOfParameters = []kindOfParameter{
	{"bool $", []string{"$"}, oneOf("true", "false")},
	{"char $", []string{"$"}, oneOf("'a'", "'z'")},
	{"signed char $", []string{"$"}, numbers("-%d", 1)},
	{"unsigned char $", []string{"$"}, numbers("150 + %d", 1)},
	{"short $", []string{"$"}, numbers("-3%d", 1)},
	{"unsigned short $", []string{"$"}, numbers("40000 + %d", 1)},
	{"int $", []string{"$"}, numbers("-10000%d", 1)},
	{"unsigned $", []string{"$"}, numbers("30000000%du", 1)},
	{"const long $", []string{"$"}, numbers("-40000000000%dl", 1)},
	{"unsigned long $", []string{"$"}, numbers("1%d0000000000000000ul", 1)},
	{"float $", []string{"$"}, numbers("%d.5f", 1)},
	{"double $", []string{"$"}, numbers("-%d.25", 1)},
	{"long double $", []string{"$"}, numbers("%d.125l", 1)},
	{"__int128 $", []string{"$"}, numbers("-(__int128)%d * 10000000000 * 10000000000", 1)},
	{"unsigned __int128 $", []string{"$"}, numbers("(unsigned __int128)%d * 10000000000 * 10000000000", 1)},
	{"char32_t $", []string{"$"}, oneOf("U'q'")},
	{"void *$", []string{"$"}, numbers("(void *)0x1%d0", 1)},
	{"const char *$", []string{"$"}, oneOf(`"text"`, `""`, "nullptr")},
	{"int *$", []string{"$", "*$", "$[2]"}, oneOf("array", "array + 3")},
	{"const int &$", []string{"$"}, oneOf("array[1]", "array[4]")},
	{"Color $", []string{"$"}, oneOf("red", "green", "blue")},
	{"Op $", []string{"$"}, oneOf("Op::get", "Op::set")},
	{"One $", []string{"$.a"}, numbers("One{%d}", 1)},
	{"Floats $", []string{"$.a", "$.b"}, numbers("Floats{%d.5f, -%d}", 2)},
	{"ThreeFloats $", []string{"$.a", "$.b", "$.c"}, numbers("ThreeFloats{%d.5f, -%d, %d}", 3)},
	{"Mixed $", []string{"$.a", "$.b"}, numbers("Mixed{%d.5, -%d}", 2)},
	{"Packed2 $", []string{"$.a", "$.b", "$.c"}, numbers("Packed2{-%d, %d.5f, %d.5}", 3)},
	{"Chars $", []string{"$.a", "$.b", "$.c"}, oneOf("Chars{'a', 'b', 'c'}", "Chars{'x', 'y', 'z'}")},
	{"Big $", []string{"$.a", "$.c"}, numbers("Big{%d, %d, -%d}", 3)},
	{"Bits $", []string{"$.a", "$.b", "$.c", "$.d"}, numbers("Bits{%[1]d %% 8, -%[2]d %% 64, 1ul << 39 | %[1]d, true}", 2)},
	{"Derived $", []string{"$.b"}, numbers("derived(%d, %d)", 2)},
	{"const Derived *$", []string{"$->b", "$"}, oneOf("derivedAt(3)", "derivedAt(9)")},
	{"Nested $", []string{"$.in.a", "$.in.b", "$.in.c", "$.e"}, numbers("nested(%d, %d, %d)", 3)},
	{"Array $", []string{"$.a[0]", "$.a[2]"}, numbers("Array{{%d, %d, %d}}", 3)},
	{"Empty $", nil, oneOf("Empty{}")},
	{"Unaligned $", []string{"$.a", "$.b"}, numbers("Unaligned{'u', %d}", 1)},
	{"Aligned $", []string{"$.a"}, numbers("Aligned{%d}", 1)},
	{"AlignedBig $", []string{"$.a", "$.c"}, numbers("AlignedBig{%d, %d, %d}", 3)},
	{"Copied $", []string{"$.a"}, numbers("Copied(%d)", 1)},
	{"Destroyed $", []string{"$.a"}, numbers("Destroyed{%d}", 1)},
	{"Virtual $", []string{"$.a"}, numbers("Virtual(%d)", 1)},
	{"HasCopied $", []string{"$.c.a"}, numbers("HasCopied{Copied(%d)}", 1)},
	{"Wide $", []string{"$.a"}, numbers("Wide{%d}", 1)},
	{"LongDouble $", []string{"$.a"}, numbers("LongDouble{%d.5l}", 1)},
	{"Number $", []string{"$.i"}, numbers("Number{%d}", 1)},
	{"Vector $", []string{}, oneOf("(Vector{1, 2, 3, 4})")},
	{"HasVector $", []string{}, oneOf("(HasVector{Vector{1, 2, 3, 4}})")},
	{"std::string $", []string{"$", "$.size()", "$.empty()"}, oneOf(`"short"`, `""`, `"a string that is longer"`)},
	{"int Destroyed::*$", nil, oneOf("nullptr")},
	{"decltype(nullptr) $", nil, oneOf("nullptr")},
}

// generated returns a C++ program that passes each type in each position, and the expressions of its
// functions.
func generated(seed uint64, functions int, external bool) (string, map[string][]*Expression) {
	r := rand.New(rand.NewPCG(seed, 1))
	expressions := map[string][]*Expression{}
	var text, calls strings.Builder
	text.WriteString("#include \"types.h\"\nstatic int array[8] = {3, 1, 4, 1, 5, 9, 2, 6};\n" +
		"static Derived derived(int a, int b) { Derived d; d.Base::a = a; d.One::a = b; d.b = a + 0.5; return d; }\n" +
		"// opaque keeps compilers from knowing a value.\ntemplate <class T> static __attribute__((noinline)) T opaque(T v) { asm volatile(\"\" : : \"r\"(&v) : \"memory\"); return v; }\n" +
		"static Derived kept[10];\nstatic Derived *derivedAt(int i) { kept[i] = derived(i, i); return &kept[i]; }\n" +
		"static Nested nested(int a, int b, int e) { Nested n{}; n.in.a = a; n.in.b = 'n'; n.in.c = -b; n.e = e; return n; }\n")
	for i := range functions {
		name := fmt.Sprintf("f%d", i)
		var list, values, shows []string
		result := kindsOfParameters[r.IntN(len(kindsOfParameters))]
		parameter := func(k kindOfParameter) {
			p := fmt.Sprintf("p%d", len(list))
			list = append(list, strings.ReplaceAll(k.declare, "$", p))
			values = append(values, "opaque<"+strings.TrimSuffix(strings.ReplaceAll(strings.ReplaceAll(k.declare, "$", ""), "&", ""), " ")+">("+k.init(r)+")")
			for _, s := range k.show {
				e := strings.ReplaceAll(s, "$", p)
				shows = append(shows, "SHOW("+e+");")
				parsed, err := parseExpression(e)
				if err != nil {
					panic(err)
				}
				if expressions[name] = append(expressions[name], parsed); len(expressions[name]) == MaxValues {
					return
				}
			}
		}
		// Fill registers with numbers to reach each position.
		for range i % 8 {
			parameter(kindsOfParameters[6])
		}
		for range i / 8 % 10 {
			parameter(kindsOfParameters[11])
		}
		shows, expressions[name] = nil, nil
		for len(expressions[name]) < MaxValues-4 && len(list) < 24 {
			parameter(kindsOfParameters[(i+len(list)*7)%len(kindsOfParameters)])
			if r.IntN(4) == 0 {
				parameter(kindsOfParameters[r.IntN(len(kindsOfParameters))])
			}
		}
		kept := shows[:min(len(shows), MaxValues)]
		linkage := `extern "C"`
		if !external {
			linkage = "static"
		}
		fmt.Fprintf(&text, "%s __attribute__((noinline)) %s %s(%s) { ENTER(%s); %s LEAVE(); return %s; }\n",
			linkage, strings.TrimSuffix(strings.ReplaceAll(result.declare, "$", ""), " "), name, strings.Join(list, ", "), name, strings.Join(kept, " "), result.init(r))
		fmt.Fprintf(&calls, "\t%s(%s);\n", name, strings.Join(values, ", "))
	}
	return text.String() + "int main() {\n" + calls.String() + "}\n", expressions
}

// Parameters of each type in each position have the values that the program prints.
func TestPositions(t *testing.T) {
	// missing is how many of a hundred values may be missing, because the debug information does not tell
	// that the function uses them, or the compiler changed how the function is called.
	type cell struct {
		compiler, flags string
		external        bool
		missing         int
	}
	cells := []cell{
		{"clang++-22", "-O0", true, 0}, {"clang++-22", "-O0", false, 0},
		{"clang++-22", "-O2", true, 5}, {"clang++-22", "-O2", false, 60},
		{"clang++-19", "-O3 -gdwarf-4", true, 15}, {"clang++-19", "-O1", false, 60},
		{"clang++-14", "-O0 -gdwarf-4", true, 20}, {"clang++-14", "-O2", false, 60},
		{"g++", "-O0 -gdwarf-4", true, 0}, {"g++", "-O0", false, 0}, {"g++", "-O2", true, 0}, {"g++", "-O3 -gdwarf-4", false, 40},
		{"clang++-22", "-O2 -mavx2", true, 5}, {"g++", "-O2 -pg", true, 1}, {"g++", "-O1 -finstrument-functions", false, 1},
		{"clang++-22", "-O1 -gsplit-dwarf", true, 5},
	}
	if os.Getenv("XRAY_SOAK") == "1" { // the whole matrix, of which some values may be missing
		for _, compiler := range []string{"clang++-22", "clang++-19", "clang++-14", "g++"} {
			kinds := []string{"", "-flto -fuse-ld=lld-22", "-flto=thin -fuse-ld=lld-22", "-mavx2", "-gsplit-dwarf", "-gdwarf-4"}
			if compiler == "g++" {
				kinds = []string{"", "-flto", "-pg", "-finstrument-functions", "-mavx2", "-gsplit-dwarf", "-gdwarf-4"}
			}
			for level := range 4 {
				for i, kind := range kinds {
					cells = append(cells, cell{compiler, fmt.Sprintf("-O%d %s", level, kind), (level+i)%2 == 0, 100})
				}
			}
		}
	}
	for _, build := range cells {
		t.Run(fmt.Sprintf("%s %s external=%v", build.compiler, build.flags, build.external), func(t *testing.T) {
			t.Parallel()
			testenv.Need(t, build.compiler)
			source, expressions := generated(7, 100, build.external)
			path := compiled(t, build.compiler, source, strings.Fields(build.flags)...)
			p := open(t, path, func(symbol string) bool { return expressions[plain(symbol)] != nil })
			lines, refused, printed := p.values(t, func(name string) []*Expression { return expressions[plain(name)] }, nil)
			equal, missing := check(t, lines, refused, printed)
			if missing*100 > build.missing*(equal+missing) {
				t.Errorf("%d of %d values are missing", missing, equal+missing)
			}
		})
	}
}

// plain returns the name of a static function of the generated programs, without its types.
func plain(symbol string) string {
	if rest, ok := strings.CutPrefix(symbol, "_ZL"); ok {
		n, at := 0, 0
		for at < len(rest) && rest[at] >= '0' && rest[at] <= '9' {
			n, at = n*10+int(rest[at]-'0'), at+1
		}
		symbol = rest[at:min(len(rest), at+n)]
	}
	name, _, _ := strings.Cut(symbol, ".")
	return name
}

func compiled(t *testing.T, compiler, source string, flags ...string) string {
	t.Helper()
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "main.cc")
	if err := os.WriteFile(file, []byte(source), 0o666); err != nil {
		t.Fatal(err)
	}
	args := append([]string{"-g", "-w", "-std=c++20", "-I", filepath.Join(here, "testdata"), file}, flags...)
	if strings.HasPrefix(compiler, "clang") {
		args = append(args, "-fxray-instrument", "-fxray-instruction-threshold=1", "-fstandalone-debug")
	}
	if slices.Contains(flags, "-gsplit-dwarf") { // .dwo files are beside objects
		object := filepath.Join(filepath.Dir(file), "main.o")
		if out, err := exec.Command(compiler, append(args, "-c", "-o", object)...).CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		args[slices.Index(args, file)] = object
	}
	return elftest.Build(t, compiler, "program", args...)
}

// check compares lines of values with what a program printed, and returns how many values were equal, and
// how many that were printed are missing. A value is missing if it was refused.
func check(t *testing.T, lines, refused []string, printed string) (equal, missing int) {
	t.Helper()
	wrong := 0
	var omitted []string
	report := func(got, want string) {
		if wrong++; wrong < 12 {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
	for want := range strings.Lines(printed) {
		list := fieldsOf(want)
		var got []string
		if len(lines) > 0 && plain(fieldsOf(lines[0])[0]) == list[0] {
			got, lines = fieldsOf(lines[0])[1:], lines[1:]
		}
		list = list[1:]
		for len(got) > 0 {
			expression, _, _ := strings.Cut(got[0], "=")
			for len(list) > 0 && !strings.HasPrefix(list[0], expression+"=") {
				list, missing = list[1:], missing+1
			}
			if len(list) == 0 || list[0] != got[0] {
				report(got[0], want)
				break
			}
			got, list, equal = got[1:], list[1:], equal+1
		}
		missing += len(list)
		if len(list) > 0 {
			omitted = append(omitted, strings.TrimSpace(want)+" lacks "+list[0])
		}
	}
	for _, line := range omitted[:min(len(omitted), 8)] {
		t.Logf("omitted: %s", line)
	}
	if len(lines) > 0 {
		report(lines[0], "no more calls")
	}
	for _, r := range refused[:min(len(refused), 8)] {
		t.Logf("refused: %s", r)
	}
	t.Logf("%d values equal, %d missing, %d wrong", equal, missing, wrong)
	return equal, missing
}

// fieldsOf splits a line at blanks that are not in quotes or parentheses.
func fieldsOf(line string) (list []string) {
	quoted, depth := false, 0
	return strings.FieldsFunc(strings.TrimSpace(line), func(c rune) bool {
		if c == '"' {
			quoted = !quoted
		}
		switch {
		case c == '(' && !quoted:
			depth++
		case c == ')' && !quoted:
			depth--
		}
		return c == ' ' && !quoted && depth == 0
	})
}
