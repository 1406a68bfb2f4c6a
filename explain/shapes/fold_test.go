package shapes

import (
	"testing"

	"github.com/xray-tools/xray/reader"
)

// People see shapes that differ in the same words once.
func TestFoldsEqualRows(t *testing.T) {
	path := func(fn reader.FuncID, calls uint64) Difference {
		return Difference{Path: []reader.FuncID{1, fn}, Calls: calls}
	}
	many := func(last reader.FuncID) (list []Difference) {
		for fn := range reader.FuncID(mostWords) {
			list = append(list, path(fn+2, 1))
		}
		return append(list, path(last, 1))
	}
	list, alike := fold([]Shape{
		{ID: 1, Count: 4}, {ID: 2, Count: 1, Differences: many(20)}, {ID: 3, Count: 2, Differences: many(21)},
		{ID: 4, Count: 3, Differences: []Difference{path(2, 1)}},
	}, nil)
	if len(list) != 3 || list[1].ID != 2 || list[2].ID != 4 || len(alike) != 1 || alike[2] != (alikes{1, 2}) {
		t.Errorf("got %+v, %+v", list, alike)
	}
}
