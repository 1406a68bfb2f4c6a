package llvmargs

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// options holds the options of the test command.
type options struct {
	Keep, Deduce bool
	Map, Format  string
	Top          int
}

func parse(args ...string) (o options, operands []string, outcome Outcome, out, errs string) {
	o = options{Format: "text", Top: -1}
	c := &Command{Name: "account", Short: "Function call accounting", Operands: "<log>", Min: 1, Max: 1}
	c.Bool(&o.Keep, "keep-going", "Keep going", "k")
	c.Bool(&o.Deduce, "deduce-sibling-calls", "Deduce", "d")
	c.String(&o.Map, "instr_map", "file", "a map", "m")
	c.Int(&o.Top, "top", "N", "only the first", "p")
	c.Choice(&o.Format, "format", "output format", []Choice{{"text", "as text"}, {"csv", "as CSV"}}, "f")
	tool := &Tool{Program: "tool", Overview: "A tool", Version: "version 1", Commands: []*Command{c}}
	var stdout, stderr strings.Builder
	_, operands, outcome = tool.Parse(args, &stdout, &stderr)
	return o, operands, outcome, stdout.String(), stderr.String()
}

func TestParse(t *testing.T) {
	defaults := options{Format: "text", Top: -1}
	for _, test := range []struct {
		args string
		want func(*options)
	}{
		{"account log", func(*options) {}},
		{"account log -k", func(o *options) { o.Keep = true }},
		{"account --keep-going log", func(o *options) { o.Keep = true }},
		{"account -keep-going=false -k=1 log", func(o *options) { o.Keep = true }},
		{"account -kd log", func(o *options) { o.Keep, o.Deduce = true, true }},
		{"account --dk=false log", func(o *options) { o.Deduce = true }},
		{"account -kf csv log", func(o *options) { o.Keep, o.Format = true, "csv" }},
		{"account -f=csv -m a -instr_map=b log", func(o *options) { o.Format, o.Map = "csv", "b" }},
		{"account -m -k log", func(o *options) { o.Map = "-k" }},
		{"account -p 0x10 log", func(o *options) { o.Top = 16 }},
		{"account -top=-3 log", func(o *options) { o.Top = -3 }},
		{"account -k -- log", func(o *options) { o.Keep = true }},
	} {
		want := defaults
		test.want(&want)
		got, operands, outcome, _, errs := parse(strings.Fields(test.args)...)
		if outcome != Run || errs != "" || len(operands) != 1 || operands[0] != "log" {
			t.Errorf("%s: got outcome %v, operands %q, errors %q", test.args, outcome, operands, errs)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", test.args, diff)
		}
	}
}

// TestComplaints expects the texts of LLVM 22.
func TestComplaints(t *testing.T) {
	for args, want := range map[string]string{
		"account":                "Not enough positional command line arguments specified!\nMust specify at least 1 positional argument: See: tool --help\n",
		"account a b":            "Too many positional arguments specified!\nCan specify at most 1 positional arguments: See: tool --help\n",
		"account -s log":         "Unknown command line argument '-s'.  Try: 'tool --help'\ntool: Did you mean '-d'?\n",
		"account --to=3 log":     "Unknown command line argument '--to=3'.  Try: 'tool --help'\ntool: Did you mean '--top=3'?\n",
		"account -k=x log":       "for the --keep-going option: 'x' is invalid value for boolean argument! Try 0 or 1\n",
		"account -p x log":       "for the --top option: 'x' value invalid for integer argument!\n",
		"account -p 1_0 log":     "for the --top option: '1_0' value invalid for integer argument!\n",
		"account -f html log":    "for the --format option: Cannot find option named 'html'!\n",
		"account log -f":         "for the -f option: requires a value!\n",
		"acount":                 "Unknown subcommand 'acount'.  Try: 'tool --help'\ntool: Did you mean 'account'?\n",
		"account log -m x -fcsv": "for the -f option: may not occur within a group!\ntool: Unknown command line argument '-fcsv'.  Try: 'tool --help'\ntool: Did you mean '-f'?\n",
	} {
		_, _, outcome, out, errs := parse(strings.Fields(args)...)
		if outcome != Failed || out != "" || errs != "tool: "+want {
			t.Errorf("%s: got outcome %v, output %q, errors\n%s", args, outcome, out, errs)
		}
	}
}

func TestHelp(t *testing.T) {
	for _, args := range []string{"", "--help", "-h", "account --help", "account -h a b", "--version"} {
		_, _, outcome, out, errs := parse(strings.Fields(args)...)
		if outcome != Shown || out == "" || errs != "" {
			t.Errorf("%q: got outcome %v, output %q, errors %q", args, outcome, out, errs)
		}
	}
	_, _, _, out, _ := parse("account", "--help")
	const want = `
General options:

  --deduce-sibling-calls - Deduce
  --format=<value>       - output format
    =text                -   as text
    =csv                 -   as CSV
  --instr_map=<file>     - a map
`
	if !strings.Contains(out, want) {
		t.Errorf("got help\n%s", out)
	}
}

func FuzzParse(f *testing.F) {
	for _, s := range []string{"account -k log", "account -kf=csv --top 3 -- -x", "--help", "-", "account -=x"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, line string) {
		_, operands, outcome, out, errs := parse(strings.Split(line, " ")...)
		switch outcome {
		case Run:
			if len(operands) != 1 || out+errs != "" {
				t.Errorf("%q: got operands %q, output %q, errors %q", line, operands, out, errs)
			}
		case Failed:
			if errs == "" {
				t.Errorf("%q failed without a message", line)
			}
		}
	})
}
