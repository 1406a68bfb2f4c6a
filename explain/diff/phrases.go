package diff

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/xray-tools/xray/internal/texttab"
	"github.com/xray-tools/xray/report/label"
)

// phrases writes a report as sentences, for people.
type phrases struct {
	*Report
	view View
}

// shown returns how many of n rows people see.
func (p *phrases) shown(n int) int {
	if p.view.Top > 0 {
		n = min(n, p.view.Top)
	}
	return n
}

// of returns the number of rows for a title, if some are not shown.
func (p *phrases) of(n int) string {
	if shown := p.shown(n); shown < n {
		return fmt.Sprintf(" (%d of %d)", shown, n)
	}
	return ""
}

// short returns a name as it is shown.
func (p *phrases) short(name string) string { return texttab.Printable(p.view.Short(name)) }

func (p *phrases) path(names []string) []string {
	short := make([]string, len(names))
	for i, name := range names {
		short[i] = p.short(name)
	}
	return short
}

// answer returns the report in one or two sentences.
func (p *phrases) answer() string {
	whole := &p.Whole
	what, times := "All functions together take", p.fromTo(whole)+" per run"
	if p.Root != "" {
		what, times = p.short(p.Root)+" takes", p.fromTo(whole)
	}
	if whole.Known {
		times += fmt.Sprintf(" (95%% interval of the change: %s)", p.interval(whole))
	}
	switch {
	case same(whole.A, whole.B):
		text := fmt.Sprintf("%s the same time in A and B: %s.", what, times)
		if !p.functionsDiffer() {
			text += " No function differs."
		}
		return text
	case whole.Known && !whole.Significant():
		return fmt.Sprintf("%s %s time in B, but the difference is not significant: %s.%s", what, p.moreOrLess(whole, "more", "less"), times, p.significant())
	}
	text := fmt.Sprintf("%s %s time in B: %s.", what, p.moreOrLess(whole, "more", "less"), times)
	var leading []string
	for i := range p.Changes {
		c := &p.Changes[i]
		if c.Amount/whole.Difference() < 0.1 || len(leading) == 3 || c.Known && !c.Significant() {
			continue
		}
		leading = append(leading, p.amount(c))
	}
	if len(leading) == 0 {
		return text + " No single function stands out."
	}
	return text + " Why: " + strings.Join(leading, ", ") + "."
}

// functionsDiffer reports whether any function or path differs, including those that are too
// small for the report.
func (p *phrases) functionsDiffer() bool {
	change := func(amount float64) bool { return !same(p.Whole.A, p.Whole.A+amount) }
	return change(p.Rest) || slices.ContainsFunc(p.Changes, func(c Change) bool { return change(c.Amount) }) ||
		slices.ContainsFunc(p.Rows, func(r Row) bool {
			return r.In != "both" || slices.ContainsFunc(r.Metrics, func(m Metric) bool { return !m.Missing && !same(m.A, m.B) })
		})
}

// same reports whether two means differ by no more than rounding.
func same(a, b float64) bool { return math.Abs(a-b) <= 1e-9*max(math.Abs(a), math.Abs(b)) }

// significant lists significant changes of the root's quantiles and of single functions, for
// reports in which the mean varies too much to have changed significantly.
func (p *phrases) significant() string {
	const most = 3
	var list []string
	for i := range p.Metrics {
		if m := &p.Metrics[i]; m.Significant() && len(list) < most {
			list = append(list, fmt.Sprintf("its %s is %s (%s)", m.Name, p.moreOrLess(m, "higher", "lower"), p.fromTo(m)))
		}
	}
	for i := range p.Changes {
		if c := &p.Changes[i]; c.Known && c.Significant() && len(list) < most {
			list = append(list, p.amount(c))
		}
	}
	if len(list) == 0 {
		return ""
	}
	return " These changes are significant: " + strings.Join(list, ", ") + "."
}

// moreOrLess returns the relative size of a change, and the word for its direction.
func (p *phrases) moreOrLess(m *Metric, more, less string) string {
	word := more
	if m.Difference() < 0 {
		word = less
	}
	if m.A == 0 {
		return word
	}
	return fmt.Sprintf("%.1f%% %s", 100*math.Abs(m.Difference()/m.A), word)
}

// basis describes the compared data.
func (p *phrases) basis() string {
	one, many, text := "call", "calls", ""
	if p.Root != "" {
		one, many = "call of "+p.short(p.Root), "calls of "+p.short(p.Root)
	}
	for s := range p.Runs {
		text += fmt.Sprintf("%s: %s, %s. ", Side(s), label.Count(uint64(p.Runs[s]), "run", "runs"),
			label.Count(uint64(p.Calls[s]), one, many))
	}
	switch p.Resampled {
	case "":
		return text + "There are no confidence intervals."
	case "runs":
		return text + fmt.Sprintf("The 95%% confidence intervals are from %s resamples of runs.", label.Grouped(uint64(p.Folds)))
	}
	return text + fmt.Sprintf("The 95%% confidence intervals are from %s resamples of %d and %d blocks of %s.", label.Grouped(uint64(p.Folds)),
		p.Units[A], p.Units[B], p.Clock.Format(uint64(p.Block)))
}

// phrase describes a change.
func (p *phrases) phrase(c *Change) string {
	name := p.short(c.Function)
	less := c.Amount < 0
	switch {
	case c.Kind == New:
		return name + " is new"
	case c.Kind == Gone:
		return name + " is gone"
	case c.Kind == MoreCalls && less:
		return "fewer calls of " + name
	case c.Kind == MoreCalls:
		return "more calls of " + name
	}
	for i := range p.Splits {
		if s := &p.Splits[i]; s.Only && s.In == InSelf && s.Faster == less && s.Function == c.Function {
			return p.splits(s)
		}
	}
	return name + verbs[InSelf][less]
}

// verbs say behind a function that it takes longer, or less time.
var verbs = map[SplitIn]map[bool]string{
	InSelf:   {false: " itself is slower", true: " itself is faster"},
	InTotal:  {false: " takes longer", true: " takes less time"},
	InMedian: {false: "'s median call takes longer", true: "'s median call takes less time"},
}

// splits says for which values calls changed.
func (p *phrases) splits(s *Split) string {
	const most = 3
	var values []string
	for _, v := range s.Changed[:min(most, len(s.Changed))] {
		values = append(values, texttab.Printable(v.Value))
	}
	if more := len(s.Changed) - most; more > 0 {
		values = append(values, label.Count(uint64(more), "more value", "more values"))
	}
	only := "for"
	if s.Only {
		only = "only for"
	}
	return fmt.Sprintf("%s%s %s %s = %s", p.short(s.Function), verbs[s.In][s.Faster], only, texttab.Printable(s.Expression),
		strings.Join(values, ", "))
}

// split is a sentence about a split, with its times.
func (p *phrases) split(s *Split) string {
	m, _ := s.metric(s.Changed[0])
	for _, v := range s.Changed {
		if o, _ := s.metric(v); math.Abs(o.Difference()) > math.Abs(m.Difference()) {
			m = o
		}
	}
	from := ""
	if len(s.Changed) > 1 {
		from = "up to "
	}
	call, longer := "a call", "longer"
	if s.In == InMedian {
		call = "it"
	}
	if s.Faster {
		longer = "less"
	}
	text := fmt.Sprintf("%s: %s%s (95%% interval of the change: %s). With %s, %s takes at most %s %s.",
		p.splits(s), from, p.fromTo(m), p.interval(m), label.Count(uint64(s.Unchanged), "other value", "other values"), call, label.Ticks(p.Clock, s.Bound), longer)
	if s.Undecided > 0 {
		text += fmt.Sprintf(" For %s, there is too little data, or the change is in between.", label.Count(uint64(s.Undecided), "more value", "more values"))
	}
	return text
}

// place describes the paths of a change.
func (p *phrases) place(c *Change) string {
	if p.Root == "" || len(c.Path) < 2 {
		return ""
	}
	callers := strings.Join(p.path(c.Path[:len(c.Path)-1]), " > ")
	if c.Paths > 1 {
		return fmt.Sprintf(", on %d paths, most in %s", c.Paths, callers)
	}
	return ", in " + callers
}

func (p *phrases) amount(c *Change) string {
	return fmt.Sprintf("%s (%s)", p.phrase(c), p.signed(c.Amount))
}

func (p *phrases) fromTo(m *Metric) string {
	return label.Ticks(p.Clock, m.A) + " -> " + label.Ticks(p.Clock, m.B)
}

func (p *phrases) signed(x float64) string {
	if math.Round(x) > 0 {
		return "+" + label.Ticks(p.Clock, x)
	}
	return label.Ticks(p.Clock, x)
}

func (p *phrases) interval(m *Metric) string { return p.signed(m.Low) + " to " + p.signed(m.High) }
