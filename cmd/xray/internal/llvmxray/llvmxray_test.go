package llvmxray

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/xray-tools/xray/cmd/xray/internal/cli"
	"github.com/xray-tools/xray/internal/tracetext"
)

// The status, the outputs and the words for errors are those of llvm-xray.
func TestRun(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for name, text := range map[string]string{
		"good.xray": "enter 1 +0\nenter 2 +10\nexit 2 +20\nexit 1 +5\n",
		"ring.xray": "enter 1 +0\nexit 9 +10\nexit 1 +20\n",
	} {
		trace, err := tracetext.Parse("xray fdr frequency=1000000000\nthread 3 pid=3 tsc=1000\n" + text)
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, name), trace, 0o666)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		args   string
		status int
		stdout string // of which these are a part
		stderr string
	}{
		{"account good.xray", 0, "Functions with latencies: 2\n", ""},
		{"account -f csv -s funcid -r dsc good.xray", 0, "\n2,1,2.000000e-08,", ""},
		{"account ring.xray", 1, "", "Failed accounting function calls in file 'DIR/ring.xray'."},
		{"account ring.xray", 1, "", "function-id: 9; tsc: 1010; thread-id: 3; process-id: 3}}\nThread ID: 3\n  #1\t#1\n"},
		{"account -k ring.xray", 0, "Functions with latencies: 1\n", "function-id: 9;"},
		{"stack -k ring.xray", 0, "Unique Stacks: 1\n", "Found record {FuncId: \"#9\""},
		{"stack -all-stacks good.xray", 1, "", "You must specify a non-human format when reporting with -all-stacks.\n"},
		{"graph ring.xray", 1, "", "Error encountered generating the call graph.\nNo matching ENTRY record\n"},
		{"graph -d ring.xray", 1, "", "No matching Entry record in stack\n"},
		{"graph good.xray", 0, "digraph xray {\nF0 -> F1 [label=\"\"];\nF1 -> F2 [label=\"\"];\n", ""},
		// An option for one of the traces is stronger than the one for both.
		{"graph-diff -k2 good.xray ring.xray", 0, "digraph xrayDiff {\n", ""},
		{"graph-diff -k -k2=false good.xray ring.xray", 1, "", "No matching ENTRY record"},
		{"graph-diff good.xray none.xray", 1, "", "Failed Loading Input File 'DIR/none.xray'\n"},
		{"convert -f yaml good.xray", 0, "\n  - { type: 0, func-id: 1, ", ""},
		{"fdr-dump good.xray", 0, "<Function Enter: #2 delta = +10>\n", ""},
		{"account none.xray", 1, "", "llvm-xray: Failed loading input file 'DIR/none.xray'\nNo such file or directory\n"},
		{"account -m none.yaml good.xray", 1, "", "Cannot open instrumentation map 'DIR/none.yaml'\nNo such file or directory\n"},
		{"account -o none/out good.xray", 1, "", "Cannot open file 'DIR/none/out' for writing.\n"},
		{"nothing good.xray", 1, "", ""},
	} {
		args := strings.Fields(c.args)
		for i, arg := range args {
			if strings.ContainsAny(arg, "./") {
				args[i] = filepath.Join(dir, arg)
			}
		}
		var stdout, stderr bytes.Buffer
		status := Run(&cli.Streams{Stdin: strings.NewReader(""), Stdout: cli.Text{Raw: &stdout}, Stderr: cli.Text{Raw: &stderr}},
			append([]string{"llvm-xray"}, args...), "test")
		said := strings.ReplaceAll(stderr.String(), dir, "DIR")
		if status != c.status || !strings.Contains(stdout.String(), c.stdout) || !strings.Contains(said, c.stderr) || status != 0 && stdout.Len() > 0 {
			t.Errorf("%s: got status %d\n%s\n%s", c.args, status, stdout.String(), said)
		}
	}
}
