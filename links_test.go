package xray_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var (
	fenced  = regexp.MustCompile("(?ms)^```.*?^```$")
	heading = regexp.MustCompile("(?m)^#+ (.*)$")
	anchors = regexp.MustCompile(`<a id="([^"]*)">`)
	link    = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	mention = regexp.MustCompile(`\bdocs/[a-z/-]+\.(md|png)\b`)
)

// targets returns the names of the places in a page that links can lead to, as GitHub makes them of headings.
func targets(page string) []string {
	var all []string
	for _, m := range anchors.FindAllStringSubmatch(page, -1) {
		all = append(all, m[1])
	}
	for _, m := range heading.FindAllStringSubmatch(page, -1) {
		all = append(all, strings.Map(func(r rune) rune {
			switch {
			case r == ' ':
				return '-'
			case strings.ContainsRune("`.,:()'/?+&!", r):
				return -1
			}
			return r
		}, strings.ToLower(link.ReplaceAllString(m[1], ""))))
	}
	return all
}

// TestLinks checks that links between pages, and pages that the source names, exist, and that
// docs/README.md, the map, leads to each page.
func TestLinks(t *testing.T) {
	t.Parallel()
	pages, mapped := map[string]string{}, map[string]bool{}
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := d.Name()
		if d.IsDir() {
			if path != "." && (strings.HasPrefix(name, ".") || name == "node_modules" || name == "testdata") {
				return filepath.SkipDir
			}
			return nil
		}
		ext := filepath.Ext(name)
		if !slices.Contains([]string{".md", ".go", ".c", ".h", ".S", ".py", ".sh"}, ext) && filepath.Dir(path) != "script" {
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if ext == ".md" {
			pages[path] = fenced.ReplaceAllString(string(text), "")
			return nil
		}
		for _, page := range mention.FindAllString(string(text), -1) {
			if _, err := os.Stat(page); err != nil {
				t.Errorf("%s names %s, which does not exist", path, page)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	links := 0
	for path, text := range pages {
		for _, m := range link.FindAllStringSubmatch(text, -1) {
			if strings.Contains(m[1], "://") {
				continue
			}
			links++
			file, anchor, _ := strings.Cut(m[1], "#")
			to := path
			if file != "" {
				to = filepath.Join(filepath.Dir(path), file)
			}
			mapped[to] = mapped[to] || path == filepath.Join("docs", "README.md")
			if _, err := os.Stat(to); err != nil {
				t.Errorf("%s links to %s, which does not exist", path, to)
			} else if anchor != "" && !slices.Contains(targets(pages[to]), anchor) {
				t.Errorf("%s links to %s, which has no heading %q", path, to, anchor)
			}
		}
	}
	if links < 200 {
		t.Errorf("got %d links", links)
	}
	for path := range pages {
		if filepath.Dir(path) == "docs" && !mapped[path] && path != filepath.Join("docs", "README.md") {
			t.Errorf("docs/README.md does not lead to %s", path)
		}
	}
}

// TestAnalysesAreListed checks that the documentation of explain names each analysis below it.
func TestAnalysesAreListed(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("explain/doc.go")
	if err != nil {
		t.Fatal(err)
	}
	entries, err := os.ReadDir("explain")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if name := e.Name(); e.IsDir() && !strings.Contains(string(text), "//\t"+name+" ") {
			t.Errorf("explain/doc.go does not list %s", name)
		}
	}
}
