// Package texttab lays out tables as text with aligned columns, as Markdown and
// as CSV.
//
// Cells are plain strings. What would break a layout or a terminal is made
// visible on the way out, each format by its own means: control characters are
// escaped in text and Markdown, pipes in Markdown, quotes and formulas in CSV.
package texttab

import (
	"bufio"
	"io"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Column is a column's title and how its cells are aligned.
type Column struct {
	Title string
	Right bool // aligned to the right, as numbers are
	// Cut lets [Table.WriteFitted] cut cells on a side, down to a few characters, and
	// Optional lets it leave the column out. Columns that are Least as well go first.
	Cut             Side
	Optional, Least bool
	Part            bool // cells are percentages of a whole
}

// Side is where cells may be cut.
type Side uint8

// Sides. Names of functions end with what tells them apart, sentences do not.
const (
	None Side = iota
	Left
	Right
)

// Table is rows of cells below a header. There may be hundreds of thousands of
// them, so the cells of a row are kept as one string.
type Table struct {
	Columns []Column
	rows    []string
	ends    []uint32 // of the cells in their row, row by row
}

// Add appends a row. It has a cell for each column.
func (t *Table) Add(cells ...string) {
	t.rows = append(t.rows, strings.Join(cells, ""))
	end := 0
	for _, c := range cells {
		end += len(c)
		t.ends = append(t.ends, uint32(end))
	}
}

// Each calls f with the header and the rows, in which every cell has passed
// through edit. A row is valid until f returns.
func (t *Table) Each(edit func(string) string, f func(row []string)) {
	row := make([]string, len(t.Columns))
	for i, c := range t.Columns {
		row[i] = edit(c.Title)
	}
	f(row)
	ends := t.ends
	for _, text := range t.rows {
		start := uint32(0)
		for i := range row {
			row[i] = edit(text[start:ends[i]])
			start = ends[i]
		}
		f(row)
		ends = ends[len(row):]
	}
}

// WriteText writes the table with its columns aligned, two spaces apart. Widths
// are those of a terminal, where a character may take two cells or none. No line
// ends in a space.
func (t *Table) WriteText(w io.Writer) error {
	_, err := t.WriteFitted(w, 0)
	return err
}

// least is how narrow a column may be cut.
const least = 24

// WriteFitted is [Table.WriteText] for a terminal of so many columns; 0 is any number.
// Where the table is wider, it leaves out optional columns, the last one first, and then
// cuts cells on the left. It returns the titles of the columns that it left out.
func (t *Table) WriteFitted(w io.Writer, width int) (hidden []string, err error) {
	widths := make([]int, len(t.Columns))
	t.Each(Printable, func(row []string) {
		for i, c := range row {
			widths[i] = max(widths[i], Width(c))
		}
	})
	if width > 0 {
		hidden = t.fit(widths, width)
	}
	b := bufio.NewWriter(w)
	head := true
	t.Each(Printable, func(row []string) {
		pad, first, title := 0, true, head
		head = false
		for i, c := range row {
			if widths[i] < 0 {
				continue
			}
			if !first {
				pad += 2
			}
			first = false
			switch {
			case Width(c) <= widths[i]:
			case t.Columns[i].Cut == Right || title:
				c = cutRight(c, widths[i])
			default:
				c = cutLeft(c, widths[i])
			}
			gap := widths[i] - Width(c)
			if t.Columns[i].Right {
				pad += gap
			}
			if c != "" {
				for ; pad > 0; pad-- {
					b.WriteByte(' ')
				}
				b.WriteString(c)
			}
			if !t.Columns[i].Right {
				pad += gap
			}
		}
		b.WriteByte('\n')
	})
	return hidden, b.Flush()
}

// fit makes columns narrower until the table has that width or nothing is left to do. The
// width of a column that is left out becomes -1.
func (t *Table) fit(widths []int, width int) (hidden []string) {
	excess := func(cut bool) int {
		sum := -2
		for i, n := range widths {
			if cut && t.Columns[i].Cut != None {
				n = min(n, least)
			}
			if n >= 0 {
				sum += n + 2
			}
		}
		return sum - width
	}
	for _, least := range []bool{true, false} {
		for i := len(widths) - 1; i >= 0 && excess(true) > 0; i-- {
			if t.Columns[i].Optional && t.Columns[i].Least == least {
				widths[i] = -1
			}
		}
	}
	for i, n := range widths {
		if n < 0 {
			hidden = append(hidden, t.Columns[i].Title)
		}
	}
	for {
		over, widest := excess(false), -1
		for i, n := range widths {
			if t.Columns[i].Cut != None && n > least && (widest < 0 || n > widths[widest]) {
				widest = i
			}
		}
		if over <= 0 || widest < 0 {
			return hidden
		}
		second := least
		for i, n := range widths {
			if t.Columns[i].Cut != None && i != widest && n < widths[widest] {
				second = max(second, n)
			}
		}
		widths[widest] -= min(over, max(1, widths[widest]-second))
	}
}

// cutLeft is s without what it begins with, so that it takes no more than so many cells of
// a terminal. A mark stands for what is missing.
func cutLeft(s string, width int) string {
	n, rest := 1, len(s)
	for rest > 0 {
		_, size := utf8.DecodeLastRuneInString(s[:rest])
		if n += Width(s[rest-size : rest]); n > width {
			break
		}
		rest -= size
	}
	return "…" + s[rest:]
}

// cutRight is cutLeft for what s ends with.
func cutRight(s string, width int) string {
	n := 1
	for i, r := range s {
		if n += Width(string(r)); n > width {
			return s[:i] + "…"
		}
	}
	return s
}

// WriteMarkdown writes the table in GitHub's dialect of Markdown.
func (t *Table) WriteMarkdown(w io.Writer) error {
	b := bufio.NewWriter(w)
	header := true
	t.Each(MarkdownText, func(row []string) {
		b.WriteString("| " + strings.Join(row, " | ") + " |\n")
		if !header {
			return
		}
		header = false
		for _, c := range t.Columns {
			if c.Right {
				b.WriteString("| ---: ")
			} else {
				b.WriteString("| --- ")
			}
		}
		b.WriteString("|\n")
	})
	return b.Flush()
}

// MarkdownText is one line of text, with escapes for what Markdown would take as its own,
// which names of C++ functions are full of.
func MarkdownText(s string) string {
	return markdownEscapes.Replace(Printable(s))
}

var markdownEscapes = strings.NewReplacer(
	`\`, `\\`, "|", `\|`, "*", `\*`, "_", `\_`, "`", "\\`", "~", `\~`,
	"<", "&lt;", ">", "&gt;", "&", "&amp;", "[", `\[`, "]", `\]`, "#", `\#`,
)

// CSVRow is a row as RFC 4180 describes it, but ended by a line feed alone. Text that a
// spreadsheet would take for a formula is changed as by [CSVText].
func CSVRow(cells ...string) string {
	row := make([]string, len(cells))
	for i, s := range cells {
		row[i] = csvCell(s)
	}
	return strings.Join(row, ",") + "\n"
}

func csvCell(s string) string {
	s = CSVText(s)
	if strings.ContainsAny(s, ",\"\r\n") {
		return QuoteCSV(s)
	}
	return s
}

// CSVText is s as a spreadsheet takes it for text and not for a formula: text that begins
// with =, +, - or @, behind spaces or control characters or not, is preceded by an apostrophe,
// and so is text that begins with a tab or the end of a line. Numbers stay as they are.
func CSVText(s string) string {
	if s == "" || s[0] > '@' {
		return s // nearly all
	}
	text := strings.TrimLeftFunc(s, func(r rune) bool { return unicode.IsSpace(r) || unicode.IsControl(r) })
	formula := text != "" && strings.IndexByte("=+-@", text[0]) >= 0
	if !formula && strings.IndexByte("\t\r\n", s[0]) < 0 {
		return s
	}
	if _, err := strconv.ParseFloat(s, 64); err == nil {
		return s
	}
	return "'" + s
}

// QuoteCSV is s as a quoted CSV cell.
func QuoteCSV(s string) string { return `"` + strings.ReplaceAll(s, `"`, `""`) + `"` }

// Printable is s with control characters and invalid UTF-8 escaped as in a Go
// string, so that it takes one line and cannot steer a terminal.
func Printable(s string) string {
	if clean(s) {
		return s
	}
	var b strings.Builder
	for len(s) > 0 {
		_, n := utf8.DecodeRuneInString(s)
		if clean(s[:n]) {
			b.WriteString(s[:n])
		} else {
			q := strconv.QuoteToASCII(s[:n])
			b.WriteString(q[1 : len(q)-1])
		}
		s = s[n:]
	}
	return b.String()
}

var xmlEscapes = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", `"`, "&quot;",
	"\uFFFE", "\uFFFD", "\uFFFF", "\uFFFD")

// XML escapes one line of text, for XML and HTML: for elements and for quoted
// attributes. Control characters are shown as by [Printable]; XML has no way to
// write some others.
func XML(s string) string { return xmlEscapes.Replace(Printable(s)) }

// clean reports whether s is printed as it is. Marks that combine, or that join
// characters, are no control characters, but those that turn the direction of
// writing are: they would reorder the line.
func clean(s string) bool {
	for i, r := range s {
		switch {
		case r >= 0x20 && r < 0x7f:
		case r == utf8.RuneError:
			if _, n := utf8.DecodeRuneInString(s[i:]); n == 1 {
				return false
			}
		case unicode.IsControl(r), r >= 0x202a && r <= 0x202e, r >= 0x2066 && r <= 0x2069,
			r == 0x2028, r == 0x2029:
			return false
		}
	}
	return true
}

// Width is how many cells of a terminal s takes.
func Width(s string) int {
	n := 0
	for _, r := range s {
		switch {
		case r < 0x300:
			n++
		case unicode.In(r, unicode.Mn, unicode.Me, unicode.Cf):
		case unicode.Is(wide, r):
			n += 2
		default:
			n++
		}
	}
	return n
}

// wide holds what terminals draw two cells wide: the blocks of East Asian
// scripts and of emoji.
var wide = &unicode.RangeTable{
	R16: []unicode.Range16{
		{Lo: 0x1100, Hi: 0x115f, Stride: 1}, // Hangul initial consonants
		{Lo: 0x2e80, Hi: 0x303e, Stride: 1}, // CJK radicals to punctuation
		{Lo: 0x3041, Hi: 0x33ff, Stride: 1}, // kana to compatibility forms
		{Lo: 0x3400, Hi: 0x4dbf, Stride: 1}, // CJK extension A
		{Lo: 0x4e00, Hi: 0x9fff, Stride: 1}, // CJK ideographs
		{Lo: 0xa000, Hi: 0xa4cf, Stride: 1}, // Yi
		{Lo: 0xa960, Hi: 0xa97f, Stride: 1}, // Hangul extension A
		{Lo: 0xac00, Hi: 0xd7a3, Stride: 1}, // Hangul syllables
		{Lo: 0xf900, Hi: 0xfaff, Stride: 1}, // CJK compatibility ideographs
		{Lo: 0xfe30, Hi: 0xfe6f, Stride: 1}, // CJK compatibility forms
		{Lo: 0xff00, Hi: 0xff60, Stride: 1}, // full-width forms
		{Lo: 0xffe0, Hi: 0xffe6, Stride: 1}, // full-width signs
	},
	R32: []unicode.Range32{
		{Lo: 0x1f300, Hi: 0x1f64f, Stride: 1}, // pictographs and faces
		{Lo: 0x1f680, Hi: 0x1f6ff, Stride: 1}, // transport
		{Lo: 0x1f900, Hi: 0x1f9ff, Stride: 1}, // more pictographs
		{Lo: 0x20000, Hi: 0x3fffd, Stride: 1}, // CJK extensions B and beyond
	},
}
