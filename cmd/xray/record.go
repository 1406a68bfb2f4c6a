package main

import (
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/xray-tools/xray/cmd/xray/internal/cli"
	"github.com/xray-tools/xray/cmd/xray/internal/launch"
	"github.com/xray-tools/xray/recorder"
)

// recordFlags are the flags of record.
type recordFlags struct {
	launch.Plan
	sched    schedFlag
	pid      string
	duration time.Duration
}

// schedFlag selects events of the kernel; "" is none.
type schedFlag string

const (
	schedSwitches = "switches"
	schedIRQ      = "irq"
)

func (s *schedFlag) add(f *pflag.FlagSet) {
	f.StringVar((*string)(s), "sched", "", "also record which tasks ran instead of the program's threads and which tasks woke them; with irq as `LIST`, also record interrupts; requires root")
	f.Lookup("sched").NoOptDefVal = schedSwitches
}

// interrupts reports whether the flag asks for interrupts, too.
func (s schedFlag) interrupts() (irq bool, err error) {
	if s == "" {
		return false, nil
	}
	for word := range strings.SplitSeq(string(s), ",") {
		switch strings.TrimSpace(word) {
		case schedSwitches:
		case schedIRQ:
			irq = true
		default:
			return false, cli.Usagef("--sched: %q is neither %s nor %s", word, schedSwitches, schedIRQ)
		}
	}
	return irq, nil
}

// defaultTrace is the default template for names of traces.
const defaultTrace = "xray-%e.%p.xray"

func (a *app) recordCommand() *cobra.Command {
	r := recordFlags{Plan: launch.Plan{Streams: &a.Streams}}
	cmd := &cobra.Command{
		Use:   "record [flags] [--] PROGRAM [ARGUMENT...]",
		Short: "Run a program and record its calls",
		Long: `Run a program built with clang -fxray-instrument and record its function calls. The
recorder is preloaded, so the program needs no relinking. The first run compiles the
recorder and needs a C compiler. The trace identifies its binaries, so other commands
need no -m.

With -p, record a running process. If the process has no recorder, xray injects it with
ptrace.

Ctrl-C stops the program and finishes the trace. The exit status is that of the program,
or 128 plus the signal number if a signal killed it.

With -o -, xray writes the trace to standard output when the program exits. The program's
own standard output goes to standard error.`,
		Example: `  xray record -- ./server --port 8080
  xray record --prune 5us --ring 64M -- ./server
  xray record --func '^db::' -o db.xray -- ./server
  xray record -o - -- ./server | zstd | aws s3 cp - s3://traces/server.xray.zst
  xray record -p 1234 --duration 10s
  xray record --window 1s/60s -- ./server`,
		Annotations: map[string]string{cli.Verbatim: "true"},
		Args: func(_ *cobra.Command, args []string) error {
			switch {
			case r.pid != "" && len(args) > 0:
				return cli.Usagef("unexpected argument %q: -p records a running process", args[0])
			case r.pid == "" && len(args) == 0:
				return cli.Usagef("pass a PROGRAM to run, or a process ID with -p")
			case r.pid == "" && args[0] == "":
				return cli.Usagef("the program name is empty")
			}
			return r.check()
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := recorder.Supported(); err != nil {
				return err
			}
			switch {
			case r.pid != "":
				return r.Process(cmd.Context(), r.pid, r.duration)
			case r.Output == "-":
				return r.Piped(cmd.Context(), args)
			}
			return r.Program(cmd.Context(), args)
		},
	}
	f := cmd.Flags()
	f.SetInterspersed(false) // arguments after the program's name belong to the program
	r.AddFlags(f)
	cli.AddBudget(f, &r.Budget, "limit the overhead to `PERCENT` of the program's CPU time: record the most informative calls and estimate the rest")
	cli.AddSize(f, &r.Ring, "ring", "keep only the last `SIZE` of records per thread, and write them when the recording ends")
	cli.AddSize(f, &r.Memory, "memory", "keep at most `SIZE` of records in memory, for all threads of a process together: rings (--ring), or what is not written yet")
	f.StringVarP(&r.Output, "output", "o", defaultTrace, "write to `FILE`; %p is the process ID, %e the program name, %% a percent sign; - is standard output")
	f.BoolVar(&r.NoFollow, "no-follow", false, "do not record child processes")
	f.BoolVar(&r.NoOffCPU, "no-offcpu", false, "do not record off-CPU time")
	f.BoolVar(&r.Fibers, "fibers", false, "record programs that switch stacks (fibers, ucontext): show the calls of each stack as those of a thread")
	f.BoolVar(&r.Drop, "drop", false, "drop records instead of blocking threads if xray cannot write the trace fast enough")
	f.BoolVar(&r.Compress, "compress", false, "compress the trace to about a fifth of its size")
	r.sched.add(f)
	f.StringVarP(&r.pid, "pid", "p", "", "record the running process `PID`")
	cli.AddDuration(f, &r.duration, "duration", "with -p, stop after `TIME`")
	f.BoolVarP(&r.Quiet, "quiet", "q", false, "print only errors")
	r.AddLibcalls(f)
	launch.AddCompiler(f, &r.Compiler)
	cli.Spellings(f, map[string]string{"threshold": "prune"})
	return cmd
}

// check rejects flags that contradict each other.
func (r *recordFlags) check() (err error) {
	if err := r.Check(); err != nil {
		return err
	}
	if r.Interrupts, err = r.sched.interrupts(); err != nil {
		return err
	}
	r.Sched = r.sched != ""
	if err := recorder.CheckTemplate(r.Output); err != nil {
		return cli.Usagef("--output: %w", err)
	}
	switch {
	case r.Output == "" || r.Output == "-" && r.pid != "":
		return cli.Usagef("-o - cannot be used with -p: pass a file name")
	case (r.Ring > 0 || r.Drop) && r.Sums():
		return cli.Usagef("--ring and --drop cannot be used with --count or --profile")
	case r.Memory > 0 && r.Sums():
		return cli.Usagef("--memory cannot be used with --count or --profile, which keep no records")
	case r.Ring > 0 && r.Drop:
		return cli.Usagef("--drop cannot be used with --ring")
	case r.Every > 0 && r.Budget > 0:
		return cli.Usagef("--window cannot be used with --budget: the budget needs call counts from outside the windows")
	case r.Every > 0 && r.Sched:
		return cli.Usagef("--window cannot be used with --sched, which records the kernel's events all the time")
	case r.Budget > 0 && (r.Sums() || r.Depth > 0 || len(r.When) > 0):
		return cli.Usagef("--budget cannot be used with --count, --profile, --depth or --when")
	case r.Fibers && (r.Sums() || r.Depth > 0 || r.Every > 0 || r.Budget > 0):
		return cli.Usagef("--fibers cannot be used with --budget, --count, --profile, --depth, --when or --window")
	case r.pid == "" && r.duration > 0:
		return cli.Usagef("--duration requires -p; to limit a program that xray starts, use timeout(1)")
	case r.pid != "" && r.Compress:
		return cli.Usagef("--compress cannot be used with -p: the process itself writes the trace")
	case r.pid != "" && (r.Ring > 0 || r.NoFollow || r.NoOffCPU || r.Fibers || r.Drop):
		return cli.Usagef("--ring, --no-follow, --no-offcpu, --fibers and --drop must be given when the program starts: they cannot be used with -p")
	}
	return launch.CheckSizes(r.Ring, r.Memory)
}

// observeCommand is the process that writes traces for record.
func (a *app) observeCommand() *cobra.Command {
	return &cobra.Command{
		Use: "observe", Hidden: true, Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return launch.Observe(cmd.Context(), &a.Streams) },
	}
}

// followCommand is the process that reads the scheduler's events for record -p.
func (a *app) followCommand() *cobra.Command {
	return &cobra.Command{
		Use: "follow-sched", Hidden: true, Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error { return launch.FollowSched(&a.Streams) },
	}
}
