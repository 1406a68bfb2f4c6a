package reader

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func samplePruned() Pruned {
	return Pruned{From: 1000, To: 1 << 50, Functions: []PrunedFunction{{3, 1 << 40, 1 << 45}, {1, 2, 7}}}
}

func TestPrunedComeBack(t *testing.T) {
	want := samplePruned()
	got, err := parsePruned(AppendPruned(nil, &want))
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("error %v (-written +read):\n%s", err, diff)
	}
	if n := got.Calls(); n != 1<<40+2 {
		t.Errorf("got %d calls", n)
	}
}

// Damage is reported, and intact parts remain.
func TestDamagedPruned(t *testing.T) {
	sample := samplePruned()
	whole := string(AppendPruned(nil, &sample))
	twice := samplePruned()
	twice.Functions[1].Func = 3
	wild := samplePruned()
	wild.Functions[1].Func = 1 << 28
	for _, test := range []struct {
		name, body, want string
		functions        int
	}{
		{"no head", whole[:23], "without a header", 0},
		{"cut off", whole[:len(whole)-1], "sums of pruned calls declare 2 functions but contain 1", 1},
		{"too long", whole + whole[24:48], "sums of pruned calls declare 2 functions but contain 3", 2},
		{"wild number", "\xff\xff\xff\xff\xff\xff\xff\xff" + whole[8:], "contain 2", 2},
		{"twice", string(AppendPruned(nil, &twice)), "pruned function 1 has ID 3", 1},
		{"wild id", string(AppendPruned(nil, &wild)), "pruned function 1 has ID 268435456", 1},
	} {
		got, err := parsePruned([]byte(test.body))
		if err == nil || !strings.Contains(err.Error(), test.want) || len(got.Functions) != test.functions {
			t.Errorf("%s: got error %v, %d functions", test.name, err, len(got.Functions))
		}
	}
}
