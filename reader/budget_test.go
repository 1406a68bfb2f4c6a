package reader

import (
	"math"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// A budget reads back as it was written, even if its writer knows only the counts.
func TestBudgetComesBack(t *testing.T) {
	changes := []BudgetChange{{5, 2, FunctionOff}, {6, 2, FunctionCut}}
	for _, want := range []Budget{
		{Share: 30000, From: 7, To: 9, Functions: []BudgetFunction{{1, 2, 3, 4, 5, 6, 7, 8}, {Func: 9, Counted: 1 << 40}}, Changes: changes},
		{Share: 30000, From: 7, Totals: []Counter{{1, 2}, {9, 1 << 40}}},
	} {
		r := new(Recording)
		for kind, body := range (&Recording{Budget: want}).Metadata() {
			if _, err := r.set(kind, body); err != nil {
				t.Error(err)
			}
		}
		if diff := cmp.Diff(want, r.Budget); diff != "" {
			t.Errorf("-written +read:\n%s", diff)
		}
		if known := want.To > 0; r.Budget.Known() != known || !r.Budget.Limited() {
			t.Errorf("known: %v, limited: %v", r.Budget.Known(), r.Budget.Limited())
		}
	}
}

// Functions that are off, partly on or cut have missing calls until they are on again.
func TestMissing(t *testing.T) {
	b := Budget{Changes: []BudgetChange{
		{TSC: 5, Func: 9, To: FunctionOff}, {TSC: 10, Func: 1, To: FunctionPartly}, {TSC: 20, Func: 2, To: FunctionOff},
		{TSC: 25, Func: 2, To: FunctionCut}, {TSC: 30, Func: 1, To: FunctionOn}, {TSC: 40, Func: 2, To: FunctionOn},
		{TSC: 50, Func: 1, To: FunctionOff},
	}}
	want := [][2]uint64{{10, 40}, {50, math.MaxUint64}}
	if got := b.Missing(func(fn FuncID) bool { return fn < 9 }); !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}
