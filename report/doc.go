// Package report describes the result of an analysis as data, and writes it as text for a
// terminal, Markdown, CSV, JSON or an HTML page.
//
// An analysis builds a [Doc] from nodes: paragraphs, facts, tables, trees, sections and
// drawings. It declares the columns of a table once, each with the type of its cells. All
// formats follow from that:
//
//	report.Table("functions", rows,
//		report.Count("count", func(r *Row) uint64 { return r.Count }),
//		report.Time("self", func(r *Row) uint64 { return r.Self }),
//		report.Function("function", func(r *Row) reader.FuncID { return r.Func }),
//	)
//
// JSON and CSV use the same keys. A key names its value, in lower case with underscores.
// Keys of times end with the unit, "_ns", or "_ticks" if the trace does not state the
// frequency of its clock. Some columns have several keys: see [Function], [Thread] and
// [Path]. docs/json.md lists all keys.
//
// The same Doc always gives the same bytes. A Doc may be written several times, but not by
// several goroutines at once.
package report

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"io"

	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/report/label"
	"github.com/xray-tools/xray/symbolize"
)

// version is the version of the JSON form. It increases when a key is removed or changes
// its meaning, but not when one is added.
const version = 1

// Doc is a report.
type Doc struct {
	Kind    string // the command's name: "account"
	Title   string // of a page; "xray KIND" if empty
	Clock   reader.Clock
	Names   symbolize.Names // may be nil; functions are then shown by ID
	Threads label.Threads   // names of threads, and of files if there are several
	Start   uint64          // TSC to which moments are relative
	// Caveats are sentences about what is missing from the report. They come first.
	Caveats []string
	// Late, if not nil, returns the caveats after the body was written, for a [Streamed]
	// table. JSON has them at the end. Other formats omit them.
	Late func() []string
	Body []Node

	known map[reader.FuncID]*named
}

// named caches the name and location of a function, because looking them up is slow. The
// location is looked up when it is first needed.
type named struct {
	label, place string
	placed       bool
}

// Node is a part of a report.
type Node interface{ isNode() }

// Paragraph is prose for people. JSON and CSV omit it, so facts and tables must have the
// same contents.
type Paragraph string

// Notes are sentences about the preceding nodes. In JSON, they are an array.
type Notes []string

// People are nodes that JSON and CSV omit, like paragraphs.
type People []Node

// Programs are nodes that only JSON and CSV have.
type Programs []Node

// FactList is a list of single values. In JSON, they are keys of the enclosing object.
type FactList struct{ list []fact }

type fact struct {
	column
	cell cell
}

// Section is a part with a title. In JSON, it is an object if Key is not empty. Otherwise
// its keys are those of the enclosing object.
type Section struct {
	Key, Title string
	Body       []Node
}

// List is a sequence of sections of the same form: an array of objects in JSON.
type List struct {
	Key   string
	Items []Section
}

// Drawing is a node that draws itself for people. Data has the same contents for programs,
// and may be nil.
type Drawing struct {
	// Text writes lines for a terminal of width columns. 0 means no limit. Without Text,
	// only the page has the drawing.
	Text func(w io.Writer, width int) error
	// HTML writes an element. Without HTML, the page shows the lines of Text.
	HTML func(w io.Writer) error
	Data Node
}

// Picture is a drawing for pages only: an SVG document with its own styles and scripts.
func Picture(svg func(io.Writer) error) *Drawing {
	return &Drawing{HTML: func(w io.Writer) error {
		var b bytes.Buffer
		if err := svg(&b); err != nil {
			return err
		}
		_, err := fmt.Fprintf(w, "<object type=\"image/svg+xml\" data=\"data:image/svg+xml;base64,%s\"></object>\n",
			base64.StdEncoding.EncodeToString(b.Bytes()))
		return err
	}}
}

func (Paragraph) isNode()  {}
func (Notes) isNode()      {}
func (People) isNode()     {}
func (Programs) isNode()   {}
func (*FactList) isNode()  {}
func (*Section) isNode()   {}
func (*List) isNode()      {}
func (*Drawing) isNode()   {}
func (*TableNode) isNode() {}

// Format is an output format.
type Format string

// Formats.
const (
	Text     Format = "text"
	Markdown Format = "markdown" // GitHub's dialect
	CSV      Format = "csv"      // only the first table, as in RFC 4180
	JSON     Format = "json"
	HTML     Format = "html" // a self-contained page
)

// Formats are all formats, in the order of help texts.
var Formats = []Format{Text, Markdown, CSV, JSON, HTML}

// Style selects how a report is written.
type Style struct {
	Format Format
	// Width is the number of columns of the terminal. Text cuts names and omits columns to
	// fit. 0 means no limit.
	Width int
	Color bool // marks headings with the escape sequences of ANSI terminals; Text only
}

// Write writes the report. It returns the error of w, or of a drawing.
func (d *Doc) Write(w io.Writer, s Style) error {
	d.known = make(map[reader.FuncID]*named)
	switch s.Format {
	case Text, "":
		return d.writeText(w, s)
	case Markdown:
		return d.writeMarkdown(w)
	case CSV:
		return d.writeCSV(w)
	case JSON:
		return d.writeJSON(w)
	case HTML:
		return d.writeHTML(w)
	}
	return fmt.Errorf("unknown format %q", s.Format)
}
