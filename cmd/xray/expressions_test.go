package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// TestExpressions checks that each flag with a regular expression for functions matches the names
// that reports show, and also full names.
func TestExpressions(t *testing.T) {
	t.Parallel()
	var text strings.Builder
	text.WriteString("xray fdr\n")
	for thread := range 3 {
		fmt.Fprintf(&text, "thread %d pid=7 tsc=%d\n", thread+1, 1000*thread+1000)
		for i := range 500 {
			slow := 1000 * (1 + i%25/24*200)
			fmt.Fprintf(&text, "enter-arg 1 +100\narg %d\nenter-arg 2 +10\narg 16\nexit 2 +%d\n", i, slow)
			fmt.Fprintf(&text, "enter-arg 4 +10\narg %d\nexit 4 +500\nenter-arg 3 +10\narg 16\nexit 3 +20\nexit 1 +10\n", i%25)
		}
	}
	trace := textTrace(t, text.String())
	names := filepath.Join(t.TempDir(), "map.yaml")
	var table strings.Builder
	table.WriteString("---\n")
	for i, name := range []string{"_Z5servei", "_Z4grabi", "_Z4dropi", "_Z5pausei"} {
		fmt.Fprintf(&table, "- { id: %d, address: %#x, function: %#[2]x, kind: function-enter, always-instrument: false, function-name: %q }\n", i+1, 4096*(i+1), name)
	}
	if err := os.WriteFile(names, []byte(table.String()), 0o666); err != nil {
		t.Fatal(err)
	}
	functions := map[string]string{"wait": "grab", "lock": "grab", "unlock": "drop", "cond": "pause", "arg": "pause"}
	more := map[string][]string{
		"why --arg":         {"--root", "serve", "--format", "json", "--slow", "p96"},
		"why --wait":        {"--root", "serve", "--format", "json"},
		"why --unlock":      {"--root", "serve", "--wait", "grab", "--format", "json"},
		"exclude --wait":    {"--budget", "0%"},
		"exclude --unlock":  {"--budget", "0%"},
		"exclude --keep":    {"--budget", "0%"},
		"slowest --lock":    {"--root", "serve", "--unlock", "drop"},
		"slowest --unlock":  {"--root", "serve", "--lock", "grab"},
		"slowest --cond":    {"--root", "serve", "--lock", "grab", "--unlock", "drop"},
		"locks --unlock":    {"--lock", "grab"},
		"locks --cond":      {"--lock", "grab", "--unlock", "drop"},
		"shapes --root":     {"--top", "5"},
		"residency --wait":  {"--gap", "1us"},
		"diff --gate":       {"--seed", "1"},
		"convert --func":    {"-f", "csv"},
		"slice --root":      {"-o", "-", "--slow", ">100us"},
		"sql --func":        {"SELECT function, count(*) FROM calls GROUP BY function"},
		"summarize --func":  {"-o", "-"},
		"graph-diff --func": {trace},
	}
	// These record, which TestFilterMatchesShortNames covers, or show something until they are ended.
	others := map[string]bool{"record": true, "watch": true, "top": true, "ctl": true, "view": true, "tui": true}
	// In this trace, these have no effect. They are the flags of exclude and locks.
	elsewhere := map[string]bool{"why --unlock": true, "slowest --lock": true, "slowest --unlock": true, "slowest --cond": true}
	tried := 0
	var visit func(cmd *cobra.Command)
	visit = func(cmd *cobra.Command) {
		for _, sub := range cmd.Commands() {
			visit(sub)
		}
		name := strings.TrimPrefix(cmd.CommandPath(), "xray ")
		cmd.LocalNonPersistentFlags().VisitAll(func(f *pflag.Flag) {
			value, usage := pflag.UnquoteUsage(f)
			if f.Hidden || others[strings.Fields(name)[0]] || value != "REGEXP" && f.Name != "gate" || !strings.Contains(usage, "unction") && f.Name != "gate" {
				return
			}
			key := name + " --" + f.Name
			function := functions[f.Name]
			if function == "" {
				function = "serve"
			}
			outputs := map[string]string{}
			for form, expression := range map[string]string{"short": "^" + function + "$", "full": "^" + function + `\(int\)$`, "none": "^nothing$"} {
				if f.Name == "gate" {
					expression = "total:" + expression + ":+5%"
				}
				args := append([]string{"xray", name, "-m", names, "--" + f.Name, expression, trace}, more[key]...)
				if name == "diff" {
					args = append(args, "--", trace)
				}
				var stdout, stderr bytes.Buffer
				status := run(args, strings.NewReader(""), &stdout, &stderr)
				outputs[form] = strings.ReplaceAll(stdout.String(), expression, "")
				if form != "none" && (status != 0 && f.Name != "gate" || strings.Contains(stderr.String(), "matches")) {
					t.Errorf("%v: status %d: %s", args, status, stderr.String())
				}
			}
			tried++
			if outputs["short"] != outputs["full"] {
				t.Errorf("%s: the short name gives\n%s\nand the full name\n%s", key, outputs["short"], outputs["full"])
			}
			if outputs["short"] == outputs["none"] && !elsewhere[key] {
				t.Errorf("%s: the expression has no effect:\n%s", key, outputs["short"])
			}
		})
	}
	visit(new(app).root())
	if tried < 25 {
		t.Errorf("only %d flags have an expression", tried)
	}
}
