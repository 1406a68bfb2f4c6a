package graph

import (
	"cmp"
	"fmt"
	"io"
	"slices"

	"github.com/xray-tools/xray/internal/quantile"
	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/reader/calls"
	"github.com/xray-tools/xray/report"
	"github.com/xray-tools/xray/report/label"
	"github.com/xray-tools/xray/symbolize"
)

// Body describes the report: the edges and the functions, those with the most time first,
// and a picture on a page. Names and the view are for the picture.
func (r *Report) Body(names symbolize.Names, v View) []report.Node {
	edges, functions := slices.Clone(r.Edges), slices.Clone(r.Functions)
	slices.SortStableFunc(edges, func(a, b Edge) int { return cmp.Compare(b.Sum, a.Sum) })
	slices.SortStableFunc(functions, func(a, b Function) int { return cmp.Compare(b.Self, a.Self) })
	ofEdge, ofFunction := func(e *Edge) *Stats { return &e.Stats }, func(f *Function) *Stats { return &f.Stats }
	edgeColumns := append(columns("", r.Quantiles, same, ofEdge),
		report.Function("caller", func(e *Edge) reader.FuncID { return e.Caller }).Missing(func(e *Edge) bool { return e.Caller == Root }),
		report.Function("callee", func(e *Edge) reader.FuncID { return e.Callee }))
	functionColumns := append(columns("", r.Quantiles, same, ofFunction),
		report.Share("share", func(f *Function) float64 { return float64(f.Self) / float64(r.Self) }),
		report.Function("function", func(f *Function) reader.FuncID { return f.ID }).WithLocation())
	return []report.Node{
		report.Paragraph(fmt.Sprintf("%s, %s, %s of self time.%s",
			label.Count(uint64(len(r.Functions)), "function", "functions"), label.Count(uint64(len(r.Edges)), "edge", "edges"),
			report.Duration(r.Clock, quantile.NewSum(r.Self)), r.Left.sentence())),
		report.Facts(r, report.Time("self", func(r *Report) uint64 { return r.Self })).Hidden(),
		r.Left.facts(),
		report.Picture(func(w io.Writer) error {
			_, err := r.WriteSVG(w, names, v)
			return err
		}),
		report.Table("edges", edges, edgeColumns...).Titled("Edges"),
		report.Table("functions", functions, functionColumns...).Titled("Functions"),
		report.Notes(r.notes()),
	}
}

func same(ticks uint64) uint64 { return ticks }

// columns returns the number columns of rows. time converts ticks. If of returns nil, all numbers of
// the row are missing.
func columns[T any](prefix string, quantiles bool, time func(uint64) uint64, of func(*T) *Stats) []report.Column[T] {
	missing := func(r *T) bool { return of(r) == nil }
	untimed := func(r *T) bool { return of(r) == nil || of(r).Count == 0 || of(r).Untimed }
	approximate := func(r *T) bool { return of(r) != nil && of(r).Approximate }
	duration := func(c Column) report.Column[T] {
		column := report.Time(prefix+c.String(), func(r *T) uint64 { return time(of(r).Value(c)) }).Missing(untimed)
		if c.IsQuantile() {
			column = column.About(approximate).When(quantiles)
		}
		if c == P999 {
			column = column.Titled("p99.9")
		}
		return column
	}
	return []report.Column[T]{
		report.Count(prefix+"count", func(r *T) uint64 { return of(r).Count }).Missing(missing),
		report.Count(prefix+"open", func(r *T) uint64 { return of(r).Open }).Missing(missing).ForPrograms(),
		report.Count(prefix+"inferred", func(r *T) uint64 { return of(r).Inferred }).Missing(missing).ForPrograms(),
		report.Time(prefix+"sum", func(r *T) uint64 { return time(of(r).Sum) }).Missing(missing),
		report.Time(prefix+"self", func(r *T) uint64 { return time(of(r).Self) }).Missing(missing),
		duration(Min).Least(), duration(P50).Optional(), duration(P90).Least(), duration(P99).Optional(),
		duration(P999).Least(), duration(Max).Optional(),
		report.Flag(prefix+"approximate", approximate).Missing(missing).ForPrograms().When(quantiles),
	}
}

func (l Left) sentence() string {
	if l.Functions == 0 && l.Edges == 0 {
		return ""
	}
	return fmt.Sprintf(" %s and %s are too small to show.",
		label.Count(uint64(l.Functions), "function", "functions"), label.Count(uint64(l.Edges), "edge", "edges"))
}

func (l Left) facts() report.Node {
	return &report.Section{Key: "left_out", Body: []report.Node{report.Facts(&l,
		report.Count("function_count", func(l *Left) uint64 { return uint64(l.Functions) }),
		report.Count("edge_count", func(l *Left) uint64 { return uint64(l.Edges) }),
	).Hidden()}}
}

// notes say what the numbers omit.
func (r *Report) notes() (notes []string) {
	var open, inferred uint64
	approximate, coarse := false, false
	for i := range r.Edges {
		s := &r.Edges[i].Stats
		open, inferred = open+s.Open, inferred+s.Inferred
		approximate, coarse = approximate || s.Approximate, coarse || s.Coarse
	}
	if open > 0 {
		its := "their"
		if open == 1 {
			its = "its"
		}
		notes = append(notes, fmt.Sprintf("%s %s Only %s self time is counted.", label.Count(open, "call", "calls"), calls.OpenWords(open, min(r.Earlier, open)), its))
	}
	switch {
	case inferred == 1:
		notes = append(notes, "1 call has no exit record. xray ends it when its caller ends.")
	case inferred > 1:
		notes = append(notes, label.Grouped(inferred)+" calls have no exit record. xray ends them when their callers end.")
	}
	return append(notes, quantileNote(approximate, coarse)...)
}

func quantileNote(approximate, coarse bool) []string {
	off := quantile.RelativeError
	if coarse {
		off = quantile.OctaveError
	}
	if !approximate {
		return nil
	}
	return []string{fmt.Sprintf("Percentiles marked ~ are approximate, at most %.1f%% off.", 100*off)}
}

// Clock is the clock of the times in [Diff.Body].
func (d *Diff) Clock() reader.Clock {
	if d.ClockA.Known() && d.ClockB.Known() {
		return reader.Clock{Frequency: 1_000_000_000}
	}
	return reader.Clock{}
}

// Body describes the comparison: edges and functions of both traces, those whose time
// changed most first, and a picture on a page. Name returns the name of a function. Times
// have the unit of [Diff.Clock].
func (d *Diff) Body(name func(string) string, v View) []report.Node {
	edges, functions := slices.Clone(d.Edges), slices.Clone(d.Functions[1:]) // the root is not a function of the program
	slices.SortStableFunc(edges, func(x, y EdgeDiff) int {
		return cmp.Compare(d.difference(y.A, y.B, Sum), d.difference(x.A, x.B, Sum))
	})
	slices.SortStableFunc(functions, func(x, y FunctionDiff) int {
		return cmp.Compare(d.difference(y.A, y.B, Self), d.difference(x.A, x.B, Self))
	})
	edgeColumns := append(diffColumns(d, Sum, func(e *EdgeDiff) (a, b *Stats) { return e.A, e.B }),
		report.String("caller", func(e *EdgeDiff) string { return name(d.Functions[e.Caller].Name) }).
			Missing(func(e *EdgeDiff) bool { return e.Caller == 0 }),
		report.String("callee", func(e *EdgeDiff) string { return name(d.Functions[e.Callee].Name) }))
	functionColumns := append(diffColumns(d, Self, func(f *FunctionDiff) (a, b *Stats) { return f.A, f.B }),
		report.String("function", func(f *FunctionDiff) string { return name(f.Name) }))
	return []report.Node{
		report.Paragraph(fmt.Sprintf("%s, %s.%s", label.Count(uint64(len(functions)), "function", "functions"),
			label.Count(uint64(len(d.Edges)), "edge", "edges"), d.Left.sentence())),
		d.Left.facts(),
		report.Picture(func(w io.Writer) error {
			_, err := d.WriteSVG(w, v)
			return err
		}),
		report.Table("edges", edges, edgeColumns...).Titled("Edges"),
		report.Table("functions", functions, functionColumns...).Titled("Functions"),
		report.Notes(d.notes()),
	}
}

// diffColumns returns the columns of A and B, and their changes. Text shows the counts and one kind
// of time.
func diffColumns[T any](d *Diff, shown Column, of func(*T) (a, b *Stats)) []report.Column[T] {
	time := func(c reader.Clock) func(uint64) uint64 {
		if d.Clock().Known() {
			return c.Nanos
		}
		return same
	}
	ofA, ofB := func(r *T) *Stats { a, _ := of(r); return a }, func(r *T) *Stats { _, b := of(r); return b }
	number := func(prefix string, c Column, clock reader.Clock, of func(*T) *Stats) report.Column[T] {
		title := c.String() + " " + map[string]string{"a_": "A", "b_": "B"}[prefix]
		missing := func(r *T) bool { return of(r) == nil }
		if c == Count {
			return report.Count("", func(r *T) uint64 { return of(r).Count }).Missing(missing).Titled(title).ForPeople()
		}
		missing = func(r *T) bool { return of(r) == nil || !of(r).Has(c) }
		return report.Time("", func(r *T) uint64 { return time(clock)(of(r).Value(c)) }).Missing(missing).Titled(title).ForPeople()
	}
	list := []report.Column[T]{
		number("a_", Count, d.ClockA, ofA), number("b_", Count, d.ClockB, ofB),
		number("a_", shown, d.ClockA, ofA), number("b_", shown, d.ClockB, ofB),
		report.Share("", func(r *T) float64 { change, _ := d.change(ofA(r), ofB(r), shown); return change }).
			Missing(func(r *T) bool { _, ok := d.change(ofA(r), ofB(r), shown); return !ok }).Signed().Titled("change").ForPeople(),
	}
	for _, side := range [][]report.Column[T]{
		columns("a_", d.Quantiles, time(d.ClockA), ofA), columns("b_", d.Quantiles, time(d.ClockB), ofB),
	} {
		for _, c := range side {
			list = append(list, c.ForPrograms())
		}
	}
	for c := Count; c <= Max; c++ {
		list = append(list, report.Share(c.String()+"_change", func(r *T) float64 { change, _ := d.change(ofA(r), ofB(r), c); return change }).
			Missing(func(r *T) bool { _, ok := d.change(ofA(r), ofB(r), c); return !ok }).ForPrograms().When(d.Quantiles || !c.IsQuantile()))
	}
	return list
}

// notes say what the comparison omits.
func (d *Diff) notes() (notes []string) {
	if d.ClockA.Known() != d.ClockB.Known() {
		notes = append(notes, "Only one trace states its clock frequency. Times are in ticks of each trace and cannot be compared.")
	}
	approximate, coarse := d.approximate()
	return append(notes, quantileNote(approximate && d.Quantiles, coarse)...)
}
