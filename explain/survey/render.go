package survey

import (
	"fmt"
	"html"
	"io"
	"slices"
	"strings"

	"github.com/xray-tools/xray/internal/texttab"
	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/report"
	"github.com/xray-tools/xray/report/label"
	"github.com/xray-tools/xray/symbolize"
)

// View is what a report shows besides the
type View struct {
	Trace   *reader.Trace
	Clock   reader.Clock
	Names   symbolize.Names
	Missing []symbolize.Missing // objects without names, or perhaps with wrong ones
}

// Body returns the report.
func (r *Report) Body(v View) []report.Node {
	o := &rendering{View: v, Report: r}
	o.findings = slices.Concat(r.Findings(v.Trace, symbolize.WithOthers(v.Names)), o.leftOff(), o.conditional(), o.unread(), o.missing())
	return o.body()
}

// rendering describes a
type rendering struct {
	View
	*Report
	findings []Finding
}

// textFact is a fact in words, for people. An empty one is omitted.
func textFact[T any](title, words string) report.Column[T] {
	return report.String(title, func(*T) string { return words }).ForPeople().Missing(func(*T) bool { return words == "" })
}

func (o *rendering) body() []report.Node {
	files := &report.List{Key: "files"}
	for i, name := range o.Trace.Files() {
		files.Items = append(files.Items, report.Section{Title: name, Body: o.file(i)})
	}
	return []report.Node{files, o.facts(), o.threads(), report.People{o.named()}, o.kindTable(), report.People{o.counts(), o.objects()},
		report.Programs{report.Table("findings", o.findings,
			report.String("name", func(f *Finding) string { return f.Name }),
			report.String("text", func(f *Finding) string { return f.Text }),
			report.String("remedy", func(f *Finding) string { return f.Remedy }),
		), o.lossTable()},
		report.People{o.list("Warnings", o.warnings()), o.list("Losses", o.losses())}}
}

// facts are about the whole trace.
func (o *rendering) facts() report.Node {
	type T = rendering
	st := &o.Stats
	clock, span, marks, threads, calls, functions, depth := "unknown", "", "", "", "", "", ""
	if o.Clock.Known() {
		clock = label.Grouped(o.Clock.Frequency) + " ticks per second"
	}
	if st.Events > 0 {
		span = fmt.Sprintf("%s, from tick %d to %d%s", o.Clock.Format(st.Last-st.First), st.First, st.Last, o.when(o.Trace.Recording(0), st.First))
		calls, functions, depth = o.ends(), label.Grouped(uint64(len(o.Funcs))), label.Grouped(uint64(st.MaxDepth))
		if o.Marks+o.Requests > 0 {
			marks = label.Count(uint64(o.Marks), "mark", "marks") + "; " + label.Count(uint64(o.Requests), "request", "requests")
		}
		processes := map[[2]int32]bool{}
		for _, t := range o.Threads {
			processes[[2]int32{t.File, t.Process}] = true
		}
		threads = fmt.Sprintf("%d in %s", len(o.Threads), label.Count(uint64(len(processes)), "process", "processes"))
	}
	number := func(key string, n uint64) report.Column[T] {
		return report.Count(key, func(*T) uint64 { return n }).ForPrograms()
	}
	return report.Facts(o,
		textFact[T]("clock", clock), textFact[T]("records", o.kinds()), textFact[T]("span", span), textFact[T]("calls", calls),
		textFact[T]("functions", functions), textFact[T]("depth", depth), textFact[T]("marks", marks), textFact[T]("threads", threads), textFact[T]("counted", o.counted()),
		number("ticks_per_second", o.Clock.Frequency), number("records", st.Events), number("first_tick", st.First), number("last_tick", st.Last),
		number("calls", st.Calls), number("exited", o.Exited), number("tail_exited", o.TailExited), number("left", st.Left),
		number("inferred", st.Inferred), number("open", st.Truncated), number("unmatched_exits", st.Unmatched),
		number("cut", st.Cut), number("exits_before_windows", st.Before), number("records_outside_windows", o.Trace.Outside()),
		number("function_count", uint64(len(o.Funcs))), number("max_depth", uint64(st.MaxDepth)),
		number("marks", o.Marks), number("request_count", o.Requests), number("landings", o.Landings), number("switches", o.Switches),
	)
}

// kindTable counts the records of each kind.
func (o *rendering) kindTable() report.Node {
	type row struct {
		kind  reader.Kind
		count uint64
	}
	var list []row
	for kind, n := range o.Kinds {
		list = append(list, row{reader.Kind(kind), n})
	}
	return report.Programs{report.Table("records_by_kind", list,
		report.String("kind", func(r *row) string { return r.kind.String() }),
		report.Count("count", func(r *row) uint64 { return r.count }),
	)}
}

// maxThreads bounds the table of threads for people.
const maxThreads = 50

func (o *rendering) threads() report.Node {
	type T = Thread
	return report.Table("threads", o.Threads,
		report.Thread("thread", func(t *T) reader.Thread { return t.Thread }),
		report.Count("records", func(t *T) uint64 { return t.Events }),
		report.Count("calls", func(t *T) uint64 { return t.Entries }),
		report.Count("open", func(t *T) uint64 { return t.Open }),
		report.Count("unmatched_exits", func(t *T) uint64 { return t.Unmatched }).Titled("unmatched"),
		report.Moment("start", func(t *T) uint64 { return t.First }),
		report.Time("duration", func(t *T) uint64 { return t.Last - t.First }),
		report.Count("first_tick", func(t *T) uint64 { return t.First }).ForPrograms(),
		report.Count("last_tick", func(t *T) uint64 { return t.Last }).ForPrograms(),
	).Top(maxThreads)
}

// named lists threads that changed their names.
func (o *rendering) named() report.Node {
	var lines []string
	for _, n := range o.Named {
		lines = append(lines, fmt.Sprintf("thread %d was named %s after %s", n.Thread.Thread, n.Name, o.Clock.Format(n.TSC-min(n.TSC, o.Stats.First))))
	}
	if more := o.NamedCount - uint64(len(o.Named)); more > 0 {
		lines = append(lines, fmt.Sprintf("and %s more", label.Count(uint64(more), "name", "names")))
	}
	return o.list("", lines)
}

// list shows people a paragraph for each line. Indented lines belong to the line before them.
func (o *rendering) list(title string, lines []string) report.Node {
	if len(lines) == 0 {
		return report.People{}
	}
	return &report.Section{Title: title, Body: []report.Node{&report.Drawing{
		Text: func(w io.Writer, width int) error {
			for _, line := range lines {
				text := strings.TrimLeft(line, " ")
				first := line[:len(line)-len(text)]
				rest := first
				if first == "" {
					rest = "  "
				}
				for _, part := range texttab.Wrap(text, first, rest, report.ParagraphWidth(width)) {
					fmt.Fprintf(w, "%s\n", texttab.Printable(part))
				}
			}
			return nil
		},
		HTML: func(w io.Writer) error {
			for _, line := range lines {
				text := strings.TrimLeft(line, " ")
				fmt.Fprintf(w, "<p style=\"margin: 0 0 .3em %dch\">%s</p>\n", len(line)-len(text), html.EscapeString(texttab.Printable(text)))
			}
			return nil
		},
	}}}
}

// warnings lists the findings, each with its remedy.
func (o *rendering) warnings() (lines []string) {
	for _, f := range o.findings {
		lines = append(lines, "- "+f.Text, "    "+f.Remedy)
	}
	return lines
}

// maxLosses limits the losses of one cause that people see.
const maxLosses = 4

func (o *rendering) losses() (lines []string) {
	losses := o.Trace.Losses()
	shown := map[reader.Cause]int64{}
	for _, l := range losses.Samples() {
		shown[l.Cause]++
		switch n := shown[l.Cause]; {
		case n <= maxLosses:
			lines = append(lines, l.String())
		case n == maxLosses+1:
			lines = append(lines, fmt.Sprintf("... %s more", label.Grouped(uint64(losses.Total[l.Cause].Losses-maxLosses))))
		}
	}
	return lines
}

func (o *rendering) lossTable() report.Node {
	return report.Table("losses", o.Trace.Losses().Samples(),
		report.String("loss", func(l *reader.Loss) string { return l.Cause.String() }),
		report.String("name", func(l *reader.Loss) string { return l.File }),
		report.Count("offset", func(l *reader.Loss) uint64 { return uint64(l.Offset) }),
		report.Bytes("lost", func(l *reader.Loss) uint64 { return uint64(l.Bytes) }),
		report.Count("lost_records", func(l *reader.Loss) uint64 { return uint64(l.Records) }),
		report.String("detail", func(l *reader.Loss) string { return l.Detail }),
	)
}

// formatOf describes the file in a phrase.
func (o *rendering) formatOf(file int) string {
	h := o.Trace.Header(file)
	kind := "basic log"
	switch h.Type {
	case reader.FDR:
		kind = "FDR log"
	case reader.Profiling:
		kind = "profile of LLVM's profiling mode"
	}
	size := label.Bytes(uint64(o.Trace.Size(file)))
	order := ""
	if o.YAML[int32(file)] {
		kind = "trace YAML of a " + kind
	} else if h.ByteOrder.String() == "BigEndian" {
		order = ", big-endian"
	}
	if packed, stored := o.Trace.Packed(file); packed != "" {
		size += fmt.Sprintf(" unpacked from %s of %s", label.Bytes(uint64(stored)), packed)
	}
	return fmt.Sprintf("%s, version %d%s, %s", kind, h.Version, order, size)
}

var kindNames = [...]struct{ one, many string }{
	reader.Enter:    {"entry", "entries"},
	reader.Exit:     {"exit", "exits"},
	reader.TailExit: {"tail exit", "tail exits"},
	reader.EnterArg: {"entry with arguments", "entries with arguments"},
	reader.Custom:   {"custom event", "custom events"},
	reader.Typed:    {"typed event", "typed events"},
}

func (o *rendering) kinds() string {
	var parts []string
	for kind, n := range o.Kinds {
		if kind == int(reader.Custom) {
			n -= o.Landings + o.Switches
		}
		switch name := kindNames[kind]; n {
		case 0:
		case 1:
			parts = append(parts, "1 "+name.one)
		default:
			parts = append(parts, label.Grouped(n)+" "+name.many)
		}
	}
	for _, note := range []struct {
		n         uint64
		one, many string
	}{{o.Landings, "landing", "landings"}, {o.Switches, "switch", "switches"}} {
		if note.n > 0 {
			parts = append(parts, label.Count(note.n, note.one, note.many))
		}
	}
	return countOf(o.Stats.Events, parts)
}

func (o *rendering) ends() string {
	var parts []string
	cut := "open where the trace was cut off"
	for _, r := range o.Trace.Recordings() {
		if r.Windowed() {
			cut = "open at the end of a window"
		}
	}
	for _, p := range []struct {
		n    uint64
		what string
	}{
		{o.Exited, "returned"}, {o.TailExited, "ended in a tail call"},
		{o.Stats.Left, "ended by an exception or longjmp"}, {o.Stats.Inferred, "without an exit record"}, {o.Stats.Truncated - o.Stats.Cut, "open at the end"},
		{o.Stats.Cut, cut},
	} {
		if p.n > 0 {
			parts = append(parts, label.Grouped(p.n)+" "+p.what)
		}
	}
	text := countOf(o.Stats.Calls, parts)
	if n := o.Stats.Earlier; n > 0 {
		text += fmt.Sprintf("; %s began before the trace", label.Grouped(n))
	}
	return text
}

func countOf(n uint64, parts []string) string {
	if len(parts) == 0 {
		return label.Grouped(n)
	}
	return label.Grouped(n) + ": " + strings.Join(parts, ", ")
}
