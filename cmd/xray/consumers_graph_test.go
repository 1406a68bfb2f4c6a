package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/xray-tools/xray/internal/test/browser"
)

// A browser shows the nodes and edges of the DOT output, with all text inside its box, and does not
// interpret names as markup.
func TestGraphPicturesInBrowser(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	kvserver := consumedTraces(t)["kvserver-fdr.xray"]
	hostile := filepath.Join(dir, "map.yaml")
	names := `---
- { id: 1, address: 0x1000, function: 0x1000, kind: function-enter, always-instrument: true, function-name: '</title></g><script>document.documentElement.id="taken"</script>', version: 2 }
- { id: 33554434, address: 0x2000, function: 0x2000, kind: function-enter, always-instrument: true, function-name: ']]><image href="x" onerror="document.documentElement.id=&quot;taken&quot;"/>', version: 2 }
...
`
	if err := os.WriteFile(hostile, []byte(names), 0o666); err != nil {
		t.Fatal(err)
	}
	objects := filepath.Join("..", "..", "testdata", "dso-basic.xray")
	for name, args := range map[string][]string{
		"graph":         append([]string{"graph", "--top", "0"}, kvserver...),
		"diff":          append([]string{"graph-diff", "--top", "0", filepath.Join("..", "..", "testdata", "kvserver-basic.xray")}, kvserver...),
		"hostile names": {"graph", "-m", hostile, objects},
	} {
		file := filepath.Join(dir, strings.ReplaceAll(name, " ", "-")+".svg")
		produce(t, append(args, "--format", "svg", "-o", file)...)
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if again := produce(t, append(args, "--format", "svg")...); again != string(text) {
			t.Errorf("%s: two runs differ", name)
		}
		var nodes, edges int
		for line := range strings.Lines(produce(t, args...)) {
			switch {
			case strings.Contains(line, " -> F") && strings.Contains(line, "penwidth="):
				edges++
			case strings.HasPrefix(line, "\tF"):
				nodes++
			}
		}
		var shown struct {
			Nodes, Edges, Markup int
			ID                   string
			Outside              []string
		}
		browser.Open(t, "file://"+file).Eval(`(() => {
			const root = document.documentElement;
			const outside = [];
			for (const node of root.querySelectorAll(".node")) {
				const box = node.querySelector("rect")?.getBBox();
				for (const text of node.querySelectorAll("text")) {
					const at = text.getBBox();
					if (at.x < box.x || at.x + at.width > box.x + box.width || at.y < box.y || at.y + at.height > box.y + box.height)
						outside.push(text.textContent);
				}
			}
			return {
				Nodes: root.querySelectorAll(".node").length,
				Edges: root.querySelectorAll(".edge").length,
				Markup: root.querySelectorAll("script, image, foreignObject").length,
				ID: root.id,
				Outside: outside,
			};
		})()`, &shown)
		if shown.Nodes != nodes || shown.Edges != edges || nodes < 3 || edges < 2 {
			t.Errorf("%s: got %d nodes and %d edges, want %d and %d as in DOT", name, shown.Nodes, shown.Edges, nodes, edges)
		}
		if shown.Markup != 0 || shown.ID != "" {
			t.Errorf("%s: a name became markup: %+v", name, shown)
		}
		if len(shown.Outside) > 0 {
			t.Errorf("%s: text outside of its box: %q", name, shown.Outside)
		}
	}
}
