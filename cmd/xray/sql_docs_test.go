package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/xray-tools/xray/tables/sql"
)

// docs/sql.md lists all functions. -update writes the list.
func TestSQLPage(t *testing.T) {
	page := filepath.Join("..", "..", "docs", "sql.md")
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	var functions strings.Builder
	functions.WriteString("| function | value |\n|---|---|\n")
	for _, f := range sql.Functions {
		fmt.Fprintf(&functions, "| `%s` | %s |\n", f.Usage, f.Text)
	}
	want := between(t, string(text), "and these:\n\n", "\n`P` is a", functions.String())
	if *update {
		if err := os.WriteFile(page, []byte(want), 0o666); err != nil {
			t.Fatal(err)
		}
	} else if diff := cmp.Diff(string(text), want); diff != "" {
		t.Errorf("(-page +program):\n%s", diff)
	}
}

// between replaces the text between two passages.
func between(t *testing.T, text, before, after, middle string) string {
	from := strings.Index(text, before)
	if from < 0 {
		t.Fatalf("docs/sql.md lacks %q", before)
	}
	from += len(before)
	to := strings.Index(text[from:], after)
	if to < 0 {
		t.Fatalf("docs/sql.md lacks %q", after)
	}
	return text[:from] + middle + text[from+to:]
}
