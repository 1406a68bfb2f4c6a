// Package texttab lays out tables as text with aligned columns, as Markdown and as CSV.
//
// Cells are plain strings. The output escapes what would break a layout or a terminal:
// control characters in text and Markdown, pipes in Markdown, quotes and formulas in CSV.
package texttab

import (
	"bufio"
	"io"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Column is a column's title and the layout of its cells.
type Column struct {
	Title string
	Right bool // align right, as for numbers
	// Cut allows [Table.WriteFitted] to shorten cells on one side, down to a few
	// characters. Optional allows it to omit the column. It omits columns with Least first.
	Cut             Side
	Optional, Least bool
	Part            bool // cells are percentages of a whole
}

// Side is the side on which cells may be shortened.
type Side uint8

// Function names differ most at their ends, sentences at their beginnings.
const (
	None Side = iota
	Left
	Right
)

// Table is a header and rows of cells. There may be hundreds of thousands of rows, so each
// row is stored as one string.
type Table struct {
	Columns []Column
	rows    []string
	ends    []uint32 // ends of the cells within their row, row by row
}

// Add appends a row. The row must have a cell for each column.
func (t *Table) Add(cells ...string) {
	t.rows = append(t.rows, strings.Join(cells, ""))
	end := 0
	for _, c := range cells {
		end += len(c)
		t.ends = append(t.ends, uint32(end))
	}
}

// Each calls f with the header and each row, after applying edit to every cell. A row is
// valid until f returns.
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

// WriteText writes the table with aligned columns, two spaces apart. Widths are those of a
// terminal, where a character takes zero, one or two cells. Lines have no trailing spaces.
func (t *Table) WriteText(w io.Writer) error {
	_, err := t.WriteFitted(w, 0)
	return err
}

// least is the smallest width of a shortened column.
const least = 24

// WriteFitted writes the table as [Table.WriteText] does, for a terminal with width
// columns. A width of 0 means no limit. If the table is wider, WriteFitted omits optional
// columns, the last one first, and then shortens cells. It returns the titles of the
// omitted columns.
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

// fit makes columns narrower until the table fits into width or no column can shrink
// further. The width of an omitted column becomes -1.
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

// cutLeft removes the beginning of s so that the rest takes at most width terminal cells. A
// mark replaces the removed part.
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

// cutRight is cutLeft for the end of s.
func cutRight(s string, width int) string {
	n := 1
	for i, r := range s {
		if n += Width(string(r)); n > width {
			return s[:i] + "…"
		}
	}
	return s
}

// WriteMarkdown writes the table as GitHub-flavoured Markdown.
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

// MarkdownText escapes one line of text for Markdown. Names of C++ functions are full of
// characters with a meaning in Markdown.
func MarkdownText(s string) string {
	return markdownEscapes.Replace(Printable(s))
}

var markdownEscapes = strings.NewReplacer(
	`\`, `\\`, "|", `\|`, "*", `\*`, "_", `\_`, "`", "\\`", "~", `\~`,
	"<", "&lt;", ">", "&gt;", "&", "&amp;", "[", `\[`, "]", `\]`, "#", `\#`,
)

// CSVRow returns a row as described in RFC 4180, but ended by a line feed only. It passes
// text through [CSVText].
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

// CSVText returns s in a form that a spreadsheet treats as text, not as a formula. It puts an
// apostrophe before text that begins with =, +, - or @, even after spaces or control characters,
// and before text that begins with a tab or a line end. Numbers do not change.
func CSVText(s string) string {
	if s == "" || s[0] > '@' {
		return s // the common case
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

// QuoteCSV returns s as a quoted CSV cell.
func QuoteCSV(s string) string { return `"` + strings.ReplaceAll(s, `"`, `""`) + `"` }

// Printable escapes control characters and invalid UTF-8 in s as a Go string does. The
// result is a single line and cannot send control sequences to a terminal.
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

// XML escapes one line of text for XML and HTML elements and quoted attributes. Control
// characters are escaped as by [Printable], because XML cannot represent some of them.
func XML(s string) string { return xmlEscapes.Replace(Printable(s)) }

// clean reports whether s can be printed unchanged. Combining marks and joiners count as
// printable. Marks that change the direction of writing do not, because they would reorder
// the line.
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

// Width returns the number of terminal cells that s takes.
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

// wide contains the characters that terminals draw two cells wide: the blocks of East Asian
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
