package main

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/pprof/profile"

	"github.com/xray-tools/xray/internal/test/testenv"
	"github.com/xray-tools/xray/internal/tracetext"
	"github.com/xray-tools/xray/symbolize"
)

// linked is a program with two shared objects, and its trace.
type linked struct {
	trace                  string
	program, first, second string // the shared objects by number
}

func buildLinked(t *testing.T) linked {
	t.Helper()
	testenv.Need(t, "clang++-22")
	dir := t.TempDir()
	in := func(name string) string { return filepath.Join(dir, name) }
	l := linked{in("trace.xray"), in("prog"), in("libfirst.so"), in("libsecond.so")}
	write := func(name, text string) {
		if err := os.WriteFile(in(name), []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	const attributes = "[[clang::xray_always_instrument, gnu::noinline]] "
	write("lib.cc", "namespace NAME {\n"+attributes+"int one(int n) { return n + 1; }\n"+attributes+"int two(int n) { return one(n) + 1; }\n}\n")
	write("prog.cc", "namespace first { int two(int); }\nnamespace second { int two(int); }\n"+
		"int main() { return first::two(1) + second::two(2) != 7; }\n")
	for _, args := range [][]string{
		{"-shared", "-DNAME=first", "lib.cc", "-o", l.first},
		{"-shared", "-DNAME=second", "lib.cc", "-o", l.second, l.first},
		{"-fxray-instruction-threshold=1", "prog.cc", l.second, l.first, "-Wl,-rpath," + dir, "-o", l.program},
	} {
		cmd := exec.Command("clang++-22", append([]string{"-O1", "-g", "-fxray-instrument", "-fxray-shared", "-fPIC", "-Wl,--build-id"}, args...)...)
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%q: %v\n%s", cmd.Args, err, out)
		}
	}
	trace, err := tracetext.Parse(`xray fdr frequency=1000000000
thread 11 pid=7 tsc=1000
enter 1 +0
enter 0x1000002 +10
enter 0x1000001 +10
exit 0x1000001 +10
exit 0x1000002 +10
enter 0x2000002 +10
enter 0x2000001 +10
exit 0x2000001 +10
exit 0x2000002 +10
exit 1 +10
enter 1 +0
exit 1 +10
`)
	if err != nil {
		t.Fatal(err)
	}
	write("trace.xray", string(trace))
	return l
}

// Every command that names functions names those of shared objects, and warns if a file cannot be
// the one that was traced.
func TestObjectsEverywhere(t *testing.T) {
	l := buildLinked(t)
	wrong := filepath.Join(t.TempDir(), "wrong.yaml")
	if err := os.WriteFile(wrong, []byte("---\n- { id: 1, address: 0x1000, function: 0x1000, kind: function-enter, "+
		"always-instrument: true, function-name: 'wrong()', version: 2 }\n...\n"), 0o666); err != nil {
		t.Fatal(err)
	}
	all := []string{"main", "first::one(int)", "first::two(int)", "second::one(int)", "second::two(int)"}
	some := map[string][]string{ // reports about these commands' own functions only
		"diff BOTH":          {"main"},
		"shapes --root main": {"first::two", "second::two"},
	}
	for _, command := range []string{
		"account", "account --format csv", "account --format json", "account --format markdown",
		"stack", "stack --format folded", "stack --format svg", "graph", "graph-diff BOTH", "diff BOTH",
		"convert -f chrome", "convert -f perfetto", "convert -f viztracer", "convert -f speedscope", "convert -f pprof",
		"convert -f callgrind", "convert -f csv", "convert -f json", "convert -f folded", "convert -f yaml --symbolize",
		"html", "slowest --root main", "shapes --root main", "exclude --budget 0%", "account PACKED",
	} {
		t.Run(command, func(t *testing.T) {
			t.Parallel()
			args := append([]string{"xray"}, strings.Fields(command)...)
			name := args[1]
			both, packed := slices.Contains(args, "BOTH"), slices.Contains(args, "PACKED")
			args = slices.DeleteFunc(args, func(a string) bool { return a == "BOTH" || a == "PACKED" })
			run := func(first string) (string, string) {
				files := []string{"-m", l.program, "--object", "1=" + first, "--object", "2=" + l.second}
				out := filepath.Join(t.TempDir(), "out")
				args := append(args, files...)
				if name == "convert" || name == "html" {
					args = append(args, "-o", out)
				}
				stderr := ""
				switch {
				case both && name == "diff":
					args = append(args, l.trace, "--", l.trace)
				case both:
					args = append(args, l.trace, l.trace)
				case packed:
					to := filepath.Join(t.TempDir(), "packed.xray")
					p := runHere(append(append([]string{"xray", "pack", "-o", to}, files...), l.trace)...)
					stderr = p.stderr
					args = []string{"xray", "account", to}
				default:
					args = append(args, l.trace)
				}
				got := runHere(args...)
				if got.status != 0 {
					t.Fatalf("%q: %v", args, got)
				}
				if text, err := os.ReadFile(out); err == nil {
					got.stdout += string(text)
				}
				if z, err := gzip.NewReader(strings.NewReader(got.stdout)); err == nil {
					text, err := io.ReadAll(z)
					if err != nil {
						t.Fatal(err)
					}
					got.stdout = string(text)
				}
				if meta, err := pageMeta(got.stdout); err == nil {
					got.stdout = string(meta)
				}
				return got.stdout, stderr + got.stderr
			}
			stdout, stderr := run(l.first)
			want := some[command]
			if want == nil {
				want = all
			}
			for _, function := range want {
				function = strings.TrimSuffix(function, "(int)") // text shows short names
				if !strings.Contains(stdout, function) && !strings.Contains(stdout, strings.ReplaceAll(function, "::", "\\:\\:")) {
					t.Errorf("no %s in\n%.3000s", function, stdout)
				}
			}
			if stderr != "" {
				t.Errorf("unexpected standard error: %s", stderr)
			}
			notes := 1
			if both {
				notes = 2
			}
			if _, stderr = run(wrong); strings.Count(stderr, "function 2 of object 1 was called, but the last function of "+wrong+" is 1") != notes {
				t.Errorf("with a wrong file: got standard error %s, want %d warnings", stderr, notes)
			}
		})
	}
}

// A profile has a mapping with a build ID for each object, and each function has its address in
// that mapping, however the objects were given.
func TestPprofObjects(t *testing.T) {
	t.Parallel()
	l := buildLinked(t)
	type object struct {
		file, buildID string
		functions     map[string]uint64 // addresses
	}
	var objects []object
	var recorded strings.Builder
	first := 1
	for _, file := range []string{l.program, l.first, l.second} {
		table, err := symbolize.Load(file, symbolize.Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer table.Close()
		o := object{file, table.Object().BuildID, make(map[string]uint64)}
		for _, f := range table.Map().Functions {
			s, _ := table.Func(f.ID)
			o.functions[s.Name] = f.Address
		}
		objects = append(objects, o)
		fmt.Fprintf(&recorded, `{"first":%d,"count":%d,"path":%q,"build_id":%q},`, first, len(o.functions), file, o.buildID)
		first += len(o.functions)
	}
	dir := t.TempDir()
	trace, err := tracetext.Parse(`xray fdr frequency=1000000000 free=5852594d46445231
thread 0 tsc=1000
metadata 2 ` + "`" + `{"objects":[` + strings.TrimSuffix(recorded.String(), ",") + "]}`" + `
thread 11 pid=7 tsc=1000
enter 1 +0
enter 3 +10
enter 2 +10
enter 5 +10
enter 4 +10
exit 1 +10
`)
	byRecorder, packed := filepath.Join(dir, "recorded.xray"), filepath.Join(dir, "packed.xray")
	if err == nil {
		err = os.WriteFile(byRecorder, trace, 0o666)
	}
	if err != nil {
		t.Fatal(err)
	}
	if got := runHere("xray", "pack", "-m", l.program, "--object", "auto", "-o", packed, l.trace); got.status != 0 {
		t.Fatal(got)
	}
	for name, args := range map[string][]string{
		"auto":     {"-m", l.program, "--object", "auto", l.trace},
		"recorded": {byRecorder},
		"packed":   {packed},
	} {
		t.Run(name, func(t *testing.T) {
			out := filepath.Join(t.TempDir(), "profile.pb.gz")
			if got := runHere(append([]string{"xray", "convert", "-f", "pprof", "-o", out}, args...)...); got.status != 0 {
				t.Fatal(got)
			}
			raw, err := exec.Command("go", "tool", "pprof", "-raw", out).CombinedOutput()
			if err != nil {
				t.Fatalf("go tool pprof: %v\n%s", err, raw)
			}
			data, err := os.ReadFile(out)
			if err != nil {
				t.Fatal(err)
			}
			prof, err := profile.Parse(bytes.NewReader(data))
			if err != nil {
				t.Fatal(err)
			}
			seen := 0
			for _, o := range objects {
				mapping := regexp.MustCompile(fmt.Sprintf(`(?m)^\d+: 0x[0-9a-f]+/0x[0-9a-f]+/0x[0-9a-f]+ %s %s `, regexp.QuoteMeta(o.file), o.buildID))
				if !mapping.Match(raw) {
					t.Errorf("go tool pprof -raw has no mapping of %s, %s", o.file, o.buildID)
				}
				for _, loc := range prof.Location {
					address, ok := o.functions[loc.Line[0].Function.Name]
					if !ok {
						continue
					}
					seen++
					m := loc.Mapping
					inside := loc.Address >= m.Start && loc.Address < m.Limit && loc.Address-m.Start+m.Offset == address
					if m.File != o.file || !inside && name != "packed" || loc.Address != address {
						t.Errorf("%s: got address %#x, want %#x, in mapping %+v", loc.Line[0].Function.Name, loc.Address, address, m)
					}
				}
			}
			if seen != 5 || t.Failed() {
				t.Errorf("got %d functions, want 5, in\n%s", seen, raw)
			}
			account := runHere(append([]string{"xray", "account", "--objects", "--format", "csv"}, args...)...)
			for _, o := range objects {
				for function := range o.functions {
					if row := regexp.MustCompile(`(?m)^\d+,.*,` + filepath.Base(o.file) + `,` + regexp.QuoteMeta(function) + `,`); !row.MatchString(account.stdout) {
						t.Errorf("account --objects: %s does not belong to %s:\n%v", function, o.file, account)
					}
				}
			}
		})
	}
}
