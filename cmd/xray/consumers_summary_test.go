package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/xray-tools/xray/internal/test/engines"
)

// fleet/duckdb.sql merges summaries in DuckDB to what summarize gives.
func TestMergeInSQL(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "..", "fleet", "duckdb.sql"))
	if err != nil {
		t.Fatal(err)
	}
	testdata, dir, out := filepath.Join("..", "..", "testdata"), t.TempDir(), t.TempDir()
	for i, trace := range []string{"kvserver-fdr.xray", "kvserver-basic.xray", "kvserver-recorded.xray"} {
		to := filepath.Join(dir, string(rune('a'+i))+".parquet")
		produce(t, "summarize", "-m", filepath.Join(testdata, "kvserver"), "--host", "h", "-o", to, filepath.Join(testdata, trace))
	}
	merged := filepath.Join(out, "merged.parquet")
	query := strings.NewReplacer("summaries/*.parquet", filepath.Join(dir, "*.parquet"), "merged.parquet", merged).Replace(string(text))
	engines.Query(t, engines.DuckDB, query)
	files := map[string][]byte{}
	for name, from := range map[string]string{"ours": dir, "DuckDB's": merged} {
		to := filepath.Join(out, "summary.parquet")
		produce(t, "summarize", "-o", to, from)
		if files[name], err = os.ReadFile(to); err != nil {
			t.Fatal(err)
		}
	}
	if !bytes.Equal(files["ours"], files["DuckDB's"]) {
		t.Errorf("the summaries merged by DuckDB (%d bytes) and by xray (%d bytes) differ", len(files["DuckDB's"]), len(files["ours"]))
	}
}
