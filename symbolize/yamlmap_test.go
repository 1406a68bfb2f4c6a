package symbolize

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/xray-tools/xray/reader"
)

var mapOptions = cmp.Options{cmpopts.IgnoreUnexported(Function{}), cmpopts.EquateEmpty()}

// Any map that is written can be read back, by the fast path and by the YAML parser.
func TestYAMLMapRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		names := make(fakeNames)
		byID := make(map[reader.FuncID]Function)
		m := new(Map)
		for range rapid.IntRange(1, 8).Draw(t, "sleds") {
			id := reader.FuncID(rapid.OneOf(rapid.Int32Range(1, 3), rapid.Int32()).Draw(t, "id"))
			if _, ok := byID[id]; !ok {
				s := Symbol{
					Name: strings.ToValidUTF8(rapid.StringN(0, 8, -1).Draw(t, "name"), ""),
					// A function may have no name, whatever its address.
					Address: rapid.Uint64().Draw(t, "function"),
				}
				names[id] = s
				byID[id] = Function{ID: id, Address: s.Address, Name: s.Name}
			}
			m.Sleds = append(m.Sleds, Sled{
				ID: id, Function: names[id].Address,
				Address:          rapid.Uint64().Draw(t, "address"),
				Kind:             SledKind(rapid.IntRange(0, int(TypedEvent)).Draw(t, "kind")),
				AlwaysInstrument: rapid.Bool().Draw(t, "always"),
				Version:          rapid.Byte().Draw(t, "version"),
			})
		}
		for _, f := range byID {
			m.Functions = append(m.Functions, f)
		}
		less := cmpopts.SortSlices(func(a, b Function) bool { return a.ID < b.ID })
		text := []byte(func() string {
			var sb strings.Builder
			if err := WriteYAML(&sb, m, names); err != nil {
				t.Fatal(err)
			}
			return sb.String()
		}())
		got, err := parseYAMLMap(text)
		if err != nil {
			t.Fatalf("%s%v", text, err)
		}
		if diff := cmp.Diff(m, got, mapOptions, less); diff != "" {
			t.Fatalf("%s(-want +got)\n%s", text, diff)
		}
		slow := newMapBuilder()
		if err := slow.parse(text); err != nil {
			t.Fatalf("%s%v", text, err)
		}
		if diff := cmp.Diff(m, &slow.m, mapOptions, less); diff != "" {
			t.Fatalf("slow: %s(-want +got)\n%s", text, diff)
		}
	})
}

// Lines of llvm-xray take the fast path, and others do not.
func TestYAMLMapPaths(t *testing.T) {
	const rest = "address: 0x10, function: 0x10, kind: function-enter, always-instrument: true"
	for _, c := range []struct {
		text string
		fast bool
		want string // the name, or the error
	}{
		{"---\n- { id: 1, " + rest + ", function-name: 'f(''a'')', version: 2 }\n...\n", true, "f('a')"},
		{"- { id: 1, " + rest + ", function-name: main }\n", true, "main"},
		{"- { id: 1, " + rest + " }", true, ""},
		{"- { id: 1, " + rest + ", function-name: '@(10)' }\r\n", true, ""},
		{"- { id: 1, " + rest + ", function-name: \"f\\x41\" }\n", false, "fA"},
		{"- { id: 1,\n    " + rest + " }\n", false, ""},
		{"# a comment\n- { id: 1, " + rest + ", function-name: f }\n", false, "f"},
		{"- id: 1\n  address: 16\n  function: 16\n  kind: function-enter\n  always-instrument: true\n  function-name: block\n", false, "block"},
		{"[ { id: 1, " + rest + " } ]\n", false, ""},
		{"- { id: 1, id: 2, " + rest + " }\n", false, "id"},
		{"- { id: 1, " + rest + ", more: 1 }\n", false, "more"},
		{"- { id: 3000000000, " + rest + " }\n", false, "3000000000"},
		{"- { id: 1, " + strings.Replace(rest, "enter", "entry", 1) + " }\n", false, `sled 1: unknown kind "function-entry"`},
		{"- { " + rest + " }\n", false, `sled 1: "id" is missing`},
		{"- { id: 1, " + strings.Replace(rest, "address: 0x10, ", "", 1) + " }\n", false, `sled 1: "address" is missing`},
		{"- { id: 1, " + rest + ", function-name: 'open }\n", false, "YAML"},
		{"---\nheader: { version: 1 }\nrecords: []\n...\n", false, "not a YAML instrumentation map"},
	} {
		b := newMapBuilder()
		if got := b.scan([]byte(c.text)); got != c.fast {
			t.Errorf("%s: got fast path %v, want %v", c.text, got, c.fast)
		}
		m, err := parseYAMLMap([]byte(c.text))
		switch {
		case err != nil:
			if c.want == "" || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%s: got error %v, want %q", c.text, err, c.want)
			}
		case len(m.Sleds) != 1 || m.Sleds[0].Address != 16 || m.Sleds[0].ID != 1 || m.Functions[0].Name != c.want:
			t.Errorf("%s: got map %+v", c.text, m)
		}
	}
	if m, err := parseYAMLMap([]byte("---\n[]\n...\n")); err != nil || len(m.Sleds) != 0 {
		t.Errorf("empty map: got %v, error %v", m, err)
	}
}

// IDs of YAML maps are used as given: with gaps, out of order, negative.
func TestYAMLMapIDs(t *testing.T) {
	var sb strings.Builder
	ids := []reader.FuncID{7, math.MinInt32, 2, 7, math.MaxInt32, 1}
	for i, id := range ids {
		fmt.Fprintf(&sb, "- { id: %d, address: 0x%X, function: 0x%X, kind: function-exit, always-instrument: false }\n", id, i, i)
	}
	m, err := parseYAMLMap([]byte(sb.String()))
	if err != nil {
		t.Fatal(err)
	}
	for id, want := range map[reader.FuncID]uint64{7: 3, math.MinInt32: 1, 2: 2, math.MaxInt32: 4, 1: 5} {
		if f, ok := m.function(id); !ok || f.Address != want {
			t.Errorf("function %d: got %+v, want address %d", id, f, want)
		}
	}
	for _, id := range []reader.FuncID{0, 3, -1} {
		if f, ok := m.function(id); ok {
			t.Errorf("function %d: got %+v", id, f)
		}
	}
}

// Maps of the corpus are written back byte for byte.
func TestCorpusMaps(t *testing.T) {
	corpus := os.Getenv("XRAY_CORPUS")
	if corpus == "" {
		t.Skip("XRAY_CORPUS is not set")
	}
	paths, err := filepath.Glob(filepath.Join(corpus, "samples/maps/*.yaml"))
	if err != nil || len(paths) == 0 {
		t.Fatalf("no maps in %s: %v", corpus, err)
	}
	for _, path := range paths {
		want, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		table := load(t, path)
		if diff := cmp.Diff(string(want), yamlOf(t, table.Map(), table)); diff != "" {
			t.Errorf("%s: (-want +got)\n%s", path, diff)
		}
	}
}
