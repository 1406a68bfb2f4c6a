package why

import (
	"cmp"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strings"

	"github.com/xray-tools/xray/internal/texttab"
	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/symbolize"
)

// phrases puts a report into words, for all forms of it.
type phrases struct {
	*Report
	names symbolize.Names
}

const (
	restText           = "rest: lost at scattered points (scheduler, faults, noise)"
	decompositionTitle = "the whole difference, per slow call"
)

// explained reports whether there were two cohorts to compare.
func (r *Report) explained() bool { return r.Kept > 0 && r.Ordinary.Count > 0 }

func (t *phrases) ticks(x float64) string {
	sign := ""
	if x < 0 {
		sign, x = "-", -x
	}
	return sign + t.Clock.Format(uint64(math.Round(x)))
}

// label is the short name of a function: parameters make lines long.
func (t *phrases) label(fn reader.FuncID) string {
	return texttab.Printable(symbolize.Shorten(symbolize.Label(t.names, fn)))
}

func (t *phrases) rootLabel() string {
	if t.Root != 0 || t.RootLabel == "" {
		return t.label(t.Root)
	}
	return texttab.Printable(t.RootLabel)
}

func percent(x float64) string { return fmt.Sprintf("%.0f %%", 100*x) }

// chosen says how the root was chosen, and which others there are; "" when it was
// given.
func (t *phrases) chosen() string {
	if len(t.Candidates) == 0 {
		return ""
	}
	text := fmt.Sprintf("root: %s, whose slow calls lose most; --root names another", t.rootLabel())
	for i, c := range t.Candidates[1:min(len(t.Candidates), 4)] {
		text += fmt.Sprintf("%s %s", []string{":", ",", ","}[i], t.label(c.Func))
	}
	return text
}

// answer is the report in a sentence.
func (t *phrases) answer() string {
	if len(t.Causes) == 0 {
		text := fmt.Sprintf("No function explains the slow calls of %s.", t.rootLabel())
		if t.Meanwhile != nil {
			text += fmt.Sprintf(" While they lose time, another thread is in %s.", t.label(t.Meanwhile.Self))
		}
		return text
	}
	var parts []string
	for i := range t.Causes {
		c := &t.Causes[i]
		what := t.phrase(c)
		if h := c.Holder; h != nil && c.Kind == LockWait && h.Evidence != ByCoincidence {
			what += ", which " + t.label(h.Scope) + " holds"
		} else if h != nil {
			what += " for " + t.label(h.Self)
		}
		parts = append(parts, fmt.Sprintf("%s (%s of the lost time)", what, percent(c.Share)))
	}
	return fmt.Sprintf("Why %s is slow at times: %s.", t.rootLabel(), strings.Join(parts, "; "))
}

// notes are the warnings, and what is not decided.
func (t *phrases) notes() []string {
	notes := slices.Clone(t.Warnings)
	if u := t.Undecided; u != nil {
		notes = append(notes, fmt.Sprintf("%s has %s of the lost time, but %s of the ordinary time or calls, too: "+
			"to tell it from chance takes about %d slow calls", t.label(u.Func), percent(u.Share), percent(u.Likely), u.Needed))
	}
	return notes
}

// cohorts says what is compared, in lines.
func (t *phrases) cohorts() []string {
	lines := []string{
		fmt.Sprintf("%s: %s on %s; median %s, p99 %s, longest %s", t.rootLabel(), plural(t.Invocations, "call"),
			plural(uint64(t.Threads), "thread"), t.Clock.Format(t.Median), t.Clock.Format(t.P99), t.Clock.Format(t.Longest)),
		fmt.Sprintf("slow: %s (%s), mean %s    ordinary: %s (%s), mean %s",
			plural(t.Slow.Count, "call"), t.Slow.Rule, t.ticks(t.Slow.Mean),
			plural(t.Ordinary.Count, "call"), t.Ordinary.Rule, t.ticks(t.Ordinary.Mean)),
	}
	if t.explained() {
		lines = append(lines, fmt.Sprintf("to explain: %s per slow call", t.ticks(t.Excess)))
	}
	return lines
}

// phrase says what a cause is.
func (t *phrases) phrase(c *Cause) string {
	name := t.label(c.Func)
	switch c.Kind {
	case MoreCalls:
		return fmt.Sprintf("it makes more calls of %s", name)
	case NewPath:
		if c.Most != 0 {
			return fmt.Sprintf("it takes the path %s, most of it in %s", name, t.label(c.Most))
		}
		return fmt.Sprintf("it takes the path %s", name)
	case LockWait, Wait:
		if c.Most != 0 {
			name = fmt.Sprintf("%s, in %s", name, t.label(c.Most))
		}
		if c.Kind == LockWait {
			return fmt.Sprintf("it waits for the lock in %s", name)
		}
		return fmt.Sprintf("it waits in %s", name)
	}
	return fmt.Sprintf("%s itself is slower", name)
}

// details says more of a cause, in lines.
func (t *phrases) details(c *Cause) []string {
	var lines []string
	add := func(format string, args ...any) { lines = append(lines, fmt.Sprintf(format, args...)) }
	for i := range c.Paths {
		p := &c.Paths[i]
		if i > 0 && p.Share <= 0.1*c.Share {
			continue
		}
		what := "own time"
		if p.Callees {
			what = "with callees"
		}
		add("%s", t.path(p.Path, c.Lock))
		add("%s, ordinary: %s; in the %d: %s", what, t.amount(p.Ordinary), c.Dominates, t.amount(p.Affected))
	}
	if c.Holder != nil {
		add("%s", t.holder(c))
	}
	if text := t.between(c); text != "" {
		add("%s", text)
	}
	add("%s", c.sureness())
	for i := range c.Associations {
		add("%s", t.association(&c.Associations[i]))
	}
	for i, a := range c.Along {
		if i == 3 {
			add("and %d more", len(c.Along)-i)
			break
		}
		add("along with it: %s", t.phrase(&Cause{Kind: a.Kind, Func: a.Func}))
	}
	return lines
}

// sureness says how likely it is that a cause is none.
func (c *Cause) sureness() string {
	switch {
	case !c.ByChance:
		return "sure: a scheduler makes no calls"
	case c.Chance < 1e-9:
		return "sure: the chance that a scheduler did it is less than one in a billion"
	}
	return fmt.Sprintf("sure: the chance that a scheduler did it is %.1g", c.Chance)
}

// path is a path from the root; the last function may be called for a lock.
func (t *phrases) path(path []reader.FuncID, lock uint64) string {
	names := make([]string, len(path))
	for i, fn := range path {
		names[i] = t.label(fn)
	}
	names[0] = t.rootLabel()
	if lock != 0 {
		names[len(names)-1] += fmt.Sprintf(" (%#x)", lock)
	}
	return strings.Join(names, " > ")
}

func (t *phrases) amount(a Amount) string {
	switch {
	case a.Calls == 0 && a.Ticks == 0:
		return "never called"
	case a.Calls == 0:
		return fmt.Sprintf("%s, no call recorded", t.ticks(a.Ticks))
	case a.Calls < 0.005:
		return fmt.Sprintf("%.1g calls of %s", a.Calls, t.ticks(a.Ticks/a.Calls))
	}
	return fmt.Sprintf("%.2f calls of %s", a.Calls, t.ticks(a.Ticks/a.Calls))
}

// holder says who was waited for.
func (t *phrases) holder(c *Cause) string {
	h := c.Holder
	var text string
	switch {
	case h.Evidence == ByCoincidence:
		text = t.meanwhile(h)
	default:
		text = fmt.Sprintf("held meanwhile by %s (%s of the waiting)", t.label(h.Scope), percent(h.Covered))
		if h.Self != h.Scope {
			text += fmt.Sprintf(", which spent it in %s (%s)", t.label(h.Self), percent(h.SelfShare))
		}
		if h.Evidence == ByFunction {
			text += fmt.Sprintf("; no addresses were logged, so %s is taken for one lock", t.label(c.Func))
		}
	}
	if h.Cause > 0 {
		text += fmt.Sprintf("; that is slow because of cause %d", h.Cause)
	}
	return text
}

// meanwhile says what other threads did when time was lost.
func (t *phrases) meanwhile(h *Holder) string {
	where := t.label(h.Scope)
	if h.Self != h.Scope {
		where += ", in " + t.label(h.Self)
	}
	text := fmt.Sprintf("at that time another thread is in %s: %s of the lost time, %s at other times",
		where, percent(h.Covered), percent(h.Expected))
	if h.Ends {
		text += fmt.Sprintf("; the wait ends when %s ends", t.label(h.Self))
	}
	return text
}

func (t *phrases) between(c *Cause) string {
	before, after := c.Between[0], c.Between[1]
	switch {
	case before != 0 && after != 0:
		return fmt.Sprintf("lost between the calls of %s and %s", t.label(before), t.label(after))
	case before != 0:
		return fmt.Sprintf("lost after the call of %s", t.label(before))
	case after != 0:
		return fmt.Sprintf("lost before the call of %s", t.label(after))
	}
	return ""
}

func (t *phrases) association(a *Association) string {
	switch a.Kind {
	case "thread":
		return fmt.Sprintf("%d of %d on thread %d", a.Count, a.Of, a.Thread.Thread)
	case "start":
		return fmt.Sprintf("at the start: %d of %d among the first tenth of their thread's calls", a.Count, a.Of)
	case "argument":
		return fmt.Sprintf("%d of %d with argument %d of %s", a.Count, a.Of, a.Value, t.label(a.Func))
	case "event":
		return fmt.Sprintf("%d of %d with the event %q", a.Count, a.Of, a.Text)
	case "period":
		return fmt.Sprintf("every %s: %d calls at %d times", t.Clock.Format(a.Value), a.Of, a.Count)
	}
	return fmt.Sprintf("in bursts: %d calls in %d bursts", a.Of, a.Count)
}

// exemplar is the title of one, of a cause or of none.
func (t *phrases) exemplar(e *Exemplar, cause int) string {
	of := "a typical slow call"
	if cause > 0 && len(t.Causes) > 1 {
		of = fmt.Sprintf("a typical slow call of cause %d", cause)
	}
	number := ""
	if e.Number > 0 {
		number = fmt.Sprintf("call %d, ", e.Number)
	}
	return fmt.Sprintf("%s (%sthread %d, at %s) beside the median call", of, number, e.Thread.Thread,
		t.Clock.Format(e.Start-t.Start))
}

// exemplarRow is a row of an exemplar in words.
type exemplarRow struct {
	Depth                              int
	Name                               string
	SlowCalls, Slow, UsualCalls, Usual string // "" where it was not called
	Mark                               string
}

func (t *phrases) rows(e *Exemplar) []exemplarRow {
	words := func(a Amount) (calls, ticks string) {
		if a.Calls == 0 {
			return "", ""
		}
		return fmt.Sprintf("%.0f x", a.Calls), t.ticks(a.Ticks)
	}
	var rows []exemplarRow
	for _, row := range e.Tree {
		r := exemplarRow{Depth: row.Depth, Name: t.label(row.Func)}
		if row.Depth == 0 {
			r.Name = t.rootLabel()
		}
		if row.Differs {
			r.Mark = "<<"
		}
		r.SlowCalls, r.Slow = words(row.Slow)
		r.UsualCalls, r.Usual = words(row.Ordinary)
		rows = append(rows, r)
	}
	return rows
}

// commands cut an exemplar with what surrounds it out of the trace, and show it in a
// browser.
func (t *phrases) commands(e *Exemplar, files string) [2]string {
	root := t.RootLabel
	if root == "" {
		root = "^" + regexp.QuoteMeta(symbolize.Label(t.names, t.Root)) + "$"
	}
	margin := fmt.Sprintf("%dticks", e.Duration/4+1)
	if t.Clock.Known() {
		margin = fmt.Sprintf("%dns", t.Clock.Nanos(e.Duration/4)+1)
	}
	which := fmt.Sprintf("--around %s --margin %s -o slow-%d", ShellQuote(fmt.Sprintf("%s#%d", root, e.Number)), margin, e.Number)
	return [2]string{"xray slice " + which + ".xray " + files, "xray html " + which + ".html " + files}
}

// ShellQuote makes one word for a shell of a text.
func ShellQuote(s string) string {
	const plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./:=,+@%"
	if s != "" && strings.Trim(s, plain) == "" {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

// largestParts are those of the decomposition, the largest first.
func (t *phrases) largestParts() []Part {
	parts := slices.Clone(t.Decomposition)
	slices.SortStableFunc(parts, func(a, b Part) int {
		return cmp.Compare(b.Slower+b.More+b.New, a.Slower+a.More+a.New)
	})
	return parts
}

func (t *phrases) cell(x float64) string {
	if x == 0 {
		return ""
	}
	return t.ticks(x)
}

func plural(n uint64, one string) string {
	if n == 1 {
		return "1 " + one
	}
	digits := fmt.Sprint(n)
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return digits + " " + one + "s"
}
