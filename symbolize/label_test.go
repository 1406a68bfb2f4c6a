package symbolize

import (
	"strconv"
	"testing"

	"github.com/xray-tools/xray/internal/test/elftest"
	"github.com/xray-tools/xray/reader"
)

func hexAddress(a uint64) string { return strconv.FormatUint(a, 16) }
func itoa(i int) string          { return strconv.Itoa(i) }

type fakeNames map[reader.FuncID]Symbol

func (f fakeNames) Func(id reader.FuncID) (Symbol, bool) {
	s, ok := f[id]
	return s, ok
}

func TestLabelAndLocation(t *testing.T) {
	names := fakeNames{
		1: {Name: "foo()", File: "/src/a b/foo.cc", Line: 12, Column: 3},
		2: {Address: 0xABC},
		3: {Name: "bar", File: `C:\src\bar.cc`, Line: 4},
	}
	var none *Table
	for _, c := range []struct {
		names           Names
		id              reader.FuncID
		label, location string
	}{
		{names, 1, "foo()", "foo.cc:12:3"},
		{names, 2, "@(abc)", ""},
		{names, 3, "bar", "bar.cc:4"},
		{names, 9, "#9", ""},
		{names, -5, "#-5", ""},
		{nil, 1, "#1", ""},
		{none, 1, "#1", ""},
		{Objects{}, 0x1000002, "#16777218", ""},
	} {
		if got := Label(c.names, c.id); got != c.label {
			t.Errorf("Label(%d) = %q, want %q", c.id, got, c.label)
		}
		if got := Location(c.names, c.id); got != c.location {
			t.Errorf("Location(%d) = %q, want %q", c.id, got, c.location)
		}
	}
}

// An ID names a function of one object only.
func TestObjects(t *testing.T) {
	program := elftest.Compile(t, `[[clang::xray_always_instrument]] int main() { return 0; }`, "-g")
	library := elftest.Compile(t, `[[clang::xray_always_instrument]] void inner() {}
[[clang::xray_always_instrument]] void outer() {}`, "-g", "-shared", "-fPIC")
	p, l := load(t, program), load(t, library)
	object := func(n, id uint32) reader.FuncID { return reader.FuncID(int32(n<<24 | id)) }
	for _, c := range []struct {
		names           Names
		id              reader.FuncID
		label, location string
	}{
		{p, 1, "main", "main.cc:1"},
		{p, object(1, 1), "#16777217", ""},
		{Objects{0: p, 1: l, 200: l}, 1, "main", "main.cc:1"},
		{Objects{0: p, 1: l, 200: l}, object(1, 2), "outer()", "main.cc:2"},
		{Objects{0: p, 1: l, 200: l}, object(200, 1), "inner()", "main.cc:1"},
		{Objects{0: p, 1: l, 200: l}, object(2, 1), "#33554433", ""},
		{Objects{1: l}, 1, "#1", ""},
	} {
		if got := Label(c.names, c.id); got != c.label {
			t.Errorf("Label(%#x) = %q, want %q", c.id, got, c.label)
		}
		if got := Location(c.names, c.id); got != c.location {
			t.Errorf("Location(%#x) = %q, want %q", c.id, got, c.location)
		}
	}
}
