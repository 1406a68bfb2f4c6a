package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/xray-tools/xray/internal/test/testenv"
)

// The example of docs/api.md compiles, runs, and keeps the slowest request. Without the recorder it runs, too.
func TestAPIExample(t *testing.T) {
	t.Parallel()
	testenv.Need(t, "clang-22", "cc")
	doc, err := os.ReadFile("../../docs/api.md")
	if err != nil {
		t.Fatal(err)
	}
	blocks := indented(string(doc))
	if len(blocks) != 2 {
		t.Fatalf("%d blocks, want the program and the commands", len(blocks))
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "server.c"), []byte(blocks[0]), 0o666); err != nil {
		t.Fatal(err)
	}
	run := func(script string) string {
		t.Helper()
		cmd := exec.Command("sh", "-ec", script)
		cmd.Dir = dir
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%s: %v\n%s", script, err, out)
		}
		return string(out)
	}
	out := run(blocks[1])
	said := regexp.MustCompile(`request (\d+) is the slowest so far\n`).FindAllStringSubmatch(out, -1)
	if len(said) == 0 || !strings.Contains(out, "handle") {
		t.Fatalf("the commands print %q", out)
	}
	functions := inTrace(t, filepath.Join(dir, "slowest.xray"))
	for _, fn := range []string{"handle", "parse", "lookup", "respond"} {
		if functions[fn]["count"] != 1 {
			t.Errorf("%s: got %v, want the one call of the slowest request", fn, functions[fn])
		}
	}
	// If the machine is busy, another request takes longer than the one that sleeps.
	slowest := "handle"
	if said[len(said)-1][1] == "70" {
		slowest = "lookup"
	}
	if ns := functions[slowest]["total_ns"]; ns < 29e6 {
		t.Errorf("%s took %.0f ns, want 30 ms; the commands print %q", slowest, ns, out)
	}
	if _, err := os.Stat(filepath.Join(dir, "slowest.html")); err != nil {
		t.Error(err)
	}
	if out := run(`clang-22 -O2 -I "$(xray runtime flags --cc clang-22 --compile | tr ' ' '\n' | sed -n 's/^-I//p')" server.c -o plain; ./plain`); !strings.Contains(out, "not recorded: there is no recorder") {
		t.Errorf("without the recorder, the program prints %q", out)
	}
}

// indented returns the indented blocks of a page.
func indented(page string) (blocks []string) {
	block := ""
	for line := range strings.Lines(page) {
		text, ok := strings.CutPrefix(line, "    ")
		switch {
		case ok:
			block += text
		case block != "" && strings.TrimSpace(line) == "":
			block += line
		case block != "":
			blocks, block = append(blocks, block), ""
		}
	}
	return blocks
}
