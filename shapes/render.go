package shapes

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/xray-tools/xray/internal/texttab"
	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/symbolize"
)

// View says how a report is written.
type View struct {
	Base uint64 // TSC from which times count, the smallest of the trace
	// Rare leaves out shapes with more than this part of the invocations; with 1
	// none. The commonest is always shown.
	Rare     float64
	Top      int // how many shapes to show; all when 0
	Markdown bool
	// Files are the names of the traces, shown where there are several.
	Files []string
}

// shown are the shapes that a view shows.
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

// WriteText writes a table, of Markdown if the view says so. It returns the error
// of w.
func (r *Report) WriteText(w io.Writer, names symbolize.Names, v View) error {
	list := r.shown(v)
	b := bufio.NewWriter(w)
	fmt.Fprintf(b, "%s on %s, %s", plural(r.Invocations, "invocation"), plural(uint64(r.Threads), "thread"),
		plural(uint64(len(r.Shapes)), "shape"))
	if r.Full {
		b.WriteString(" kept apart")
	}
	if len(list) < len(r.Shapes) {
		fmt.Fprintf(b, "; %d shown, the commonest and then from the rarest on", len(list))
	}
	b.WriteByte('\n')
	if len(list) == 0 {
		return b.Flush()
	}
	if r.Full {
		fmt.Fprintf(b, "\nthere are more: the rarest gave their places to new ones, and a count of 2..5 is from 2 to 5; shapes of more than %s are all here\n",
			plural(r.Invocations/uint64(len(r.Shapes)), "invocation"))
	}
	b.WriteByte('\n')
	t := r.table(list, names, v)
	write := t.WriteText
	if v.Markdown {
		write = t.WriteMarkdown
	}
	if err := write(b); err != nil {
		return err
	}
	return b.Flush()
}

func (r *Report) table(list []Shape, names symbolize.Names, v View) *texttab.Table {
	t := &texttab.Table{Columns: []texttab.Column{
		{Title: "shape"}, {Title: "count", Right: true}, {Title: "share", Right: true}, {Title: "median", Right: true}, {Title: "p99", Right: true},
		{Title: "first at", Right: true}, {Title: "thread", Right: true}, {Title: "difference from the commonest"},
	}}
	for i := range list {
		s := &list[i]
		about := ""
		if s.Approximate {
			about = "~"
		}
		difference := "the commonest"
		if i > 0 {
			difference = words(s.Differences, names)
		}
		thread := fmt.Sprintf("%d/%d", s.Thread.Process, s.Thread.Thread)
		if len(v.Files) > 1 {
			thread += " of " + v.Files[s.Thread.File]
		}
		count := fmt.Sprint(s.Count)
		if s.Error > 0 {
			count = fmt.Sprintf("%d..%d", s.Count-s.Error, s.Count)
		}
		t.Add(fmt.Sprintf("%016x", s.ID), count, fmt.Sprintf("%.2f%%", 100*r.share(s.Count)), about+r.Clock.Format(s.Median),
			about+r.Clock.Format(s.P99), r.Clock.Format(s.Start-v.Base), thread, difference)
	}
	return t
}

// WriteCSV writes a line for each shape, with a header. Times are in the unit that
// the names of the columns end with. It returns the error of w.
func (r *Report) WriteCSV(w io.Writer, names symbolize.Names, v View) error {
	unit := "_" + r.Clock.Unit()
	t := &texttab.Table{}
	for _, title := range []string{
		"shape", "count", "count_error", "share", "p50" + unit, "p99" + unit, "approximate",
		"first" + unit, "file", "process", "thread", "difference",
	} {
		t.Columns = append(t.Columns, texttab.Column{Title: title})
	}
	for i, s := range r.shown(v) {
		difference := ""
		if i > 0 {
			difference = words(s.Differences, names)
		}
		t.Add(fmt.Sprintf("%016x", s.ID), fmt.Sprint(s.Count), fmt.Sprint(s.Error), fmt.Sprintf("%.6f", r.share(s.Count)),
			fmt.Sprint(r.Clock.Nanos(s.Median)), fmt.Sprint(r.Clock.Nanos(s.P99)), fmt.Sprint(s.Approximate),
			fmt.Sprint(r.Clock.Nanos(s.Start-v.Base)), fmt.Sprint(s.Thread.File+1), fmt.Sprint(s.Thread.Process),
			fmt.Sprint(s.Thread.Thread), difference)
	}
	return t.WriteCSV(w)
}

// mostWords bounds the differences that are put into words.
const mostWords = 6

// words says how a shape differs, as "+ recompute, hashKey 512x (1x)". A function
// that is in several differences is named with its caller.
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
		case d.Usual > 0:
			parts = append(parts, fmt.Sprintf("%s %dx (%dx)", name, d.Calls, d.Usual))
		case d.Calls > 1:
			parts = append(parts, fmt.Sprintf("+ %s %dx", name, d.Calls))
		default:
			parts = append(parts, "+ "+name)
		}
	}
	return strings.Join(parts, ", ")
}

func plural(n uint64, what string) string {
	if n != 1 {
		what += "s"
	}
	return fmt.Sprint(n) + " " + what
}

// jsonReport is what WriteJSON writes. Times are in Unit.
type jsonReport struct {
	Unit        string      `json:"unit"` // ns or ticks
	Invocations uint64      `json:"invocations"`
	Threads     int         `json:"threads"`
	Full        bool        `json:"full"` // there are more shapes than were kept apart
	Shapes      []jsonShape `json:"shapes"`
}

type jsonShape struct {
	ID          string           `json:"id"`
	Count       uint64           `json:"count"`
	Error       uint64           `json:"count_error"` // by which count may be too large
	Share       float64          `json:"share"`
	P50         uint64           `json:"p50"`
	P99         uint64           `json:"p99"`
	Approximate bool             `json:"approximate"`
	First       jsonExample      `json:"first"`
	Differences []jsonDifference `json:"differences"`
}

type jsonExample struct {
	File     int32  `json:"file"` // position on the command line, from 1
	Process  int32  `json:"process"`
	Thread   int32  `json:"thread"`
	Start    uint64 `json:"start"` // since the start of the trace
	Duration uint64 `json:"duration"`
}

type jsonDifference struct {
	IDs   []reader.FuncID `json:"ids"`
	Path  []string        `json:"path"`
	Calls uint64          `json:"calls"`
	Usual uint64          `json:"usual"`
}

// WriteJSON writes an object. It returns the error of w.
func (r *Report) WriteJSON(w io.Writer, names symbolize.Names, v View) error {
	out := jsonReport{Unit: r.Clock.Unit(), Invocations: r.Invocations, Threads: r.Threads, Full: r.Full, Shapes: []jsonShape{}}
	for _, s := range r.shown(v) {
		start := r.Clock.Nanos(s.Start - v.Base)
		j := jsonShape{
			ID: fmt.Sprintf("%016x", s.ID), Count: s.Count, Error: s.Error, Share: r.share(s.Count), P50: r.Clock.Nanos(s.Median), P99: r.Clock.Nanos(s.P99),
			Approximate: s.Approximate, Differences: []jsonDifference{},
			First: jsonExample{s.Thread.File + 1, s.Thread.Process, s.Thread.Thread, start, r.Clock.Nanos(s.Duration)},
		}
		for _, d := range s.Differences {
			path := make([]string, len(d.Path))
			for i, fn := range d.Path {
				path[i] = symbolize.Label(names, fn)
			}
			j.Differences = append(j.Differences, jsonDifference{d.Path, path, d.Calls, d.Usual})
		}
		out.Shapes = append(out.Shapes, j)
	}
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	e.SetIndent("", " ")
	return e.Encode(out)
}
