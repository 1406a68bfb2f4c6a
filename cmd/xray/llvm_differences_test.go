package main

import (
	"encoding/json"
	"maps"
	"math"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/xray-tools/xray/cmd/xray/internal/cli"
	"github.com/xray-tools/xray/reader"
)

// recorderMetadata matches our recorder's metadata, which are custom events of process 0.
var recorderMetadata = regexp.MustCompile(`(?m)^  - \{ type: 0, func-id: 0, function: '0', cpu: 0,( thread: \d+,)? kind: custom-event, tsc: \d+, data: "XRYM.*\n`)

// notUTF8 matches a payload from its first byte that is not UTF-8. llvm-xray replaces such bytes by
// U+FFFD.
var notUTF8 = regexp.MustCompile(`(?m)(, data: "(?:[^\\"]|\\.)*?)(?:\x{FFFD}|\\x[89A-F][0-9A-F]).*" \}$`)

// difference is an entry of docs/dev/llvm-xray.md.
type difference struct {
	anchor string
	// corpus: only files of $XRAY_CORPUS show this difference.
	corpus bool
	// A difference has one of these. shown reports whether the difference explains all of what
	// differs in a run. removed deletes everything it affects from an output, so several can
	// apply together.
	shown   func(*sideBySide) bool
	removed func(*sideBySide, *output)
}

// explain reports whether the outputs are equal or which documented differences explain them.
func (r *sideBySide) explain() (names []string, ok bool) {
	r.theirs.stdout = strings.ReplaceAll(r.theirs.stdout, llvmXRay, "llvm-xray")
	r.theirs.stderr = strings.ReplaceAll(r.theirs.stderr, llvmXRay, "llvm-xray")
	if r.theirs == r.ours {
		return nil, true
	}
	var removing []difference
	for _, d := range differences {
		if d.removed != nil {
			removing = append(removing, d)
		} else if d.shown(r) {
			return []string{d.anchor}, true
		}
	}
	if !r.equalWithout(removing) {
		return nil, false
	}
	// Name only the differences that are needed.
	for i := 0; i < len(removing); {
		if others := slices.Delete(slices.Clone(removing), i, i+1); r.equalWithout(others) {
			removing = others
		} else {
			names = append(names, removing[i].anchor)
			i++
		}
	}
	return names, true
}

func (r *sideBySide) equalWithout(list []difference) bool {
	return r.sameBut(func(o *output) {
		for _, d := range list {
			d.removed(r, o)
		}
	})
}

// differences are tried in this order. Those after which nothing else of a run is comparable come
// first.
var differences = []difference{
	{anchor: "help", shown: func(r *sideBySide) bool {
		top := len(r.args) == 0 || strings.HasPrefix(r.args[0], "--")
		asked := top || r.has("--help", "--help-list") || strings.HasPrefix(r.args[0], "@")
		return asked && r.theirs.status == r.ours.status && r.theirs.stderr == r.ours.stderr && (top || strings.HasPrefix(r.ours.stdout, "OVERVIEW"))
	}},
	{anchor: "response-files", shown: func(r *sideBySide) bool {
		return strings.Contains(strings.Join(r.args, " "), "@") && r.theirs.status < 0 && r.ours.status == exitFailed && r.ours.stdout == ""
	}},
	{anchor: "did-you-mean", shown: func(r *sideBySide) bool {
		hint := regexp.MustCompile("Did you mean '.*'")
		return r.sameBut(func(o *output) { o.stderr = hint.ReplaceAllString(o.stderr, "") })
	}},
	{anchor: "standard-input", shown: func(r *sideBySide) bool {
		return r.has("-") && !r.has("-o") && r.theirs.status == 1
	}},
	{anchor: "yaml-versions", shown: func(r *sideBySide) bool {
		return r.refused() && r.some(func(f *facts) bool { return f.yaml && f.header.Version != 1 })
	}},
	{anchor: "empty-traces", shown: func(r *sideBySide) bool {
		return r.refused() && r.some(func(f *facts) bool { return f.readable && f.events == 0 })
	}},
	{anchor: "damage", shown: func(r *sideBySide) bool {
		return r.command() != "fdr-dump" && !strings.Contains(r.ours.stderr, "in the file twice") &&
			strings.Contains(r.ours.stderr, "llvm-xray: warning: ")
	}},
	{anchor: "blocks", shown: func(r *sideBySide) bool {
		return r.refused() && r.some(func(f *facts) bool { return f.readable && f.losses == 0 && f.header.Type == reader.FDR })
	}},
	{anchor: "error-texts", shown: func(r *sideBySide) bool {
		first := func(o *output) {
			if i := strings.Index(o.stderr, "llvm-xray: "); i >= 0 {
				o.stderr, _, _ = strings.Cut(o.stderr[i:], "\n")
			}
		}
		return r.theirs.status == 1 && (r.trace == "" || r.some(func(f *facts) bool { return !f.readable })) && r.sameBut(first)
	}},
	{anchor: "dump-anything", shown: func(r *sideBySide) bool {
		return r.command() == "fdr-dump" && (!r.facts().readable || r.facts().header.Type != reader.FDR)
	}},
	{anchor: "dump-damage", shown: func(r *sideBySide) bool {
		return r.command() == "fdr-dump" && (r.theirs.status == 1 || r.ours.status == 1)
	}},
	{anchor: "control-characters", removed: func(r *sideBySide, o *output) {
		if r.command() != "convert" {
			var text strings.Builder
			_, _ = cli.Text{Raw: &text}.Write([]byte(o.stdout))
			o.stdout = text.String()
		}
	}},
	{anchor: "recorder-metadata", removed: func(r *sideBySide, o *output) {
		if r.command() == "convert" && r.has("yaml", "-f=yaml") {
			o.stdout = recorderMetadata.ReplaceAllString(o.stdout, "")
		}
	}},
	{anchor: "payload-bytes", removed: func(r *sideBySide, o *output) {
		if r.command() == "convert" && r.has("yaml", "-f=yaml") {
			o.stdout = notUTF8.ReplaceAllString(o.stdout, `$1" }`)
		}
	}},
	{anchor: "duplicates", shown: func(r *sideBySide) bool {
		return strings.Contains(r.ours.stderr, "in the file twice")
	}},
	{anchor: "graph-diff-keep-going", shown: func(r *sideBySide) bool {
		return r.command() == "graph-diff" && r.has("-k") && r.theirs.status == 1 && r.ours.status == 0 &&
			strings.Contains(r.theirs.stderr, "Error encountered")
	}},
	{anchor: "accounting-order", shown: func(r *sideBySide) bool {
		f := r.facts()
		return r.command() == "account" && (f.beforeFirst || f.threads > 1 && f.header.Type == reader.FDR) &&
			strings.Contains(r.theirs.stderr, "Error processing record")
	}},
	{anchor: "clock-steps", shown: func(r *sideBySide) bool {
		return r.some(func(f *facts) bool { return f.stepsBack })
	}},
	{anchor: "processes", shown: func(r *sideBySide) bool {
		return r.some(func(f *facts) bool { return f.processes > 1 })
	}},
	{anchor: "maps-read", corpus: true, shown: func(r *sideBySide) bool {
		return r.theirs.status == 1 && r.ours.status == 0 && strings.Contains(r.theirs.stderr, "instrumentation map")
	}},
	{anchor: "object-files", corpus: true, shown: func(r *sideBySide) bool {
		return r.command() == "extract" && strings.HasSuffix(r.args[len(r.args)-1], ".o")
	}},
	{anchor: "yaml-names", shown: func(r *sideBySide) bool {
		return r.withMap(".yaml") && strings.Contains(r.theirs.stdout, "@(") && !strings.Contains(r.ours.stdout, "@(") &&
			strings.Count(r.theirs.stdout, "\n") == strings.Count(r.ours.stdout, "\n")
	}},
	{anchor: "graph-diff-maps", shown: func(r *sideBySide) bool {
		return r.command() == "graph-diff" && r.has("-m") && r.theirs.status == r.ours.status
	}},
	{anchor: "locations", removed: func(r *sideBySide, o *output) {
		if r.has("-m") {
			o.stdout = regexp.MustCompile(`[\w.+-]+:\d+:\d+`).ReplaceAllString(o.stdout, "")
		}
	}},
	{anchor: "raw", shown: func(r *sideBySide) bool {
		return r.command() == "convert" && !r.has("-f", "-f=yaml", "--output-format") && (r.facts().header.Type == reader.FDR || r.facts().typed) &&
			len(r.theirs.stdout) == len(r.ours.stdout)
	}},
	{anchor: "typed-events", removed: func(r *sideBySide, o *output) {
		if r.facts().typed {
			o.stdout = regexp.MustCompile(`\{ type: \d+`).ReplaceAllString(o.stdout, "{ type: 0")
			o.stderr = regexp.MustCompile(`\{type: \d+`).ReplaceAllString(o.stderr, "{type: 0")
		}
	}},
	{anchor: "old-process-ids", corpus: true, removed: func(r *sideBySide, o *output) {
		if h := r.facts().header; h.Type == reader.Basic && h.Version < 3 {
			o.stdout = regexp.MustCompile(`process: \d+, |"pid" : "\d+"`).ReplaceAllString(o.stdout, "")
			o.stderr = regexp.MustCompile(`process-id: \d+`).ReplaceAllString(o.stderr, "")
		}
	}},
	{anchor: "dot-names", removed: func(r *sideBySide, o *output) {
		if strings.HasPrefix(r.command(), "graph") {
			o.stdout = regexp.MustCompile(`"(F-\d+)"`).ReplaceAllString(o.stdout, "$1")
			o.stdout = regexp.MustCompile(`\\([^n])`).ReplaceAllString(o.stdout, "$1")
		}
	}},
	{anchor: "csv-names", removed: func(r *sideBySide, o *output) {
		if r.command() == "account" {
			o.stdout = regexp.MustCompile(`"+`).ReplaceAllString(o.stdout, `"`)
		}
	}},
	{anchor: "flame-values", shown: (*sideBySide).flameValues},
	{anchor: "stack-files", shown: func(r *sideBySide) bool {
		return r.command() == "stack" && len(r.args) > 2 && r.args[len(r.args)-1] == r.args[len(r.args)-2]
	}},
	{anchor: "stack-callers", shown: func(r *sideBySide) bool {
		return r.has("-aggregate-threads") && r.facts().threads > 1 && r.sameWeights()
	}},
	// The lists begin with the same numbers, but order and cut off equal stacks differently.
	{anchor: "stack-ties", shown: func(r *sideBySide) bool {
		return (!r.has("-aggregate-threads") || r.facts().threads == 1) && r.sameWeights()
	}},
	{anchor: "leaves", shown: func(r *sideBySide) bool {
		return r.command() == "stack" && !r.has("flame", "--stack-format=flame") && r.facts().threads > 1 && r.ours.status == 0 && r.theirs.status == r.ours.status
	}},
	{anchor: "record-type", removed: func(r *sideBySide, o *output) {
		if r.command() == "stack" {
			o.stderr = strings.ReplaceAll(o.stderr, `RecordType: "Fn Entry"`, `RecordType: "Fn Exit"`)
		}
	}},
	{anchor: "trace-events", shown: (*sideBySide).traceEvents},
	{anchor: "sort-func", removed: func(r *sideBySide, o *output) {
		if r.has("--sort=func") {
			o.stdout = sorted(o.stdout)
		}
	}},
	{anchor: "crash", shown: func(r *sideBySide) bool {
		return r.theirs.status < 0 && r.ours.status == 0
	}},
	{anchor: "order", removed: func(r *sideBySide, o *output) {
		if !r.has("--sort=func") && r.command() != "extract" {
			o.stdout = sorted(unnumbered(o.stdout))
		}
	}},
	{anchor: "error-threads", removed: func(r *sideBySide, o *output) {
		o.stderr = regexp.MustCompile(`(?m)^(Thread ID: \d+|  \(empty stack\)|( ?  )?#\d+\t.*)\n`).ReplaceAllString(o.stderr, "")
		o.stderr = regexp.MustCompile(`Thread ID: \d+\n?`).ReplaceAllString(o.stderr, "")
	}},
}

// sameBut reports whether the outputs are equal after change has edited both.
func (r *sideBySide) sameBut(change func(*output)) bool {
	theirs, ours := r.theirs, r.ours
	change(&theirs)
	change(&ours)
	return theirs == ours
}

// sameWeights reports whether both list stacks with the same weights.
func (r *sideBySide) sameWeights() bool {
	rows := regexp.MustCompile(`(?m)^(#|lvl).*\n`)
	return r.command() == "stack" && strings.Contains(r.ours.stdout, "Unique Stacks") && r.sameBut(func(o *output) {
		o.stdout, o.stderr = rows.ReplaceAllString(o.stdout, ""), ""
	})
}

// refused reports whether llvm-xray could not load a trace.
func (r *sideBySide) refused() bool {
	text := strings.ToLower(r.theirs.stderr)
	return r.command() != "fdr-dump" && r.command() != "extract" && r.theirs.status == 1 &&
		(strings.Contains(text, "failed loading") || strings.Contains(text, "no instrumented calls"))
}

// withMap reports whether names come from a file with this suffix.
func (r *sideBySide) withMap(suffix string) bool {
	i := slices.Index(r.args, "-m")
	return i >= 0 && filepath.Ext(r.args[i+1]) == suffix || r.command() == "extract" && filepath.Ext(r.args[len(r.args)-1]) == suffix
}

// sorted sorts the lines of a text.
func sorted(s string) string {
	lines := strings.Split(s, "\n")
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

var diffVertex = regexp.MustCompile(`(?m)^F\d+ (-> F\d+ )?\[`)

// unnumbered deletes vertex numbers from the output of graph-diff. Names identify the vertices.
func unnumbered(s string) string {
	if !strings.HasPrefix(s, "digraph xrayDiff") {
		return s
	}
	return diffVertex.ReplaceAllString(s, "F [")
}

// flameValues reports whether our folded stacks, which hold self values, add up to llvm-xray's,
// which are inclusive and end in a semicolon.
func (r *sideBySide) flameValues() bool {
	if r.command() != "stack" || !r.has("flame", "--stack-format=flame") || r.theirs.status != 0 || r.ours.status != 0 {
		return false
	}
	theirs, ours := folded(r.theirs.stdout), folded(r.ours.stdout)
	if r.has("-aggregation-type=count") {
		return maps.Equal(theirs, ours)
	}
	inclusive := map[string]uint64{}
	for path, self := range ours {
		for {
			inclusive[path] += self
			i := strings.LastIndexByte(path, ';')
			if i < 0 {
				break
			}
			path = path[:i]
		}
	}
	for path, v := range theirs {
		// Neither counts time of calls that are open at the end. Calls inside them do
		// count, so our sum may be larger.
		if v > inclusive[path] {
			return false
		}
	}
	return true
}

func folded(s string) map[string]uint64 {
	values := map[string]uint64{}
	for line := range strings.Lines(s) {
		path, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		n, err := strconv.ParseUint(value, 10, 64)
		if err != nil {
			return nil
		}
		values[strings.TrimSuffix(path, ";")] += n
	}
	return values
}

// traceEvents reports whether our trace events match llvm-xray's, except for its bugs: timestamps
// rounded to doubles or INF, invalid JSON, calls that never end, and an unmatched exit that ends
// all calls.
func (r *sideBySide) traceEvents() bool {
	if !r.has("trace_event") || r.theirs.status != 0 || r.ours.status != 0 {
		return false
	}
	type event struct{ Name, Ph, Tid, Pid, Ts, Sf string }
	type trace struct{ TraceEvents []event }
	var theirs, ours trace
	if json.Unmarshal([]byte(r.ours.stdout), &ours) != nil {
		return false
	}
	if json.Unmarshal([]byte(r.theirs.stdout), &theirs) != nil {
		return true
	}
	// Compare begin events, which must have the same order within each thread.
	begins := func(t trace) map[string][]event {
		by := map[string][]event{}
		for _, e := range t.TraceEvents {
			if e.Ph == "B" {
				e.Sf = ""
				by[e.Tid] = append(by[e.Tid], e)
			}
		}
		return by
	}
	a, b := begins(theirs), begins(ours)
	for tid := range a {
		if len(a[tid]) != len(b[tid]) {
			return false
		}
		for i := range a[tid] {
			x, y := a[tid][i], b[tid][i]
			tx, _ := strconv.ParseFloat(x.Ts, 64)
			ty, _ := strconv.ParseFloat(y.Ts, 64)
			x.Ts, y.Ts = "", ""
			if r.withMap(".yaml") {
				x.Name, y.Name = "", ""
			}
			if x != y || !math.IsInf(tx, 0) && math.Abs(tx-ty) > 1 {
				return false
			}
		}
	}
	return len(a) == len(b)
}
