package main

import (
	"errors"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/pflag"
	"golang.org/x/term"

	"github.com/xray-tools/xray/internal/label"
	"github.com/xray-tools/xray/reader/calls"
	"github.com/xray-tools/xray/report"
	"github.com/xray-tools/xray/symbolize"
)

// reportFlags say how a report is written, and where.
type reportFlags struct {
	format, output string
	wide           bool
}

// add adds the flags. A command may have formats of its own, beside those of all reports.
// The format is text unless it is set. It returns the
// flag of the format.
func (r *reportFlags) add(f *pflag.FlagSet, own ...string) *choice {
	if r.format == "" {
		r.format = string(report.Text)
	}
	formats := []string{}
	for _, format := range report.Formats {
		formats = append(formats, string(format))
	}
	addOutput(f, &r.output)
	f.BoolVar(&r.wide, "wide", false, "do not fit tables to the width of the terminal")
	return addChoice(f, &r.format, "format", "f", "output format", append(formats, own...)...)
}

// isReport tells the formats of all reports from a command's own.
func (r *reportFlags) isReport() bool {
	return slices.Contains(report.Formats, report.Format(r.format))
}

// short reports whether names are short: for people, unless --names says otherwise. Flags
// match the full names.
func (r *reportFlags) short(style string) bool {
	switch report.Format(r.format) {
	case report.Text, report.Markdown, report.HTML:
		return style == ""
	}
	return false
}

// shownNames are the names that a report shows.
func (s *session) shownNames(r *reportFlags) symbolize.Names {
	if r.short(s.style) {
		return symbolize.Shortened(s.names)
	}
	return s.names
}

// writeDoc writes the report of a run. The session fills in what the report's kind does not
// know: the clock, names, and caveats. Moments of the report count from the trace's start.
func (s *session) writeDoc(r *reportFlags, stats *calls.Stats, body func(symbolize.Names) []report.Node) error {
	names := s.shownNames(r)
	d := &report.Doc{
		Kind: s.name, Clock: s.clock, Names: names, Start: s.first,
		Threads: label.Threads{Name: s.trace.ThreadName, Files: s.trace.Files()},
		Caveats: s.caveats(stats), Body: body(names),
	}
	return s.app.writeDoc(r, d)
}

func (a *app) writeDoc(r *reportFlags, d *report.Doc) error {
	style := report.Style{Format: report.Format(r.format)}
	if style.Format == report.CSV {
		a.tellCaveats(d.Caveats)
	}
	if style.Format != report.Text || !a.toTerminal(r) {
		return a.writeOutput(r.output, func(w io.Writer) error { return d.Write(w, style) })
	}
	if !r.wide {
		style.Width = terminalWidth(a.stdout.raw)
	}
	style.Color = os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
	return a.page(func(w io.Writer) error { return d.Write(w, style) })
}

// toTerminal reports whether a report goes to a terminal.
func (a *app) toTerminal(r *reportFlags) bool {
	return (r.output == "" || r.output == "-") && isTerminal(a.stdout.raw)
}

// terminalWidth is what COLUMNS says, or the terminal itself.
func terminalWidth(w any) int {
	if n, err := strconv.Atoi(os.Getenv("COLUMNS")); err == nil && n > 0 {
		return n
	}
	if f, ok := w.(*os.File); ok {
		if n, _, err := term.GetSize(int(f.Fd())); err == nil && n > 0 {
			return n
		}
	}
	return 80
}

// page has f write to the user's pager, or to the terminal where there is none. As with
// git, PAGER chooses it, "" and "cat" stand for none, and less ends at once if all fits on
// the screen.
func (a *app) page(f func(io.Writer) error) error {
	pager, ok := os.LookupEnv("PAGER")
	if !ok {
		pager = "less"
	}
	if pager = strings.TrimSpace(pager); pager == "" || pager == "cat" {
		return a.writeTerminal(f)
	}
	if _, err := exec.LookPath(strings.Fields(pager)[0]); err != nil {
		return a.writeTerminal(f)
	}
	cmd := exec.Command("sh", "-c", pager)
	cmd.Stdout, cmd.Stderr = a.stdout.raw, a.stderr.raw
	cmd.Env = os.Environ()
	if _, ok := os.LookupEnv("LESS"); !ok {
		cmd.Env = append(cmd.Env, "LESS=FRX")
	}
	to, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	// The pager takes Ctrl-C, and xray ends when it does.
	signal.Ignore(os.Interrupt)
	defer signal.Reset(os.Interrupt)
	text := &escaper{w: to, color: true}
	err = errors.Join(f(text), text.flush(), to.Close()) // EPIPE: the user has seen enough
	return errors.Join(err, cmd.Wait())
}

// writeTerminal has f write to standard output, whose escape sequences may pass.
func (a *app) writeTerminal(f func(io.Writer) error) error {
	return a.toStdout(func(w io.Writer) error {
		text := &escaper{w: w, color: true}
		return errors.Join(f(text), text.flush())
	})
}
