package diff

import (
	"bufio"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"

	"github.com/xray-tools/xray/internal/label"
	"github.com/xray-tools/xray/internal/texttab"
)

// View says how a report is written as text.
type View struct {
	Markdown bool
	Top      int // rows of a table; all when 0
	// Short shortens the names of functions; nil leaves them as they are.
	Short func(string) string
}

// writer writes a report as text.
type writer struct {
	*Report
	w    *bufio.Writer
	view View
}

// WriteText writes the report for people. It returns the error of w.
func (r *Report) WriteText(w io.Writer, view View) error {
	t := writer{r, bufio.NewWriter(w), view}
	t.printf("%s\n\n%s\n", t.answer(), t.basis())
	for _, write := range []func() error{t.metrics, t.changes, t.rows, t.gates} {
		if err := write(); err != nil {
			return err
		}
	}
	for _, note := range r.Notes {
		t.printf("\nnote: %s\n", note)
	}
	return t.w.Flush()
}

func (t *writer) printf(format string, args ...any) { fmt.Fprintf(t.w, format, args...) }

// short is a name as it is shown.
func (t *writer) short(name string) string {
	if t.view.Short != nil {
		name = t.view.Short(name)
	}
	return texttab.Printable(name)
}

func (t *writer) path(names []string) string {
	short := make([]string, len(names))
	for i, name := range names {
		short[i] = t.short(name)
	}
	return strings.Join(short, " > ")
}

// answer is the report in a sentence.
func (t *writer) answer() string {
	whole := &t.Whole
	times := fmt.Sprintf("%s -> %s", t.time(whole.A), t.time(whole.B))
	what := "All functions together take"
	if t.Root != "" {
		what = t.short(t.Root) + " takes"
	} else {
		times += " a run"
	}
	if whole.Known {
		times += fmt.Sprintf(" (95 %%: %s)", t.interval(&whole.Interval, t.signed))
	}
	switch {
	case whole.Difference() == 0:
		return fmt.Sprintf("%s as long in B as in A: %s.", what, times)
	case whole.Known && !whole.Sure():
		return fmt.Sprintf("%s as long in B as in A, as far as can be told: %s.%s", what, times, t.surely())
	}
	text := fmt.Sprintf("%s %s time in B, %s", what, t.moreOrLess(whole), times)
	var leading []string
	for i := range t.Changes {
		c := &t.Changes[i]
		if c.Amount/whole.Difference() < 0.1 || len(leading) == 3 || c.Known && !c.Sure() {
			continue
		}
		leading = append(leading, fmt.Sprintf("%s (%s)", t.phrase(c), t.signed(c.Amount)))
	}
	if len(leading) == 0 {
		return text + "; no function in particular stands out."
	}
	return text + ": " + strings.Join(leading, "; ") + "."
}

// surely is what changed for sure where the mean does not tell, as that varies more:
// quantiles of the root, and single functions.
func (t *writer) surely() string {
	const most = 3
	var list []string
	for i := range t.Metrics {
		if m := &t.Metrics[i]; m.Sure() && len(list) < most {
			list = append(list, fmt.Sprintf("its %s is %s: %s -> %s (95 %%: %s)", m.Name, t.moreOrLess(m), t.time(m.A), t.time(m.B),
				t.interval(&m.Interval, t.signed)))
		}
	}
	for i := range t.Changes {
		if c := &t.Changes[i]; c.Known && c.Sure() && len(list) < most {
			list = append(list, fmt.Sprintf("%s (%s)", t.phrase(c), t.signed(c.Amount)))
		}
	}
	if len(list) == 0 {
		return ""
	}
	return " But " + strings.Join(list, "; ") + "."
}

// moreOrLess is the size of a change.
func (t *writer) moreOrLess(m *Metric) string {
	word := "more"
	if m.Difference() < 0 {
		word = "less"
	}
	if m.A == 0 {
		return word
	}
	return fmt.Sprintf("%.1f %% %s", 100*math.Abs(m.Difference()/m.A), word)
}

// basis says what was compared.
func (t *writer) basis() string {
	one, many, text := "call", "calls", ""
	if t.Root != "" {
		one, many = "call of "+t.short(t.Root), "calls of "+t.short(t.Root)
	}
	for s := range t.Runs {
		text += fmt.Sprintf("%s: %s, %s; ", Side(s), label.Count(uint64(t.Runs[s]), "run", "runs"),
			label.Count(uint64(t.Calls[s]), one, many))
	}
	if t.Resampled == "" {
		return text + "no intervals"
	}
	text += fmt.Sprintf("95 %% intervals from %s resamples of ", label.Grouped(uint64(t.Folds)))
	if t.Resampled == "runs" {
		return text + "runs"
	}
	return text + fmt.Sprintf("%d and %d blocks of %s", t.Units[A], t.Units[B], t.Clock.Format(uint64(t.Block)))
}

// phrase says what a change is.
func (t *writer) phrase(c *Change) string {
	name := t.short(c.Function)
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
	case less:
		return name + " itself is faster"
	}
	return name + " itself is slower"
}

func (t *writer) time(x float64) string {
	if math.Round(x) < 0 {
		return "-" + t.time(-x)
	}
	return t.Clock.Format(uint64(math.Round(x)))
}

func (t *writer) signed(x float64) string {
	if math.Round(x) > 0 {
		return "+" + t.time(x)
	}
	return t.time(x)
}

func (t *writer) interval(i *Interval, format func(float64) string) string {
	if !i.Known {
		return "-"
	}
	return format(i.Low) + " to " + format(i.High)
}

func sure(i *Interval) string {
	switch {
	case !i.Known:
		return "-"
	case i.Sure():
		return "yes"
	}
	return "no"
}

func percent(x float64) string {
	switch {
	case math.IsInf(x, 0):
		return "new"
	case math.Abs(x) >= 10:
		return fmt.Sprintf("%+.0f%%", 100*x)
	}
	return fmt.Sprintf("%+.1f%%", 100*x)
}

// callCount formats a mean number of calls.
func callCount(x float64) string {
	if x >= 100 || x == math.Trunc(x) {
		return strconv.FormatFloat(x, 'f', 0, 64)
	}
	return strconv.FormatFloat(x, 'g', 3, 64)
}

func (t *writer) table(title string, columns string, rows func(*texttab.Table)) error {
	table := &texttab.Table{}
	for _, c := range strings.Split(columns, "|") {
		name, left := strings.CutPrefix(c, "<")
		table.Columns = append(table.Columns, texttab.Column{Title: name, Right: !left})
	}
	rows(table)
	if t.view.Markdown {
		t.printf("\n%s\n\n", title)
		return table.WriteMarkdown(t.w)
	}
	t.printf("\n%s\n", title)
	return table.WriteText(t.w)
}

// metrics writes what is known of the root.
func (t *writer) metrics() error {
	if t.Root == "" {
		return nil
	}
	return t.table("a call of "+t.short(t.Root), "<|A|B|change||95 %|sure", func(table *texttab.Table) {
		whole := t.Whole
		whole.Name = "mean"
		for _, m := range append([]Metric{whole}, t.Metrics...) {
			table.Add(m.Name, t.time(m.A), t.time(m.B), t.signed(m.Difference()), percent(change(m.A, m.B)),
				t.interval(&m.Interval, t.signed), sure(&m.Interval))
		}
	})
}

// top is how many of n rows are shown.
func (t *writer) top(n int) int {
	if t.view.Top > 0 {
		n = min(n, t.view.Top)
	}
	return n
}

// changes writes what the difference consists of.
func (t *writer) changes() error {
	if t.Whole.Difference() == 0 && len(t.Changes) == 0 {
		return nil
	}
	ofA := func(x float64) string { return percent(ratio(x, t.Whole.A)) }
	return t.table("what changed", "time|of A|95 %|sure|<", func(table *texttab.Table) {
		rest := t.Rest
		for i := range t.Changes {
			c := &t.Changes[i]
			if i >= t.top(len(t.Changes)) {
				rest += c.Amount
				continue
			}
			what := t.phrase(c)
			switch {
			case t.Root != "" && len(c.Path) > 1 && c.Paths > 1:
				what += fmt.Sprintf(", on %d paths, most in %s", c.Paths, t.path(c.Path[:len(c.Path)-1]))
			case t.Root != "" && len(c.Path) > 1:
				what += ", in " + t.path(c.Path[:len(c.Path)-1])
			}
			table.Add(t.signed(c.Amount), ofA(c.Amount), t.interval(&c.Interval, t.signed), sure(&c.Interval), what)
		}
		table.Add(t.signed(rest), ofA(rest), "", "", "the rest")
		whole := t.Whole.Difference()
		table.Add(t.signed(whole), ofA(whole), t.interval(&t.Whole.Interval, t.signed), sure(&t.Whole.Interval), "the whole")
	})
}

// rows writes paths or functions.
func (t *writer) rows() error {
	title, columns := "functions, of a run", "|p50 A|p50 B|p99 A|p99 B|<function"
	if t.Root != "" {
		title, columns = "paths, of a call of "+t.short(t.Root), "|<path"
	}
	columns = "self A|self B|change|95 %|sure|calls A|calls B|total A|total B" + columns
	shown := t.Rows[:t.top(len(t.Rows))]
	if len(shown) < len(t.Rows) {
		title += fmt.Sprintf(" (%d of %d)", len(shown), len(t.Rows))
	}
	if len(shown) == 0 {
		return nil
	}
	return t.table(title, columns, func(table *texttab.Table) {
		for i := range shown {
			row := &shown[i]
			count, self := &row.Metrics[0], &row.Metrics[1]
			cells := []string{t.time(self.A), t.time(self.B), t.signed(self.Difference()), t.interval(&self.Interval, t.signed),
				sure(&self.Interval), callCount(count.A), callCount(count.B)}
			for _, m := range row.Metrics[2:] {
				if m.Missing {
					cells = append(cells, "-", "-")
				} else {
					cells = append(cells, t.time(m.A), t.time(m.B))
				}
			}
			name := t.path(row.Path)
			if row.In != "both" {
				name += " (" + row.In + ")"
			}
			table.Add(append(cells, name)...)
		}
	})
}

// gates writes what became of the gates.
func (t *writer) gates() error {
	if len(t.Gates) == 0 {
		return nil
	}
	return t.table("gates", "<|change|95 %|limit|<gate", func(table *texttab.Table) {
		for i := range t.Gates {
			g := &t.Gates[i]
			table.Add(string(g.Verdict), percent(g.Change), t.interval(&g.Interval, percent), percent(g.Limit), g.Gate)
		}
	})
}
