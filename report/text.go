package report

import (
	"bufio"
	"fmt"
	"io"
	"strings"

	"github.com/xray-tools/xray/internal/texttab"
)

// pageWidth is the width of paragraphs where the terminal is wider, or there is none.
const pageWidth = 100

// Escape sequences of [Style.Color]. A report has no others.
const (
	Bold  = "\x1b[1m"
	Plain = "\x1b[0m"
)

// textWriter writes nodes with an empty line between them.
type textWriter struct {
	doc   *Doc
	style Style
	w     *bufio.Writer
	began bool
}

func (d *Doc) writeText(w io.Writer, s Style) error {
	t := &textWriter{doc: d, style: s, w: bufio.NewWriter(w)}
	if len(d.Caveats) > 0 {
		t.gap()
		for _, c := range d.Caveats {
			t.paragraph(c)
		}
	}
	if err := t.nodes(d.Body); err != nil {
		return err
	}
	return t.w.Flush()
}

// gap separates what follows from what was written.
func (t *textWriter) gap() {
	if t.began {
		t.w.WriteByte('\n')
	}
	t.began = true
}

func (t *textWriter) nodes(list []Node) error {
	for _, n := range list {
		if err := t.node(n); err != nil {
			return err
		}
	}
	return nil
}

func (t *textWriter) node(n Node) error {
	switch n := n.(type) {
	case Paragraph:
		t.gap()
		t.paragraph(string(n))
	case Notes:
		if len(n) > 0 {
			t.gap()
		}
		for _, note := range n {
			t.paragraph(note)
		}
	case People:
		return t.nodes(n)
	case *FactList:
		return t.facts(n)
	case *TableNode:
		return t.table(n)
	case *Section:
		t.heading(n.Title)
		return t.nodes(n.Body)
	case *List:
		for i := range n.Items {
			t.heading(n.Items[i].Title)
			if err := t.nodes(n.Items[i].Body); err != nil {
				return err
			}
		}
	case *Drawing:
		if n.Text == nil {
			return nil
		}
		t.gap()
		return n.Text(t.w, t.style.Width)
	}
	return nil
}

func (t *textWriter) heading(title string) {
	if title == "" {
		return
	}
	t.gap()
	title = texttab.Printable(title)
	if t.style.Color {
		title = Bold + title + Plain
	}
	t.w.WriteString(title + "\n")
}

// paragraph wraps prose.
func (t *textWriter) paragraph(s string) {
	width := t.style.Width
	if width == 0 || width > pageWidth {
		width = pageWidth
	}
	at := 0
	for _, word := range strings.Fields(texttab.Printable(s)) {
		n := texttab.Width(word)
		switch {
		case at == 0:
		case at+1+n > width:
			t.w.WriteByte('\n')
			at = 0
		default:
			t.w.WriteByte(' ')
			at++
		}
		t.w.WriteString(word)
		at += n
	}
	t.w.WriteByte('\n')
}

// facts writes a line for each. On a terminal, values that do not fit go on below themselves.
func (t *textWriter) facts(l *FactList) error {
	var titles, values []string
	widest := 0
	for i := range l.list {
		if f := &l.list[i]; f.people && !f.cell.missing {
			title := texttab.Printable(f.title)
			titles, values = append(titles, title), append(values, texttab.Printable(t.doc.words(&f.column, f.cell)))
			widest = max(widest, texttab.Width(title))
		}
	}
	if len(titles) > 0 {
		t.gap()
	}
	for i, title := range titles {
		if values[i] == "" {
			t.w.WriteString(title + "\n")
			continue
		}
		t.w.WriteString(title + strings.Repeat(" ", widest-texttab.Width(title)))
		at := widest
		for j, word := range strings.Split(values[i], " ") { // spaces in a row stay
			if n := texttab.Width(word); j > 0 && t.style.Width > 0 && at+1+n > t.style.Width {
				t.w.WriteString("\n" + strings.Repeat(" ", widest))
				at = widest
			}
			if j == 0 || at == widest {
				t.w.WriteByte(' ')
				at++
			}
			t.w.WriteString(" " + word)
			at += 1 + texttab.Width(word)
		}
		t.w.WriteByte('\n')
	}
	return nil
}

func (t *textWriter) table(n *TableNode) error {
	if n.length == 0 {
		return nil
	}
	t.heading(n.title)
	t.gap()
	hidden, err := t.doc.layout(n).WriteFitted(t.w, t.style.Width)
	if more := n.more(); more != "" {
		t.w.WriteString(more + "\n")
	}
	if len(hidden) > 0 {
		fmt.Fprintf(t.w, "(--wide also shows: %s)\n", strings.Join(hidden, ", "))
	}
	return err
}
