package report

import (
	"bufio"
	"bytes"
	_ "embed"
	"fmt"
	"io"
	"strings"

	"github.com/xray-tools/xray/internal/texttab"
)

//go:embed page.css
var pageStyle string

type pageWriter struct {
	doc *Doc
	w   *bufio.Writer
}

func (d *Doc) writeHTML(w io.Writer) error {
	p := &pageWriter{d, bufio.NewWriter(w)}
	title := d.Title
	if title == "" {
		title = "xray " + d.Kind
	}
	fmt.Fprintf(p.w, "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"+
		"<meta name=\"viewport\" content=\"width=device-width\">\n<title>%s</title>\n<style>\n%s</style>\n</head>\n<body>\n<h1>%[1]s</h1>\n",
		texttab.XML(title), pageStyle)
	for _, c := range d.Caveats {
		fmt.Fprintf(p.w, "<p class=\"caveat\">%s</p>\n", texttab.XML(c))
	}
	if err := paint(p, d.Body, 2); err != nil {
		return err
	}
	p.w.WriteString("</body>\n</html>\n")
	return p.w.Flush()
}

func (p *pageWriter) paragraph(text string) { fmt.Fprintf(p.w, "<p>%s</p>\n", texttab.XML(text)) }

func (p *pageWriter) notes(list []string) {
	for _, note := range list {
		fmt.Fprintf(p.w, "<p class=\"note\">%s</p>\n", texttab.XML(note))
	}
}

func (p *pageWriter) heading(title string, level int) {
	fmt.Fprintf(p.w, "<h%d>%s</h%[1]d>\n", level, texttab.XML(title))
}

func (p *pageWriter) facts(list []fact) {
	p.w.WriteString("<dl>\n")
	for i := range list {
		fmt.Fprintf(p.w, "<dt>%s</dt><dd>%s</dd>\n", texttab.XML(list[i].title), texttab.XML(p.doc.words(&list[i].column, list[i].cell)))
	}
	p.w.WriteString("</dl>\n")
}

func (p *pageWriter) table(n *TableNode) error {
	t := p.doc.layout(n)
	p.w.WriteString("<div class=\"wide\"><table>\n<thead>")
	element := "th"
	t.Each(texttab.XML, func(row []string) {
		p.w.WriteString("<tr>")
		for i, c := range row {
			class := ""
			if t.Columns[i].Right {
				class = ` class="n"`
			}
			if part := strings.TrimPrefix(c, "~"); t.Columns[i].Part && strings.HasSuffix(part, "%") {
				class = fmt.Sprintf(` class="n part" style="--part: %s"`, part)
			}
			fmt.Fprintf(p.w, "<%s%s>%s</%[1]s>", element, class, c)
		}
		p.w.WriteString("</tr>")
		if element == "th" {
			p.w.WriteString("</thead>\n<tbody>")
			element = "td"
		}
		p.w.WriteByte('\n')
	})
	p.w.WriteString("</tbody></table></div>\n")
	if more := n.more(); more != "" {
		p.w.WriteString("<p>" + more + "</p>\n")
	}
	return nil
}

func (p *pageWriter) drawing(n *Drawing) error {
	if n.HTML != nil {
		if err := p.w.Flush(); err != nil {
			return err
		}
		return n.HTML(p.w)
	}
	var b bytes.Buffer
	if err := n.Text(&b, 0); err != nil {
		return err
	}
	p.w.WriteString("<pre>")
	for line := range bytes.Lines(b.Bytes()) {
		p.w.WriteString(texttab.XML(string(bytes.TrimSuffix(line, []byte("\n")))) + "\n")
	}
	p.w.WriteString("</pre>\n")
	return nil
}
