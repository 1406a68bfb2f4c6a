package report

import (
	"bufio"
	"bytes"
	"io"
	"strings"

	"github.com/xray-tools/xray/internal/texttab"
)

type markdownWriter struct {
	doc   *Doc
	w     *bufio.Writer
	began bool
}

func (d *Doc) writeMarkdown(w io.Writer) error {
	m := &markdownWriter{doc: d, w: bufio.NewWriter(w)}
	if len(d.Caveats) > 0 {
		m.gap()
		for i, c := range d.Caveats {
			if i > 0 {
				m.w.WriteString(">\n")
			}
			m.w.WriteString("> " + texttab.MarkdownText(c) + "\n")
		}
	}
	if err := paint(m, d.Body, 2); err != nil {
		return err
	}
	return m.w.Flush()
}

func (m *markdownWriter) gap() {
	if m.began {
		m.w.WriteByte('\n')
	}
	m.began = true
}

func (m *markdownWriter) paragraph(text string) {
	m.gap()
	m.w.WriteString(texttab.MarkdownText(text) + "\n")
}

func (m *markdownWriter) notes(list []string) {
	for _, note := range list {
		m.paragraph(note)
	}
}

func (m *markdownWriter) heading(title string, level int) {
	m.gap()
	m.w.WriteString(strings.Repeat("#", level) + " " + texttab.MarkdownText(title) + "\n")
}

func (m *markdownWriter) facts(list []fact) {
	m.gap()
	for i := range list {
		m.w.WriteString("- " + texttab.MarkdownText(list[i].title+": "+m.doc.words(&list[i].column, list[i].cell)) + "\n")
	}
}

func (m *markdownWriter) drawing(n *Drawing) error {
	if n.Text == nil {
		return nil
	}
	return m.fenced(func(w io.Writer) error { return n.Text(w, 0) })
}

// table writes a table. Trees are code blocks, to keep their indentation.
func (m *markdownWriter) table(n *TableNode) error {
	if n.level != nil {
		if err := m.fenced(m.doc.layout(n).WriteText); err != nil {
			return err
		}
	} else {
		m.gap()
		if err := m.doc.layout(n).WriteMarkdown(m.w); err != nil {
			return err
		}
	}
	if more := n.more(); more != "" {
		m.gap()
		m.w.WriteString(more + "\n")
	}
	return nil
}

func (m *markdownWriter) fenced(f func(io.Writer) error) error {
	var b bytes.Buffer
	if err := f(&b); err != nil {
		return err
	}
	fence := "```"
	for bytes.Contains(b.Bytes(), []byte(fence)) {
		fence += "`"
	}
	m.gap()
	m.w.WriteString(fence + "\n")
	m.w.Write(b.Bytes())
	if !bytes.HasSuffix(b.Bytes(), []byte("\n")) {
		m.w.WriteByte('\n')
	}
	m.w.WriteString(fence + "\n")
	return nil
}
