package main

import (
	"encoding/csv"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/xray-tools/xray/internal/test/testenv"
	"github.com/xray-tools/xray/tables/parquet"
	"github.com/xray-tools/xray/tables/sql"
)

// The sql tables have the same columns as those that convert -f parquet writes, so that queries
// work on both. For traces, they have the tables that need no pass over the trace.
func TestSQLColumnsAreThoseOfParquet(t *testing.T) {
	of := make(map[string][]string)
	for _, table := range sql.Tables {
		of[table.Name] = namesOf(table.Columns)
	}
	for _, table := range parquet.Tables {
		var want []string
		if slices.Contains(of[table.Name], "trace") {
			want = append(want, "trace") // the partition
		}
		for i := range table.Columns {
			want = append(want, table.Columns[i].Name)
		}
		got := of[table.Name]
		if table.Name == "traces" {
			for _, name := range got {
				if !slices.Contains(want, name) {
					t.Errorf("traces.%s is not in Parquet", name)
				}
			}
			continue
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: (-parquet +sql)\n%s", table.Name, diff)
		}
	}
	if len(of) != len(parquet.Tables) {
		t.Errorf("%d tables, and %d in Parquet", len(of), len(parquet.Tables))
	}
}

// queryDatabase asks a database the queries that follow its name, each of which gives a
// table in CSV.
const queryDatabase = `
import csv, sqlite3, sys
db = sqlite3.connect("file:" + sys.argv[1] + "?mode=ro", uri=True)
assert db.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
assert db.execute("PRAGMA foreign_key_check").fetchall() == []
assert len(db.execute("PRAGMA foreign_key_list(call_rows)").fetchall()) == 4
assert len(db.execute("PRAGMA index_list(call_rows)").fetchall()) == 5
for query in sys.argv[2:]:
    out = csv.writer(sys.stdout, lineterminator="\n")
    rows = db.execute(query)
    out.writerow([d[0] for d in rows.description])
    for row in rows:
        out.writerow([v.hex() if isinstance(v, bytes) else v for v in row])
`

// A database that xray sql wrote answers as xray sql does.
func TestSQLDatabase(t *testing.T) {
	testenv.Need(t, "python3")
	dir := filepath.Join("..", "..", "testdata")
	kvserver, trace := filepath.Join(dir, "kvserver"), filepath.Join(dir, "kvserver-fdr.xray")
	file := filepath.Join(t.TempDir(), "a %b?.db")
	if out := runHere("xray", "sql", "-m", kvserver, "-f", "sqlite", "-o", file, trace); out.status != exitOK || out.stdout+out.stderr != "" {
		t.Fatalf("%v", out)
	}
	queries := []string{
		"SELECT function, count(*), sum(duration), sum(self), min(start), max(line) FROM calls GROUP BY 1 ORDER BY 1",
		"SELECT * FROM calls ORDER BY start, depth, duration LIMIT 500",
		"SELECT * FROM functions ORDER BY function_id", "SELECT * FROM paths ORDER BY path", "SELECT * FROM events ORDER BY thread, time",
		"SELECT trace, process, thread, calls, first_start, last_end FROM threads ORDER BY thread", "SELECT * FROM traces",
		"SELECT p.stack, count(*) FROM calls JOIN paths p USING (path) WHERE caller IS NOT NULL GROUP BY 1 ORDER BY 1",
	}
	cmd := exec.Command("python3", append([]string{"-c", queryDatabase, strings.ReplaceAll(strings.ReplaceAll(file, "%", "%25"), "?", "%3f")}, queries...)...)
	cmd.Stderr = os.Stderr
	got, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	var want strings.Builder
	for _, q := range queries {
		want.WriteString(produce(t, "sql", "-m", kvserver, "-f", "csv", trace, q))
	}
	if diff := cmp.Diff(strings.Split(want.String(), "\n"), strings.Split(string(got), "\n")); diff != "" {
		t.Errorf("(-xray +python)\n%s", diff)
	}
}

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
