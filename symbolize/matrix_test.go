package symbolize

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/xray-tools/xray/internal/test/elftest"
	"github.com/xray-tools/xray/internal/test/testenv"
	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/symbolize/debuginfo"
)

// matrixSource is the source of an executable or shared object. %s becomes part of its function
// names. A comment names the function that begins on its line.
const matrixSource = `#define INSTRUMENT __attribute__((xray_always_instrument, noinline))
#define INLINE static inline __attribute__((always_inline))
namespace %[1]s {
struct box { volatile int n; };
INLINE int inner(box &b) {
  return b.n += 3;
}
INLINE int outer(box &b) {
  b.n *= 2;
  return inner(b) + 1;
}
INSTRUMENT int work(box &b) { // %[1]s::work(%[1]s::box&)
  int x = b.n;
  x += outer(b);
  return x;
}
template <class T> INSTRUMENT T get(T a, box *b) { // int %[1]s::get<int>(int, %[1]s::box*)
  return a + b->n;
}
namespace {
INSTRUMENT int hidden(int n) { // %[1]s::(anonymous namespace)::hidden(int)
  box b{n};
  return work(b) + get<int>(n, &b);
}
}
INSTRUMENT int run(int n) { // %[1]s::run(int)
  return hidden(n) + hidden(n + 1);
}
}
extern "C" INSTRUMENT int plain_%[1]s(int n) { // plain_%[1]s
  return %[1]s::run(n) + 1;
}
`

// GCC omits the linkage names of local functions from the debug information.
const gcc = "g++-12"

// matrixObject is an executable or shared object of the matrix.
type matrixObject struct {
	dir, path string // dir holds all files; path is the file
	name      string
	lines     map[string]int // by function name
	id        string         // build ID
	compiler  string
	// Functions of the last build by ID, from other tools. Programs of GCC have no map, so
	// their IDs count addresses.
	functions []string
	addresses []uint64
}

// check compares a table with the source. Without lines, it compares only names.
func (m *matrixObject) check(t *testing.T, what, path string, lines, inlines bool, opts Options) {
	t.Helper()
	table, err := m.load(path, opts)
	if err != nil {
		t.Errorf("%s: %v", what, err)
		return
	}
	defer table.Close()
	if len(table.Map().Functions) != len(m.functions) {
		t.Errorf("%s: got %d functions, want %d", what, len(table.Map().Functions), len(m.functions))
	}
	for i, name := range m.functions {
		f := Function{ID: reader.FuncID(i + 1)}
		s, _ := table.Func(f.ID)
		line := m.lines[name]
		switch {
		case s.Name != name:
			t.Errorf("%s: function %d: got %q, want %q", what, f.ID, s.Name, name)
		case lines && (s.Line != line || s.File != filepath.Join(m.dir, m.name+".cc")):
			t.Errorf("%s: %s: got %s:%d, want line %d", what, s.Name, s.File, s.Line, line)
		}
		if inlines && strings.Contains(s.Name, "::work(") {
			outer, inner := "outer", "inner"
			if m.compiler != gcc {
				outer = fmt.Sprintf("_ZN%d%sL5outerERNS_3boxE", len(m.name), m.name)
				inner = fmt.Sprintf("_ZN%d%sL5innerERNS_3boxE", len(m.name), m.name)
			}
			want := fmt.Sprintf("[{1 %s main.cc:%d} {2 %s main.cc:%d}]", outer, line+2, inner, line-2)
			var got []string
			for _, c := range table.Inlined(f.ID) {
				if filepath.Base(c.File) == m.name+".cc" {
					got = append(got, fmt.Sprintf("{%d %s main.cc:%d}", c.Depth, c.Linkage, c.Line))
				}
			}
			if fmt.Sprint(got) != want {
				t.Errorf("%s: inlined into %s: got %v, want %s", what, s.Name, got, want)
			}
		}
	}
	for _, err := range table.Refused() {
		t.Errorf("%s: unexpected refusals: %v", what, err)
	}
}

// build compiles the object into the folder of a variant.
func (m *matrixObject) build(t *testing.T, variant string, args ...string) string {
	t.Helper()
	path := filepath.Join(m.dir, variant, filepath.Base(m.path))
	if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
		t.Fatal(err)
	}
	args = append([]string{"-O1", "-Wl,--build-id", m.name + ".cc", "-o", path}, args...)
	switch m.compiler {
	case gcc:
		args = append(args, "-Wno-attributes")
	case "clang++-14":
		args = append(args, "-fxray-instrument", "-fnoxray-link-deps")
	default:
		args = append(args, "-fxray-instrument", "-fno-xray-link-deps")
	}
	if strings.HasSuffix(path, ".so") {
		args = append(args, "-shared", "-fPIC")
	}
	m.compile(t, args)
	m.ask(t, path)
	return path
}

// compile runs the compiler in the folder of the object, or takes what it made in an earlier run of the tests.
func (m *matrixObject) compile(t *testing.T, args []string) {
	t.Helper()
	elftest.KeepFiles(t, m.compiler, m.dir, args, func() {
		cmd := exec.Command(m.compiler, args...)
		cmd.Dir = m.dir
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%q: %v\n%s", cmd.Args, err, out)
		}
	})
}

// ask lists the functions of a file with other tools.
func (m *matrixObject) ask(t *testing.T, path string) {
	t.Helper()
	m.functions, m.addresses = nil, nil
	if m.compiler == gcc {
		for line := range strings.Lines(elftest.Run(t, "nm", "-C", path)) {
			at, name, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
			if _, ok := m.lines[name[min(2, len(name)):]]; ok {
				address, _ := strconv.ParseUint(at, 16, 64)
				m.functions, m.addresses = append(m.functions, name[2:]), append(m.addresses, address)
			}
		}
	} else {
		entry := regexp.MustCompile(`id: ([0-9]+),.* kind: function-enter,.* function-name: '?(.*?)'?, version`)
		for _, e := range entry.FindAllStringSubmatch(elftest.Run(t, "llvm-xray-22", "extract", "-symbolize", path), -1) {
			if m.functions = append(m.functions, e[2]); e[1] != strconv.Itoa(len(m.functions)) {
				t.Fatalf("llvm-xray: %s", e[0])
			}
		}
	}
	if len(m.functions) != len(m.lines) {
		t.Fatalf("%s: got functions %q, want %d", path, m.functions, len(m.lines))
	}
}

func (m *matrixObject) load(path string, opts Options) (*Table, error) {
	if m.addresses != nil {
		return LoadAddresses(path, opts, m.addresses)
	}
	return Load(path, opts)
}

// copy copies the object into the folder of a variant.
func (m *matrixObject) copy(t *testing.T, variant string) string {
	t.Helper()
	path := filepath.Join(m.dir, variant, filepath.Base(m.path))
	copyFile(t, m.path, path)
	return path
}

// Every function has its name and line, with every compiler and wherever the debug information is.
func TestMatrix(t *testing.T) {
	testenv.Need(t, "objcopy", "strip", "nm", "llvm-objcopy-22", "llvm-dwp-22", "ld.lld-22", "llvm-symbolizer-22", "llvm-xray-22")
	for _, compiler := range []string{"clang++-14", "clang++-19", "clang++-22", gcc} {
		for _, dwarf := range []string{"4", "5"} {
			t.Run(compiler+"/dwarf="+dwarf, func(t *testing.T) {
				testenv.Need(t, compiler)
				t.Parallel()
				for _, object := range []string{"server", "codec", "audio"} {
					m := newMatrixObject(t, compiler, object)
					m.path = m.build(t, "plain", "-gdwarf-"+dwarf)
					m.likeLLVM(t)
					m.check(t, "plain", m.path, true, true, Options{})
					m.separate(t)
					m.compressed(t)
					m.split(t, dwarf)
					args := []string{"-gdwarf-" + dwarf, "-flto"}
					if compiler != gcc {
						args = append(args, "-fuse-ld=lld", "--ld-path=ld.lld-22")
					}
					m.check(t, "LTO", m.build(t, "lto", args...), true, true, Options{})
				}
			})
		}
	}
}

func newMatrixObject(t *testing.T, compiler, name string) *matrixObject {
	t.Helper()
	m := &matrixObject{dir: samePlace(t, compiler+"-"+name), name: name, compiler: compiler, lines: make(map[string]int)}
	m.path = name
	if name != "server" {
		m.path = "lib" + name + ".so"
	}
	source := fmt.Sprintf(matrixSource, name)
	if m.path == name {
		source += "int main(int argc, char **) { return plain_server(argc); }\n"
	}
	for i, line := range strings.Split(source, "\n") {
		if _, function, ok := strings.Cut(line, "{ // "); ok {
			m.lines[function] = i + 1
		}
	}
	if err := os.WriteFile(filepath.Join(m.dir, name+".cc"), []byte(source), 0o666); err != nil {
		t.Fatal(err)
	}
	return m
}

// samePlace returns an empty folder that has the same path in each run of a test, and that no other run uses until
// the test ends.
func samePlace(t *testing.T, name string) string {
	t.Helper()
	cache, err := os.UserCacheDir()
	if err != nil {
		return t.TempDir()
	}
	dir := filepath.Join(cache, "xray-tests", "places", strings.ReplaceAll(t.Name(), "/", "-")+"-"+name)
	if err := os.MkdirAll(filepath.Dir(dir), 0o700); err != nil {
		t.Fatal(err)
	}
	lock, err := os.OpenFile(dir+".lock", os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	err = syscall.Flock(int(lock.Fd()), syscall.LOCK_EX)
	if err = errors.Join(err, os.RemoveAll(dir), os.MkdirAll(dir, 0o700)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir); lock.Close() })
	return dir
}

// likeLLVM compares names, lines and inlined frames in the middle of functions with those of LLVM's
// symbolizer.
func (m *matrixObject) likeLLVM(t *testing.T) {
	t.Helper()
	table, err := m.load(m.path, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer table.Close()
	m.id = table.Object().BuildID
	var addresses []uint64
	args := []string{"--functions=linkage", "--no-demangle", "-e", m.path}
	for _, s := range table.Map().Sleds {
		if s.Kind == Exit {
			addresses = append(addresses, s.Address-1)
			args = append(args, "0x"+hexAddress(s.Address-1))
		}
	}
	at, err := LoadAddresses(m.path, Options{}, addresses)
	if err != nil {
		t.Fatal(err)
	}
	defer at.Close()
	var got strings.Builder
	for _, f := range at.Map().Functions {
		for _, s := range at.Frames(f.ID) {
			fmt.Fprintf(&got, "%s\n%s:%d:%d\n", s.Linkage, s.File, s.Line, s.Column)
		}
		got.WriteByte('\n')
	}
	if want := elftest.Run(t, "llvm-symbolizer-22", args...); got.String() != want {
		t.Errorf("got frames\n%swant\n%s", got.String(), want)
	}
}

// separate moves the debug information out of the file.
func (m *matrixObject) separate(t *testing.T) {
	t.Helper()
	linked := m.copy(t, "linked")
	elftest.Run(t, "objcopy", "--remove-section=.note.gnu.build-id", linked)
	debug := linked + ".dbg"
	elftest.Run(t, "objcopy", "--only-keep-debug", linked, debug)
	elftest.Run(t, "strip", "-s", linked)
	elftest.Run(t, "objcopy", "--add-gnu-debuglink="+debug, linked)
	m.check(t, "debug link", linked, true, true, Options{})
	hidden := filepath.Join(filepath.Dir(debug), ".debug", filepath.Base(debug))
	move(t, debug, hidden)
	m.check(t, ".debug", linked, true, true, Options{})
	mirror := filepath.Join(m.dir, "mirror", "usr", "lib", "debug")
	move(t, hidden, filepath.Join(mirror, debug))
	m.check(t, "debug directory", linked, true, true, Options{Options: debuginfo.Options{DebugDirs: []string{mirror}}})
	move(t, filepath.Join(mirror, debug), filepath.Join(m.dir, "flat", filepath.Base(debug)))
	m.check(t, "name in a debug directory", linked, true, true, Options{Options: debuginfo.Options{DebugDirs: []string{filepath.Join(m.dir, "flat")}}})

	stripped := m.copy(t, "stripped")
	byID := filepath.Join(m.dir, "store", ".build-id", m.id[:2], m.id[2:]+".debug")
	copyFile(t, m.path, byID)
	elftest.Run(t, "objcopy", "--only-keep-debug", byID)
	elftest.Run(t, "strip", "-s", stripped)
	m.check(t, "build id", stripped, true, true, Options{Options: debuginfo.Options{DebugDirs: []string{filepath.Join(m.dir, "store")}}})
	m.check(t, "fetched", stripped, true, true, Options{Options: debuginfo.Options{Fetch: func(id string, kind debuginfo.FileKind) (string, error) {
		if id != m.id || kind != debuginfo.DebugInfo {
			return "", fmt.Errorf("unexpected request for %s %s", id, kind)
		}
		return byID, nil
	}}})

}

// compressed compresses the debug sections.
func (m *matrixObject) compressed(t *testing.T) {
	t.Helper()
	for _, how := range []string{"zlib", "zstd"} {
		path := m.copy(t, how)
		elftest.Run(t, "llvm-objcopy-22", "--compress-debug-sections="+how, path)
		m.check(t, how, path, true, true, Options{})
	}
	// The older form has sections such as .zdebug_info.
	path := m.copy(t, "zlib-gnu")
	elftest.Run(t, "objcopy", "--compress-debug-sections=zlib-gnu", path)
	m.check(t, "zlib-gnu", path, true, true, Options{})
}

// split puts the debug information into .dwo files, and packs these.
func (m *matrixObject) split(t *testing.T, dwarf string) {
	t.Helper()
	// The order of options differs between versions; the last one counts.
	path := m.build(t, "split", "-gsplit-dwarf", "-gdwarf-"+dwarf)
	m.check(t, "dwo", path, true, true, Options{})
	bare := path + ".bare"
	elftest.Run(t, "llvm-objcopy-22", "--remove-section=.symtab", "--remove-section=.strtab", path, bare)
	if m.compiler != gcc {
		m.check(t, "names from a dwo", bare, true, true, Options{})
	}
	dwos, err := filepath.Glob(filepath.Join(m.dir, "*.dwo"))
	more, _ := filepath.Glob(filepath.Join(m.dir, "split", "*.dwo"))
	if dwos = append(dwos, more...); err != nil || len(dwos) == 0 {
		t.Fatalf("no .dwo file in %s: %v", m.dir, err)
	}
	if m.name == "server" { // a package whose first unit belongs to another file
		other := filepath.Join(m.dir, "other.cc")
		if err := os.WriteFile(other, []byte("int other() { return 1; }\n"), 0o666); err != nil {
			t.Fatal(err)
		}
		elftest.Run(t, m.compiler, "-c", "-gsplit-dwarf", "-gdwarf-"+dwarf, other, "-o", filepath.Join(m.dir, "other.o"))
		dwos = append([]string{filepath.Join(m.dir, "other.dwo")}, dwos...)
	}
	elftest.Run(t, "llvm-dwp-22", append(dwos, "-o", path+".dwp")...)
	copyFile(t, path+".dwp", bare+".dwp")
	for _, p := range dwos {
		if err := os.Remove(p); err != nil {
			t.Fatal(err)
		}
	}
	m.check(t, "dwp", path, true, true, Options{})
	if m.compiler != gcc {
		m.check(t, "names from a dwp", bare, true, true, Options{})
	}
}

func move(t *testing.T, from, to string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(to), 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(from, to); err != nil {
		t.Fatal(err)
	}
}

// dwz moves common parts of files to another file.
func TestDwz(t *testing.T) {
	testenv.Need(t, "dwz", "clang++-22")
	m := newMatrixObject(t, "clang++-22", "server")
	m.path = m.build(t, "one", "-gdwarf-4") // dwz does not support clang's DWARF 5
	second := m.copy(t, "two")
	common := filepath.Join(m.dir, "common.debug")
	elftest.Run(t, "dwz", "-m", common, "-M", common, m.path, second)
	m.check(t, "dwz", m.path, true, true, Options{})
	move(t, common, filepath.Join(m.dir, "dir", ".dwz", "common.debug"))
	m.check(t, "in a debug directory", second, true, true, Options{Options: debuginfo.Options{DebugDirs: []string{filepath.Join(m.dir, "dir")}}})
}

// Programs of GCC have no map. Their functions are identified by address.
func TestGCC(t *testing.T) {
	testenv.Need(t, gcc, "dwz", "objcopy", "llvm-symbolizer-22", "nm")
	for _, c := range []struct {
		name string
		args []string
		dwz  bool
	}{
		{"dwarf=4", []string{"-gdwarf-4"}, false},
		{"dwarf=5", []string{"-gdwarf-5"}, false},
		{"dwarf=4/dwz", []string{"-gdwarf-4"}, true},
		{"dwarf=5/dwz", []string{"-gdwarf-5"}, true},
		{"dwarf=4/split", []string{"-gdwarf-4", "-gsplit-dwarf"}, false},
		{"dwarf=5/split", []string{"-gdwarf-5", "-gsplit-dwarf"}, false},
		{"dwarf=5/zlib", []string{"-gdwarf-5", "-gz=zlib"}, false},
		{"dwarf=5/LTO", []string{"-gdwarf-5", "-flto"}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := newMatrixObject(t, gcc, "server")
			path := filepath.Join(m.dir, "server")
			m.compile(t, append([]string{"-O1", "server.cc", "-o", path}, c.args...))
			var addresses []uint64
			args := []string{"--functions=linkage", "--no-demangle", "-e", path}
			for line := range strings.Lines(elftest.Run(t, "nm", "-S", path)) {
				var at, size uint64
				if strings.Contains(line, "_ZN6server") {
					fmt.Sscanf(line, "%x %x", &at, &size)
					for n := range size {
						addresses = append(addresses, at+n)
						args = append(args, "0x"+hexAddress(at+n))
					}
				}
			}
			want := elftest.Run(t, "llvm-symbolizer-22", args...)
			if c.dwz {
				copyFile(t, path, path+"2")
				elftest.Run(t, "dwz", "-m", path+".common", path, path+"2")
			}
			table, err := LoadAddresses(path, Options{}, addresses)
			if err != nil {
				t.Fatal(err)
			}
			defer table.Close()
			// If several rows begin at one address, LLVM uses the last and this package
			// the first. TestMatrix compares lines.
			lines := regexp.MustCompile(`:[0-9]+:[0-9]+\n`)
			var got strings.Builder
			for _, f := range table.Map().Functions {
				for _, s := range table.Frames(f.ID) {
					fmt.Fprintf(&got, "%s\n%s:0:0\n", s.Linkage, s.File)
				}
				got.WriteByte('\n')
			}
			if want = lines.ReplaceAllString(want, ":0:0\n"); got.String() != want {
				t.Errorf("(-llvm-symbolizer +frames)\n%s", cmp.Diff(strings.Split(want, "\n"), strings.Split(got.String(), "\n")))
			}
			if !strings.Contains(want, "inner") {
				t.Error("got no inlined calls")
			}
		})
	}
}
