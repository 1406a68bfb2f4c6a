package why

import (
	"bufio"
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"math"

	"github.com/xray-tools/xray/symbolize"
)

//go:embed report.html
var pageText string

//go:embed report.css
var pageCSS string

// page escapes whatever a trace or a program calls its functions.
var page = template.Must(template.New("report").Parse(pageText))

// The parts of a page.
type (
	pageHTML struct {
		Style                     template.CSS
		Title, Chosen, Answer     string
		Cohorts                   []string
		Causes                    []causeHTML
		Explained                 bool
		RestText, Rest, Meanwhile string
		RestWidth                 string
		Exemplars                 []exemplarHTML
		DecompositionTitle        string
		Decomposition             []partHTML
		Notes                     []string
		Slow                      int // calls that were looked at
	}
	causeHTML struct {
		Rank, Dominates int
		Phrase          string
		Share, Interval string
		// Of the bar, as CSS lengths: the share, and where its interval is.
		Width, Low, Span string
		Details          []string
	}
	exemplarHTML struct {
		Title    string
		Commands []string
		Rows     []exemplarRow
	}
	partHTML struct{ Slower, More, New, Path string }
)

// WriteHTML writes the report as a page of its own, which needs neither scripts nor
// a network and follows the colour scheme of the reader. View.Markdown does not
// matter. It returns the error of w.
func (r *Report) WriteHTML(w io.Writer, names symbolize.Names, view View) error {
	t := phrases{r, names}
	p := pageHTML{
		Style: template.CSS(pageCSS), Title: "Slow calls of " + t.rootLabel(), Chosen: t.chosen(), Answer: t.answer(),
		Cohorts: t.cohorts(), Explained: r.explained(), Slow: r.Kept, Notes: t.notes(),
		RestText: restText, Rest: percent(max(0, r.Rest)), RestWidth: width(r.Rest), DecompositionTitle: decompositionTitle,
	}
	if r.Meanwhile != nil {
		p.Meanwhile = t.meanwhile(r.Meanwhile)
	}
	for i := range r.Causes {
		c := &r.Causes[i]
		p.Causes = append(p.Causes, causeHTML{
			Rank: i + 1, Dominates: c.Dominates, Phrase: t.phrase(c), Details: t.details(c),
			Share: percent(c.Share), Interval: fmt.Sprintf("%.0f to %.0f", 100*c.Low, 100*c.High),
			Width: width(c.Share), Low: width(c.Low), Span: width(c.High - c.Low),
		})
	}
	list, causes := r.Shown(view.Exemplars)
	for i, e := range list {
		x := exemplarHTML{Title: t.exemplar(e, causes[i]), Rows: t.rows(e)}
		if e.Number > 0 {
			commands := t.commands(e, view.Files)
			x.Commands = commands[:]
		}
		p.Exemplars = append(p.Exemplars, x)
	}
	if view.All {
		for _, part := range t.largestParts() {
			p.Decomposition = append(p.Decomposition,
				partHTML{t.cell(part.Slower), t.cell(part.More), t.cell(part.New), t.path(part.Path, part.Lock)})
		}
	}
	b := bufio.NewWriter(w)
	if err := page.Execute(b, p); err != nil {
		return err
	}
	return b.Flush()
}

// width is a share as a length in CSS.
func width(share float64) string { return fmt.Sprintf("%.1f%%", 100*math.Min(1, math.Max(0, share))) }
