package top

import (
	"bytes"
	"context"
	"io"
	"math"
	"time"

	"github.com/xray-tools/xray/cmd/xray/internal/cli"
	"github.com/xray-tools/xray/cmd/xray/internal/launch"
	"github.com/xray-tools/xray/cmd/xray/internal/tui"
	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/report"
)

// topRow is a function in an interval.
type topRow struct {
	*tui.Function
	*topInterval
}

type topInterval struct {
	*interval
	data   *tui.Data
	number int
}

// rate is ticks or calls in each second that was observed.
func (r *topRow) rate(v uint64) float64 {
	return float64(v) * float64(r.data.Clock.Frequency) / float64(max(r.data.Observed, 1))
}

// tables writes the table of one interval, or of each.
func (t *Topping) tables(ctx context.Context, sampler *sampler) error {
	if t.Report.Path == "" || t.Report.Path == "-" {
		return t.each(ctx, sampler, func(text []byte) error {
			return t.WriteText("", func(w io.Writer) error { return writeAll(w, text) })
		})
	}
	return t.WriteText(t.Report.Path, func(w io.Writer) error {
		return t.each(ctx, sampler, func(text []byte) error { return writeAll(w, text) })
	})
}

func writeAll(w io.Writer, text []byte) error {
	_, err := w.Write(text)
	return err
}

// each passes the tables of intervals to write, until ctx or the process ends.
func (t *Topping) each(ctx context.Context, sampler *sampler, write func([]byte) error) error {
	for n := 1; ; n++ {
		d, i, err := t.next(ctx, sampler)
		switch {
		case err != nil && ctx.Err() != nil:
			return nil
		case err != nil && n > 1 && launch.IsGone(t.process):
			t.Say("%v", err)
			return nil
		case err != nil:
			return err
		}
		text, err := t.render(d, i, n)
		if err == nil {
			err = write(text)
		}
		if err != nil || t.Once {
			return err
		}
	}
}

// render returns the table of an interval. CSV has one header for all.
func (t *Topping) render(d *tui.Data, i *interval, number int) ([]byte, error) {
	if err := tui.Sort(d.Functions, t.Sort, false); err != nil {
		return nil, err
	}
	if t.Most > 0 {
		d.Functions = d.Functions[:min(t.Most, len(d.Functions))]
	}
	interval := &topInterval{i, d, number}
	rows := make([]topRow, len(d.Functions))
	for n := range d.Functions {
		rows[n] = topRow{&d.Functions[n], interval}
	}
	doc := t.doc(d.Clock)
	doc.Title, doc.Caveats = d.Title, d.Notes
	doc.Body = []report.Node{
		report.Paragraph(d.Title),
		report.Facts(interval, topFacts(func(i *topInterval) *topInterval { return i })...).Hidden(),
		report.Table("functions", rows, topColumns(d.OffCPU)...),
	}
	style := report.Style{Format: report.Format(t.Report.Format)}
	if style.Format == report.Text && t.ToTerminal(t.Report.Path) {
		style.Width = cli.TerminalWidth(t.Stdout.Raw)
	}
	var b bytes.Buffer
	if err := doc.Write(&b, style); err != nil {
		return nil, err
	}
	switch {
	case style.Format == report.CSV && number > 1:
		_, err := b.ReadString('\n')
		return b.Bytes(), err
	case style.Format == report.Text && !t.Once, style.Format == report.Markdown && !t.Once:
		b.WriteByte('\n')
	}
	return b.Bytes(), nil
}

func (t *Topping) doc(c reader.Clock) *report.Doc {
	return &report.Doc{Kind: "top", Clock: c, Names: t.shown()}
}

// topFacts describe an interval.
func topFacts[T any](of func(*T) *topInterval) []report.Column[T] {
	return []report.Column[T]{
		report.Count("interval", func(r *T) uint64 { return uint64(of(r).number) }),
		report.String("time", func(r *T) string { return of(r).Began.UTC().Format(time.RFC3339Nano) }),
		report.Time("observed", func(r *T) uint64 { return of(r).data.Observed }),
		report.Share("seen_share", func(r *T) float64 { return float64(of(r).Records) / math.Max(1, float64(of(r).Records+of(r).Lost)) }),
		report.Count("missing_calls", func(r *T) uint64 { return of(r).data.Missing }),
		report.Share("cost_share", func(r *T) float64 { return of(r).Cost }),
	}
}

func topColumns(off bool) []report.Column[topRow] {
	per := func(key, title string, v func(*tui.Function) uint64) report.Column[topRow] {
		return report.Mean(key, func(r *topRow) float64 { return r.rate(v(r.Function)) }).Titled(title)
	}
	of := func(key string, v func(*tui.Function) uint64) report.Column[topRow] {
		return report.Time(key, func(r *topRow) uint64 { return v(r.Function) }).Missing(func(r *topRow) bool { return r.Calls == 0 })
	}
	columns := topFacts(func(r *topRow) *topInterval { return r.topInterval })
	for i := range columns {
		columns[i] = columns[i].ForPrograms().Flat()
	}
	return append(columns,
		report.Count("count", func(r *topRow) uint64 { return r.Calls }).ForPrograms(),
		report.Number("calls_per_second", func(r *topRow) float64 { return r.rate(r.Calls) }).Titled("calls/s"),
		per("self_per_second", "self/s", func(f *tui.Function) uint64 { return f.Self }),
		per("total_per_second", "total/s", func(f *tui.Function) uint64 { return f.Total }).Optional(),
		per("cpu_per_second", "cpu/s", func(f *tui.Function) uint64 { return f.CPU }).When(off).Optional(),
		per("blocked_per_second", "blocked/s", func(f *tui.Function) uint64 { return f.Blocked }).When(off).Optional(),
		of("p50", func(f *tui.Function) uint64 { return f.P50 }).Optional(),
		of("p99", func(f *tui.Function) uint64 { return f.P99 }),
		of("max", func(f *tui.Function) uint64 { return f.Max }).Optional(),
		report.Function("function", func(r *topRow) reader.FuncID { return r.ID }),
	)
}
