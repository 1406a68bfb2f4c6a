package why

import (
	"fmt"
	"math"
	"slices"
	"testing"
)

func TestHypergeometricTail(t *testing.T) {
	for _, c := range []struct {
		all, with, n, k int
		want            float64
	}{
		{10, 5, 5, 5, 1.0 / 252},
		{10, 5, 5, 0, 1},
		{8, 4, 4, 4, 1.0 / 70},
		{52, 4, 5, 4, 48.0 / 2598960},
		{6, 2, 3, 1, 0.8},
		{5, 5, 2, 2, 1},
	} {
		if got := hypergeometricTail(c.all, c.with, c.n, c.k); math.Abs(got-c.want) > 1e-12*max(1, c.want)+1e-12 {
			t.Errorf("%d of %d, %d of %d: %g, want %g", c.k, c.n, c.with, c.all, got, c.want)
		}
	}
}

// fleet makes machines, the first of which have the affected calls.
func fleet(affected []int, n int, features func(i int) []string) (all []*machine, total int) {
	for i := range n {
		m := &machine{name: fmt.Sprintf("h%02d", i), others: 20, features: make(map[string]bool)}
		if i < len(affected) {
			m.affected = affected[i]
		}
		for _, f := range features(i) {
			m.features[f] = true
		}
		all, total = append(all, m), total+m.affected
	}
	return all, total
}

func TestAssociateMachines(t *testing.T) {
	none := func(int) []string { return nil }
	zone := func(i int) []string { return []string{fmt.Sprintf("zone=%d", i%3)} }
	build := func(i int) []string {
		return append(zone(i), map[bool]string{true: "build=new", false: "build=old"}[i < 6])
	}
	ten := []int{10, 10, 10, 10, 10, 10, 10, 10, 10, 10}
	for _, c := range []struct {
		name     string
		affected []int
		n        int
		features func(int) []string
		want     []string // kind and text
	}{
		{"one of twelve", []int{30}, 12, zone, []string{"host h00"}},
		{"two of twelve", []int{30, 10}, 12, zone, []string{"host h00, h01"}},
		{"nearly all on one", []int{57, 1, 1, 1}, 12, zone, []string{"host h00"}},
		{"too few calls", []int{2}, 12, zone, nil},
		{"all hosts", ten, 10, zone, nil},
		{"most hosts", ten, 12, none, nil},
		{"the hosts of a build", ten[:6], 12, build, []string{"build new"}},
		{"one host says nothing about its build", []int{60}, 12, build, []string{"host h00"}},
		{"too few hosts for a label", ten[:2], 3, func(i int) []string { return []string{fmt.Sprintf("bad=%v", i < 2)} }, nil},
	} {
		var got []string
		all, n := fleet(c.affected, c.n, c.features)
		for _, a := range associateMachines(all, n) {
			got = append(got, a.Kind+" "+a.Text)
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}
