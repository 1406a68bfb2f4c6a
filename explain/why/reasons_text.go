package why

import (
	"fmt"
	"strings"

	"github.com/xray-tools/xray/internal/texttab"
	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/report"
	"github.com/xray-tools/xray/report/label"
)

// String returns the condition as text, without the function.
func (c *Condition) String() string {
	of := texttab.Printable(c.Expression)
	if c.Length {
		of = "the length of " + of
	}
	value := c.Value
	if c.Op != "=" && !strings.ContainsAny(value, ".e-") {
		value = label.GroupedDigits(value)
	}
	return fmt.Sprintf("%s %s %s", of, c.Op, texttab.Printable(value))
}

// condition adds the function to a condition, unless it is that of the cause.
func (t *phrases) condition(c *Condition, of *Cause) string {
	if c.Func == of.Func {
		return c.String()
	}
	return c.String() + " in " + t.label(c.Func)
}

// when continues the description of a cause with its reason, or returns "".
func (t *phrases) when(c *Cause) string {
	if c.Reason == nil {
		return ""
	}
	text := " when " + t.conditions(c)
	if trend := t.trend(c); trend != "" {
		text += ", " + trend
	}
	return text
}

// trend says how the time depends on the value, or returns "".
func (t *phrases) trend(c *Cause) string {
	r := c.Reason
	if r.Trend == nil || r.Trend.Power == 0 {
		return ""
	}
	of := r.Conditions[0]
	name := texttab.Printable(of.Expression)
	who := t.label(r.Trend.Func)
	unit := "unit of " + name
	if of.Length {
		unit = "byte of " + name
		name = "the length of " + name
	}
	if r.Trend.Power == 2 {
		return fmt.Sprintf("the time of %s grows with the square of %s (%s times the square)", who, name, t.fine(r.Trend.Each))
	}
	return fmt.Sprintf("%s takes %s per %s", who, t.fine(r.Trend.Each), unit)
}

// fine formats a time that may be less than a tick.
func (t *phrases) fine(ticks float64) string {
	if !t.Clock.Known() {
		return fmt.Sprintf("%.2g ticks", ticks)
	}
	if ns := ticks / float64(t.Clock.Frequency) * 1e9; ns < 100 {
		return fmt.Sprintf("%.2gns", ns)
	}
	return t.ticks(ticks)
}

// reason describes the reason of a cause in sentences.
func (t *phrases) reason(c *Cause) string {
	r := c.Reason
	text := fmt.Sprintf("%d of %d affected calls have %s, as do %s of %s usual calls that were drawn (p = %s).", r.Count, r.Of,
		t.conditions(c), percent(r.Usual), label.Grouped(uint64(r.Sample)), chance(max(r.Chance, 1e-99)))
	if r.Trend != nil {
		text += fmt.Sprintf(" The time of %s rises with it (rank correlation %.2f)", t.label(r.Trend.Func), r.Trend.Rank)
		if r.Trend.Power > 0 {
			text += fmt.Sprintf(", which explains %s of what it loses", percent(r.Trend.Explained))
		}
		text += "."
	}
	var along []string
	for i := range r.Along {
		along = append(along, t.condition(&r.Along[i], c))
	}
	if len(along) > 0 {
		text += " It goes along with: " + strings.Join(along, ", ") + "."
	}
	return text
}

func (t *phrases) conditions(c *Cause) string {
	var list []string
	for i := range c.Reason.Conditions {
		list = append(list, t.condition(&c.Reason.Conditions[i], c))
	}
	return strings.Join(list, " and ")
}

// reasons is a table of at most one row, for programs.
func (t *phrases) reasons(c *cause) *report.TableNode {
	var list []*Reason
	if c.Reason != nil {
		list = append(list, c.Reason)
	}
	none := func(r **Reason) bool { return (*r).Trend == nil }
	noFit := func(r **Reason) bool { return (*r).Trend == nil || (*r).Trend.Power == 0 }
	return report.Table("called_with", list,
		report.Rows("conditions", func(r **Reason) *report.TableNode { return conditions("conditions", (*r).Conditions) }, nil),
		report.Count("count", func(r **Reason) uint64 { return uint64((*r).Count) }),
		report.Count("of", func(r **Reason) uint64 { return uint64((*r).Of) }),
		report.Share("usual_share", func(r **Reason) float64 { return (*r).Usual }),
		report.Count("sample", func(r **Reason) uint64 { return uint64((*r).Sample) }),
		report.Number("p", func(r **Reason) float64 { return (*r).Chance }),
		report.Number("rank_correlation", func(r **Reason) float64 { return (*r).Trend.Rank }).Missing(none),
		report.Count("power", func(r **Reason) uint64 { return uint64((*r).Trend.Power) }).Missing(noFit),
		report.Mean("each", func(r **Reason) float64 { return (*r).Trend.Each }).Missing(noFit),
		report.Share("explained", func(r **Reason) float64 { return (*r).Trend.Explained }).Missing(noFit),
		report.Rows("along_with", func(r **Reason) *report.TableNode { return conditions("along_with", (*r).Along) }, nil),
	)
}

func conditions(key string, list []Condition) *report.TableNode {
	return report.Table(key, list,
		report.Function("function", func(c *Condition) reader.FuncID { return c.Func }),
		report.String("expression", func(c *Condition) string { return c.Expression }),
		report.Flag("result", func(c *Condition) bool { return c.Exit }),
		report.Flag("length", func(c *Condition) bool { return c.Length }),
		report.String("op", func(c *Condition) string { return c.Op }),
		report.String("value", func(c *Condition) string { return c.Value }),
	)
}
