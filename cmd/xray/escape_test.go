package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/xray-tools/xray/reader"
)

// evil is a name with escape sequences, direction overrides and line breaks.
const evil = "evil\x1b[31m\x1b]8;;http://x\x07l\u009bm\u0085\u202e\u2067\r\nINJECTED\n\tb"

// hostileTrace writes a trace in which every text is hostile. With packed, names are packed
// into the trace. Without, they come from an object whose path is hostile, too.
func hostileTrace(t *testing.T, packed bool) string {
	t.Helper()
	var text strings.Builder
	text.WriteString("xray fdr frequency=1000000000 free=5852594d46445231\nthread 0 tsc=1000\n")
	metadata := func(kind int, v any) {
		body, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&text, "metadata %d %q\n", kind, body)
	}
	metadata(1, reader.Process{PID: 700, Exe: "/" + evil, Argv: []string{evil, evil}, Host: evil, Mode: evil, Recorder: evil, BuildID: evil})
	metadata(2, map[string]any{"objects": []reader.Object{
		{First: 1, Count: 5, Path: "/" + evil, BuildID: "1b\x1b[31m", State: evil, Why: evil},
		{Path: "/refused" + evil, State: "refused", Why: evil},
	}})
	metadata(3, map[string]any{"threads": []reader.ThreadInfo{{PID: 700, TID: 701, Name: evil}, {PID: 700, TID: 702, Name: evil + "2"}}})
	metadata(5, map[string]any{"losses": []reader.RecordedLoss{{Cause: evil, Count: 3}}, "refusals": []reader.Refusal{{Path: evil, Why: evil}}})
	metadata(8, map[string]any{"changes": []reader.Change{{TSC: 1500, What: evil}}})
	if packed {
		var functions []reader.NamedFunction
		for id := range reader.FuncID(5) {
			functions = append(functions, reader.NamedFunction{ID: id + 1, Name: fmt.Sprint(id+1, evil), File: evil, Line: 3, Object: evil})
		}
		metadata(10, map[string]any{"functions": functions})
	}
	for thread := 701; thread <= 702; thread++ {
		fmt.Fprintf(&text, "thread %d pid=700 tsc=1000\n", thread)
		for i := range 60 {
			fmt.Fprintf(&text, "metadata 17 %q\n", "\x09\x00\x00\x00\x00\x00\x00\x00"+evil)
			fmt.Fprintf(&text, "enter 1 +100\nenter 2 +10\nexit 2 +%d\nenter 3 +5\nexit 3 +5\nexit 1 +1\n", 50+i%10*i)
			fmt.Fprintf(&text, "metadata 16 %q\ncustom %q\ntyped 3 %q\n", evil, evil, evil)
		}
		text.WriteString("bytes ff\n")
	}
	path := textTrace(t, text.String())
	return path
}

// checkPrinted fails if text can control a terminal or, with oneLine, if a name starts a line of
// its own.
func checkPrinted(t *testing.T, what, text string, oneLine bool) {
	t.Helper()
	if !utf8.ValidString(text) {
		t.Errorf("%s: invalid UTF-8", what)
	}
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		bad := func(r rune) bool {
			return unicode.IsControl(r) && r != '\t' || r >= 0x202a && r <= 0x202e || r >= 0x2066 && r <= 0x2069
		}
		if strings.ContainsFunc(line, bad) {
			t.Errorf("%s: %q", what, line)
			return
		}
		if oneLine && strings.HasPrefix(strings.TrimLeft(line, " |"), "INJECTED") {
			t.Errorf("%s: a name starts a line of its own", what)
			return
		}
	}
}

// TestHostileNames checks that every command escapes names from the trace.
func TestHostileNames(t *testing.T) {
	folder := t.TempDir()
	yamlMap := filepath.Join(folder, "map.yaml")
	name, err := json.Marshal(evil) // JSON strings are valid YAML
	if err != nil {
		t.Fatal(err)
	}
	var sleds strings.Builder
	for id := 1; id <= 5; id++ {
		for _, kind := range []string{"function-enter", "function-exit"} {
			fmt.Fprintf(&sleds, "- { id: %d, address: 0x%x, function: 0x%x, kind: %s, always-instrument: false, function-name: %s }\n",
				id, 16*id, 16*id, kind, name)
		}
	}
	if err := os.WriteFile(yamlMap, []byte(sleds.String()), 0o666); err != nil {
		t.Fatal(err)
	}
	// A command that is not here must be in silent: it prints nothing from a trace.
	runs := map[string][]string{
		"info":       {"TRACE"},
		"account":    {"TRACE", "--hist"},
		"stack":      {"TRACE"},
		"why":        {"--root", "1evil", "TRACE", "--slow", "p50"},
		"graph":      {"TRACE"},
		"graph-diff": {"TRACE", "TRACE"},
		"diff":       {"TRACE", "--", "TRACE"},
		"slowest":    {"--root", "1evil", "TRACE"},
		"exclude":    {"--budget", "0.01%", "TRACE"},
		"requests":   {"--id", "event", "TRACE"},
		"shapes":     {"--root", "1evil", "TRACE"},
		"locks":      {"TRACE"},
		"residency":  {"TRACE"},
		"report":     {"TRACE"},
		"sql":        {"TRACE", "SELECT * FROM calls JOIN events USING (thread), traces LIMIT 9"},
		"slice":      {"-o", filepath.Join(folder, "slice.xray"), "TRACE"},
		"pack":       {"-o", filepath.Join(folder, "pack.xray"), "--source", "TRACE"},
		"convert":    {"-f", "chrome", "-o", filepath.Join(folder, "chrome.json"), "TRACE"},
		"summarize":  {"-o", filepath.Join(folder, "sums.parquet"), "TRACE"},
		"html":       {"-o", filepath.Join(folder, "page.html"), "TRACE"},
		"extract":    {"--format", "text", yamlMap},
		"symbolize":  {"--trace", "TRACE", "1", "2"},
		"fdr-dump":   {"TRACE"},
		"io":         {"TRACE"},
		"alloc":      {"TRACE"},
		// merge-sched refuses these files, and its error may contain names.
		"merge-sched": {"TRACE", yamlMap, "--clock", "monotonic", "-o", filepath.Join(folder, "merged.xray")},
	}
	refused := map[string]bool{"merge-sched": true}
	silent := map[string]bool{"build": true, "doctor": true, "view": true, "record": true, "ctl": true, "core": true, "runtime": true, "man": true, "help": true, "completion": true, "observe": true, "follow-sched": true, "watch": true, "top": true, "tui": true}
	for _, packed := range []bool{true, false} {
		trace := hostileTrace(t, packed)
		for _, cmd := range (&app{}).root().Commands() {
			args, ok := runs[cmd.Name()]
			if !ok {
				if !silent[cmd.Name()] {
					t.Errorf("%s: add the command to runs, or to silent if it prints nothing from a trace", cmd.Name())
				}
				continue
			}
			forms := []string{""}
			if f := cmd.Flags().Lookup("format"); f != nil && cmd.Name() != "convert" && args[0] != "--format" {
				forms = append(forms, "text", "markdown")
			}
			for _, form := range forms {
				line := []string{"xray", cmd.Name()}
				for _, arg := range args {
					line = append(line, strings.ReplaceAll(arg, "TRACE", trace))
				}
				if form != "" {
					line = append(line, "--format", form)
				}
				out := runHere(line...)
				if form == "" && (out.status != 0) != refused[cmd.Name()] && packed {
					t.Errorf("%s: %v", line, out)
				}
				checkPrinted(t, strings.Join(line[1:], " "), out.stdout, true)
				checkPrinted(t, strings.Join(line[1:], " ")+": standard error", out.stderr, true)
			}
		}
		// In llvm-xray mode, line breaks are as in LLVM's output.
		for _, line := range [][]string{
			{"account", trace, "-m", yamlMap}, {"stack", trace, "-m", yamlMap}, {"graph", trace, "-m", yamlMap}, {"extract", yamlMap}, {"fdr-dump", trace},
		} {
			out := runHere(append([]string{"llvm-xray"}, line...)...)
			checkPrinted(t, "llvm-xray "+line[0], out.stdout, false)
			checkPrinted(t, "llvm-xray "+line[0]+": standard error", out.stderr, false)
		}
	}
}

// This list has every place that writes to standard output or error without escaping.
func TestRawOutputs(t *testing.T) {
	raw := map[string]int{
		"internal/cli/text.go": 2, "internal/cli/output.go": 1, "internal/cli/progress.go": 7, "internal/cli/page.go": 3,
		"internal/session/output.go": 1, "internal/web/web.go": 1,
		"internal/launch/instrument.go": 1, "internal/launch/launch.go": 1, "internal/launch/piped.go": 2, "internal/launch/program.go": 3, "internal/launch/sched.go": 1,
		"internal/watch/watching.go": 2, "internal/top/tables.go": 1, "internal/browse/browse.go": 1,
		"residency.go": 1, "main.go": 3,
	}
	var files []string
	for _, pattern := range []string{"*.go", "internal/*/*.go"} {
		found, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, found...)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if n := len(regexp.MustCompile(`\.Raw\b|os\.Std(out|err)`).FindAll(text, -1)); n != raw[file] && !strings.HasSuffix(file, "_test.go") {
			t.Errorf("%s: got %d raw outputs, want %d; write text through cli.Text or Streams.WriteText", file, n, raw[file])
		}
	}
}
