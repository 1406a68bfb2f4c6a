package main

import (
	"cmp"
	"regexp"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/xray-tools/xray/cmd/xray/internal/cli"
	"github.com/xray-tools/xray/cmd/xray/internal/launch"
	"github.com/xray-tools/xray/cmd/xray/internal/watch"
	"github.com/xray-tools/xray/recorder"
	"github.com/xray-tools/xray/recorder/args"
)

// watchFlags are the flags of watch.
type watchFlags struct {
	watch.Watching
	roots []string
}

func (a *app) watchCommand() *cobra.Command {
	w := &watchFlags{Watching: watch.Watching{
		Plan: launch.Plan{Streams: &a.Streams, Options: recorder.Options{Memory: 256 << 20, Ring: 4 << 20}},
		Over: "auto", Limits: watch.Limits{Keep: 100, Usual: 20, Disk: 1 << 30}, Slow: watch.Options{Margin: time.Millisecond},
	}}
	cmd := &cobra.Command{
		Use:   "watch {-p PID | --wait-for NAME | [--] PROGRAM [ARGUMENT...]} --root REGEXP -o FILE",
		Short: "Capture a trace of each slow call in a running process",
		Long: `Record a process into memory. Whenever a call of a --root function takes longer than
--over, write a trace of all threads during that call to the directory FILE. Threads only
record. watch reads their memory from outside the process.

Without --over, a call is slow if it takes longer than the p99 of recent calls of its
function, and longer than all but three of the function's calls in the last minute. That
is about four traces per minute. The first 10 seconds and 100 calls only set the scale.

watch also keeps traces of usual calls for comparison. To explain the slow calls, run
"xray why FILE". The file _index.jsonl has one line of JSON per trace.

watch runs until the process exits, --duration has passed, or you press Ctrl-C. With
--wait-for, it continues with the next process of that name instead of stopping. When
watch stops, the process continues without recording. watch also covers child processes
that have the recorder in them.`,
		Example: `  xray watch -p 1234 --root '^handleRequest' --over 20ms -o slow
  xray watch --wait-for server --root '^handleRequest' --over p99.9 -o slow --disk 500M
  xray watch --root '^handleRequest' --over 20ms -o slow -- ./server --port 8080
  xray why slow`,
		Annotations: map[string]string{cli.Verbatim: "true"},
		Args:        func(_ *cobra.Command, args []string) error { return w.check(args) },
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := recorder.Supported(); err != nil {
				return err
			}
			return w.Start(cmd.Context(), args)
		},
	}
	f := cmd.Flags()
	f.SetInterspersed(false) // arguments after the program's name belong to the program
	f.StringVarP(&w.PID, "pid", "p", "", "watch the running process `PID`")
	f.StringVar(&w.Wait, "wait-for", "", "wait for a process whose program is called `NAME` and watch it; when it exits, wait for the next one")
	f.StringArrayVar(&w.roots, "root", nil, "select the outermost calls of functions that match `REGEXP`, and with REGEXP: EXPR OP VALUE, as in --when, only calls for which that holds; repeatable")
	f.StringVar(&w.Over, "over", w.Over, "treat calls as slow by `RULE`: longer than a time (20ms) or a percentile of recent calls (p99.9); auto selects the longest calls, about four per minute")
	f.StringVarP(&w.Output, "output", "o", "", "write traces to the directory `FILE`")
	cli.AddCount(f, &w.Limits.Keep, "traces", "", 0, "keep the traces of the `N` slowest calls; 0 keeps all")
	f.BoolVar(&w.Limits.Latest, "latest", false, "with --traces, keep the latest slow calls instead of the slowest")
	cli.AddCount(f, &w.Limits.Usual, "sample", "", 0, "also keep `N` traces of calls that are not slow, for comparison")
	cli.AddSize(f, &w.Limits.Disk, "disk", "keep at most `SIZE` of traces")
	cli.AddDuration(f, &w.Slow.Every, "every", "write at most one trace every `TIME`")
	cli.AddDuration(f, &w.Slow.Margin, "margin", "include `TIME` before and after the slow call")
	f.StringVar(&w.Exec, "exec", "", "for each slow call, run the shell command `COMMAND` with the path of its trace")
	cli.AddSize(f, &w.Memory, "memory", "keep at most `SIZE` of records in the rings of all threads together, and as much outside the process, for long calls")
	cli.AddSize(f, &w.Ring, "ring", "give each thread a ring buffer of `SIZE`; ignored if the process already has a recorder")
	cli.AddDuration(f, &w.Duration, "duration", "stop after `TIME`")
	w.AddPrune(f)
	w.AddDepth(f)
	w.AddWindow(f)
	cli.AddBudget(f, &w.Budget, "limit the overhead to about `PERCENT` of the process's CPU time: record all calls of --root and the most informative others")
	w.Selection.AddFlags(f)
	w.AddValues(f)
	w.AddLibcalls(f)
	launch.AddCompiler(f, &w.Compiler)
	f.BoolVarP(&w.Quiet, "quiet", "q", false, "print only errors")
	cli.Spellings(f, map[string]string{"threshold": "prune", "func-filter": "func"})
	return cmd
}

func (w *watchFlags) check(operands []string) error {
	given := 0
	for _, is := range []bool{w.PID != "", w.Wait != "", len(operands) > 0} {
		if is {
			given++
		}
	}
	for i, root := range w.roots {
		if end := args.PatternEnd(root); end < len(root) {
			w.When = append(w.When, root)
			w.roots[i] = root[:end]
		}
	}
	switch {
	case given == 0:
		return cli.Usagef("pass a PROGRAM to run, a process ID with -p, or a program name with --wait-for")
	case given > 1:
		return cli.Usagef("use only one of PROGRAM, -p and --wait-for")
	case len(w.roots) == 0:
		return cli.Usagef("pass --root, a regular expression for the functions whose slow calls to watch for, such as '^handleRequest'")
	case w.Output == "":
		return cli.Usagef("pass the directory for the traces with -o")
	case w.Memory == 0:
		return cli.Usagef("--memory: must be at least %dM, not 0 bytes", recorder.LeastMemory>>20)
	case w.Budget > 0 && (w.Depth > 0 || len(w.When) > 0):
		return cli.Usagef("--budget cannot be used with --depth or --when, or with a condition in --root")
	case w.Budget > 0 && w.Every > 0:
		return cli.Usagef("--window cannot be used with --budget: the budget needs call counts from outside the windows")
	}
	err := cmp.Or(launch.CheckSizes(w.Ring, w.Memory), w.Check())
	if err != nil {
		return err
	}
	for _, root := range w.roots {
		if _, err = regexp.Compile(root); err != nil {
			return cli.Usagef("--root: %w", err)
		}
	}
	w.Slow.Root = strings.Join(w.roots, "|")
	if w.Over == "auto" {
		w.Slow.Quantile, w.Slow.Longest = 0.99, true
	} else if w.Slow.Quantile, err = cli.ParseQuantile(w.Over); err != nil {
		if w.Slow.Over, err = time.ParseDuration(w.Over); err != nil || w.Slow.Over <= 0 {
			return cli.Usagef("--over: %q is neither a time (20ms), nor a percentile (p99.9), nor auto", w.Over)
		}
	}
	if w.Slow.Over == 0 && !(w.Slow.Quantile > 0 && w.Slow.Quantile < 1) {
		return cli.Usagef("--over: %q is not between p0 and p100", w.Over)
	}
	return nil
}
