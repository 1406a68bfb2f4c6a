package main

import (
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestAnalysersGuide checks that docs/dev/analysers.md shows the program that TestDocs runs, and that
// the program imports only packages which other modules may import. -update rewrites the page.
func TestAnalysersGuide(t *testing.T) {
	page, program := filepath.Join("..", "..", "docs", "dev", "analysers.md"), filepath.Join("..", "..", "docs", "dev", "slowwrites", "main.go")
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	source, err := os.ReadFile(program)
	if err != nil {
		t.Fatal(err)
	}
	blocks := regexp.MustCompile("(?s)```go\n(.*?)```\n").FindAllSubmatchIndex(text, -1)
	if len(blocks) != 1 {
		t.Fatalf("docs/dev/analysers.md has %d programs, want 1", len(blocks))
	}
	from, to := blocks[0][2], blocks[0][3]
	if shown := string(text[from:to]); shown != string(source) {
		if *update {
			text = []byte(string(text[:from]) + string(source) + string(text[to:]))
			if err := os.WriteFile(page, text, 0o666); err != nil {
				t.Fatal(err)
			}
		} else {
			t.Errorf("(-page +program):\n%s", cmp.Diff(strings.Split(shown, "\n"), strings.Split(string(source), "\n")))
		}
	}
	file, err := parser.ParseFile(token.NewFileSet(), program, source, parser.ImportsOnly)
	if err != nil {
		t.Fatal(err)
	}
	for _, imp := range file.Imports {
		if strings.Contains(imp.Path.Value, "/internal/") {
			t.Errorf("the program imports %s, which other modules cannot", imp.Path.Value)
		}
	}
}
