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
	if err := m.nodes(d.Body, 2); err != nil {
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

// nodes writes nodes below headings of a level.
func (m *markdownWriter) nodes(list []Node, level int) error {
	for _, n := range list {
		if err := m.node(n, level); err != nil {
			return err
		}
	}
	return nil
}

func (m *markdownWriter) node(n Node, level int) error {
	switch n := n.(type) {
	case Paragraph:
		m.gap()
		m.w.WriteString(texttab.MarkdownText(string(n)) + "\n")
	case Notes:
		for _, note := range n {
			m.gap()
			m.w.WriteString(texttab.MarkdownText(note) + "\n")
		}
	case People:
		return m.nodes(n, level)
	case *FactList:
		m.facts(n)
	case *TableNode:
		return m.table(n, level)
	case *Section:
		m.heading(n.Title, level)
		return m.nodes(n.Body, level+1)
	case *List:
		for i := range n.Items {
			m.heading(n.Items[i].Title, level)
			if err := m.nodes(n.Items[i].Body, level+1); err != nil {
				return err
			}
		}
	case *Drawing:
		if n.Text == nil {
			return nil
		}
		return m.fenced(func(w io.Writer) error { return n.Text(w, 0) })
	}
	return nil
}

func (m *markdownWriter) heading(title string, level int) {
	if title != "" {
		m.gap()
		m.w.WriteString(strings.Repeat("#", min(level, 6)) + " " + texttab.MarkdownText(title) + "\n")
	}
}

func (m *markdownWriter) facts(l *FactList) {
	began := false
	for i := range l.list {
		f := &l.list[i]
		if !f.people || f.cell.missing {
			continue
		}
		if !began {
			m.gap()
			began = true
		}
		m.w.WriteString("- " + texttab.MarkdownText(f.title+": "+m.doc.words(&f.column, f.cell)) + "\n")
	}
}

// table writes a table. Trees are code, so that their indentation is kept.
func (m *markdownWriter) table(n *TableNode, level int) error {
	if n.length == 0 {
		return nil
	}
	m.heading(n.title, level)
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
