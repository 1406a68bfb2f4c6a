package shapes

import (
	"fmt"
	"slices"
	"strings"

	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/report"
	"github.com/xray-tools/xray/report/label"
	"github.com/xray-tools/xray/symbolize"
)

// View selects what people see of a report.
type View struct {
	// Rare omits shapes with more than this part of the invocations. 1 omits none. The most
	// common shape is always shown.
	Rare float64
	Top  int // number of shapes to show; 0 for all
}

// shown returns the shapes that a view shows.
func (r *Report) shown(v View) []Shape {
	list := r.Shapes
	for i := range list {
		if i > 0 && r.share(list[i].Count) > v.Rare {
			list = list[:i]
			break
		}
	}
	if v.Top > 0 {
		list = list[:min(len(list), v.Top)]
	}
	return list
}

func (r *Report) share(count uint64) float64 { return float64(count) / float64(r.Invocations) }

// Body describes the report. Names are for the texts of differences.
func (r *Report) Body(names symbolize.Names, v View) []report.Node {
	list := r.shown(v)
	few, alike := fold(list, names)
	difference := func(s *Shape) string {
		if s.ID == r.Shapes[0].ID {
			return "the most common"
		}
		return words(s.Differences, names)
	}
	differences := func(s *Shape) string {
		text := difference(s)
		if more := alike[s.ID]; more.shapes > 0 {
			text += fmt.Sprintf("; likewise %s with %s", label.Count(uint64(more.shapes), "more shape", "more shapes"), label.Count(more.calls, "call", "calls"))
		}
		return text
	}
	return []report.Node{
		r.head(len(list)),
		report.Facts(r,
			report.Count("calls", func(r *Report) uint64 { return r.Invocations }),
			report.Count("thread_count", func(r *Report) uint64 { return uint64(r.Threads) }),
			report.Count("shapes_kept", func(r *Report) uint64 { return uint64(len(r.Shapes)) }),
			report.Flag("full", func(r *Report) bool { return r.Full }),
		).Hidden(),
		report.Programs{r.table(list, difference)},
		report.People{r.table(few, differences)},
	}
}

// alikes are shapes that differ from the most common one in the same words as an earlier shape.
type alikes struct {
	shapes int
	calls  uint64
}

// fold returns the shapes without those that people would see as equal rows, and how many there are for
// each that stays: texts have only the first differences.
func fold(shapes []Shape, names symbolize.Names) ([]Shape, map[uint64]alikes) {
	var list []Shape
	first := make(map[string]uint64)
	alike := make(map[uint64]alikes)
	for i := range shapes {
		s := &shapes[i]
		text := ""
		if i > 0 {
			text = words(s.Differences, names)
		}
		if id, known := first[text]; known && text != "" {
			alike[id] = alikes{alike[id].shapes + 1, alike[id].calls + s.Count}
			continue
		}
		first[text] = s.ID
		list = append(list, *s)
	}
	return list, alike
}

func (r *Report) table(list []Shape, difference func(*Shape) string) *report.TableNode {
	return report.Table("shapes", list,
		report.String("shape", func(s *Shape) string { return fmt.Sprintf("%016x", s.ID) }),
		report.Count("count", func(s *Shape) uint64 { return s.Count }),
		report.Count("count_error", func(s *Shape) uint64 { return s.Error }).ForPeople().Titled("count too high by up to").When(r.Full),
		report.Count("count_error", func(s *Shape) uint64 { return s.Error }).ForPrograms(),
		report.Share("share", func(s *Shape) float64 { return r.share(s.Count) }),
		report.Time("p50", func(s *Shape) uint64 { return s.Median }).About(approximate),
		report.Time("p99", func(s *Shape) uint64 { return s.P99 }).About(approximate),
		report.Flag("approximate", approximate).ForPrograms(),
		report.Moment("first", func(s *Shape) uint64 { return s.Start }).Titled("first at").Optional(),
		report.Time("first_duration", func(s *Shape) uint64 { return s.Duration }).ForPrograms(),
		report.Thread("thread", func(s *Shape) reader.Thread { return s.Thread }).Optional(),
		report.String("values", func(s *Shape) string { return s.Values }).When(slices.ContainsFunc(list, func(s Shape) bool { return s.Values != "" })),
		report.Rows("differences", differences, difference).Titled("difference from the most common"),
	)
}

func approximate(s *Shape) bool { return s.Approximate }

// head is the sentence above the table.
func (r *Report) head(shown int) report.Paragraph {
	text := label.Count(r.Invocations, "call", "calls") + " on " + label.Count(uint64(r.Threads), "thread", "threads") +
		" have " + label.Count(uint64(len(r.Shapes)), "shape", "shapes") + "."
	if shown < len(r.Shapes) {
		text += fmt.Sprintf(" The table has %d: the most common one, then the rarest ones.", shown)
	}
	if r.Full {
		text += fmt.Sprintf(" There are more shapes than --max-shapes allows. The table includes every shape with more than %s.",
			label.Count(r.Invocations/uint64(len(r.Shapes)), "call", "calls"))
	}
	if r.Nested {
		text += " Calls inside others count, too, so their times overlap."
	}
	return report.Paragraph(text)
}

// differences returns a table of the differences of a shape, for programs.
func differences(s *Shape) *report.TableNode {
	return report.Table("differences", s.Differences,
		report.Path("path", func(d *Difference) []reader.FuncID { return d.Path }),
		report.Count("calls", func(d *Difference) uint64 { return d.Calls }),
		report.Count("usual_calls", func(d *Difference) uint64 { return d.Common }),
	)
}

// mostWords limits the differences in a text.
const mostWords = 6

// words describes the differences of a shape, for example "+ recompute, hashKey 512x (1x)". If a
// function is in several differences, its caller is named too.
func words(list []Difference, names symbolize.Names) string {
	times := make(map[reader.FuncID]int)
	for _, d := range list {
		times[d.Path[len(d.Path)-1]]++
	}
	var parts []string
	for i, d := range list {
		if i == mostWords {
			parts = append(parts, fmt.Sprintf("and %d more", len(list)-i))
			break
		}
		last := len(d.Path) - 1
		name := symbolize.Label(names, d.Path[last])
		if times[d.Path[last]] > 1 && last > 0 {
			name += " in " + symbolize.Label(names, d.Path[last-1])
		}
		switch {
		case d.Calls == 0:
			parts = append(parts, "- "+name)
		case d.Common > 0:
			parts = append(parts, fmt.Sprintf("%s %dx (%dx)", name, d.Calls, d.Common))
		case d.Calls > 1:
			parts = append(parts, fmt.Sprintf("+ %s %dx", name, d.Calls))
		default:
			parts = append(parts, "+ "+name)
		}
	}
	return strings.Join(parts, ", ")
}
