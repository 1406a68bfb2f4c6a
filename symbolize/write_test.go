package symbolize

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/xray-tools/xray/internal/test/elftest"
	"github.com/xray-tools/xray/reader"
)

func yamlOf(t testing.TB, m *Map, n Names) string {
	t.Helper()
	var b bytes.Buffer
	if err := WriteYAML(&b, m, n); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// extract prints the same as llvm-xray, byte for byte.
func TestExtractLikeLLVM(t *testing.T) {
	for _, v := range variants {
		if v.name == "object" {
			continue // llvm-xray reads only the first function
		}
		t.Run(v.name, func(t *testing.T) {
			t.Parallel()
			path := elftest.Compile(t, program, v.args...)
			table := load(t, path)
			plain, err := Load(path, Options{Style: Mangled})
			if err != nil {
				t.Fatal(err)
			}
			defer plain.Close()
			m, err := LoadMap(path)
			if err != nil {
				t.Fatal(err)
			}
			for _, c := range []struct {
				args []string
				got  string
			}{
				{[]string{"extract", path}, yamlOf(t, m, nil)},
				{[]string{"extract", "-s", path}, yamlOf(t, table.Map(), table)},
				{[]string{"extract", "-s", "--no-demangle", path}, yamlOf(t, plain.Map(), plain)},
			} {
				if diff := cmp.Diff(elftest.Run(t, "llvm-xray-22", c.args...), c.got); diff != "" {
					t.Errorf("%v: (-llvm +got)\n%s", c.args, diff)
				}
			}
		})
	}
}

// Without symbols there are no names. If only dynamic symbols are left, only their functions have
// names.
func TestStripped(t *testing.T) {
	source := `[[clang::xray_always_instrument]] void visible() {}
[[clang::xray_always_instrument]] static void hidden(void (*f)()) { f(); }
void user() { hidden(visible); }
int main() {}`
	for _, c := range []struct {
		args []string
		want []string
	}{
		{[]string{"-O0", "-s"}, []string{"@", "@"}},
		{[]string{"-O0", "-s", "-shared", "-fPIC"}, []string{"visible()", "@"}},
		{[]string{"-O0"}, []string{"visible()", "hidden(void (*)())"}},
	} {
		table := load(t, elftest.Compile(t, source, c.args...))
		for i, f := range table.Map().Functions {
			want := c.want[i]
			if want == "@" {
				want = fmt.Sprintf("@(%x)", f.Address)
			}
			if got := Label(table, f.ID); got != want {
				t.Errorf("%v: function %d: got %q, want %q", c.args, i, got, want)
			}
		}
		if got := Location(table, 1); got != "" {
			t.Errorf("%v: got location %q without debug information", c.args, got)
		}
	}
}

// Sleds of typed events, which llvm-xray refuses, are sleds like others.
func TestTypedEvents(t *testing.T) {
	table := load(t, elftest.Compile(t, `[[clang::xray_always_instrument]] void f(const char *p) { __xray_typedevent(1, p, 4); __xray_customevent(p, 4); }`, "-c"))
	var kinds []string
	for _, s := range table.Map().Sleds {
		kinds = append(kinds, s.Kind.String())
	}
	if diff := cmp.Diff([]string{"function-enter", "typed-event", "custom-event", "function-exit"}, kinds); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

// A table can be used concurrently.
func TestConcurrentUse(t *testing.T) {
	table := load(t, elftest.Compile(t, program, variants[0].args...))
	want := load(t, table.Object().Path)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for _, f := range want.Map().Functions {
				if a, b := Label(table, f.ID)+Location(table, f.ID), Label(want, f.ID)+Location(want, f.ID); a != b {
					t.Errorf("function %d: got %s, want %s", f.ID, a, b)
				}
			}
		})
	}
	wg.Wait()
}

// After Close, names remain, and locations that were not found before are unknown.
func TestClose(t *testing.T) {
	path := elftest.Compile(t, program, variants[0].args...)
	early, late := load(t, path), load(t, path)
	late.locate()
	early.Close()
	late.Close()
	if Label(early, 1) != Label(late, 1) || Location(early, 1) != "" || !strings.HasPrefix(Location(late, 1), "main.cc:") {
		t.Errorf("located early: got %s %s; located late: got %s %s", Label(early, 1), Location(early, 1), Label(late, 1), Location(late, 1))
	}
}

// Names that need quotes can be read back. Names that are not UTF-8 are written in a form that YAML
// allows.
func TestWriteYAMLOfHostileNames(t *testing.T) {
	for _, c := range []struct{ name, written, read string }{
		{"a,b", "'a,b'", "a,b"},
		{"f('a')", "'f(''a'')'", "f('a')"},
		{"new\nline", `"new\nline"`, "new\nline"},
		{"del\x7f", `"del\x7F"`, "del\x7f"},
		{"bad\xff", "\"bad\uFFFD\"", "bad\uFFFD"},
	} {
		m := &Map{Sleds: []Sled{{ID: 1, Version: 2}}, Functions: []Function{{ID: 1}}}
		got := yamlOf(t, m, fakeNames{1: {Name: c.name}})
		if !strings.Contains(got, "function-name: "+c.written+", version: 2 }") {
			t.Errorf("%q: got\n%s\nwant %s in it", c.name, got, c.written)
		}
		back, err := parseYAMLMap([]byte(got))
		if err != nil {
			t.Fatal(err)
		}
		if back.Functions[0].Name != c.read {
			t.Errorf("%q: read back %q, want %q", c.name, back.Functions[0].Name, c.read)
		}
	}
}

// fakeMap returns a map that uses every feature of the formats.
func fakeMap() (*Map, Names) {
	m := &Map{
		Sleds: []Sled{
			{ID: 1, Address: 0x245F0, Function: 0x245F0, Kind: Entry, AlwaysInstrument: true, Version: 2},
			{ID: 1, Address: 0x24682, Function: 0x245F0, Kind: TypedEvent, Version: 2},
			{ID: 2, Address: 0, Function: 0xFFFFFFFFFFFFFFFF, Kind: TailExit},
		},
		Functions: []Function{{ID: 1, Address: 0x245F0}, {ID: 2, Address: 0xFFFFFFFFFFFFFFFF}},
	}
	return m, fakeNames{
		1: {Name: "f(int, A<int>)", Linkage: "_Z1fi1AIiE", File: "/src/a.cc", Line: 3, Column: 7, Address: 0x245F0},
		2: {Address: 0xFFFFFFFFFFFFFFFF},
	}
}

func TestWriteFormats(t *testing.T) {
	m, names := fakeMap()
	for _, c := range []struct {
		name string
		got  func(*bytes.Buffer) error
		want string
	}{
		{"yaml", func(b *bytes.Buffer) error { return WriteYAML(b, m, names) }, `---
- { id: 1, address: 0x245F0, function: 0x245F0, kind: function-enter, always-instrument: true, function-name: 'f(int, A<int>)', version: 2 }
- { id: 1, address: 0x24682, function: 0x245F0, kind: typed-event, always-instrument: false, function-name: 'f(int, A<int>)', version: 2 }
- { id: 2, address: 0x0, function: 0xFFFFFFFFFFFFFFFF, kind: tail-exit, always-instrument: false, function-name: '@(ffffffffffffffff)' }
...
`},
		{"yaml without names", func(b *bytes.Buffer) error { return WriteYAML(b, &Map{Sleds: m.Sleds[2:]}, nil) }, `---
- { id: 2, address: 0x0, function: 0xFFFFFFFFFFFFFFFF, kind: tail-exit, always-instrument: false, function-name: '' }
...
`},
		{"empty yaml", func(b *bytes.Buffer) error { return WriteYAML(b, new(Map), nil) }, "---\n[]\n...\n"},
		{"json", func(b *bytes.Buffer) error { return WriteJSON(b, m, names) }, `[
{"id":1,"address":"0x245f0","function":"0x245f0","kind":"function-enter","always_instrument":true,"version":2,"name":"f(int, A<int>)","linkage_name":"_Z1fi1AIiE","file":"/src/a.cc","line":3,"column":7},
{"id":1,"address":"0x24682","function":"0x245f0","kind":"typed-event","always_instrument":false,"version":2,"name":"f(int, A<int>)","linkage_name":"_Z1fi1AIiE","file":"/src/a.cc","line":3,"column":7},
{"id":2,"address":"0x0","function":"0xffffffffffffffff","kind":"tail-exit","always_instrument":false,"version":0,"name":"@(ffffffffffffffff)"}
]
`},
		{"csv", func(b *bytes.Buffer) error { return WriteCSV(b, m, names) }, `id,address,function,kind,always_instrument,version,name,linkage_name,file,line,column
1,0x245f0,0x245f0,function-enter,true,2,"f(int, A<int>)",_Z1fi1AIiE,/src/a.cc,3,7
1,0x24682,0x245f0,typed-event,false,2,"f(int, A<int>)",_Z1fi1AIiE,/src/a.cc,3,7
2,0x0,0xffffffffffffffff,tail-exit,false,0,'@(ffffffffffffffff),,,,
`},
		{"text", func(b *bytes.Buffer) error { return WriteText(b, m, names) }, `id  address            function  kind            location  name
 1  0x245f0             0x245f0  function-enter  a.cc:3:7  f(int, A<int>)
 1  0x24682             0x245f0  typed-event     a.cc:3:7  f(int, A<int>)
 2      0x0  0xffffffffffffffff  tail-exit                 @(ffffffffffffffff)
`},
		{"text without locations", func(b *bytes.Buffer) error { return WriteText(b, &Map{Sleds: m.Sleds[2:]}, names) }, `id  address            function  kind       name
 2      0x0  0xffffffffffffffff  tail-exit  @(ffffffffffffffff)
`},
		{"text without names", func(b *bytes.Buffer) error { return WriteText(b, &Map{Sleds: m.Sleds[:1]}, nil) }, `id  address  function  kind
 1  0x245f0   0x245f0  function-enter
`},
		{"empty json", func(b *bytes.Buffer) error { return WriteJSON(b, new(Map), nil) }, "[\n]\n"},
	} {
		var b bytes.Buffer
		if err := c.got(&b); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(c.want, b.String()); diff != "" {
			t.Errorf("%s: (-want +got)\n%s", c.name, diff)
		}
		var err error
		switch {
		case strings.HasSuffix(c.name, "json"):
			err = json.Unmarshal(b.Bytes(), new([]map[string]any))
		case c.name == "csv":
			_, err = csv.NewReader(&b).ReadAll()
		}
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

type failing struct{}

func (failing) Write([]byte) (int, error) { return 0, os.ErrClosed }

func TestWriteErrors(t *testing.T) {
	m, names := fakeMap()
	for name, err := range map[string]error{
		"yaml": WriteYAML(failing{}, m, names), "empty yaml": WriteYAML(failing{}, new(Map), nil),
		"json": WriteJSON(failing{}, m, names), "csv": WriteCSV(failing{}, m, names), "text": WriteText(failing{}, m, names),
	} {
		if err != os.ErrClosed {
			t.Errorf("%s: got error %v", name, err)
		}
	}
}

// A YAML map with names can replace the program.
func TestYAMLMapNames(t *testing.T) {
	m, names := fakeMap()
	path := filepath.Join(t.TempDir(), "map.yaml")
	if err := os.WriteFile(path, []byte(yamlOf(t, m, names)), 0o666); err != nil {
		t.Fatal(err)
	}
	table := load(t, path)
	if diff := cmp.Diff(m.Sleds, table.Map().Sleds); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	for id, want := range map[reader.FuncID]string{1: "f(int, A<int>)", 2: "@(ffffffffffffffff)", 3: "#3"} {
		if got := Label(table, id); got != want {
			t.Errorf("function %d: got %q, want %q", id, got, want)
		}
	}
	if got := Location(table, 1); got != "" {
		t.Errorf("got location %q", got)
	}
	if got := table.Object(); got != (Object{Path: path}) {
		t.Errorf("got object %+v", got)
	}
}
