package main

import (
	"encoding/csv"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// reportRuns are commands whose reports on recorded traces have all keys between them.
var reportRuns = []string{
	"alloc journal-recorded.xray",
	"account --per-thread --probe-cost 1ns..20ns --objects -m kvserver kvserver-fdr.xray",
	"account -m kvserver kvserver-fdr.xray",
	"doctor kvserver",
	"diff -m kvserver --root ^kv::handle --gate p99:+500% kvserver-fdr.xray -- kvserver-fdr.xray",
	"exclude -m kvserver --budget 4% kvserver-fdr.xray",
	"extract --stats kvserver",
	"graph -m kvserver --min-share 1 kvserver-fdr.xray",
	"graph-diff -m1 clang14.yaml -m2 clang19.yaml clang14-fdr.xray clang19-fdr.xray",
	"info kvserver-recorded.xray",
	"info typed-event-fdr.xray",
	"io journal-recorded.xray",
	"locks -m locks.yaml locks-basic.xray",
	`requests -m pipeline.yaml --id-func ^(accept|handle|reply) --class method=(\w+) pipeline-fdr.xray`,
	"residency -m kvserver --cells 20 kvserver-fdr.xray",
	"shapes -m kvserver --root ^kv::handle kvserver-fdr.xray",
	"slowest -m kvserver --root ^kv::handle kvserver-fdr.xray",
	"stack --per-thread -m kvserver kvserver-fdr.xray",
	"why -m kvserver --root ^kv::handle --slow p97 kvserver-fdr.xray",
}

// rareKeys are keys of tables that are empty in these reports, for example those of why about waits
// and associations.
var rareKeys = map[string][]string{
	// Traces that record when threads were off CPU.
	"account": {"same_address", "others", "on_cpu_ns", "blocked_ns", "queued_ns", "total_blocked_ns", "total_queued_ns", "recorder_ns", "total_recorder_ns", "interrupted_ns", "total_interrupted_ns",
		// Recordings within a budget.
		"all_calls", "margin", "all_total_ns", "total_margin_ns", "counted", "estimated"},
	"io":        {"blocked_ns", "queued_ns", "error"},
	"stack":     {"on_cpu_ns", "blocked_ns", "queued_ns", "recorder_ns", "max_ns", "min_ns", "p50_ns", "p99_ns"},
	"residency": {"queued_ns", "recorder_ns"},
	"slowest":   {"on_cpu_ns", "blocked_ns", "queued_ns", "recorder_ns"},
	// Traces with scheduler events.
	"locks": {"by_waker_ns", "queued_ns", "woken_count", "woken_ns"},
	"requests": {
		"blocked_difference_ns", "blocked_ns", "queued_difference_ns", "queued_ns", "sleeps", "waker_file", "waker_function", "waker_function_id",
		"waker_key", "waker_process", "waker_thread", "waker_thread_name", "woken_by",
	},

	"info": {"folded_calls", "lost_calls", "counted", "estimated", "standard_error", "calls_per_second", "mean_ns", "mean_error_ns", "off_ns", "to"},
	// Traces with recorded arguments.
	"diff": {"expression", "value", "function", "self_outcome", "total_outcome", "p50_outcome"},
	// A running process.
	"top": {
		"interval", "time", "observed_ns", "seen_share", "missing_calls", "cost_share", "functions", "count", "calls_per_second", "self_per_second_ns", "total_per_second_ns",
		"cpu_per_second_ns", "blocked_per_second_ns", "p50_ns", "p99_ns", "max_ns", "function", "function_id",
	},
	"why": {"blocked", "blocked_ns", "cause", "doubt", "ends_with", "error", "errors", "evidence", "expected", "faulted", "instead", "needed", "of", "period_ns", "preempted", "preempted_ns", "recorder",
		"scope", "scope_id", "self_share", "holder_blocked", "holder_queued", "slow_blocked_ns", "slow_cpu_ns", "slow_queued_ns", "task", "text", "usual_blocked_ns", "usual_cpu_ns", "usual_queued_ns", "value",
		"failed", "name", "by", "interrupt", "quota", "cgroup", "quota_ns", "periods", "throttled_ns", "event_loop", "callback", "callback_id", "busy", "busy_id", "turns", "took_ns", "waited_ns", "longest_ns", "interrupted", "slow_interrupted_ns", "usual_interrupted_ns",
		// Traces with recorded arguments.
		"conditions", "expression", "result", "length", "op", "sample", "rank_correlation", "power", "each_ns", "explained",
		// Traces of several hosts.
		"hosts", "hosts_with", "usual_share"},
}

// seenKey is a key of JSON or CSV.
type seenKey struct {
	types, reports map[string]bool
}

// keysOf collects the keys that reports write.
type keysOf map[string]*seenKey

func (k keysOf) add(report, key, typ string) {
	s := k[key]
	if s == nil {
		s = &seenKey{make(map[string]bool), make(map[string]bool)}
		k[key] = s
	}
	s.reports[report] = true
	if typ != "" {
		s.types[typ] = true
	}
}

func (k keysOf) walk(report string, v any) {
	switch v := v.(type) {
	case []any:
		for _, e := range v {
			k.walk(report, e)
		}
	case map[string]any:
		for key, e := range v {
			typ := ""
			switch e.(type) {
			case string:
				typ = "string"
			case bool:
				typ = "boolean"
			case float64:
				typ = "number"
			case []any:
				typ = "array"
			case map[string]any:
				typ = "object"
			}
			k.add(report, key, typ)
			k.walk(report, e)
		}
	}
}

// TestKeys compares the keys that reports write with the list in docs/json.md. -update adds new
// keys, whose meaning you must then write, and removes obsolete ones.
func TestKeys(t *testing.T) {
	seen := make(keysOf)
	// These need a running process, or their keys are those that the user selects or other reports'.
	elsewhere := []string{"top", "sql", "report"}
	for _, cmd := range new(app).root().Commands() {
		name := cmd.Name()
		format := cmd.Flags().Lookup("format")
		has := slices.ContainsFunc(reportRuns, func(run string) bool { return strings.HasPrefix(run, name+" ") })
		if format != nil && !cmd.Hidden && strings.Contains(format.Usage, "json, html") && !has && !slices.Contains(elsewhere, name) {
			t.Errorf("reportRuns has no report of %s", name)
		}
	}
	for _, run := range reportRuns {
		args := strings.Fields(run)
		for i, arg := range args {
			if path := filepath.Join("..", "..", "testdata", arg); strings.HasPrefix(arg, "kvserver") || strings.HasSuffix(arg, ".xray") || strings.HasSuffix(arg, ".yaml") {
				args[i] = path
			}
		}
		for _, format := range []string{"json", "csv"} {
			out := runHere(append([]string{"xray", args[0], "--format", format}, args[1:]...)...)
			if out.status != exitOK && args[0] != "diff" { // diff exits by the result of its gate
				t.Fatalf("%s: %v", run, out)
			}
			if format == "csv" {
				header, err := csv.NewReader(strings.NewReader(out.stdout)).Read()
				if err != nil {
					t.Fatalf("%s: %v", run, err)
				}
				for _, key := range header {
					seen.add(args[0], key, "")
				}
				continue
			}
			var v any
			if err := json.Unmarshal([]byte(out.stdout), &v); err != nil {
				t.Fatalf("%s: %v", run, err)
			}
			seen.walk(args[0], v)
		}
	}
	for report, keys := range rareKeys {
		for _, key := range keys {
			if s := seen[key]; s != nil && s.reports[report] {
				t.Errorf("a report has %s: delete it from rareKeys", key)
			}
			seen.add(report, key, "")
		}
	}
	page := filepath.Join("..", "..", "docs", "json.md")
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	const head = "| key | type | unit | meaning | reports |\n|---|---|---|---|---|\n"
	at := strings.Index(string(text), head)
	if at < 0 {
		t.Fatal("docs/json.md has no list of keys")
	}
	listed := make(map[string][]string)
	for _, m := range regexp.MustCompile("(?m)^\\| `(.*?)` \\| (.*?) \\| (.*?) \\| (.*?) \\| (.*?) \\|$").FindAllStringSubmatch(string(text[at+len(head):]), -1) {
		listed[m[1]] = m[2:]
	}
	list := head
	for _, key := range slices.Sorted(maps.Keys(seen)) {
		s := seen[key]
		row := []string{"", unitOf(key), "", ""}
		if old := listed[key]; old != nil {
			copy(row, old)
		}
		if row[2] == "" {
			t.Errorf("docs/json.md: describe %s", key)
		}
		types := slices.Sorted(maps.Keys(s.types))
		switch {
		case len(types) > 1:
			t.Errorf("%s has several types: %v, in %v", key, types, slices.Sorted(maps.Keys(s.reports)))
		case len(types) == 1:
			row[0] = types[0] // otherwise the key is null in all these reports
		}
		row[3] = "all"
		if len(s.reports) < len(seen["report"].reports) {
			row[3] = strings.Join(slices.Sorted(maps.Keys(s.reports)), ", ")
		}
		list += fmt.Sprintf("| `%s` | %s |\n", key, strings.Join(row, " | "))
	}
	got := string(text[:at]) + list
	if *update {
		if err := os.WriteFile(page, []byte(got), 0o666); err != nil {
			t.Fatal(err)
		}
	} else if diff := cmp.Diff(strings.Split(string(text), "\n"), strings.Split(got, "\n")); diff != "" {
		t.Errorf("(-docs/json.md +reports):\n%s", diff)
	}
}

func unitOf(key string) string {
	for _, unit := range []string{"ns", "bytes"} {
		if strings.HasSuffix(key, "_"+unit) {
			return unit
		}
	}
	return ""
}
