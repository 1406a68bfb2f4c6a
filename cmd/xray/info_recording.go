package main

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/xray-tools/xray/internal/survey"
	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/symbolize"
)

// recorder tells what the recorder of a file says about the process.
func (o *infoOutput) recorder(w io.Writer, file int) {
	r := o.trace.Recording(file)
	if r == nil {
		return
	}
	defer o.packed(w, r)
	if r.Foreign() {
		return
	}
	p := &r.Process
	on := ""
	if p.Host != "" {
		on = " on " + p.Host
	}
	textf(w, "  recorder   of xray, version %s\n", cmp.Or(p.Recorder, "unknown"))
	textf(w, "  process    %d%s, user %d, child of %d\n", p.PID, on, p.UID, p.PPID)
	textf(w, "  program    %s\n", cmp.Or(p.Exe, "unknown"))
	if len(p.Argv) > 0 {
		textf(w, "  command    %s\n", commandLine(p.Argv))
	}
	textf(w, "  mode       %s\n", modeOf(p))
	if n := r.Pruned.Calls(); n > 0 {
		textf(w, "  pruned     calls %s of %s, of which only the sums are known\n",
			thousands(n), plural(int64(len(r.Pruned.Functions)), "function", "functions"))
	}
	o.profiled(w, r)
	for _, c := range r.Changes {
		textf(w, "  changed    %s%s\n", c.What, o.when(r, c.TSC))
	}
}

// packed says what `xray pack` put into a file.
func (o *infoOutput) packed(w io.Writer, r *reader.Recording) {
	if len(r.Functions) == 0 {
		return
	}
	text := plural(int64(len(r.Functions)), "function", "functions")
	if len(r.Sources) > 0 {
		files := make(map[string]bool)
		for i := range r.Sources {
			files[r.Sources[i].File] = true
		}
		text += ", source of " + plural(int64(len(files)), "file", "files")
	}
	textf(w, "  packed     names of %s\n", text)
}

// commandLine quotes arguments so that they can be told apart.
func commandLine(argv []string) string {
	words := make([]string, len(argv))
	for i, arg := range argv {
		words[i] = arg
		if arg == "" || strings.ContainsFunc(arg, func(r rune) bool { return r <= ' ' || !strconv.IsPrint(r) || strings.ContainsRune("\"'\\", r) }) {
			words[i] = strconv.Quote(arg)
		}
	}
	return strings.Join(words, " ")
}

func modeOf(p *reader.Process) string {
	text := cmp.Or(p.Mode, "unknown")
	if p.ThresholdNS > 0 {
		text += ", calls of at least " + reader.Clock{Frequency: 1e9}.Format(p.ThresholdNS)
	}
	if p.Depth > 0 {
		text += fmt.Sprintf(", %d deep at most", p.Depth)
	}
	return text
}

// when is the wall-clock time of a TSC, as an addition to a line; "" when it is not
// known.
func (o *infoOutput) when(r *reader.Recording, tsc uint64) string {
	if r == nil {
		return ""
	}
	ns, ok := r.Clock.Realtime(tsc)
	if !ok {
		return ""
	}
	return ", " + time.Unix(int64(ns/1e9), int64(ns%1e9)).UTC().Format("2006-01-02 15:04:05.000000 UTC")
}

// objects lists what the ids of the trace are of.
func (o *infoOutput) objects(w io.Writer) {
	objects, _, err := o.trace.Objects()
	if err != nil || len(objects) == 0 {
		return
	}
	fmt.Fprintln(w)
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(tw, "  object\tfunctions\tfirst id\tbuild id\tnames\tfile")
	for i, object := range objects {
		names := "yes"
		if slices.ContainsFunc(o.missing, func(m symbolize.Missing) bool { return m.Number == i && !m.Given }) {
			names = "no"
		}
		path := object.Path
		if object.Unloaded != 0 {
			path += " (closed)"
		}
		id := object.BuildID
		textf(tw, "  %d\t%s\t%d\t%s\t%s\t%s\n", i, thousands(uint64(object.Count)), object.First,
			cmp.Or(id[:min(len(id), 12)], "none"), names, path)
	}
	tw.Flush()
}

// profiled says how large the profiles of a file are.
func (o *infoOutput) profiled(w io.Writer, r *reader.Recording) {
	if len(r.Profiles) == 0 {
		return
	}
	paths := 0
	for i := range r.Profiles {
		paths += len(r.Profiles[i].Paths)
	}
	textf(w, "  profile    %s calls, %s, %s\n", thousands(summed(r)), plural(int64(paths), "path", "paths"),
		plural(int64(len(r.Profiles)), "thread", "threads"))
}

// maxInfoCounts bounds the table of counts in text.
const maxInfoCounts = 20

// counts lists what was called most, where calls were only counted.
func (o *infoOutput) counts(w io.Writer) {
	counters := o.counters()
	if len(counters) == 0 {
		return
	}
	var all uint64
	for _, c := range counters {
		all += c.Calls
	}
	textf(w, "  counted    %s calls of %s functions\n\n", thousands(all), thousands(uint64(len(counters))))
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(tw, "  calls\t  function")
	for i, c := range counters {
		if i == maxInfoCounts {
			textf(w, "  ... and %s more, in --format json\n", thousands(uint64(len(counters)-i)))
			break
		}
		textf(tw, "  %s\t  %s\n", thousands(c.Calls), symbolize.Label(o.names, c.Func))
	}
	tw.Flush()
}

// counters are those of all files, the largest first.
func (o *infoOutput) counters() []reader.Counter {
	var all []reader.Counter
	for i := range o.trace.Files() {
		if r := o.trace.Recording(i); r != nil {
			all = append(all, r.Counters...)
		}
	}
	slices.SortFunc(all, func(a, b reader.Counter) int {
		return cmp.Or(cmp.Compare(b.Calls, a.Calls), cmp.Compare(a.Func, b.Func))
	})
	return all
}

// missingFindings say which objects have no names, or perhaps wrong ones, and why.
func (s *session) missingFindings() []survey.Finding {
	var all []survey.Finding
	for _, m := range s.missing {
		f := survey.Finding{
			Name:   "missing-object",
			Text:   fmt.Sprintf("no names for object %d: %v", m.Number, m.Err),
			Remedy: fmt.Sprintf("give the file with -m %d=FILE, or where to look with --sysroot or --symbols", m.Number),
		}
		if m.Changed {
			f.Name = "changed-object"
			f.Text = fmt.Sprintf("no names for object %d: %s is not what was recorded: %v", m.Number, m.Path, m.Err)
		}
		if m.Given {
			f.Text = fmt.Sprintf("names of object %d may be wrong: %s is not what was recorded: %v", m.Number, m.Path, m.Err)
		}
		all = append(all, f)
	}
	return all
}

// The JSON of what a recorder says. Times are ticks unless their names say more.
type (
	infoRecording struct {
		File     string                `json:"file"`
		Process  reader.Process        `json:"process"`
		Objects  []reader.Object       `json:"objects"`
		Threads  []reader.ThreadInfo   `json:"threads"`
		Clock    reader.RecordedClock  `json:"clock"`
		Losses   []reader.RecordedLoss `json:"losses"`
		Refusals []reader.Refusal      `json:"refusals"`
		Changes  []reader.Change       `json:"changes"`
		Counters []infoCounter         `json:"counters"`
		Profiles []infoProfile         `json:"profiles"`
		Pruned   []infoPruned          `json:"pruned,omitempty"`
	}
	infoPruned struct {
		ID       reader.FuncID `json:"id"`
		Function string        `json:"function"`
		Calls    uint64        `json:"calls"`
		Ticks    uint64        `json:"ticks"`
	}
	infoProfile struct {
		Process int32  `json:"process"`
		Thread  int32  `json:"thread"`
		Paths   int    `json:"paths"`
		Lost    uint64 `json:"lost"` // calls without a path
	}
	infoCounter struct {
		ID       reader.FuncID `json:"id"`
		Function string        `json:"function"`
		Calls    uint64        `json:"calls"`
	}
)

func (o *infoOutput) recordings() []infoRecording {
	var list []infoRecording
	for i, name := range o.trace.Files() {
		r := o.trace.Recording(i)
		if r == nil {
			continue
		}
		out := infoRecording{File: name, Process: r.Process, Objects: r.Objects, Threads: r.Threads, Clock: r.Clock,
			Losses: r.Losses, Refusals: r.Refusals, Changes: r.Changes, Counters: []infoCounter{}, Profiles: []infoProfile{}}
		for _, p := range r.Profiles {
			out.Profiles = append(out.Profiles, infoProfile{p.Process, p.Thread, len(p.Paths), p.Lost})
		}
		for _, c := range r.Counters {
			out.Counters = append(out.Counters, infoCounter{c.Func, symbolize.Label(o.names, c.Func), c.Calls})
		}
		for _, f := range r.Pruned.Functions {
			out.Pruned = append(out.Pruned, infoPruned{f.Func, symbolize.Label(o.names, f.Func), f.Calls, f.Ticks})
		}
		list = append(list, out)
	}
	return list
}
