package diff

import (
	"slices"
	"strings"

	"github.com/xray-tools/xray/report"
)

// View selects what people see of a report.
type View struct {
	Top int // rows of a table; 0 for all
	// Short shortens the names of functions for people. nil leaves them unchanged.
	Short func(string) string
}

// Body describes the report. Programs get all rows, whatever the view. CSV has the rows of
// paths or functions.
func (r *Report) Body(v View) []report.Node {
	if v.Short == nil {
		v.Short = func(name string) string { return name }
	}
	p := phrases{r, v}
	body := []report.Node{
		report.Paragraph(p.answer()), report.Paragraph(p.basis()),
		report.Facts(r,
			report.String("root", func(r *Report) string { return r.Root }),
			report.String("resampled", func(r *Report) string { return r.Resampled }),
			report.Mean("block", func(r *Report) float64 { return r.Block }),
			report.Count("resamples", func(r *Report) uint64 { return uint64(r.Folds) }),
			report.Count("seed", func(r *Report) uint64 { return r.Seed }),
		).Hidden(),
		r.side("a", A), r.side("b", B),
		&report.Section{Key: "whole", Body: []report.Node{report.Facts(&r.Whole, metricColumns("", itself)...).Hidden()}},
		report.Programs{report.Table("rows", r.Rows, r.rowColumns()...)},
	}
	if r.Root != "" {
		whole := r.Whole
		whole.Name = "mean"
		columns := append([]report.Column[Metric]{report.String("metric", func(m *Metric) string { return m.Name })}, metricColumns("", itself)...)
		body = append(body, report.Table("metrics", append([]Metric{whole}, r.Metrics...), columns...).Titled("A call of "+v.Short(r.Root)))
	}
	body = append(body, p.changes()...)
	return append(body,
		r.valueTable(),
		report.People{p.rows()},
		report.Programs{report.Table("decomposition", r.Parts,
			report.Mean("slower", func(p *Part) float64 { return p.Slower }),
			report.Mean("more_calls", func(p *Part) float64 { return p.More }),
			report.Mean("new_path", func(p *Part) float64 { return p.New }),
			report.NamePath("path", func(p *Part) []string { return p.Path }),
		)},
		r.gateTable(),
		report.Notes(r.Notes),
	)
}

func itself(m *Metric) *Metric { return m }

// side describes a side.
func (r *Report) side(key string, s Side) report.Node {
	return &report.Section{Key: key, Body: []report.Node{report.Facts(r,
		report.Count("run_count", func(r *Report) uint64 { return uint64(r.Runs[s]) }),
		report.Number("calls", func(r *Report) float64 { return r.Calls[s] }),
		report.Count("units", func(r *Report) uint64 { return uint64(r.Units[s]) }),
	).Hidden()}}
}

// tested returns the columns for the interval, probability and significance of a change.
func tested[T any](change report.Column[T], prefix string, of func(*T) *Interval) []report.Column[T] {
	unknown := func(t *T) bool { return !of(t).Known }
	return []report.Column[T]{
		change.To(func(t *T) float64 { return of(t).High }).Signed().Missing(unknown).Titled("95% interval").Optional(),
		report.Number(prefix+"p", func(t *T) float64 { return of(t).P }).Missing(unknown).ForPrograms(),
		report.Flag(prefix+"significant", func(t *T) bool { return of(t).Significant() }).Missing(unknown).Titled("significant").Optional(),
	}
}

// metricColumns are A, B, the absolute and relative change, and the tested columns.
func metricColumns[T any](prefix string, of func(*T) *Metric) []report.Column[T] {
	value := report.Mean[T]
	if prefix == "calls_" {
		value = report.Number[T]
	}
	missing := func(t *T) bool { return of(t).Missing }
	title := strings.ReplaceAll(prefix, "_", " ")
	interval := func(t *T) *Interval { return &of(t).Interval }
	return append([]report.Column[T]{
		value(prefix+"a", func(t *T) float64 { return of(t).A }).Missing(missing).Titled(title + "A"),
		value(prefix+"b", func(t *T) float64 { return of(t).B }).Missing(missing).Titled(title + "B"),
		value(prefix+"change", func(t *T) float64 { return of(t).Difference() }).Missing(missing).Signed().Titled("change"),
		report.Share(prefix+"relative_change", func(t *T) float64 { return change(of(t).A, of(t).B) }).Missing(missing).Signed().Titled("relative"),
	}, tested(value(prefix+"change", func(t *T) float64 { return interval(t).Low }), prefix, interval)...)
}

// rowColumns are the columns of paths or functions: self times with their tests, and then the
// other metrics. People see only both sides of the latter.
func (r *Report) rowColumns() []report.Column[Row] {
	const relative = 3
	var first, others []report.Column[Row]
	if len(r.Rows) > 0 {
		for i, m := range r.Rows[0].Metrics {
			columns := metricColumns(m.Name+"_", func(r *Row) *Metric { return &r.Metrics[i] })
			if m.Name == "self" {
				columns[relative] = columns[relative].ForPrograms()
				first = columns
				continue
			}
			for j := range columns {
				columns[j] = columns[j].Optional()
				if j > 1 {
					columns[j] = columns[j].ForPrograms()
				}
			}
			others = append(others, columns...)
		}
	}
	what := "function"
	if r.Root != "" {
		what = "path"
	}
	return append(append(first, others...),
		report.String("in", func(r *Row) string { return r.In }),
		report.NamePath("path", func(r *Row) []string { return r.Path }).Titled(what),
	)
}

// rows are the first rows of paths or functions, for people.
func (p *phrases) rows() report.Node {
	title := "Functions, per run"
	if p.Root != "" {
		title = "Paths, per call of " + p.view.Short(p.Root)
	}
	shown := make([]Row, p.shown(len(p.Rows)))
	for i := range shown {
		shown[i] = p.Rows[i]
		shown[i].Path = p.path(shown[i].Path)
		if shown[i].In == "both" {
			shown[i].In = ""
		}
	}
	return report.Table("rows", shown, p.rowColumns()...).Titled(title + p.of(len(p.Rows)))
}

// changeRow is a change, or the rest.
type changeRow struct {
	Change
	what string // for people
}

// changes is the table of changes. For people, it also has the rest and the total.
func (p *phrases) changes() []report.Node {
	var all, shown []changeRow
	rest := p.Rest
	for i := range p.Changes {
		c := p.Changes[i]
		all = append(all, changeRow{Change: c})
		if i >= p.shown(len(p.Changes)) {
			rest += c.Amount
			continue
		}
		shown = append(shown, changeRow{c, p.phrase(&c) + p.place(&c)})
	}
	whole := p.Whole.Difference()
	shown = append(shown, changeRow{Change{Amount: rest}, "the rest"}, changeRow{Change{Amount: whole, Interval: p.Whole.Interval}, "total"})
	columns := append([]report.Column[changeRow]{
		report.Mean("change", func(c *changeRow) float64 { return c.Amount }).Signed(),
		report.Share("share", func(c *changeRow) float64 { return ratio(c.Amount, p.Whole.A) }).Signed().Titled("of A"),
	}, tested(report.Mean("change", func(c *changeRow) float64 { return c.Low }), "", func(c *changeRow) *Interval { return &c.Interval })...)
	columns = append(columns,
		report.String("kind", func(c *changeRow) string { return c.Kind.String() }).ForPrograms(),
		report.Count("path_count", func(c *changeRow) uint64 { return uint64(c.Paths) }).ForPrograms(),
		report.NamePath("path", func(c *changeRow) []string { return c.Path }).ForPrograms(),
		report.String("function", func(c *changeRow) string { return c.Function }).ForPrograms(),
		report.String("what", func(c *changeRow) string { return c.what }).ForPeople(),
	)
	list := []report.Node{report.Programs{
		report.Table("changes", all, columns...),
		report.Facts(p.Report, report.Mean("rest", func(r *Report) float64 { return r.Rest })),
	}}
	if whole != 0 || len(all) > 0 {
		list = append(list, report.People{report.Table("changes", shown, columns...).Titled("What changed" + p.of(len(all)))})
	}
	for i := range p.shown(len(p.Splits)) {
		list = append(list, report.Paragraph(p.split(&p.Splits[i])))
	}
	return list
}

// valueTable compares calls by values, for programs.
func (r *Report) valueTable() report.Node {
	columns := slices.Concat(
		metricColumns("calls_", func(v *ValueChange) *Metric { return &v.Calls }),
		metricColumns("self_", func(v *ValueChange) *Metric { return &v.Self }),
		metricColumns("total_", func(v *ValueChange) *Metric { return &v.Total }),
		metricColumns("p50_", func(v *ValueChange) *Metric { return &v.Median }),
		[]report.Column[ValueChange]{
			report.String("self_outcome", func(v *ValueChange) string { return string(v.SelfResult) }).Missing(func(v *ValueChange) bool { return v.SelfResult == "" }),
			report.String("total_outcome", func(v *ValueChange) string { return string(v.TotalResult) }).Missing(func(v *ValueChange) bool { return v.TotalResult == "" }),
			report.String("p50_outcome", func(v *ValueChange) string { return string(v.MedianResult) }).Missing(func(v *ValueChange) bool { return v.MedianResult == "" }),
			report.String("expression", func(v *ValueChange) string { return v.Expression }),
			report.String("value", func(v *ValueChange) string { return v.Value }),
			report.String("function", func(v *ValueChange) string { return v.Function }),
		})
	return report.Programs{report.Table("values", r.Values, columns...)}
}

// gateTable has the results of the gates.
func (r *Report) gateTable() report.Node {
	interval := func(g *GateResult) *Interval { return &g.Interval }
	columns := append([]report.Column[GateResult]{
		report.String("verdict", func(g *GateResult) string { return string(g.Verdict) }),
		report.Share("relative_change", func(g *GateResult) float64 { return g.Change }).Signed().Titled("change"),
	}, tested(report.Share("relative_change", func(g *GateResult) float64 { return g.Low }), "", interval)[:2]...)
	return report.Table("gates", r.Gates, append(columns,
		report.Share("limit", func(g *GateResult) float64 { return g.Limit }).Signed(),
		report.String("gate", func(g *GateResult) string { return g.Gate }),
	)...).Titled("Gates")
}
