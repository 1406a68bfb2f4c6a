package why

import (
	"fmt"
	"math"
	"slices"

	"github.com/xray-tools/xray/reader"
)

// Suspect is a possible cause: it has much of the excess, but is not proven to be the cause.
type Suspect struct {
	Kind  Kind
	Func  reader.FuncID
	Most  reader.FuncID // as in Cause
	Share float64       // of the excess
	// Dominates is the number of slow calls that are mostly due to it.
	Dominates int
	Doubt     Doubt
	// Chance is the probability that preemption or a disturbance is the reason, if Doubt is
	// Preemption or Disturbance. Needed is the number of slow calls that would decide it, or 0
	// if that is unknown.
	Chance float64
	Needed int
	Reason *Reason // as in Cause; nil if the doubt is another one
}

// Doubt is the reason why a suspect is not proven to be a cause.
type Doubt uint8

const (
	Preemption  Doubt = iota // threads may have been preempted there, which the trace does not show
	Disturbance              // interrupts, page faults and the like may have been the reason
	Variation                // usual calls differ nearly as much
	Few                      // too few slow calls are due to it
	Unheld                   // the trace does not show who held the lock
	Behind                   // the thread that was waited for was preempted
)

// String returns the name of the doubt in JSON.
func (d Doubt) String() string {
	return [...]string{"preemption", "disturbance", "variation", "few calls", "no holder", "preempted holder"}[d]
}

// suspicious is the minimum share of the excess of a suspect.
const suspicious = 1. / 3

// maxDoubt is the maximum probability of another reason for a suspect, unless more slow calls would decide it.
const maxDoubt = 0.05

// suspects returns the leads that have much of the excess, but are not causes. For a lead
// that stands out from everything else, much of the excess without foreign time is enough.
func (e *evidence) suspects(c *cohorts) (list []Suspect) {
	for _, l := range e.leads {
		share := l.share * e.total / (e.total + e.foreignSum)
		if l.named || !(l.behind && share >= preemptedShare) && !e.suspected(l) || len(l.dominated) == 0 {
			continue
		}
		s := Suspect{Kind: l.kind, Func: l.fn, Share: share, Dominates: len(l.dominated), Doubt: e.doubt(l)}
		if l.kind == NewPath {
			s.Most = e.mostOf(l)
		}
		if l.behind && l.kind != NewPath {
			s.Kind = max(Wait, l.waits)
		}
		if s.Doubt <= Disturbance {
			if s.Chance, s.Needed = l.chance, e.needed(l); s.Chance > maxDoubt && s.Needed == 0 {
				continue
			}
		}
		if s.Doubt < Few {
			s.Reason = e.reason(l, c, s.Kind)
		}
		list = append(list, s)
	}
	return list
}

// suspected reports whether a lead has so much of the excess that it is a suspect unless it is a cause.
func (e *evidence) suspected(l *lead) bool {
	return l.share*e.total/(e.total+e.foreignSum) >= suspicious || l.share >= suspicious && e.isAlone(l) || e.recurs(l)
}

// argue names suspects whose calls are slow because of an argument. Preemption and disturbances do not depend on
// arguments.
func (e *evidence) argue(c *cohorts, role func(reader.FuncID) Role) {
	for _, l := range e.leads {
		if l.named || c.valued == nil || len(l.dominated) == 0 || !e.suspected(l) || role(e.waiter(l)).kind() != Slower {
			continue
		}
		if doubt := e.doubt(l); doubt > Disturbance || l.chance > maxDoubt && e.needed(l) == 0 {
			continue
		}
		if e.isArgued(l, c) {
			l.named, l.argued = true, true
		}
	}
}

// isArgued reports whether an argument proves a lead.
func (e *evidence) isArgued(l *lead, c *cohorts) bool {
	r := e.reason(l, c, l.kind)
	return r != nil && r.alone != nil && r.Chance <= maxChance && float64(r.Count)/float64(r.Of)-r.Usual >= minArgued
}

const (
	// minArgued is the minimum difference between the shares of slow and usual calls with an argument that proves a
	// cause.
	minArgued = 0.5
	// minAlone is the minimum part of the loss that the argument explains by itself.
	minAlone = 0.75
)

// alone is what calls of a function take with an argument like that of slow calls, and with others. They are drawn
// from all its calls, slow or not: slow calls alone do not tell an argument that makes another function slower, so
// that with a disturbance the call is slow.
type alone struct {
	fn            reader.FuncID
	count         int     // of calls with such an argument
	with, without float64 // median ticks, without foreign time
}

// alone returns nil unless calls with such an argument are about as slow as slow ones, and the lead loses most of
// that.
func (r *reasoner) alone(t *test) *alone {
	sample := r.c.valued.samples[t.Func]
	if sample == nil {
		return nil
	}
	time := r.timeOf(t)
	var numbers, slow, usual, lost []float64
	for i := range t.examples {
		x := &t.examples[i]
		p, _ := t.feature.value(x.picks)
		switch {
		case p == nil:
		case !x.slow:
			usual = append(usual, time(p))
		case x.known && t.holds(x):
			numbers, slow = append(numbers, x.number), append(slow, time(p))
			lost = append(lost, r.lead.x[r.lead.dominated[i]])
		}
	}
	if len(slow) == 0 || len(usual) == 0 {
		return nil
	}
	// Slow calls may have arguments far beyond the threshold. Then calls at the threshold are not like them.
	slices.Sort(numbers)
	least, most := numbers[len(numbers)/4], numbers[3*len(numbers)/4]
	var with, without []float64
	for i := range *sample {
		s := &(*sample)[i]
		x := example{compared: &compared{picks: []pick{s.pick}}}
		if !t.feature.read(&x) {
			continue
		}
		switch {
		case !t.holds(&x):
			without = append(without, time(&s.pick))
		case t.Op == "=" || t.Op == ">" && x.number >= least || t.Op == "<=" && x.number <= most:
			with = append(with, time(&s.pick))
		}
	}
	if len(with) < enough || len(without) < minReasonUsual {
		return nil
	}
	a := &alone{t.Func, len(with), median(with), median(without)}
	loss := median(slow) - median(usual)
	if loss <= 0 || a.with-a.without < minAlone*loss || median(lost) < loss/2 {
		return nil
	}
	return a
}

// median sorts x.
func median(x []float64) float64 {
	slices.Sort(x)
	return x[len(x)/2]
}

// recurs reports whether so many slow calls lose far more to a lead than usual calls vary that a disturbance
// elsewhere, however long, does not make it noise.
func (e *evidence) recurs(l *lead) bool {
	return e.offCPU && l.share >= clearShare && len(l.dominated) >= enough && e.lossOf(l) > farBeyond*e.spread
}

func (e *evidence) doubt(l *lead) Doubt {
	switch {
	case l.unheld:
		return Unheld
	case l.behind:
		return Behind
	case !e.enough(l):
		return Few
	case e.offCPU && !e.exceeds(l), !e.byChance(l):
		return Variation
	}
	e.judge(l)
	if e.offCPU {
		return Disturbance
	}
	return Preemption
}

// needed returns how many slow calls would distinguish a lead from chance, if it dominates
// nearly all of them and its functions also have much of the usual time or calls.
func (e *evidence) needed(l *lead) int {
	if l.chance <= maxChance || l.likely < dominance || l.likely >= 1 || 10*len(l.dominated) < 9*len(e.slow) {
		return 0
	}
	return int(math.Log(maxChance)/math.Log(l.likely)) + 1
}

// argued says why an argument proves a cause.
func (t *phrases) argued(a *alone) string {
	return fmt.Sprintf("disturbances do not depend on arguments, and %d calls of %s with such an argument that were drawn from all its calls take %s, others %s (medians)",
		a.count, t.label(a.fn), t.fine(a.with), t.fine(a.without))
}

// doubts says why a suspect is not certain.
func (t *phrases) doubts(s *Suspect) string {
	text := ""
	switch s.Doubt {
	case Few:
		are := "are"
		if s.Dominates == 1 {
			are = "is"
		}
		text = fmt.Sprintf("only %d of the slow calls %s due to it", s.Dominates, are)
	case Unheld:
		text = "the trace does not show what it waits for. Perhaps it waits for a thread that was preempted"
	case Variation:
		text = "usual calls differ nearly as much"
	case Disturbance:
		text = fmt.Sprintf("interrupts, page faults and other disturbances could be the reason (p = %s)", chance(s.Chance))
	case Preemption:
		text = fmt.Sprintf("preemption could be the reason, and this trace does not show it (p = %s). Record with `xray record`, without --budget and --no-offcpu, to see preemption", chance(s.Chance))
	}
	if s.Needed > 0 {
		text += fmt.Sprintf(". About %d slow calls would settle it", s.Needed)
	}
	return text
}

// inTable is the suspect's text in the table of causes.
func (t *phrases) inTable(s *Suspect) string {
	if s.Doubt == Behind {
		return t.suspected(s) + ", probably for a thread that is preempted"
	}
	return "not proven: " + t.suspected(s) + t.when(s.cause())
}

// cause returns the suspect as a cause, for phrases.
func (s *Suspect) cause() *Cause {
	return &Cause{Kind: s.Kind, Func: s.Func, Most: s.Most, Reason: s.Reason}
}

func (t *phrases) suspected(s *Suspect) string {
	return t.phrase(s.cause())
}
