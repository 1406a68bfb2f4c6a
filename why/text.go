package why

import (
	"bufio"
	"fmt"
	"io"
	"strings"

	"github.com/xray-tools/xray/internal/label"
	"github.com/xray-tools/xray/internal/texttab"
	"github.com/xray-tools/xray/symbolize"
)

// View says what of a [Report] is written for people.
type View struct {
	Markdown bool
	// Exemplars is how many slow calls are shown beside the median call.
	Exemplars int
	// All lists the whole decomposition.
	All bool
	// Files are named in the commands that look further, quoted for a shell; options of
	// names belong to them.
	Files string
}

// writer writes a report.
type writer struct {
	*phrases
	w    *bufio.Writer
	view View
}

// WriteText writes the report for people. It returns the error of w.
func (r *Report) WriteText(w io.Writer, names symbolize.Names, view View) error {
	t := writer{&phrases{r, names}, bufio.NewWriter(w), view}
	t.head()
	for i := range r.Causes {
		t.cause(i)
	}
	if r.explained() {
		t.line("-. "+restText, percent(max(0, r.Rest)))
		if r.Meanwhile != nil {
			t.printf("     %s\n", t.meanwhile(r.Meanwhile))
		}
	}
	t.close()
	t.exemplars()
	if view.All {
		t.decomposition()
	}
	for _, note := range t.notes() {
		t.printf("\nnote: %s\n", note)
	}
	return t.w.Flush()
}

func (t *writer) printf(format string, args ...any) { fmt.Fprintf(t.w, format, args...) }

func (t *writer) head() {
	if chosen := t.chosen(); chosen != "" {
		t.printf("%s\n\n", chosen)
	}
	if t.view.Markdown {
		t.printf("# Slow calls of %s\n\n", t.rootLabel())
	}
	t.printf("%s\n", t.answer())
	t.fence()
	for _, line := range t.cohorts() {
		t.printf("%s\n", line)
	}
	if t.explained() {
		t.printf("\n")
	}
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

func (t *writer) line(what string, rest string) {
	pad := max(1, 68-texttab.Width(what))
	t.printf("%s%s%5s\n", what, strings.Repeat(" ", pad), rest)
}

func (t *writer) cause(i int) {
	c := &t.Causes[i]
	t.line(fmt.Sprintf("%d. %s", i+1, t.phrase(c)), fmt.Sprintf("%5s  (%.0f to %.0f)   %d of %d slow calls",
		percent(c.Share), 100*c.Low, 100*c.High, c.Dominates, t.Kept))
	for _, line := range t.details(c) {
		t.printf("     %s\n", line)
	}
}

// exemplars shows slow calls beside the median call.
func (t *writer) exemplars() {
	list, causes := t.Shown(t.view.Exemplars)
	for i, e := range list {
		t.printf("\n%s\n", t.exemplar(e, causes[i]))
		t.fence()
		table := &texttab.Table{Columns: []texttab.Column{{Title: "function"}, {Title: "slow", Right: true},
			{Title: "", Right: true}, {Title: "median", Right: true}, {Title: "", Right: true}, {Title: ""}}}
		for _, row := range t.rows(e) {
			table.Add(label.Indent(row.Depth)+row.Name, row.SlowCalls, row.Slow, row.UsualCalls, row.Usual, row.Mark)
		}
		table.WriteText(t.w)
		t.close()
		if e.Number > 0 {
			commands := t.commands(e, t.view.Files)
			t.printf("\nlook at it: %s\nin a browser: %s\n", commands[0], commands[1])
		}
	}
}

// decomposition lists every path, the largest amounts first.
func (t *writer) decomposition() {
	t.printf("\n%s\n", decompositionTitle)
	t.fence()
	table := &texttab.Table{Columns: []texttab.Column{{Title: "slower", Right: true}, {Title: "more calls", Right: true},
		{Title: "new path", Right: true}, {Title: "path"}}}
	for _, p := range t.largestParts() {
		table.Add(t.cell(p.Slower), t.cell(p.More), t.cell(p.New), t.path(p.Path, p.Lock))
	}
	table.WriteText(t.w)
	t.close()
}
