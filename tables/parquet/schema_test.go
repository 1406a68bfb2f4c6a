package parquet

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

var update = flag.Bool("update", false, "rewrite docs/parquet.md")

// describe returns the part of docs/parquet.md about the tables.
func describe() string {
	var b strings.Builder
	for i := range Tables {
		t := &Tables[i]
		fmt.Fprintf(&b, "### %s\n\n%s\n\n| column | type | null | unit | meaning |\n|---|---|---|---|---|\n", t.Name, t.About)
		for j := range t.Columns {
			c := &t.Columns[j]
			fmt.Fprintf(&b, "| `%s` | %s | %s | %s | %s |\n", c.Name, c.Type(), c.Null(), c.Unit, c.About)
		}
		b.WriteString("\n")
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// docs/parquet.md describes the current tables. -update rewrites it.
func TestTablesAreDocumented(t *testing.T) {
	page := filepath.Join("..", "..", "docs", "parquet.md")
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	const first = "### calls\n"
	head, got, ok := strings.Cut(string(text), first)
	if *update {
		if err := os.WriteFile(page, []byte(head+describe()), 0o666); err != nil {
			t.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff(strings.Split(describe(), "\n"), strings.Split(first+got, "\n")); !ok || diff != "" {
		t.Errorf("(-tables +page):\n%s", diff)
	}
	if want := fmt.Sprintf("This is version %d of the tables.", Version); !strings.Contains(head, want) {
		t.Errorf("docs/parquet.md lacks: %s", want)
	}
}

// schemas are digests of the tables of each version. If this test fails because a column is
// new, change the digest. If a column is gone or different, increase Version, too.
var schemas = map[int]string{
	1: "d66753fa55f215bb",
}

func TestVersion(t *testing.T) {
	var b strings.Builder
	for i := range Tables {
		for j := range Tables[i].Columns {
			c := &Tables[i].Columns[j]
			fmt.Fprintln(&b, Tables[i].Name, c.Name, c.Type(), c.Null(), c.Unit)
		}
	}
	if got := fmt.Sprintf("%x", sha256.Sum256([]byte(b.String())))[:16]; got != schemas[Version] {
		t.Errorf("tables of version %d: got digest %s, want %s", Version, got, schemas[Version])
	}
}
