package main

import (
	"cmp"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/xray-tools/xray/cmd/xray/internal/cli"
	"github.com/xray-tools/xray/cmd/xray/internal/launch"
	"github.com/xray-tools/xray/cmd/xray/internal/top"
	"github.com/xray-tools/xray/cmd/xray/internal/tui"
	"github.com/xray-tools/xray/recorder"
)

// topFlags are the flags of top.
type topFlags struct{ top.Topping }

func (a *app) topCommand() *cobra.Command {
	t := &topFlags{top.Topping{
		Plan:     launch.Plan{Streams: &a.Streams, Options: recorder.Options{Ring: 4 << 20}},
		Interval: time.Second, Share: 0.03, Sort: "self",
	}}
	cmd := &cobra.Command{
		Use:   "top {PID | -p PID | --wait-for NAME}",
		Short: "Show live call rates and latency of a running process",
		Long: `Show a live table of the functions of a running process: calls, total time, CPU time and
blocked time per second, and call durations. Press ? for the keys.

top records the process into memory during each interval. If that costs more than
--budget, top records only part of each interval, says so, and shows the rates of that
part. It assumes a cost of 10 ns per record. When top ends, the process is as it was
before.

For scripts, use --once or --batch to write tables.`,
		Example: `  xray top 1234
  xray top --wait-for server --sort p99
  xray top 1234 --once --top 10
  xray top 1234 --batch --duration 60s --format csv -o minute.csv`,
		Args: func(_ *cobra.Command, args []string) error { return t.check(args) },
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := recorder.Supported(); err != nil {
				return err
			}
			return t.Run(cmd.Context())
		},
	}
	f := cmd.Flags()
	f.StringVarP(&t.PID, "pid", "p", "", "observe the process `PID`")
	f.StringVar(&t.Wait, "wait-for", "", "wait for a process whose program is called `NAME` and observe it")
	cli.AddDuration(f, &t.Interval, "interval", "update every `TIME`")
	cli.AddDuration(f, &t.Duration, "duration", "stop after `TIME`")
	cli.AddBudget(f, &t.Share, "limit the overhead to `PERCENT` of the process's CPU time by recording part of each interval; 100 means no limit")
	f.BoolVar(&t.Once, "once", false, "write the table of one interval and exit")
	f.BoolVar(&t.Batch, "batch", false, "write a table for each interval")
	addBrowserSort(f, &t.Sort)
	cli.AddTop(f, &t.Most, "functions of each table")
	cli.AddSize(f, &t.Ring, "ring", "give each thread a ring buffer of `SIZE`; ignored if the process already has a recorder")
	cli.AddSize(f, &t.Memory, "memory", "keep at most `SIZE` of records in the rings of all threads together; ignored if the process already has a recorder")
	t.Selection.AddFlags(f)
	launch.AddCompiler(f, &t.Compiler)
	t.Report.AddFlags(f)
	cli.CompleteColumns(cmd, "sort", tui.Columns(), false)
	cli.Spellings(f, map[string]string{"func-filter": "func"})
	return cmd
}

func (t *topFlags) check(args []string) error {
	if len(args) == 1 && t.PID == "" && t.Wait == "" {
		t.PID = args[0]
	} else if len(args) > 0 {
		return cli.Usagef("pass one PID, -p PID or --wait-for NAME")
	}
	_, err := strconv.Atoi(t.PID)
	switch {
	case t.PID == "" && t.Wait == "":
		return cli.Usagef("pass a process ID, or the name of a program with --wait-for")
	case t.PID != "" && t.Wait != "":
		return cli.Usagef("use only one of PID and --wait-for")
	case t.PID != "" && err != nil:
		return cli.Usagef("%q is not a process ID", t.PID)
	case t.Interval < 10*time.Millisecond:
		return cli.Usagef("--interval: must be at least 10ms")
	case t.Once && t.Batch:
		return cli.Usagef("use only one of --once and --batch")
	case !t.Once && !t.Batch && (t.Report.Path != "" && t.Report.Path != "-" || t.Report.Format != "" && t.Report.Format != "text"):
		return cli.Usagef("--output and --format require --once or --batch")
	case t.Batch && t.Report.Format == "html":
		return cli.Usagef("--batch cannot write HTML: use --once, or --format csv or json")
	}
	return cmp.Or(launch.CheckSizes(t.Ring, t.Memory), t.Check(), checkBrowserSort(t.Sort))
}
