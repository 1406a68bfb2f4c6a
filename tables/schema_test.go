package tables

import (
	"crypto/sha256"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "rewrite docs/tables.md")

// page is docs/tables.md.
func page() string {
	return fmt.Sprintf(`# The columns of tables

[xray sql](sql.md) queries these tables, and [xray convert -f parquet](parquet.md) writes them. This
is version %d of the tables.

Types are those of SQLite under SQL, and those of the files under Parquet. If one of them is empty,
only the other has the column. In SQL, a list is a JSON array, and numbers are signed. In files, the
column %[2]strace%[2]s comes from the names of the folders. If the frequency of the clock is unknown, ns are
ticks: see %[2]sunit%[2]s in the table %[2]straces%[2]s.
`, Version, "`") + describe()
}

// docs/tables.md describes the current tables. -update rewrites it.
func TestTablesAreDocumented(t *testing.T) {
	path := filepath.Join("..", "docs", "tables.md")
	if *update {
		if err := os.WriteFile(path, []byte(page()), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(strings.Split(page(), "\n"), strings.Split(string(text), "\n")); diff != "" {
		t.Errorf("(-tables +page):\n%s", diff)
	}
}

// schemas are digests of the tables of each version in files. If this test fails because a column is
// new, change the digest. If a column is gone or different, increase Version, too.
var schemas = map[int]string{
	1: "66244093a87c00da",
}

func TestVersion(t *testing.T) {
	var b strings.Builder
	for _, table := range All {
		for _, c := range table.Of(Files) {
			fmt.Fprintln(&b, table.Name, c.Name, c.Type(), c.Null(), c.Unit)
		}
	}
	if got := fmt.Sprintf("%x", sha256.Sum256([]byte(b.String())))[:16]; got != schemas[Version] {
		t.Errorf("tables of version %d: got digest %s, want %s", Version, got, schemas[Version])
	}
}
