package why

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/xray-tools/xray/explain/machines"
)

// Origin is the origin of a file of the trace.
type Origin = machines.Origin

// hosts returns the number of machines.
func hosts(origins []Origin) int {
	seen := make(map[string]bool)
	for i := range origins {
		seen[origins[i].Machine()] = true
	}
	return len(seen)
}

const (
	maxHostChance = 1e-4 // probability that the calls are on so few machines by chance
	maxHostsNamed = 5
	maxShared     = 0.05 // probability that machines share a feature by chance, for all features
)

// fleet finds the machines with most of the calls that a lead dominates, and the builds and
// labels that these share and others do not have.
func (e *evidence) fleet(l *lead, c *cohorts) (list []Association) {
	origins := c.plan.origins
	if origins == nil {
		return nil
	}
	byName := make(map[string]*machine)
	of := func(file int32) *machine {
		o := &origins[file]
		m := byName[o.Machine()]
		if m == nil {
			m = &machine{name: o.Machine(), features: make(map[string]bool)}
			byName[o.Machine()] = m
		}
		return m
	}
	for i := range origins {
		m := of(int32(i))
		for _, f := range origins[i].Features() {
			m.features[f] = true
		}
	}
	for _, t := range c.threads {
		if t != nil {
			of(t.id.File).others += t.total - t.slow
		}
	}
	for _, i := range l.dominated {
		of(e.slow[i].id.File).affected++
	}
	var all []*machine
	for _, m := range byName {
		all = append(all, m)
	}
	slices.SortFunc(all, func(a, b *machine) int {
		return cmp.Or(cmp.Compare(b.affected, a.affected), cmp.Compare(a.name, b.name))
	})
	return associateMachines(all, len(l.dominated))
}

// machine is a machine with its calls of the root.
type machine struct {
	name     string
	features map[string]bool
	affected int // calls that the lead dominates
	others   int // calls that are not slow
}

// associateMachines returns associations of n affected calls. Machines are in order of their
// affected calls, the most first.
func associateMachines(all []*machine, n int) (list []Association) {
	few, count := 0, 0
	for few < len(all) && 10*count < 9*n {
		count += all[few].affected
		few++
	}
	total, there := 0, 0
	for i, m := range all {
		total += m.others
		if i < few {
			there += m.others
		}
	}
	if few == len(all) || few == 0 {
		return nil
	}
	// Account for the number of ways to choose so few machines.
	p := max(float64(there), 1) / max(float64(total), 1)
	if chance := binomialTail(n, count, min(p, 1)) * choose(len(all), few); few <= maxHostsNamed && chance < maxHostChance {
		var names []string
		for _, m := range all[:few] {
			names = append(names, m.name)
		}
		slices.Sort(names)
		list = append(list, Association{
			Kind: "host", Count: count, Of: n, Text: strings.Join(names, ", "), Machines: len(all), Elsewhere: float64(there) / max(float64(total), 1),
		})
	}
	return append(list, shared(all, few)...)
}

// shared finds the features that the first few machines have and the others do not. The test
// counts machines, because the calls of a machine are not independent of each other.
func shared(all []*machine, few int) (list []Association) {
	with := make(map[string]int)
	for _, m := range all {
		for f := range m.features {
			with[f]++
		}
	}
	for f, k := range with {
		here := 0
		for _, m := range all[:few] {
			if m.features[f] {
				here++
			}
		}
		chance := hypergeometricTail(len(all), k, few, here)
		if 10*here < 9*few || chance*float64(len(with)) > maxShared {
			continue
		}
		kind := "label"
		text := f
		if build, ok := strings.CutPrefix(f, "build="); ok {
			kind, text = "build", build
		}
		list = append(list, Association{Kind: kind, Count: here, Of: few, Text: text, Machines: len(all), With: k, Chance: chance})
	}
	slices.SortFunc(list, func(a, b Association) int {
		return cmp.Or(cmp.Compare(a.Chance, b.Chance), cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Text, b.Text))
	})
	return list
}

// hypergeometricTail returns the probability that at least k of n machines, drawn at random
// from all, are among the given number with a feature.
func hypergeometricTail(all, with, n, k int) float64 {
	p := 0.0
	for i := k; i <= min(n, with); i++ {
		if n-i <= all-with {
			p += math.Exp(logChoose(with, i) + logChoose(all-with, n-i) - logChoose(all, n))
		}
	}
	return min(p, 1)
}

func choose(n, k int) float64 { return math.Exp(logChoose(n, k)) }

func logChoose(n, k int) float64 {
	a, _ := math.Lgamma(float64(n + 1))
	b, _ := math.Lgamma(float64(k + 1))
	c, _ := math.Lgamma(float64(n - k + 1))
	return a - b - c
}

// onMachines names the machines on which calls ran, or the build or label that these
// machines have in common.
func (a *Association) onMachines() string {
	switch a.Kind {
	case "host":
		noun := "host"
		if strings.Contains(a.Text, ", ") {
			noun = "hosts"
		}
		return fmt.Sprintf("%d of %d are on %s %s, as are %s of the calls that are not slow (%d hosts)",
			a.Count, a.Of, noun, a.Text, percent(a.Elsewhere), a.Machines)
	case "build":
		return fmt.Sprintf("%d of the %d hosts with nearly all affected calls run build %s, as do %d of all %d hosts (p = %s)",
			a.Count, a.Of, a.Text[:min(12, len(a.Text))], a.With, a.Machines, chance(a.Chance))
	}
	return fmt.Sprintf("%d of the %d hosts with nearly all affected calls have %s, as do %d of all %d hosts (p = %s)",
		a.Count, a.Of, a.Text, a.With, a.Machines, chance(a.Chance))
}
