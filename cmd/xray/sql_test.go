package main

import (
	"encoding/csv"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// SQL sums equal those of account for traces with a clock of 1 GHz, which most of these are.
// Otherwise each duration is rounded, so the test adds up ticks.
func TestSQLAgreesWithAccount(t *testing.T) {
	dir := filepath.Join("..", "..", "testdata")
	for _, trace := range []string{"kvserver-fdr.xray", "kvserver-basic.xray", "journal-recorded.xray", "ring-overflow-fdr.xray"} {
		trace = filepath.Join(dir, trace)
		// Account counts calls that are still open apart, and their percentiles are of the others.
		got := produce(t, "sql", "-f", "csv", trace, `SELECT count(*) FILTER (WHERE ended <> 'truncated') AS count, quantile(duration, 0.5) FILTER (WHERE ended <> 'truncated') AS p50,
			quantile(duration, 0.99) FILTER (WHERE ended <> 'truncated') AS p99, function_id,
			CAST(round(sum(self_ticks) * 1e9 / (SELECT frequency FROM traces)) AS INTEGER) AS self FROM calls GROUP BY function_id`)
		want := produce(t, "account", "-f", "csv", "--sort", "id", trace)
		if diff := cmp.Diff(csvColumns(t, want, "count", "p50_ns", "p99_ns", "function_id", "self_ns"),
			csvColumns(t, got, "count", "p50", "p99", "function_id", "self")); diff != "" {
			t.Errorf("%s: (-account +sql)\n%s", trace, diff)
		}
	}
}

// csvColumns returns some columns of a CSV table, a line for each row.
func csvColumns(t *testing.T, text string, names ...string) []string {
	t.Helper()
	rows, err := csv.NewReader(strings.NewReader(text)).ReadAll()
	if err != nil || len(rows) < 2 {
		t.Fatalf("%d rows, %v", len(rows), err)
	}
	var lines []string
	for _, row := range rows[1:] {
		var cells []string
		for _, name := range names {
			cells = append(cells, row[slices.Index(rows[0], name)])
		}
		lines = append(lines, strings.Join(cells, " "))
	}
	return lines
}
