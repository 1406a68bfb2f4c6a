package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/xray-tools/xray/cmd/xray/internal/cli"
	"github.com/xray-tools/xray/cmd/xray/internal/ctl"
	"github.com/xray-tools/xray/cmd/xray/internal/launch"
	"github.com/xray-tools/xray/recorder/client"
)

// ctlCommand is one of the commands that a recorder understands.
type ctlCommand struct {
	name, args, short string
	flags             []string // those that it takes
	run               func(*ctl.Control, context.Context) error
}

var (
	dirFlags    = []string{"symbols"}
	chooseFlags = append([]string{"func", "exclude", "args", "results"}, dirFlags...)
	modeFlags   = []string{"prune", "count", "profile", "depth"}
)

var ctlCommands = []ctlCommand{
	{"status", "", "show the state of the recorder", nil, (*ctl.Control).Status},
	{"start", "", "start recording into the rings, or into a file with -o", append([]string{"output", "limit", "window", "memory"}, modeFlags...), (*ctl.Control).Start},
	{"stop", "", "stop recording and finish the file", nil, (*ctl.Control).Stop},
	{"mode", "MODE", "set the mode: record, prune, count or profile; off pauses, on resumes", []string{"depth", "prune"}, (*ctl.Control).SetMode},
	{"threshold", "TIME", "set the duration below which prune drops calls", nil, (*ctl.Control).SetThreshold},
	{"filter", "", "record only the functions that --func and --exclude select, without them all; with --args and --results their values", chooseFlags, (*ctl.Control).Choose},
	{"snapshot", "", "write the contents of the rings to -o FILE without stopping the program", []string{"last", "output"}, (*ctl.Control).Snapshot},
	{"rescan", "", "detect shared libraries that were loaded or unloaded", nil, (*ctl.Control).Rescan},
	{"counters", "", "show the call counts of functions, in count mode", append([]string{"reset", "output", "names"}, dirFlags...), (*ctl.Control).Counters},
}

func (a *app) ctlCommand() *cobra.Command {
	c := &ctl.Control{Plan: launch.Plan{Streams: &a.Streams}, Format: "text"}
	var chosen ctlCommand
	cmd := &cobra.Command{
		Use:   "ctl [PID COMMAND] [flags]",
		Short: "Control the recorder in a running process",
		Long: `Control the recorder in a running process. The process must have been started by xray
record, or have the recorder linked in and listening (XRAY_RECORDER=control=1,start=0), or
be a forked child of such a process. The command start also loads the recorder into any
other instrumented process.

PID is a process ID or the path of the recorder's socket. The user that the process runs
as, the user who started it, and root can control it. Without PID, ctl lists the processes
that it can reach.

Commands:

` + ctlUsage(),
		Example: `  xray ctl
  xray ctl 1234 status
  xray ctl 1234 snapshot --last 50ms -o slow.xray
  xray ctl 1234 start --prune 5us -o server.xray`,
		Args: func(cmd *cobra.Command, args []string) (err error) {
			chosen, err = chooseCtl(cmd, args)
			return err
		},
		ValidArgsFunction: func(_ *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
			return completeCtl(args), cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			if isCtlList(args) {
				return c.List(cmd.Context())
			}
			if c.Process, err = client.Dial(args[0]); err != nil {
				return err
			}
			c.Args = args[2:]
			if c.Memory > 0 && c.Process.PID != 0 {
				var status client.Status
				if c.Process, status, err = c.Reach(cmd.Context(), args[0]); err == nil {
					err = c.CheckLimit(c.Process, &status)
				}
				if err != nil {
					return err
				}
			}
			err = chosen.run(c, cmd.Context())
			if chosen.name == "start" && errors.Is(err, client.ErrNoRecorder) && c.Process.PID != 0 {
				if c.Process, _, err = c.Reach(cmd.Context(), args[0]); err != nil {
					return err
				}
				err = chosen.run(c, cmd.Context())
			}
			return err
		},
	}
	f := cmd.Flags()
	c.Plan.AddFlags(f)
	c.StyleFlags.AddFlags(f)
	f.StringVarP(&c.Output, "output", "o", "", "write to `FILE`")
	cli.AddSize(f, &c.Memory, "memory", "keep at most `SIZE` of records in memory, for all threads together")
	cli.AddDuration(f, &c.Last, "last", "write only the last `TIME` (default everything in the rings)")
	f.BoolVar(&c.Reset, "reset", false, "reset the counters")
	cli.AddChoice(f, &c.Format, "format", "f", "output `FORMAT`; json is the recorder's own response", "text", "json")
	cli.Spellings(f, map[string]string{"threshold": "prune"})
	return cmd
}

func ctlUsage() string {
	var b strings.Builder
	for _, c := range ctlCommands {
		fmt.Fprintf(&b, "  %-15s %s\n", strings.TrimSpace(c.name+" "+c.args), c.short)
	}
	return strings.TrimRight(b.String(), "\n")
}

func ctlNames() []string {
	var names []string
	for _, c := range ctlCommands {
		names = append(names, c.name)
	}
	return names
}

func completeCtl(args []string) []cobra.Completion {
	switch {
	case len(args) == 1:
		return ctlNames()
	case len(args) == 2 && args[1] == "mode":
		return ctl.Modes
	}
	return nil
}

// isCtlList reports whether a command line asks for the list of processes.
func isCtlList(args []string) bool { return len(args) == 0 || len(args) == 1 && args[0] == "list" }

// chooseCtl finds the command of a command line. It rejects arguments that the command does not
// take.
func chooseCtl(cmd *cobra.Command, args []string) (ctlCommand, error) {
	if isCtlList(args) {
		return ctlCommand{name: "list"}, checkCtlFlags(cmd, ctlCommand{name: "list"})
	}
	if len(args) < 2 {
		return ctlCommand{}, cli.Usagef("pass a PID and a command: %s", strings.Join(ctlNames(), ", "))
	}
	i := slices.IndexFunc(ctlCommands, func(c ctlCommand) bool { return c.name == args[1] })
	if i < 0 {
		return ctlCommand{}, cli.Usagef("unknown command %q: use one of %s", args[1], strings.Join(ctlNames(), ", "))
	}
	c := ctlCommands[i]
	switch n := len(strings.Fields(c.args)); {
	case len(args)-2 < n:
		return c, cli.Usagef("%s requires a %s", c.name, c.args)
	case len(args)-2 > n:
		return c, cli.Usagef("%s: unexpected argument %q", c.name, args[2+n])
	}
	return c, checkCtlFlags(cmd, c)
}

// checkCtlFlags rejects flags that a command does not take.
func checkCtlFlags(cmd *cobra.Command, c ctlCommand) error {
	for _, flag := range slices.Concat(modeFlags, chooseFlags, []string{"when", "limit", "window", "memory", "output", "last", "reset", "names"}) {
		if cmd.Flags().Changed(flag) && !slices.Contains(c.flags, flag) {
			return cli.Usagef("--%s cannot be used with %s", flag, c.name)
		}
	}
	return nil
}
