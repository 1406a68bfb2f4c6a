package slowest

import (
	"fmt"
	"slices"

	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/reader/calls"
	"github.com/xray-tools/xray/report"
	"github.com/xray-tools/xray/report/label"
	"github.com/xray-tools/xray/symbolize"
)

// View selects what people see of a report.
type View struct {
	// MinShare omits paths with less than this part of the call's time, from 0 to 1.
	MinShare float64
}

// Body describes the report: a table of the slowest calls, and for people the tree of each.
// names are for titles and for texts in cells.
func (r *Report) Body(names symbolize.Names, v View) []report.Node {
	body := []report.Node{
		report.Paragraph(r.head()),
		report.Facts(r,
			report.Count("calls", func(r *Report) uint64 { return r.Invocations }),
			report.Count("thread_count", func(r *Report) uint64 { return uint64(r.Threads) }),
			report.Time("p50", func(r *Report) uint64 { return r.Median }),
			report.Time("p99", func(r *Report) uint64 { return r.P99 }),
			report.Time("max", func(r *Report) uint64 { return r.Longest }),
			report.Flag("approximate", func(r *Report) bool { return r.Approximate }),
		).Hidden(),
		&report.Section{Key: "usual", Body: []report.Node{report.Facts(r,
			report.String("rule", func(*Report) string { return "p25..p75" }),
			report.Count("count", func(r *Report) uint64 { return r.Usual.Count }),
			report.Mean("mean", (*Report).usualDuration),
		).Hidden()}},
		report.Table("slowest", r.Slowest,
			report.Time("duration", func(s *Slow) uint64 { return s.Duration }),
			report.Time("on_cpu", func(s *Slow) uint64 { return s.Duration - min(s.Off.Sum(), s.Duration) }).Titled("cpu").When(r.OffCPU),
			report.Time("blocked", func(s *Slow) uint64 { return s.Off.Blocked }).When(r.OffCPU),
			report.Time("queued", func(s *Slow) uint64 { return s.Off.Queued }).When(r.OffCPU),
			report.Time("recorder", func(s *Slow) uint64 { return s.Off.Recorder }).When(r.OffCPU).ForPrograms(),
			report.Moment("start", func(s *Slow) uint64 { return s.Start }),
			report.Thread("thread", func(s *Slow) reader.Thread { return s.Thread }),
			report.Count("number", func(s *Slow) uint64 { return s.Number }),
			report.String("values", func(s *Slow) string { return calls.ValuesText(s.Values) }).When(r.valued()).ForPrograms(),
			report.Function("function", func(s *Slow) reader.FuncID { return s.Root }),
			report.Rows("tree", func(s *Slow) *report.TableNode { return r.tree(s.Rows, names) }, nil),
		),
	}
	for i := range r.Slowest {
		s := &r.Slowest[i]
		title := fmt.Sprintf("%d. %s#%s%d, %s", i+1, symbolize.Label(names, s.Root), r.among(), s.Number, r.Clock.Format(s.Duration))
		body = append(body, report.People{&report.Section{Title: title, Body: r.shown(s, names, v)}})
	}
	return body
}

// valued reports whether a call has arguments or results.
func (r *Report) valued() bool {
	return slices.ContainsFunc(r.Slowest, func(s Slow) bool { return len(s.Values) > 0 })
}

// head describes all calls.
func (r *Report) head() string {
	text := label.Count(r.Invocations, "call", "calls") + " on " + label.Count(uint64(r.Threads), "thread", "threads")
	if r.Invocations == 0 {
		return text + "."
	}
	about := ""
	if r.Approximate {
		about = "about "
	}
	usual, mean := fmt.Sprintf("Usual calls are the %s from p25 to p75. They take", label.Grouped(r.Usual.Count)), " on average"
	if r.Usual.Count == 1 {
		usual, mean = "1 call is usual (p25 to p75). It takes", ""
	}
	overlap := ""
	if r.Nested {
		overlap = " Calls inside others count, too, so their times overlap."
	}
	return fmt.Sprintf("%s: median %s%s, p99 %s%s, longest %s. %s %s%s.%s",
		text, about, r.Clock.Format(r.Median), about, r.Clock.Format(r.P99), r.Clock.Format(r.Longest),
		usual, label.Ticks(r.Clock, r.usualDuration()), mean, overlap)
}

func (r *Report) usualDuration() float64 {
	if r.Usual.Count == 0 {
		return 0
	}
	return float64(r.Usual.Duration) / float64(r.Usual.Count)
}

// tree is the tree of a call.
func (r *Report) tree(rows []Row, names symbolize.Names) *report.TableNode {
	fresh := func(r *Row) bool { return r.UsualCalls == 0 }
	return report.Tree("tree", rows, func(r *Row) int { return r.Depth },
		report.Count("calls", func(r *Row) uint64 { return r.Calls }),
		report.Time("total", func(r *Row) uint64 { return r.Total }),
		report.Time("self", func(r *Row) uint64 { return r.Self }).Least(),
		report.Time("blocked", func(r *Row) uint64 { return r.Off.Blocked }).When(r.OffCPU),
		report.Time("queued", func(r *Row) uint64 { return r.Off.Queued }).When(r.OffCPU),
		report.Time("recorder", func(r *Row) uint64 { return r.Off.Recorder }).When(r.OffCPU).ForPrograms(),
		report.Number("usual_calls", func(r *Row) float64 { return r.UsualCalls }).Missing(fresh),
		report.Mean("usual_total", func(r *Row) float64 { return r.UsualTotal }).Missing(fresh),
		report.Mean("usual_self", func(r *Row) float64 { return r.UsualSelf }).Missing(fresh).ForPrograms(),
		report.Number("ratio", (*Row).Ratio).Missing(func(r *Row) bool { return r.UsualTotal == 0 }).Titled("x"),
		report.Time("waited", func(r *Row) uint64 { return r.Waited }).ForPrograms(),
		report.Rows("held_by", holders, func(r *Row) string { return r.held(names) }).Titled("lock held by"),
		report.Function("function", func(r *Row) reader.FuncID { return r.Func }),
	)
}

func holders(r *Row) *report.TableNode {
	return report.Table("held_by", r.Holders,
		report.Function("function", func(h *Holder) reader.FuncID { return h.Func }),
		report.Time("waited", func(h *Holder) uint64 { return h.Ticks }),
	)
}

// held names the functions that held the locks that a row waited for.
func (r *Row) held(names symbolize.Names) string {
	text := ""
	for i, h := range r.Holders {
		if i == 3 || 20*h.Ticks < r.Waited {
			break
		}
		if i > 0 {
			text += ", "
		}
		text += fmt.Sprintf("%s (%.0f%%)", symbolize.Label(names, h.Func), 100*float64(h.Ticks)/float64(r.Waited))
	}
	return text
}

// shown returns the part of a call's tree that people see.
func (r *Report) shown(s *Slow, names symbolize.Names, v View) []report.Node {
	var rows []Row
	for _, row := range s.Rows {
		if row.Depth == 0 || float64(row.Total) >= v.MinShare*float64(s.Duration) {
			rows = append(rows, row)
		}
	}
	var body []report.Node
	if text := calls.ValuesText(s.Values); text != "" {
		body = append(body, report.Paragraph(text+"."))
	}
	body = append(body, r.tree(rows, names))
	if small := len(s.Rows) - len(rows); small > 0 {
		body = append(body, report.Paragraph(fmt.Sprintf("Not shown: %s with less than %g%% of the call's time.",
			label.Count(uint64(small), "path", "paths"), 100*v.MinShare)))
	}
	return body
}
