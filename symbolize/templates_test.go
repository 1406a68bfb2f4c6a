package symbolize_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/symbolize"
)

func TestGroupTemplates(t *testing.T) {
	at := func(id reader.FuncID, name string, line int) reader.NamedFunction {
		return reader.NamedFunction{ID: id, Name: name, File: "ring.h", Line: int32(line), Object: "prog"}
	}
	functions := []reader.NamedFunction{
		at(1, "_ZN4RingIiE4pushEi", 5),
		at(2, "_ZN4RingIdE4pushEd", 5),
		at(3, "_Z5scaleIdET_S0_", 8),
		at(4, "_Z5scaleIiET_S0_S0_", 9), // another overload
		at(5, "_Z5scaleIiET_S0_", 8),
		at(6, "_Z5plainSt6vectorIiSaIiEE", 12), // not a template, only its parameter is one
		at(7, "_Z5plaini", 13),
		at(8, "", 14),
		at(9, "_Z5scaleIfET_S0_", 0), // its location is unknown
	}
	for _, test := range []struct {
		style symbolize.Style
		want  map[string][]reader.FuncID
	}{
		{symbolize.Full, map[string][]reader.FuncID{
			"Ring<...>::push": {1, 2}, "scale<...>": {3, 5, 4, 9}, "plain(std::vector<int, std::allocator<int>>)": {6}, "plain(int)": {7}, "@(0)": {8},
		}},
		{symbolize.Short, map[string][]reader.FuncID{
			"Ring::push": {1, 2}, "scale": {3, 5, 4, 9}, "plain": {6, 7}, "@(0)": {8},
		}},
		{symbolize.Mangled, map[string][]reader.FuncID{
			"Ring<...>::push": {1, 2}, "scale<...>": {3, 5, 4, 9}, "_Z5plainSt6vectorIiSaIiEE": {6}, "_Z5plaini": {7}, "@(0)": {8},
		}},
	} {
		grouped := symbolize.GroupTemplates(symbolize.NewStored(functions, test.style))
		alias := map[reader.FuncID]reader.FuncID{2: 1, 5: 3}
		names := make(map[reader.FuncID]string)
		for name, ids := range test.want {
			for _, id := range ids {
				names[id] = name
			}
		}
		for id := reader.FuncID(1); id <= 9; id++ {
			want := id
			if a, ok := alias[id]; ok {
				want = a
			}
			if got := grouped.Alias(id); got != want {
				t.Errorf("%s: alias of %d: got %d, want %d", test.style, id, got, want)
			}
			if got := symbolize.Label(grouped, id); got != names[id] {
				t.Errorf("%s: label of %d: got %s, want %s", test.style, id, got, names[id])
			}
			s, _ := grouped.Func(id)
			if plain, _ := symbolize.NewStored(functions, test.style).Func(want); s.Line != plain.Line || s.Linkage != plain.Linkage {
				t.Errorf("%s: %d: got %+v, want that of %d: %+v", test.style, id, s, want, plain)
			}
		}
	}
}

// Instances of templates are found in every kind of names, by the IDs used there.
func TestGroupTemplatesOfObjects(t *testing.T) {
	const path = "../testdata/kvserver"
	table, err := symbolize.Load(path, symbolize.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer table.Close()
	n := reader.FuncID(len(table.Map().Functions))
	objects := []reader.Object{
		{Path: "elsewhere", First: 1, Count: 10},
		{Path: path, BuildID: table.Object().BuildID, First: 11, Count: uint32(n)},
	}
	recorded, _, err := symbolize.LoadRecorded(objects, nil, nil, symbolize.Search{})
	if err != nil {
		t.Fatal(err)
	}
	defer recorded.Close()
	own := aliases(symbolize.GroupTemplates(table), 0, n)
	for _, test := range []struct {
		names symbolize.Names
		base  reader.FuncID
	}{
		{symbolize.NewPacked(symbolize.Objects{3: table}, false), 3 << 24},
		{recorded, 10},
	} {
		if diff := cmp.Diff(own, aliases(symbolize.GroupTemplates(test.names), test.base, n)); diff != "" {
			t.Errorf("%T (-alone +here):\n%s", test.names, diff)
		}
	}
	instances := 0
	for id, first := range own {
		if id != first {
			instances++
		}
	}
	if instances == 0 {
		t.Error("no template of the program has two instances")
	}
}

// aliases returns the aliases of functions 1 to n, whose IDs begin after base.
func aliases(g *symbolize.Templates, base, n reader.FuncID) map[reader.FuncID]reader.FuncID {
	all := make(map[reader.FuncID]reader.FuncID)
	for id := reader.FuncID(1); id <= n; id++ {
		all[id] = g.Alias(base+id) - base
	}
	return all
}
