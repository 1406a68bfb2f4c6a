package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/xray-tools/xray/internal/test/testenv"
)

// TestDocs runs the commands of README.md and of the pages in docs and docs/dev, and compares their output with
// the pages. Commands are the lines that begin with "$ " in blocks of the kind "console". They run
// in testdata, in a shell. -update rewrites the pages.
func TestDocs(t *testing.T) {
	t.Parallel()
	testenv.Need(t, "sh")
	pages, err := filepath.Glob(filepath.Join("..", "..", "docs", "*.md"))
	if err != nil || len(pages) == 0 {
		t.Fatal("no pages", err)
	}
	dev, err := filepath.Glob(filepath.Join("..", "..", "docs", "dev", "*.md"))
	if err != nil || len(dev) == 0 {
		t.Fatal("no pages", err)
	}
	pages = append(append(pages, dev...), filepath.Join("..", "..", "README.md"))
	block := regexp.MustCompile("(?ms)^```console\n(.*?)^```$")
	for _, page := range pages {
		t.Run(strings.TrimPrefix(filepath.ToSlash(page), "../../"), func(t *testing.T) {
			text, err := os.ReadFile(page)
			if err != nil {
				t.Fatal(err)
			}
			got := block.ReplaceAllStringFunc(string(text), func(b string) string {
				var out strings.Builder
				out.WriteString("```console\n")
				for line := range strings.Lines(b) {
					command, ok := strings.CutPrefix(line, "$ ")
					if !ok {
						continue
					}
					cmd := exec.Command("sh", "-c", command)
					cmd.Dir = filepath.Join("..", "..", "testdata")
					printed, err := cmd.CombinedOutput()
					if err != nil {
						t.Errorf("%s%v", line, err)
					}
					out.WriteString(line)
					out.Write(printed)
				}
				out.WriteString("```")
				return out.String()
			})
			if *update {
				if err := os.WriteFile(page, []byte(got), 0o666); err != nil {
					t.Fatal(err)
				}
			} else if diff := cmp.Diff(strings.Split(string(text), "\n"), strings.Split(got, "\n")); diff != "" {
				t.Errorf("(-page +program):\n%s", diff)
			}
		})
	}
}

// The C++ program of docs/llvm-runtimes.md compiles with the command in its first line, and its trace has the
// calls that it makes.
func TestFDRProgram(t *testing.T) {
	testenv.Need(t, "clang++-22")
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", "llvm-runtimes.md"))
	if err != nil {
		t.Fatal(err)
	}
	m := regexp.MustCompile("(?ms)^```cpp\n(// ([a-z.]+), compiled by: clang\\+\\+ (.*?)\n.*?)^```$").FindStringSubmatch(string(text))
	if m == nil {
		t.Fatal("docs/llvm-runtimes.md has no C++ program")
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, m[2]), []byte(m[1]), 0o666); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{append([]string{"clang++-22"}, strings.Fields(m[3])...), {"./fdr"}} {
		cmd := exec.Command(args[0], args[1:]...)
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v: %v\n%s", args, err, out)
		}
	}
	traces, err := filepath.Glob(filepath.Join(dir, "xray-log.fdr.*"))
	if err != nil || len(traces) != 1 {
		t.Fatal(traces, err)
	}
	got := produce(t, "account", "--format", "csv", "--func", "^work", "-m", filepath.Join(dir, "fdr"), traces[0])
	if !regexp.MustCompile(`(?m)^1000,.*,work\(\),\d+,fdr.cc:5$`).MatchString(got) {
		t.Errorf("account: want 1000 calls of work(), got\n%s", got)
	}
}
