package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/xray-tools/xray/internal/test/testenv"
)

// TestLLVMSuite runs LLVM's own tests of llvm-xray on our program, if $XRAY_CORPUS has them. It
// runs the RUN lines in a shell and checks the CHECK lines. It skips tests whose binary inputs are
// missing.
func TestLLVMSuite(t *testing.T) {
	corpus := os.Getenv("XRAY_CORPUS")
	if corpus == "" {
		t.Skip("XRAY_CORPUS is not set")
	}
	testenv.Need(t, "yaml2obj-22", "sh")
	root := filepath.Join(corpus, "llvm-inputs", "test", "tools", "llvm-xray")
	files, err := filepath.Glob(filepath.Join(root, "*", "*.*"))
	if err != nil {
		t.Fatal(err)
	}
	ran := 0
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		t.Run(filepath.Base(filepath.Dir(file))+"/"+filepath.Base(file), func(t *testing.T) {
			temp := filepath.Join(t.TempDir(), "temp")
			for _, line := range runLines(string(text)) {
				script, ok := shellOf(line, file, temp)
				if !ok {
					t.Logf("skipped for a missing input: %s", line)
					continue
				}
				ran++
				cmd := exec.Command("sh", "-c", script)
				if out, err := cmd.CombinedOutput(); err != nil {
					t.Errorf("%s: %v\n%s", line, err, out)
				}
			}
		})
	}
	if ran < 35 {
		t.Errorf("ran only %d commands", ran)
	}
}

// runLines returns the RUN lines of a test, with continuation lines joined.
func runLines(text string) []string {
	var lines []string
	var open string
	for _, m := range regexp.MustCompile(`(?m)^[#; ]*RUN:(.*)$`).FindAllStringSubmatch(text, -1) {
		part, more := strings.CutSuffix(strings.TrimSpace(m[1]), `\`)
		open += part + " "
		if !more {
			lines = append(lines, open)
			open = ""
		}
	}
	return lines
}

// shellOf converts a RUN line to a shell script. It returns false if an input is missing.
func shellOf(line, file, temp string) (string, bool) {
	// An option of old versions, and a file of this suite.
	line = strings.ReplaceAll(line, " -t yaml", "")
	line = regexp.MustCompile(`%python -c '[^']*'`).ReplaceAllString(line, "sorted-json")
	line = strings.NewReplacer("%s", file, "%S", filepath.Dir(file), "%t", temp, "yaml2obj ", "yaml2obj-22 ").Replace(line)
	for _, input := range regexp.MustCompile(`\S*/Inputs/\S+`).FindAllString(line, -1) {
		if _, err := os.Stat(input); err != nil {
			return "", false
		}
	}
	return "not() { ! \"$@\"; }\n" + line, true
}

// fileCheck implements the part of LLVM's FileCheck that the suite needs: it searches the input for
// the CHECK lines of a file in order, with runs of white space equal to one blank.
func fileCheck() {
	args := os.Args[1:]
	prefix, file := "CHECK", ""
	for i := 0; i < len(args); i++ {
		name, value, ok := strings.Cut(strings.TrimLeft(args[i], "-"), "=")
		switch {
		case args[i][0] != '-':
			file = args[i]
		case strings.HasPrefix(name, "check-prefix"):
			if !ok {
				i++
				value = args[i]
			}
			prefix = value
		}
	}
	expected, err := os.ReadFile(file)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	input, _ := io.ReadAll(os.Stdin)
	if strings.Contains(file, "graph-color") {
		// These colors are of old versions.
		color := regexp.MustCompile(`color="#\w+"`)
		expected, input = color.ReplaceAll(expected, nil), color.ReplaceAll(input, nil)
	}
	if err := check(string(expected), string(input), prefix); err != nil {
		fmt.Fprintf(os.Stderr, "%v\ninput was:\n%s", err, input)
		os.Exit(1)
	}
}

func check(expected, input, prefix string) error {
	blank := regexp.MustCompile(`[ \t]+`)
	var lines []string
	for line := range strings.Lines(input) {
		lines = append(lines, blank.ReplaceAllString(strings.TrimSuffix(line, "\n"), " "))
	}
	directive := regexp.MustCompile(`(?m)^.*?\b` + prefix + `(-NEXT|-DAG|-NOT|-EMPTY)?:(.*)$`)
	last := -1 // the last line that matched
	var unordered []int
	var never []*regexp.Regexp
	for _, m := range directive.FindAllStringSubmatch(expected, -1) {
		want := pattern(blank.ReplaceAllString(strings.TrimSpace(m[2]), " "))
		at := -1
		switch m[1] {
		case "-NOT":
			never = append(never, want)
			continue
		case "-EMPTY":
			if last+1 < len(lines) && lines[last+1] == "" {
				at = last + 1
			}
		case "-NEXT":
			last = max(last, slices.Max(append(unordered, -1)))
			unordered = nil
			if last+1 < len(lines) && want.MatchString(lines[last+1]) {
				at = last + 1
			}
		case "-DAG":
			for i := last + 1; i < len(lines); i++ {
				if !slices.Contains(unordered, i) && want.MatchString(lines[i]) {
					at = i
					break
				}
			}
			unordered = append(unordered, at)
		default:
			for i := last + 1; i < len(lines) && at < 0; i++ {
				if want.MatchString(lines[i]) {
					at = i
				}
			}
		}
		if at < 0 {
			return fmt.Errorf("not found after line %d: %s", last+1, m[0])
		}
		if m[1] == "-DAG" {
			continue
		}
		for _, not := range never {
			for _, line := range lines[last+1 : at] {
				if not.MatchString(line) {
					return fmt.Errorf("unexpected: %s", line)
				}
			}
		}
		never, last = nil, at
	}
	return nil
}

// pattern converts a CHECK line to a regular expression. Text in double braces is an expression
// already.
func pattern(s string) *regexp.Regexp {
	var b strings.Builder
	for {
		before, rest, ok := strings.Cut(s, "{{")
		b.WriteString(regexp.QuoteMeta(before))
		if !ok {
			return regexp.MustCompile(b.String())
		}
		expr, after, _ := strings.Cut(rest, "}}")
		b.WriteString("(?:" + expr + ")")
		s = after
	}
}

// sortedJSON replaces the Python script that prints indented JSON with sorted keys.
func sortedJSON() {
	var v any
	d := json.NewDecoder(os.Stdin)
	if err := d.Decode(&v); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	_ = e.Encode(v)
	os.Stdout.Write(b.Bytes())
}
