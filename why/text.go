package why

import (
	"bufio"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"github.com/xray-tools/xray/internal/texttab"
	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/symbolize"
)

// View says what of a [Report] is written as text.
type View struct {
	Markdown bool
	// Exemplars is how many slow calls are shown beside the median call.
	Exemplars int
	// All lists the whole decomposition.
	All bool
	// Files are named in the commands that look further; options of names belong
	// to them.
	Files string
}

// writer writes a report.
type writer struct {
	*Report
	w     *bufio.Writer
	names symbolize.Names
	view  View
}

// WriteText writes the report for people. It returns the error of w.
func (r *Report) WriteText(w io.Writer, names symbolize.Names, view View) error {
	b := bufio.NewWriter(w)
	t := writer{r, b, names, view}
	t.head()
	for i := range r.Causes {
		t.cause(i)
	}
	if r.explained() {
		t.line("-. rest: lost at scattered points (scheduler, faults, noise)", percent(max(0, r.Rest)))
	}
	t.close()
	t.exemplars()
	if view.All {
		t.decomposition()
	}
	for _, warning := range r.Warnings {
		t.printf("\nnote: %s\n", warning)
	}
	return b.Flush()
}

// explained reports whether there were two cohorts to compare.
func (r *Report) explained() bool { return r.Kept > 0 && r.Ordinary.Count > 0 }

func (t *writer) printf(format string, args ...any) { fmt.Fprintf(t.w, format, args...) }

func (t *writer) ticks(x float64) string {
	sign := ""
	if x < 0 {
		sign, x = "-", -x
	}
	return sign + t.Clock.Format(uint64(math.Round(x)))
}

// label is the name of a function without its parameters, which make lines long.
func (t *writer) label(fn reader.FuncID) string { return label(t.names, fn) }

func label(names symbolize.Names, fn reader.FuncID) string {
	return texttab.Printable(ShortName(symbolize.Label(names, fn)))
}

// ShortName cuts the parameters off a demangled name.
func ShortName(name string) string {
	list := strings.TrimSuffix(name, " const")
	if !strings.HasSuffix(list, ")") {
		return name
	}
	depth := 0
	for i := len(list) - 1; i > 0; i-- {
		switch list[i] {
		case ')':
			depth++
		case '(':
			depth--
		}
		if depth == 0 {
			if strings.HasSuffix(list[:i], "operator") {
				return name
			}
			return list[:i]
		}
	}
	return name
}

func (r *Report) rootLabel(names symbolize.Names) string {
	if r.Root != 0 || r.RootLabel == "" {
		return label(names, r.Root)
	}
	return r.RootLabel
}

func percent(x float64) string { return fmt.Sprintf("%.0f %%", 100*x) }

func (t *writer) head() {
	root := t.rootLabel(t.names)
	if len(t.Candidates) > 0 {
		t.printf("root: %s, whose slow calls lose most; --root names another", root)
		for i, c := range t.Candidates[1:min(len(t.Candidates), 4)] {
			t.printf("%s %s", []string{":", ",", ","}[i], t.label(c.Func))
		}
		t.printf("\n\n")
	}
	if t.view.Markdown {
		t.printf("# Slow calls of %s\n\n", root)
	}
	t.printf("%s\n", t.answer())
	t.fence()
	t.printf("%s: %s on %s; median %s, p99 %s, longest %s\n", root, plural(t.Invocations, "call"),
		plural(uint64(t.Threads), "thread"), t.Clock.Format(t.Median), t.Clock.Format(t.P99), t.Clock.Format(t.Longest))
	t.printf("slow: %s (%s), mean %s    ordinary: %s (%s), mean %s\n",
		plural(t.Slow.Count, "call"), t.Slow.Rule, t.ticks(t.Slow.Mean),
		plural(t.Ordinary.Count, "call"), t.Ordinary.Rule, t.ticks(t.Ordinary.Mean))
	if t.explained() {
		t.printf("to explain: %s per slow call\n\n", t.ticks(t.Excess))
	}
}

// answer is the report in a sentence.
func (t *writer) answer() string {
	if len(t.Causes) == 0 {
		return fmt.Sprintf("No function explains the slow calls of %s.", t.rootLabel(t.names))
	}
	var parts []string
	for i := range t.Causes {
		c := &t.Causes[i]
		parts = append(parts, fmt.Sprintf("%s (%s of the lost time)", t.phrase(c), percent(c.Share)))
	}
	return fmt.Sprintf("Why %s is slow at times: %s.", t.rootLabel(t.names), strings.Join(parts, "; "))
}

// fence begins or ends what Markdown must not touch.
func (t *writer) fence() {
	t.printf("\n")
	if t.view.Markdown {
		t.printf("```\n")
	}
}

func (t *writer) close() {
	if t.view.Markdown {
		t.printf("```\n")
	}
}

// phrase says what a cause is.
func (t *writer) phrase(c *Cause) string {
	name := t.label(c.Func)
	switch c.Kind {
	case MoreCalls:
		return fmt.Sprintf("it makes more calls of %s", name)
	case NewPath:
		if c.Most != 0 {
			return fmt.Sprintf("it takes the path %s, most of it in %s", name, t.label(c.Most))
		}
		return fmt.Sprintf("it takes the path %s", name)
	case LockWait:
		return fmt.Sprintf("it waits for the lock in %s", name)
	case Wait:
		return fmt.Sprintf("it waits in %s", name)
	}
	return fmt.Sprintf("%s itself is slower", name)
}

func (t *writer) line(what string, rest string) {
	pad := max(1, 68-texttab.Width(what))
	t.printf("%s%s%5s\n", what, strings.Repeat(" ", pad), rest)
}

func (t *writer) cause(i int) {
	c := &t.Causes[i]
	t.line(fmt.Sprintf("%d. %s", i+1, t.phrase(c)), fmt.Sprintf("%5s  (%.0f to %.0f)   %d of %d slow calls",
		percent(c.Share), 100*c.Low, 100*c.High, c.Dominates, t.Kept))
	for i := range c.Paths {
		if p := &c.Paths[i]; i == 0 || p.Share > 0.1*c.Share {
			t.path(c, p)
		}
	}
	t.holder(c)
	t.between(c)
	for i := range c.Associations {
		t.printf("     %s\n", t.association(&c.Associations[i]))
	}
	for i, a := range c.Along {
		if i == 3 {
			t.printf("     and %d more\n", len(c.Along)-i)
			break
		}
		t.printf("     along with it: %s\n", t.phrase(&Cause{Kind: a.Kind, Func: a.Func}))
	}
}

func (t *writer) path(c *Cause, p *CausePath) {
	names := make([]string, len(p.Path))
	for i, fn := range p.Path {
		names[i] = t.label(fn)
	}
	names[0] = t.rootLabel(t.names)
	if c.Lock != 0 {
		names[len(names)-1] += fmt.Sprintf(" (%#x)", c.Lock)
	}
	t.printf("     %s\n", strings.Join(names, " > "))
	what := "own time"
	if c.Kind == NewPath {
		what = "with callees"
	}
	t.printf("     %s, ordinary: %s; in the %d: %s\n", what, t.amount(p.Ordinary), c.Dominates, t.amount(p.Affected))
}

func (t *writer) amount(a Amount) string {
	switch {
	case a.Calls == 0:
		return "never called"
	case a.Calls < 0.005:
		return fmt.Sprintf("%.1g calls of %s", a.Calls, t.ticks(a.Ticks/a.Calls))
	}
	return fmt.Sprintf("%.2f calls of %s", a.Calls, t.ticks(a.Ticks/a.Calls))
}

func (t *writer) holder(c *Cause) {
	h := c.Holder
	if h == nil {
		return
	}
	verb := "at that time another thread is in"
	if c.Kind == LockWait {
		verb = "held meanwhile by"
	}
	where := t.label(h.Scope)
	if h.Self != h.Scope {
		where += ", in " + t.label(h.Self)
	}
	t.printf("     %s %s: %s of the lost time, %s at other times\n", verb, where, percent(h.Covered), percent(h.Expected))
	if h.Ends {
		t.printf("     the wait ends when %s ends\n", t.label(h.Self))
	}
}

func (t *writer) between(c *Cause) {
	before, after := c.Between[0], c.Between[1]
	switch {
	case before != 0 && after != 0:
		t.printf("     lost between the calls of %s and %s\n", t.label(before), t.label(after))
	case before != 0:
		t.printf("     lost after the call of %s\n", t.label(before))
	case after != 0:
		t.printf("     lost before the call of %s\n", t.label(after))
	}
}

func (t *writer) association(a *Association) string {
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

// exemplars shows slow calls beside the median call.
func (t *writer) exemplars() {
	for i := range t.Exemplars[:min(len(t.Exemplars), t.view.Exemplars)] {
		e := &t.Exemplars[i]
		start := t.Clock.Format(e.Start - t.Start)
		of := "a typical slow call"
		if i < len(t.Causes) && len(t.Causes) > 1 {
			of = fmt.Sprintf("a typical slow call of cause %d", i+1)
		}
		t.printf("\n%s (thread %d, at %s) beside the median call\n", of, e.Thread.Thread, start)
		t.fence()
		table := &texttab.Table{Columns: []texttab.Column{{Title: "function"}, {Title: "slow", Right: true},
			{Title: "", Right: true}, {Title: "median", Right: true}, {Title: "", Right: true}, {Title: ""}}}
		for _, row := range e.Tree {
			mark := ""
			if row.Differs {
				mark = "<<"
			}
			name := t.label(row.Func)
			if row.Depth == 0 {
				name = t.rootLabel(t.names)
			}
			calls := func(a Amount) (string, string) {
				if a.Calls == 0 {
					return "", ""
				}
				return fmt.Sprintf("%.0f x", a.Calls), t.ticks(a.Ticks)
			}
			sn, st := calls(row.Slow)
			on, ot := calls(row.Ordinary)
			table.Add(strings.Repeat("  ", row.Depth)+name, sn, st, on, ot, mark)
		}
		table.WriteText(t.w)
		t.close()
		t.printf("\nlook at it: %s\n", t.command(e))
	}
}

// command opens an exemplar with what surrounds it.
func (t *writer) command(e *Exemplar) string {
	margin := e.Duration/4 + 1
	from := e.Start - t.Start - min(margin, e.Start-t.Start)
	to := e.Start - t.Start + e.Duration + margin
	unit := func(ticks uint64) string {
		if t.Clock.Known() {
			return fmt.Sprintf("%dns", t.Clock.Nanos(ticks))
		}
		return fmt.Sprintf("%dticks", ticks)
	}
	return fmt.Sprintf("xray convert -f chrome --from %s --to %s -o slow.json %s", unit(from), unit(to), t.view.Files)
}

// decomposition lists every path, the largest amounts first.
func (t *writer) decomposition() {
	parts := slices.Clone(t.Decomposition)
	slices.SortStableFunc(parts, func(a, b Part) int {
		x, y := a.Slower+a.More+a.New, b.Slower+b.More+b.New
		switch {
		case x > y:
			return -1
		case x < y:
			return 1
		}
		return 0
	})
	t.printf("\nthe whole difference, per slow call\n")
	t.fence()
	table := &texttab.Table{Columns: []texttab.Column{{Title: "slower", Right: true}, {Title: "more calls", Right: true},
		{Title: "new path", Right: true}, {Title: "path"}}}
	for _, p := range parts {
		names := make([]string, len(p.Path))
		for i, fn := range p.Path {
			names[i] = t.label(fn)
		}
		names[0] = t.rootLabel(t.names)
		cell := func(x float64) string {
			if x == 0 {
				return ""
			}
			return t.ticks(x)
		}
		table.Add(cell(p.Slower), cell(p.More), cell(p.New), strings.Join(names, " > "))
	}
	table.WriteText(t.w)
	t.close()
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
