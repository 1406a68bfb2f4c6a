package why

import (
	"fmt"
	"math"

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
		if l.named || share < suspicious && !(l.behind && share >= preemptedShare) && !(l.share >= suspicious && e.isAlone(l)) && !e.recurs(l) || len(l.dominated) == 0 {
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
		text = "the trace does not show which thread it waits for, and that thread may have been preempted"
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
