package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/xray-tools/xray/internal/test/engines"
	"github.com/xray-tools/xray/internal/tracetext"
)

// tableSums are the sums of a function that are in both tables of calls and account.
type tableSums struct {
	Trace             string
	ID                int64 `json:"function_id"`
	Function          string
	Count, Open, Left int64 // Count is of calls that ended
	Inferred          int64
	Self              int64 `json:"self_ns"` // of all calls
	Sum               int64 `json:"sum_ns"`  // of calls that ended, like Min and Max
	Min               int64 `json:"min_ns"`
	Max               int64 `json:"max_ns"`
}

// accountSums returns the sums that account prints.
func accountSums(t *testing.T, trace string, args ...string) []tableSums {
	t.Helper()
	var report struct{ Functions []tableSums }
	text := produce(t, append([]string{"account", "--format", "json"}, args...)...)
	if err := json.Unmarshal([]byte(text), &report); err != nil {
		t.Fatalf("%v in %.300s", err, text)
	}
	for i := range report.Functions {
		report.Functions[i].Trace = trace
	}
	return report.Functions
}

// sumsInSQL computes these sums, exact to the tick, from the tables calls and traces.
const sumsInSQL = `SELECT c.trace AS trace, function_id, function,
	count(*) FILTER (WHERE ended <> 'truncated'), count(*) FILTER (WHERE ended = 'truncated'),
	count(*) FILTER (WHERE ended = 'left'), count(*) FILTER (WHERE ended = 'inferred'),
	sum(self_ticks), coalesce(sum(duration_ticks) FILTER (WHERE ended <> 'truncated'), 0),
	coalesce(min(duration) FILTER (WHERE ended <> 'truncated'), 0), coalesce(max(duration) FILTER (WHERE ended <> 'truncated'), 0),
	max(frequency)
	FROM %s AS c JOIN %s AS t ON c.trace = t.trace GROUP BY c.trace, function_id, function`

// Engines compute the same sums as account, for several traces in a directory.
func TestParquetEngines(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	testdata := filepath.Join("..", "..", "testdata")
	var want []tableSums
	for _, trace := range []struct {
		name         string
		flags, names []string
	}{
		// There is no room for all call paths.
		{"kvserver-fdr.xray", []string{"--path-memory", "4K"}, []string{"-m", filepath.Join(testdata, "kvserver")}},
		{"journal-recorded.xray", nil, nil},
		{"ring-overflow-fdr.xray", nil, nil},
	} {
		args := append(trace.names, filepath.Join(testdata, trace.name))
		produce(t, slices.Concat([]string{"convert", "-f", "parquet", "-o", dir}, trace.flags, args)...)
		want = append(want, accountSums(t, trace.name, args...)...)
	}
	for _, engine := range []engines.Engine{engines.DuckDB, engines.ChDB, engines.Polars} {
		t.Run(string(engine), func(t *testing.T) {
			table := func(name string) string { return engine.Files(filepath.Join(dir, name, "*", "*.parquet")) }
			sameTableSums(t, engines.Query(t, engine, fmt.Sprintf(sumsInSQL, table("calls"), table("traces"))), want)
		})
	}
	for _, library := range []engines.Engine{"pandas", "pyarrow"} {
		t.Run(string(library), func(t *testing.T) {
			sameTableSums(t, engines.Rows(t, script(t, "sums_"+string(library)+".py"), library, dir), want)
		})
	}
}

// script returns the path of a script in testdata.
func script(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// sameTableSums compares rows as sumsInSQL returns them with the sums of account.
func sameTableSums(t *testing.T, rows [][]any, want []tableSums) {
	t.Helper()
	var got []tableSums
	for _, row := range rows {
		got = append(got, readTableSums(t, row))
	}
	order := func(a, b tableSums) int { return cmp.Or(cmp.Compare(a.Trace, b.Trace), cmp.Compare(a.ID, b.ID)) }
	slices.SortFunc(got, order)
	slices.SortFunc(want, order)
	if diff := gocmp.Diff(want, got); diff != "" {
		t.Errorf("(-account +engine):\n%s", diff)
	}
}

func readTableSums(t *testing.T, row []any) tableSums {
	t.Helper()
	n := func(i int) int64 {
		v, err := row[i].(json.Number).Int64()
		if err != nil {
			t.Fatal(row, err)
		}
		return v
	}
	frequency := float64(n(11))
	nanos := func(ticks int64) int64 { return int64(float64(ticks)*1e9/frequency + 0.5) }
	return tableSums{
		Trace: row[0].(string), ID: n(1), Function: row[2].(string), Count: n(3), Open: n(4), Left: n(5), Inferred: n(6),
		Self: nanos(n(7)), Sum: nanos(n(8)), Min: n(9), Max: n(10),
	}
}

// tableRows returns the rows of a table of several traces in a directory.
func tableRows[Row any](t *testing.T, dir, table string, traces ...string) [][]Row {
	t.Helper()
	var files []string
	for _, trace := range traces {
		files = append(files, filepath.Join(dir, table, "trace="+trace, "part-0.parquet"))
	}
	var rows [][]Row
	if err := json.Unmarshal(engines.Python(t, script(t, "rows_pyarrow.py"), []engines.Engine{"pyarrow"}, files...), &rows); err != nil {
		t.Fatal(err)
	}
	return rows
}

// A call has the same values in the table as in JSON.
func TestParquetCalls(t *testing.T) {
	t.Parallel()
	type call struct {
		Process, Thread, Depth int
		ID                     int `json:"function_id"`
		Function               string
		CallerID               int `json:"caller_id"`
		Caller                 string
		Start, Duration, Self  int64
		StartNS                int64 `json:"start_ns"`
		DurationNS             int64 `json:"duration_ns"`
		SelfNS                 int64 `json:"self_ns"`
		Ended, End             string
		Arguments, Args        []uint64
	}
	testdata := filepath.Join("..", "..", "testdata")
	dir := t.TempDir()
	var traces []string
	var wants [][]call
	for _, args := range [][]string{
		{filepath.Join(testdata, "orphan-arguments-basic.xray")},
		{filepath.Join(testdata, "journal-recorded.xray")},
		{"-m", filepath.Join(testdata, "kvserver"), "--func", "e", filepath.Join(testdata, "kvserver-fdr.xray")},
	} {
		produce(t, append([]string{"convert", "-f", "parquet", "-o", dir}, args...)...)
		var want []call
		for line := range strings.Lines(produce(t, append([]string{"convert", "-f", "json"}, args...)...)) {
			var c call
			if err := json.Unmarshal([]byte(line), &c); err != nil {
				t.Fatal(err)
			}
			c.Start, c.Duration, c.Self, c.Ended, c.Arguments = c.StartNS, c.DurationNS, c.SelfNS, c.End, c.Args
			c.StartNS, c.DurationNS, c.SelfNS, c.End, c.Args = 0, 0, 0, "", nil
			want = append(want, c)
		}
		traces, wants = append(traces, filepath.Base(args[len(args)-1])), append(wants, want)
	}
	order := func(a, b call) int {
		return cmp.Or(cmp.Compare(a.Thread, b.Thread), cmp.Compare(a.Start, b.Start), cmp.Compare(a.Depth, b.Depth))
	}
	for i, got := range tableRows[call](t, dir, "calls", traces...) {
		slices.SortFunc(wants[i], order)
		slices.SortFunc(got, order)
		if diff := gocmp.Diff(wants[i], got); diff != "" || len(got) == 0 {
			t.Errorf("%s (-json +parquet):\n%.3000s", traces[i], diff)
		}
	}
}

// Paths and functions match those of the calls, and have their source locations.
func TestParquetPaths(t *testing.T) {
	dir := t.TempDir()
	testdata := filepath.Join("..", "..", "testdata")
	produce(t, "convert", "-f", "parquet", "-o", dir, "-m", filepath.Join(testdata, "kvserver"), filepath.Join(testdata, "kvserver-fdr.xray"))
	checks := []struct{ what, query, want string }{
		{"a path has the function, the caller and the depth of its calls", `SELECT count(*) FROM calls c JOIN paths p USING (trace, path)
			LEFT JOIN paths q ON q.path = p.parent WHERE p.function_id <> c.function_id OR p.depth <> c.depth OR
			p.function <> c.function OR coalesce(q.function_id, 0) <> coalesce(c.caller_id, 0)`, "0"},
		{"each call has one", `SELECT count(*) FROM calls ANTI JOIN paths USING (trace, path)`, "0"},
		{"a stack continues that of the parent", `SELECT count(*) FROM paths p JOIN paths q ON q.path = p.parent
			WHERE p.stack <> q.stack || ';' || p.function OR p.depth <> q.depth + 1`, "0"},
		{"functions have the names and places of calls", `SELECT count(*) FROM calls c JOIN functions f USING (trace, function_id)
			WHERE f.function <> c.function OR f.file IS DISTINCT FROM c.file OR f.line IS DISTINCT FROM c.line`, "0"},
		{"all functions are there", `SELECT (SELECT count(*) FROM functions) - (SELECT count(DISTINCT function_id) FROM calls)`, "0"},
		{"functions have places", `SELECT parse_filename(file) || ':' || line FROM functions WHERE function LIKE 'kv::checksum(%'`, "kvserver.cc:119"},
		{"threads", `SELECT count(*) FROM threads t JOIN (SELECT thread, count(*) n, min(start) a, max(start + duration) b FROM calls GROUP BY 1) c
			USING (thread) WHERE t.calls <> n OR t.first_start <> a OR t.last_end <> b`, "0"},
		{"the number of calls", `SELECT calls - (SELECT count(*) FROM calls) FROM traces`, "0"},
	}
	var with, queries, want []string
	for _, name := range []string{"calls", "paths", "functions", "threads", "traces"} {
		with = append(with, name+" AS (FROM "+engines.DuckDB.Files(filepath.Join(dir, name, "*", "*.parquet"))+")")
	}
	for i, check := range checks {
		queries = append(queries, "SELECT "+strconv.Itoa(i)+" AS n, ("+check.query+")::VARCHAR")
		want = append(want, check.what+": "+check.want)
	}
	var got []string
	query := "WITH " + strings.Join(with, ", ") + " " + strings.Join(queries, " UNION ALL ") + " ORDER BY n"
	for i, row := range engines.Query(t, engines.DuckDB, query) {
		got = append(got, fmt.Sprint(checks[i].what, ": ", row[1]))
	}
	if diff := gocmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// Off-CPU times match account's, and events are as recorded.
func TestParquetOffCPUAndEvents(t *testing.T) {
	t.Parallel()
	trace := filepath.Join(t.TempDir(), "t.xray")
	text, err := tracetext.Parse(`xray fdr frequency=1000000000 free=5852594d46445231
thread 0 tsc=1000
metadata 1 ` + "`" + `{"pid":700,"recorder":"1","mode":"record","offcpu":"rseq","complete":true}` + "`" + `
thread 701 pid=700 tsc=1000
enter 1 +0
enter 2 +100
# 300 ns off CPU, 50 of them in the run queue.
metadata switch "\x2c\x01\x00\x00\x00\x00\x00\x00\x32\x00\x00\x00\x00\x00\x00\x00\x01\x00\x00\x00\x00\x00\x00\x00\x03\x00\x00\x00\x00\x00\x00\x00" +310
exit 2 +90
enter 2 +100
custom "here" +5
exit 2 +15
exit 1 +30
`)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(trace, text, 0o666); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	produce(t, "convert", "-f", "parquet", "-o", dir, trace)
	type off struct {
		ID                             int `json:"function_id"`
		CPU, Blocked, Queued, Recorder int64
		SelfCPU                        int64 `json:"self_cpu"`
		SelfBlocked                    int64 `json:"self_blocked"`
		SelfQueued                     int64 `json:"self_queued"`
		Duration, Self                 int64
	}
	want := []off{
		{1, 350, 250, 50, 0, 230, 0, 0, 650, 230},
		{2, 100, 250, 50, 0, 100, 250, 50, 400, 400},
		{2, 20, 0, 0, 0, 20, 0, 0, 20, 20},
	}
	if diff := gocmp.Diff([][]off{want}, tableRows[off](t, dir, "calls", "t.xray")); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	type event struct {
		Time           int64
		Kind, Function string
		Depth          int
		Text, Data     string
	}
	if diff := gocmp.Diff([][]event{{{605, "custom", "#2", 2, "here", "aGVyZQ=="}}}, tableRows[event](t, dir, "events", "t.xray")); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
