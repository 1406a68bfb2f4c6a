package engines

import (
	"fmt"
	"path/filepath"
	"testing"
)

// Every engine reads what another one wrote, with large numbers and nulls intact.
func TestQuery(t *testing.T) {
	dir := t.TempDir()
	for _, day := range []string{"1", "2"} {
		Python(t, `
import pyarrow as pa, pyarrow.parquet as pq, os, sys
os.mkdir(os.path.dirname(sys.argv[1]))
pq.write_table(pa.table({"f": ["a", "b"], "n": pa.array([1 << 62, None], pa.int64())}), sys.argv[1])
`, []Engine{"pyarrow"}, filepath.Join(dir, "day="+day, "part.parquet"))
	}
	for _, engine := range []Engine{DuckDB, ChDB, Polars} {
		t.Run(string(engine), func(t *testing.T) {
			rows := Query(t, engine, `SELECT f, max(n), count(*), count(n) FROM `+
				engine.Files(filepath.Join(dir, "*", "*.parquet"))+` GROUP BY f ORDER BY f`)
			if got, want := fmt.Sprint(rows), "[[a 4611686018427387904 2 2] [b <nil> 2 0]]"; got != want {
				t.Errorf("got %s, want %s", got, want)
			}
		})
	}
}
