package main

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/xray-tools/xray/internal/survey"
	"github.com/xray-tools/xray/reader"
)

func (a *app) infoCommand() *cobra.Command {
	var (
		flags  traceFlags
		format = "text"
		output string
	)
	cmd := &cobra.Command{
		Use:   "info TRACE...",
		Short: "Say what a trace is, what is odd about it, and what to do about that",
		Long: `info says what format a trace has, what is in it, and what was lost. Of all
that could mislead you it says what to do about it. Start here.`,
		Example: "  xray info -m ./server trace.xray",
		Args:    operands("a TRACE", 1, true),
		RunE: func(cmd *cobra.Command, args []string) error {
			s, err := a.open(cmd, &flags, args)
			if err != nil {
				return err
			}
			defer s.close()
			stop := a.progress(s.name, s.trace)
			report, err := survey.Run(s.trace)
			stop()
			if err != nil {
				return err
			}
			out := infoOutput{session: s, Report: report, findings: append(report.Findings(s.trace, s.names), s.missingFindings()...)}
			write := out.text
			if format == "json" {
				write = out.json
			}
			if err := a.writeOutput(output, write); err != nil {
				return err
			}
			return s.checkStrict(&firstUnmatched{})
		},
	}
	f := cmd.Flags()
	flags.nameFlags.add(f)
	flags.addStrict(f)
	addChoice(f, &format, "format", "f", "what to write", "text", "json")
	addOutput(f, &output)
	spellings(f, nil)
	return cmd
}

// infoOutput renders a survey.
type infoOutput struct {
	*session
	*survey.Report
	findings []survey.Finding
}

func (o *infoOutput) text(w io.Writer) error {
	for i, name := range o.trace.Files() {
		h := o.trace.Header(i)
		textf(w, "%s: %v\n", name, o.formatOf(i))
		if h.Type == reader.FDR && h.BufferSize > 0 {
			textf(w, "  buffers    of %s bytes\n", thousands(h.BufferSize))
		}
		o.recorder(w, i)
	}
	st := &o.Stats
	if o.clock.Known() {
		textf(w, "  clock      %s ticks a second\n", thousands(o.clock.Frequency))
	} else {
		textf(w, "  clock      unknown\n")
	}
	textf(w, "  records    %s\n", o.kinds())
	if st.Events > 0 {
		textf(w, "  span       %s, from tick %d to %d%s\n", o.clock.Format(st.Last-st.First), st.First, st.Last,
			o.when(o.trace.Recording(0), st.First))
		textf(w, "  calls      %s\n", o.ends())
		textf(w, "  functions  %s\n", thousands(uint64(len(o.Funcs))))
		textf(w, "  depth      %d\n", st.MaxDepth)
		if o.Marks+o.Requests > 0 {
			textf(w, "  marks      %s; %s\n", plural(int64(o.Marks), "mark", "marks"), plural(int64(o.Requests), "request", "requests"))
		}
		o.threads(w)
		o.named(w)
	}
	o.counts(w)
	o.objects(w)
	if len(o.findings) > 0 {
		textf(w, "\nworth knowing:\n")
	}
	for _, f := range o.findings {
		textf(w, "- %s\n", f.Text)
		textf(w, "    %s\n", f.Remedy)
	}
	o.losses(w)
	return nil
}

// maxInfoLosses bounds how many losses of a cause are listed in text.
const maxInfoLosses = 4

func (o *infoOutput) losses(w io.Writer) {
	losses := o.trace.Losses()
	shown := map[reader.Cause]int64{}
	for i, l := range losses.Samples() {
		if i == 0 {
			textf(w, "\nlost:\n")
		}
		shown[l.Cause]++
		switch n := shown[l.Cause]; {
		case n <= maxInfoLosses:
			textf(w, "  %v\n", l)
		case n == maxInfoLosses+1:
			textf(w, "  ... %d more of them\n", losses.Total[l.Cause].Losses-maxInfoLosses)
		}
	}
}

// formatOf describes the file in a phrase.
func (o *infoOutput) formatOf(file int) string {
	h := o.trace.Header(file)
	kind := "basic log"
	if h.Type == reader.FDR {
		kind = "FDR log"
	}
	size := formatBytes(o.trace.Size(file))
	order := ""
	if o.YAML[int32(file)] {
		kind = "trace YAML of a " + kind
	} else if h.ByteOrder.String() == "BigEndian" {
		order = ", big-endian"
	}
	if packed := o.trace.Packed(file); packed != "" {
		size += " unpacked from " + packed
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

func (o *infoOutput) kinds() string {
	var parts []string
	for kind, n := range o.Kinds {
		if kind == int(reader.Custom) {
			n -= o.Landings
		}
		switch name := kindNames[kind]; n {
		case 0:
		case 1:
			parts = append(parts, "1 "+name.one)
		default:
			parts = append(parts, thousands(n)+" "+name.many)
		}
	}
	switch o.Landings {
	case 0:
	case 1:
		parts = append(parts, "1 landing")
	default:
		parts = append(parts, thousands(o.Landings)+" landings")
	}
	return countOf(o.Stats.Events, parts)
}

func (o *infoOutput) ends() string {
	var parts []string
	for _, p := range []struct {
		n    uint64
		what string
	}{
		{o.Exited, "returned"}, {o.TailExited, "left by a tail call"},
		{o.Stats.Left, "left by an exception or longjmp"}, {o.Stats.Inferred, "ended with their caller"}, {o.Stats.Truncated, "open at the end"},
	} {
		if p.n > 0 {
			parts = append(parts, thousands(p.n)+" "+p.what)
		}
	}
	return countOf(o.Stats.Calls, parts)
}

func countOf(n uint64, parts []string) string {
	if len(parts) == 0 {
		return thousands(n)
	}
	return thousands(n) + ": " + strings.Join(parts, ", ")
}

// named lists threads that got other names.
func (o *infoOutput) named(w io.Writer) {
	if len(o.Named) == 0 {
		return
	}
	fmt.Fprintln(w)
	for _, n := range o.Named {
		textf(w, "  thread %d was named %s after %s\n", n.Thread.Thread, n.Name, o.clock.Format(n.TSC-min(n.TSC, o.Stats.First)))
	}
	if more := o.NamedCount - uint64(len(o.Named)); more > 0 {
		textf(w, "  and %s more\n", plural(int64(more), "name", "names"))
	}
}

// maxInfoThreads bounds the table of threads in text.
const maxInfoThreads = 50

func (o *infoOutput) threads(w io.Writer) {
	processes := map[[2]int32]bool{}
	for _, t := range o.Threads {
		processes[[2]int32{t.File, t.Process}] = true
	}
	textf(w, "  threads    %d in %s\n\n", len(o.Threads), plural(int64(len(processes)), "process", "processes"))
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	several := len(o.trace.Files()) > 1
	names := slices.ContainsFunc(o.Threads, func(t survey.Thread) bool { return o.trace.ThreadName(t.Thread) != "" })
	head := "process\tthread\trecords\tcalls\topen\tunmatched\tfrom\tfor\t"
	if several {
		head = "trace\t" + head
	}
	if names {
		head += "  name\t"
	}
	fmt.Fprintln(tw, head)
	for i, t := range o.Threads {
		if i == maxInfoThreads {
			textf(tw, "... and %s\n", plural(int64(len(o.Threads)-i), "more thread", "more threads"))
			break
		}
		if several {
			textf(tw, "%d\t", t.File+1)
		}
		textf(tw, "%d\t%d\t%s\t%s\t%s\t%s\t%s\t%s\t", t.Process, t.Thread.Thread,
			thousands(t.Events), thousands(t.Entries), thousands(t.Open), thousands(t.Unmatched),
			o.clock.Format(t.First-o.Stats.First), o.clock.Format(t.Last-t.First))
		if names {
			textf(tw, "  %s\t", o.trace.ThreadName(t.Thread))
		}
		fmt.Fprintln(tw)
	}
	tw.Flush()
}

// thousands writes a number with commas between groups of three digits.
func thousands(n uint64) string {
	s := strconv.FormatUint(n, 10)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// The JSON of info. Times are ticks.
type (
	infoJSON struct {
		Files     []infoFile       `json:"files"`
		Frequency uint64           `json:"ticks_per_second"`
		Records   uint64           `json:"records"`
		Kinds     map[string]int64 `json:"records_by_kind"`
		First     uint64           `json:"first_tick"`
		Last      uint64           `json:"last_tick"`
		Calls     infoCalls        `json:"calls"`
		Functions int              `json:"functions"`
		MaxDepth  uint32           `json:"max_depth"`
		Threads   []infoThread     `json:"threads"`
		Findings  []infoFinding    `json:"findings"`
		Losses    []infoLoss       `json:"losses"`
		Recorded  []infoRecording  `json:"recordings,omitempty"`
	}
	infoFile struct {
		Name       string `json:"name"`
		Type       string `json:"type"`
		Version    uint16 `json:"version"`
		Bytes      int64  `json:"bytes"`
		BufferSize uint64 `json:"buffer_size,omitempty"`
	}
	infoCalls struct {
		All        uint64 `json:"all"`
		Exited     uint64 `json:"exited"`
		TailExited uint64 `json:"tail_exited"`
		Left       uint64 `json:"left"`
		Inferred   uint64 `json:"inferred"`
		Open       uint64 `json:"open"`
		Unmatched  uint64 `json:"unmatched_exits"`
	}
	infoThread struct {
		File      int32  `json:"file"`
		Process   int32  `json:"process"`
		Thread    int32  `json:"thread"`
		Records   uint64 `json:"records"`
		Calls     uint64 `json:"calls"`
		Open      uint64 `json:"open"`
		Unmatched uint64 `json:"unmatched_exits"`
		First     uint64 `json:"first_tick"`
		Last      uint64 `json:"last_tick"`
		Name      string `json:"name,omitempty"`
	}
	infoFinding struct {
		Name   string `json:"name"`
		Text   string `json:"text"`
		Remedy string `json:"remedy"`
	}
	infoLoss struct {
		Cause   string `json:"cause"`
		File    string `json:"file"`
		Offset  int64  `json:"offset"`
		Bytes   int64  `json:"bytes"`
		Records int64  `json:"records"`
		Detail  string `json:"detail,omitempty"`
	}
)

func (o *infoOutput) json(w io.Writer) error {
	st := &o.Stats
	out := infoJSON{
		Frequency: o.clock.Frequency,
		Records:   st.Events,
		Kinds:     map[string]int64{},
		First:     st.First, Last: st.Last,
		Calls: infoCalls{
			All: st.Calls, Exited: o.Exited, TailExited: o.TailExited,
			Left: st.Left, Inferred: st.Inferred, Open: st.Truncated, Unmatched: st.Unmatched,
		},
		Functions: len(o.Funcs),
		MaxDepth:  st.MaxDepth,
		Threads:   []infoThread{},
		Findings:  []infoFinding{},
		Losses:    []infoLoss{},
		Recorded:  o.recordings(),
	}
	for i, name := range o.trace.Files() {
		h := o.trace.Header(i)
		out.Files = append(out.Files, infoFile{name, h.Type.String(), h.Version, o.trace.Size(i), h.BufferSize})
	}
	for kind, n := range o.Kinds {
		out.Kinds[reader.Kind(kind).String()] = int64(n)
	}
	for _, t := range o.Threads {
		out.Threads = append(out.Threads, infoThread{
			t.File, t.Process, t.Thread.Thread, t.Events, t.Entries, t.Open, t.Unmatched, t.First, t.Last, o.trace.ThreadName(t.Thread),
		})
	}
	for _, f := range o.findings {
		out.Findings = append(out.Findings, infoFinding(f))
	}
	for _, l := range o.trace.Losses().Samples() {
		out.Losses = append(out.Losses, infoLoss{l.Cause.String(), l.File, l.Offset, l.Bytes, l.Records, l.Detail})
	}
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	return e.Encode(out)
}
