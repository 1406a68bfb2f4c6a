package main

import (
	"errors"
	"io"
	"regexp"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/xray-tools/xray/cmd/xray/internal/cli"
	"github.com/xray-tools/xray/cmd/xray/internal/session"
	"github.com/xray-tools/xray/report/label"
	"github.com/xray-tools/xray/tables/summary"
)

// summarizing is one run of summarize.
type summarizing struct {
	*app
	inputs     session.Inputs
	output     string
	key        summary.Key
	labelTexts []string
}

func (a *app) summarizeCommand() *cobra.Command {
	c := summarizing{app: a, inputs: session.Inputs{Scope: session.ByCall, PathMemory: true, Summaries: true}}
	cmd := &cobra.Command{
		Use:   "summarize TRACE... -o FILE",
		Short: "Aggregate traces into a mergeable Parquet table",
		Long: `Aggregate the calls of traces by call path and write a Parquet table, a summary, that any
SQL engine can read and merge. Each row has the program, its build ID, the host, labels
and a call path, with counts, times and a histogram of durations. TRACE can also be a
summary: summarize merges it into the output.

The commands account, stack, graph, graph-diff, diff and convert read summaries too.`,
		Example: `  xray summarize -m ./server --label region=eu -o host1.parquet trace.xray
  xray summarize -o day.parquet host*.parquet
  xray account day.parquet`,
		Args: cli.Operands("a TRACE", 1, true),
		RunE: c.run,
	}
	f := cmd.Flags()
	c.inputs.AddFlags(f)
	c.addFlags(f)
	cli.AddKeepGoing(f)
	return cmd
}

func (c *summarizing) addFlags(f *pflag.FlagSet) {
	f.StringArrayVar(&c.labelTexts, "label", nil, "add the label `KEY=VALUE` to the rows of all traces; repeatable")
	f.StringVar(&c.key.Host, "host", "", "set the host of all traces to `HOST`")
	f.StringVar(&c.key.Program, "program", "", "set the program of all traces to `PROGRAM`")
	cli.AddOutput(f, &c.output)
}

// labelKey matches the key of a label.
var labelKey = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_.-]*$`)

// labels parses --label.
func (c *summarizing) labels() (string, error) {
	labels := make(map[string]string)
	for _, text := range c.labelTexts {
		key, value, ok := strings.Cut(text, "=")
		if !ok || !labelKey.MatchString(key) || !utf8.ValidString(value) {
			return "", cli.Usagef("--label %s: write KEY=VALUE, with a key of letters, digits and _.-", text)
		}
		if _, twice := labels[key]; twice {
			return "", cli.Usagef("--label: %s is given twice", key)
		}
		labels[key] = value
	}
	return summary.Labels(labels), nil
}

func (c *summarizing) run(cmd *cobra.Command, args []string) error {
	if err := c.RefuseTerminal(c.output, "parquet"); err != nil {
		return err
	}
	if err := c.inputs.Check(); err != nil {
		return err
	}
	var err error
	if c.key.Labels, err = c.labels(); err != nil {
		return err
	}
	files, err := cli.FilesBelow(args)
	if err != nil {
		return err
	}
	sources, err := c.inputs.Sources(&c.Streams, cmd.Name(), c.key, files)
	if err != nil {
		return err
	}
	return c.WriteData(c.output, func(w io.Writer) error {
		out := summary.NewWriter(w)
		folded, callerless := uint64(0), uint64(0)
		err := summary.Merge(sources, c.inputs.MaxSummaryPaths(), func(g *summary.Group) error {
			if g.Folded {
				folded++
			}
			if g.Callerless {
				callerless++
			}
			return out.Group(g)
		})
		if folded > 0 {
			c.Say("%s more call paths than fit into --path-memory. The lightest are combined into nodes named (folded). "+
				"Sums by function are exact.", label.Count(folded, "program has", "programs have"))
		}
		if callerless > 0 {
			c.Say("The folded calls of %s have too many different callers for --path-memory, so their callers are omitted.",
				label.Count(callerless, "program", "programs"))
		}
		return errors.Join(err, out.Close())
	})
}
