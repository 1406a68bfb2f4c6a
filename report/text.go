package report

import (
	"bufio"
	"fmt"
	"io"
	"strings"

	"github.com/xray-tools/xray/internal/texttab"
)

// ParagraphWidth returns the width of paragraphs on a terminal of width columns: at most
// 100 columns. If width is 0, the width of the terminal is unknown.
func ParagraphWidth(width int) int {
	const most = 100
	if width == 0 || width > most {
		return most
	}
	return width
}

// Escape sequences of [Style.Color]. A report has no others.
const (
	Bold  = "\x1b[1m"
	Plain = "\x1b[0m"
)

// textWriter writes nodes separated by empty lines.
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
			t.prose(c)
		}
	}
	if err := paint(t, d.Body, 2); err != nil {
		return err
	}
	return t.w.Flush()
}

// gap separates the next node from the previous one.
func (t *textWriter) gap() {
	if t.began {
		t.w.WriteByte('\n')
	}
	t.began = true
}

func (t *textWriter) paragraph(text string) {
	t.gap()
	t.prose(text)
}

func (t *textWriter) notes(list []string) {
	if len(list) > 0 {
		t.gap()
	}
	for _, note := range list {
		t.prose(note)
	}
}

func (t *textWriter) heading(title string, _ int) {
	t.gap()
	title = texttab.Printable(title)
	if t.style.Color {
		title = Bold + title + Plain
	}
	t.w.WriteString(title + "\n")
}

func (t *textWriter) drawing(n *Drawing) error {
	if n.Text == nil {
		return nil
	}
	t.gap()
	return n.Text(t.w, t.style.Width)
}

// prose wraps a paragraph.
func (t *textWriter) prose(s string) {
	for _, line := range texttab.Wrap(texttab.Printable(s), "", "", ParagraphWidth(t.style.Width)) {
		t.w.WriteString(line + "\n")
	}
}

// facts writes a line for each fact. On a terminal, values that do not fit continue on the
// next line.
func (t *textWriter) facts(list []fact) {
	var titles, values []string
	widest := 0
	for i := range list {
		title := texttab.Printable(list[i].title)
		titles, values = append(titles, title), append(values, texttab.Printable(t.doc.words(&list[i].column, list[i].cell)))
		widest = max(widest, texttab.Width(title))
	}
	t.gap()
	for i, title := range titles {
		if values[i] == "" {
			t.w.WriteString(title + "\n")
			continue
		}
		t.w.WriteString(title + strings.Repeat(" ", widest-texttab.Width(title)))
		at := widest
		for j, word := range strings.Split(values[i], " ") { // keep repeated spaces
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
}

func (t *textWriter) table(n *TableNode) error {
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
