package why

import (
	"cmp"
	"slices"

	"github.com/xray-tools/xray/reader"
)

// Association is something that the slow calls of a cause have in common. It need not be
// the reason.
type Association struct {
	Kind   string // "host", "build", "label", "thread", "start", "argument", "event", "bursts" or "period"
	Count  int    // calls that have it, or number of bursts
	Of     int    // calls that the cause dominates
	Thread reader.Thread
	Func   reader.FuncID // of the argument
	Value  uint64        // of the argument; of a period, ticks
	Text   string        // of the event; of hosts, a build or a label
	// For a host, build or label, Machines is the number of machines in the traces. For a
	// host, Elsewhere is the share of all calls that are not slow which ran on these hosts.
	// For a build or label, Count and Of are numbers of hosts, With is the number of all hosts
	// that have it, and Chance is the probability of so many by chance.
	Machines, With    int
	Elsewhere, Chance float64
}

// associate finds what the calls dominated by a lead have in common.
func (e *evidence) associate(l *lead, c *cohorts) []Association {
	n := len(l.dominated)
	if n < 5 {
		return nil
	}
	var list []Association
	list = e.fleet(l, c)
	if a, ok := e.onThread(l, c); ok && len(list) == 0 {
		list = append(list, a)
	}
	early := 0
	for _, i := range l.dominated {
		if v := &e.slow[i]; 10*v.index < c.threads[v.thread].total {
			early++
		}
	}
	// A process with several files has calls before each.
	if 10*early >= 9*n && c.plan.processes == nil {
		list = append(list, Association{Kind: "start", Count: early, Of: n})
	}
	if a, ok := e.argument(l, c); ok {
		list = append(list, a)
	}
	if a, ok := e.inTime(l, c); ok && (10*early < 9*n || c.plan.processes != nil) && c.plan.origins == nil {
		list = append(list, a)
	}
	return list
}

// onThread finds a thread that has most of the dominated calls, but few of all calls.
func (e *evidence) onThread(l *lead, c *cohorts) (Association, bool) {
	count := make(map[reader.Thread]int)
	var best reader.Thread
	for _, i := range l.dominated {
		t := c.plan.identity(c.threads[e.slow[i].thread].id)
		count[t]++
		if count[t] > count[best] {
			best = t
		}
	}
	all, own := 0, 0
	for _, t := range c.threads {
		if t == nil {
			continue
		}
		all += t.total
		if c.plan.identity(t.id) == best {
			own += t.total
		}
	}
	n, k := len(l.dominated), count[best]
	p := float64(own) / float64(all)
	return Association{Kind: "thread", Count: k, Of: n, Thread: best},
		10*k > 6*n && binomialTail(n, k, p) < 1e-4
}

// argument finds a value that most of the dominated calls have, and few others.
func (e *evidence) argument(l *lead, c *cohorts) (Association, bool) {
	count := make(map[argument]int)
	for _, i := range l.dominated {
		for _, a := range e.slow[i].args {
			count[a]++
		}
	}
	n := len(l.dominated)
	var found []argument
	for a, k := range count {
		usual := float64(c.usual.args[a.bucket()]) / float64(c.usual.count)
		p := max(usual, 1/float64(c.usual.count))
		if 2*k > n && float64(k) > 3*usual*float64(n) && binomialTail(n, k, p) < 1e-6 {
			found = append(found, a)
		}
	}
	if len(found) == 0 {
		return Association{}, false
	}
	slices.SortFunc(found, func(a, b argument) int {
		return cmp.Or(cmp.Compare(count[b], count[a]), cmp.Compare(a.fn, b.fn), cmp.Compare(a.value, b.value))
	})
	a := found[0]
	kind := "argument"
	if a.fn == 0 {
		kind = "event"
	}
	return Association{Kind: kind, Count: count[a], Of: n, Func: a.fn, Value: a.value, Text: a.text}, true
}

// inTime finds bursts, and whether they are periodic.
func (e *evidence) inTime(l *lead, c *cohorts) (Association, bool) {
	var starts []uint64
	for _, i := range l.dominated {
		starts = append(starts, e.slow[i].start)
	}
	slices.Sort(starts)
	n := len(starts)
	span := starts[n-1] - starts[0]
	clusters := []uint64{starts[0]}
	for i := 1; i < n; i++ {
		if starts[i]-starts[i-1] > span/uint64(3*n) {
			clusters = append(clusters, starts[i])
		}
	}
	if period, ok := period(clusters); ok {
		return Association{Kind: "period", Count: len(clusters), Of: n, Value: period}, true
	}
	return Association{Kind: "bursts", Count: len(clusters), Of: n}, 2*len(clusters) < n
}

// period returns the period of the times, if most distances between them are small
// multiples of it.
func period(times []uint64) (uint64, bool) {
	if len(times) < 5 {
		return 0, false
	}
	var distances []uint64
	for i := 1; i < len(times); i++ {
		distances = append(distances, times[i]-times[i-1])
	}
	sorted := slices.Clone(distances)
	slices.Sort(sorted)
	median := float64(sorted[len(sorted)/2])
	fit := 0
	for _, d := range distances {
		multiple := float64(int(float64(d)/median + 0.5))
		if off := float64(d) - multiple*median; multiple >= 1 && multiple <= 4 && max(off, -off) <= 0.12*median {
			fit++
		}
	}
	return uint64(median), 10*fit >= 8*len(distances)
}
