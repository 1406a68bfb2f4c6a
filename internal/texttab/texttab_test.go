package texttab

import (
	"encoding/csv"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func sample() *Table {
	t := &Table{Columns: []Column{{Title: "n", Right: true}, {Title: "name"}, {Title: "of"}, {Title: "share", Right: true}, {Title: "last"}}}
	t.Add("1", "漢字", "a", "1.0%", "x|y*z")
	t.Add("1,234", "", "b", "", "two\nlines \x1b[31m")
	t.Add("", "e\u0301té", "", "12.5%", "")
	return t
}

func TestText(t *testing.T) {
	var b strings.Builder
	if err := sample().WriteText(&b); err != nil {
		t.Fatal(err)
	}
	want := strings.Join([]string{
		"    n  name  of  share  last",
		"    1  漢字  a    1.0%  x|y*z",
		"1,234        b          two\\nlines \\x1b[31m",
		"       e\u0301té       12.5%",
		"",
	}, "\n")
	if diff := cmp.Diff(want, b.String()); diff != "" {
		t.Errorf("text (-want +got):\n%s", diff)
	}
}

func TestMarkdown(t *testing.T) {
	var b strings.Builder
	if err := sample().WriteMarkdown(&b); err != nil {
		t.Fatal(err)
	}
	want := strings.Join([]string{
		"| n | name | of | share | last |",
		"| ---: | --- | --- | ---: | --- |",
		`| 1 | 漢字 | a | 1.0% | x\|y\*z |`,
		`| 1,234 |  | b |  | two\\nlines \\x1b\[31m |`,
		"|  | e\u0301té |  | 12.5% |  |",
		"",
	}, "\n")
	if diff := cmp.Diff(want, b.String()); diff != "" {
		t.Errorf("markdown (-want +got):\n%s", diff)
	}
}

// A spreadsheet treats no cell of text as a formula. Other text does not change.
func TestCSVText(t *testing.T) {
	for text, want := range map[string]string{
		"": "", "main": "main", "operator-": "operator-", "0x5": "0x5", "-0.25": "-0.25", "+5": "+5", "-1e-9": "-1e-9", "-Inf": "-Inf",
		"=1+1": "'=1+1", "+[Foo bar]": "'+[Foo bar]", "-[Foo bar]": "'-[Foo bar]", "@(4011d0)": "'@(4011d0)",
		"-2+3": "'-2+3", " =1": "' =1", "\x00=1": "'\x00=1", "\ta": "'\ta", "\ra": "'\ra", "\na": "'\na", "-": "'-",
		"=HYPERLINK(\"http://x\",\"y\")": "'=HYPERLINK(\"http://x\",\"y\")", "'=1": "'=1",
	} {
		if got := CSVText(text); got != want {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
		rows, err := csv.NewReader(strings.NewReader(CSVRow(text, "x"))).ReadAll()
		if read := strings.ReplaceAll(want, "\r\n", "\n"); err != nil || rows[0][0] != read {
			t.Errorf("%q in a table: got %q, error %v", text, rows, err)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringMatching(`[ \t\r\n]?[=+@'"\-]?[-+=0-9.e,a]*`).Draw(t, "text")
		got := CSVText(text)
		if strings.TrimPrefix(got, "'") != text && got != text {
			t.Fatalf("%q: got %q", text, got)
		}
		_, err := strconv.ParseFloat(got, 64)
		if trimmed := strings.TrimSpace(got); err != nil && trimmed != "" && strings.ContainsAny(trimmed[:1], "=+-@") {
			t.Fatalf("%q: got %q, which is a formula", text, got)
		}
	})
}

// TestCSVRow reads back what CSVRow wrote.
func TestCSVRow(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		// encoding/csv ignores a line with a single empty cell, and reads \r\n as \n. Avoid
		// both.
		cell := rapid.Map(rapid.String(), func(s string) string { return strings.ReplaceAll(s, "\r", " ") })
		var want [][]string
		text := ""
		for range rapid.IntRange(0, 5).Draw(t, "rows") {
			row := []string{cell.Draw(t, "a"), cell.Draw(t, "b")}
			text += CSVRow(row...)
			want = append(want, []string{CSVText(row[0]), CSVText(row[1])})
		}
		got, err := csv.NewReader(strings.NewReader(text)).ReadAll()
		if err != nil {
			t.Fatalf("%v in %q", err, text)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("CSV (-want +got):\n%s", diff)
		}
	})
}

// TestLayout aligns random cells. All lines must be equally wide up to the last column, and
// must not contain control sequences.
func TestLayout(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		cell := rapid.OneOf(rapid.String(), rapid.Map(rapid.SliceOf(rapid.Byte()), func(b []byte) string { return string(b) }))
		tab := &Table{Columns: []Column{{Title: "first"}, {Title: "second", Right: true}, {Title: "|"}}}
		for range rapid.IntRange(0, 5).Draw(t, "rows") {
			tab.Add(cell.Draw(t, "left"), cell.Draw(t, "right"), "|")
		}
		var b strings.Builder
		if err := tab.WriteText(&b); err != nil {
			t.Fatal(err)
		}
		lines := strings.Split(strings.TrimSuffix(b.String(), "\n"), "\n")
		for _, line := range lines {
			if Width(line) != Width(lines[0]) || !utf8.ValidString(line) || strings.ContainsAny(line, "\x00\x1b\r\t\u0085\u202e") {
				t.Errorf("line %q is not aligned with %q", line, lines[0])
			}
		}
	})
}

func TestPrintable(t *testing.T) {
	for s, want := range map[string]string{
		"plain ü 漢 \ufffd":   "plain ü 漢 \ufffd",
		"a\tb\x00":           `a\tb\x00`,
		"bad\xffutf\xc3":     `bad\xffutf\xc3`,
		"turn\u202eed":       `turn\u202eed`,
		"c1\u009b31m":        `c1\u009b31m`,
		"\u2028next\u2029\"": `\u2028next\u2029"`,
	} {
		if got := Printable(s); got != want {
			t.Errorf("Printable(%q) = %q, want %q", s, got, want)
		}
	}
}

func TestXML(t *testing.T) {
	const text = "a<b>&\"c\"\n\x00\uFFFE\uFFFFé"
	const want = `a&lt;b&gt;&amp;&quot;c&quot;\n\x00` + "\uFFFD\uFFFDé"
	if got := XML(text); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestWidth(t *testing.T) {
	for s, want := range map[string]int{"": 0, "abc": 3, "é": 1, "e\u0301": 1, "漢字": 4, "ｶ": 1, "😀": 2, "한": 2, "a\u200db": 2} {
		if got := Width(s); got != want {
			t.Errorf("Width(%q) = %d, want %d", s, got, want)
		}
	}
}
