package session

import (
	"io"
	"os"
	"path/filepath"
	"slices"

	"github.com/spf13/pflag"

	"github.com/xray-tools/xray/cmd/xray/internal/cli"
	"github.com/xray-tools/xray/report"
	"github.com/xray-tools/xray/symbolize"
)

// Output holds the flags that say how and where to write a report: --format, --output and --wide.
type Output struct {
	// Format is text unless a command sets another default before it adds the flags.
	Format string
	Path   string
	// ByName lets the name of the output select the format if --format is not given.
	ByName bool
	wide   bool
}

// AddFlags adds the flags. own are the formats of the command besides those of all reports. It
// returns the flag of the format.
func (o *Output) AddFlags(f *pflag.FlagSet, own ...string) *cli.Choice {
	if o.Format == "" && !o.ByName {
		o.Format = string(report.Text)
	}
	formats := []string{}
	for _, format := range report.Formats {
		formats = append(formats, string(format))
	}
	cli.AddOutput(f, &o.Path)
	f.BoolVar(&o.wide, "wide", false, "do not fit tables to the width of the terminal")
	return cli.AddChoice(f, &o.Format, "format", "f", "output `FORMAT`", append(formats, own...)...)
}

// format returns the chosen format, or the one that the name of the output selects.
func (o *Output) format() report.Format {
	if o.Format != "" {
		return report.Format(o.Format)
	}
	switch filepath.Ext(o.Path) {
	case ".html":
		return report.HTML
	case ".md":
		return report.Markdown
	case ".json":
		return report.JSON
	case ".csv":
		return report.CSV
	}
	return report.Text
}

// IsReport reports whether the format is one that all reports have, rather than the command's
// own.
func (o *Output) IsReport() bool {
	return slices.Contains(report.Formats, report.Format(o.Format))
}

// Streams reports whether the format is written row by row, so that the number of rows has no
// limit.
func (o *Output) Streams() bool { return o.format() == report.CSV || o.format() == report.JSON }

// TellsCaveats reports whether the format has a place for caveats.
func (o *Output) TellsCaveats() bool { return o.format() != report.CSV }

// Short reports whether to shorten names: in formats for people, unless --names gives a style.
// Flags match full and short names.
func (o *Output) Short(style string) bool {
	return o.forPeople() && style == ""
}

func (o *Output) forPeople() bool {
	switch o.format() {
	case report.Text, report.Markdown, report.HTML:
		return true
	}
	return false
}

// ShownNames returns the names that a report shows.
func (s *Session) ShownNames(o *Output) symbolize.Names {
	switch {
	case o.Short(s.style):
		return symbolize.WithOthers(symbolize.Distinct(symbolize.Shortened(s.Names)))
	case o.forPeople():
		return symbolize.WithOthers(s.FullNames())
	}
	return s.FullNames()
}

// FullNames returns the names that data formats show. They tell functions of one name apart only in
// traces of several programs, which all have a main.
func (s *Session) FullNames() symbolize.Names {
	for i := range s.Trace.Files() {
		if s.Trace.Program(i) != s.Trace.Program(0) {
			return symbolize.Distinct(s.Names)
		}
	}
	return s.Names
}

// Report writes the report of a run, and the summary. The session adds the clock, the names and
// the caveats to body.
func (s *Session) Report(o *Output, run *Run, body func(symbolize.Names) []report.Node) error {
	names := s.ShownNames(o)
	doc := s.Doc(names, body(names))
	doc.Caveats = s.Caveats(run)
	if run.Start != 0 {
		doc.Start = run.Start
	}
	err := WriteDoc(s.Streams, o, doc)
	s.Summary(run.Stats)
	return err
}

// Doc returns a report without caveats. Its moments count from the start of the trace, if
// known.
func (s *Session) Doc(names symbolize.Names, body []report.Node) *report.Doc {
	doc := &report.Doc{Kind: s.Command, Clock: s.Clock, Names: names, Threads: s.ThreadNames(), Body: body}
	if s.span != nil {
		doc.Start = s.span.First
	}
	return doc
}

// WriteForm writes a format that has no place for caveats, by calling f. Caveats and summary go
// to standard error.
func (s *Session) WriteForm(path string, run *Run, f func(io.Writer) error) error {
	s.TellCaveats("", run)
	err := s.WriteText(path, f)
	s.Summary(run.Stats)
	return err
}

// WriteDoc writes a report to a file, a pipe, or through the pager to a terminal.
func WriteDoc(streams *cli.Streams, o *Output, d *report.Doc) error {
	style := report.Style{Format: o.format()}
	if style.Format == report.CSV {
		TellCaveats(streams, "", d.Caveats)
	}
	write := func(w io.Writer) error { return d.Write(w, style) }
	if style.Format != report.Text || !streams.ToTerminal(o.Path) {
		return streams.WriteText(o.Path, write)
	}
	if !o.wide {
		style.Width = cli.TerminalWidth(streams.Stdout.Raw)
	}
	style.Color = os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
	return streams.Page(write)
}

// Fail writes the caveats and the summary of a run that has no report because of an error.
func (s *Session) Fail(run *Run) {
	if run == nil || run.Stats == nil {
		s.Summary(nil)
		return
	}
	s.Summary(run.Stats)
	s.TellCaveats("", run)
}
