// Package engines lets tests query Parquet files with the engines that users have: DuckDB,
// chDB (ClickHouse's engine), Polars, pandas and pyarrow. script/setup fetches them. They run
// in Python as processes of their own, in Coordinated Universal Time.
package engines

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/xray-tools/xray/internal/test/testenv"
)

// Engine is a program that reads Parquet and executes SQL.
type Engine string

// The engines of [Query].
const (
	DuckDB Engine = "duckdb"
	ChDB   Engine = "chdb"
	Polars Engine = "polars"
)

// modules are the Python modules to import, by what a caller asks for.
var modules = map[Engine][]string{
	DuckDB:    {"duckdb"},
	ChDB:      {"chdb"},
	Polars:    {"polars", "_polars_runtime_32"},
	"pyarrow": {"pyarrow"},
	"pandas":  {"pandas", "numpy", "dateutil", "pyarrow"},
}

//go:embed query.py
var queryScript string

// Query executes a query in an engine, and returns the rows of its result: null is nil, a number is
// a json.Number, and types that JSON lacks are strings. Engines name files in different ways: see
// [Engine.Files]. It skips the test without the engine, see [testenv.Fetched].
func Query(t testing.TB, engine Engine, query string) [][]any {
	t.Helper()
	return Rows(t, queryScript, engine, string(engine), query)
}

// Rows runs a script that imports an engine and prints rows as Query returns them, in JSON.
func Rows(t testing.TB, script string, engine Engine, args ...string) [][]any {
	t.Helper()
	decoder := json.NewDecoder(bytes.NewReader(Python(t, script, []Engine{engine}, args...)))
	decoder.UseNumber()
	var rows [][]any
	if err := decoder.Decode(&rows); err != nil {
		t.Fatalf("%s: %v", engine, err)
	}
	return rows
}

// Files returns the SQL table of all files that match a pattern. Folders of the form key=value are
// columns.
func (e Engine) Files(pattern string) string {
	switch e {
	case DuckDB:
		return "read_parquet('" + pattern + "', hive_partitioning = true)"
	case ChDB:
		return "file('" + pattern + "', Parquet)"
	}
	return "read_parquet('" + pattern + "')"
}

// Python runs a script with arguments, and returns its output. The script may import what need
// names: engines, "pyarrow" or "pandas". If the script fails, the test fails.
func Python(t testing.TB, script string, need []Engine, args ...string) []byte {
	t.Helper()
	testenv.Need(t, "python3")
	var dir string
	for _, engine := range need {
		for _, module := range modules[engine] {
			dir = filepath.Dir(filepath.Dir(testenv.Fetched(t, "engines/"+module+"/__init__.py")))
		}
	}
	cmd := exec.Command("python3", append([]string{"-c", script}, args...)...)
	cmd.Env = append(os.Environ(), "PYTHONPATH="+dir, "PYTHONDONTWRITEBYTECODE=1", "TZ=UTC")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("python3: %v\n%s", err, stderr.Bytes())
	}
	return out
}
