package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/xray-tools/xray/internal/test/engines"
)

// tableSums are the sums of a function that tables of calls and account have in common.
type tableSums struct {
	Trace             string
	ID                int64 `json:"function_id"`
	Function          string
	Count, Open, Left int64 // Count is of calls that ended
	Inferred          int64
	Self              int64 `json:"self_ns"` // of all
	Sum               int64 `json:"sum_ns"`  // of those that ended, as Min and Max
	Min               int64 `json:"min_ns"`
	Max               int64 `json:"max_ns"`
}

// accountSums are those of account.
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

// sumsInSQL is SQL for these sums, exact to the tick.
const sumsInSQL = `SELECT c.trace AS trace, function_id, function,
	count(*) FILTER (WHERE ended <> 'truncated'), count(*) FILTER (WHERE ended = 'truncated'),
	count(*) FILTER (WHERE ended = 'left'), count(*) FILTER (WHERE ended = 'inferred'),
	sum(self_ticks), coalesce(sum(duration_ticks) FILTER (WHERE ended <> 'truncated'), 0),
	coalesce(min(duration) FILTER (WHERE ended <> 'truncated'), 0), coalesce(max(duration) FILTER (WHERE ended <> 'truncated'), 0),
	max(frequency)
	FROM %s AS c JOIN %s AS t ON c.trace = t.trace GROUP BY c.trace, function_id, function`

// What engines sum up is what account does, for several traces in a directory.
func TestParquetEngines(t *testing.T) {
	dir := t.TempDir()
	testdata := filepath.Join("..", "..", "testdata")
	var want []tableSums
	for _, trace := range []struct {
		name string
		args []string
	}{
		{"kvserver-fdr.xray", []string{"-m", filepath.Join(testdata, "kvserver")}},
		{"journal-recorded.xray", nil},
		{"ring-overflow-fdr.xray", nil},
	} {
		args := append(trace.args, filepath.Join(testdata, trace.name))
		produce(t, append([]string{"convert", "-f", "parquet", "-o", dir}, args...)...)
		want = append(want, accountSums(t, trace.name, args...)...)
	}
	slices.SortFunc(want, compareTableSums)
	for _, engine := range []engines.Engine{engines.DuckDB, engines.ChDB, engines.Polars} {
		t.Run(string(engine), func(t *testing.T) {
			table := func(name string) string { return engine.Files(filepath.Join(dir, name, "*", "*.parquet")) }
			var got []tableSums
			for _, row := range engines.Query(t, engine, fmt.Sprintf(sumsInSQL, table("calls"), table("traces"))) {
				got = append(got, readTableSums(t, row))
			}
			slices.SortFunc(got, compareTableSums)
			if diff := gocmp.Diff(want, got); diff != "" {
				t.Errorf("(-account +%s):\n%s", engine, diff)
			}
		})
	}
}

func compareTableSums(a, b tableSums) int {
	return cmp.Or(cmp.Compare(a.Trace, b.Trace), cmp.Compare(a.ID, b.ID))
}

// readTableSums reads a row of sumsInSQL.
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
