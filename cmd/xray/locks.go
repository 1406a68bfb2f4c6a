package main

import (
	"cmp"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/xray-tools/xray/cmd/xray/internal/cli"
	"github.com/xray-tools/xray/cmd/xray/internal/session"
	"github.com/xray-tools/xray/explain/locks"
	"github.com/xray-tools/xray/explain/why"
	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/reader/calls"
	"github.com/xray-tools/xray/report"
	"github.com/xray-tools/xray/report/label"
	"github.com/xray-tools/xray/sched"
	"github.com/xray-tools/xray/symbolize"
)

// lockReport is one run of locks.
type lockReport struct {
	inputs session.Inputs
	output session.Output
	which  lockFlags
	top    int
}

func (a *app) locksCommand() *cobra.Command {
	c := lockReport{inputs: session.Inputs{Scope: session.ByPlace, PathMemory: true}, top: 5}
	return a.overTraces(command{
		use:   "locks TRACE...",
		short: "Show lock contention: waiters, holders, and lock order",
		long: `Show how often threads took each lock, how long they waited for it and held it, which call
paths waited while others held it, and when several threads waited at once. Also show
which locks were taken while holding others, and which lock orders can deadlock.

xray recognizes lock functions by name. It identifies a lock by the address that a lock
function logs as its first argument. If a function logs no argument, all of its calls
count as one lock.`,
		example: `  xray locks -m ./server trace.xray
  xray locks -m ./server --lock 'Latch::get$' --unlock 'Latch::put$' trace.xray
  xray locks -m ./server --format csv -o locks.csv trace.xray`,
		inputs: &c.inputs,
		output: &c.output,
		flags: func(f *pflag.FlagSet) {
			c.which.add(f)
			cli.AddTop(f, &c.top, "locks by waiting time, and at least 5 call paths of each")
		},
		run: c.run,
	})
}

func (c *lockReport) run(s *session.Session) error {
	opts := locks.Options{
		Thread: s.Scope.Thread, From: s.Scope.From, To: s.Scope.To, Clock: s.Clock, Processes: s.Trace.Processes(), Short: s.ShortTicks(), MaxPaths: lockPaths(s), Memory: s.TableMemory,
		Code:   s.Code,
		Wakers: sched.NewLogs(s.Trace),
	}
	var err error
	if opts.Function, err = c.which.functions(s.Names); err != nil {
		return err
	}
	var found *locks.Report
	run := &session.Run{}
	err = s.Pass(func(unmatched func(*calls.Unmatched) error) (err error) {
		opts.Unmatched = unmatched
		found, run.Stats, err = locks.Analyze(s.Trace, opts)
		return err
	})
	if err != nil {
		return err
	}
	run.Start = found.First
	view := locks.View{Top: c.top, Threads: s.ThreadNames(), Locks: namesOfLocks(s)}
	if c.top > 0 {
		view.Paths = max(c.top, leastPaths)
	}
	return s.Report(&c.output, run, func(names symbolize.Names) []report.Node { return found.Body(names, view) })
}

// namesOfLocks returns how reports name locks.
func namesOfLocks(s *session.Session) label.Locks {
	return label.Locks{Variable: s.DataAt, Member: locks.Members(s.Names)}
}

// leastPaths is the minimum number of call paths to show for a lock, if it has that many.
const leastPaths = 5

// lockPathCost is the memory for a path relative to other commands. Each path has waits and
// holds.
const lockPathCost = 8

// lockPaths returns the number of call paths that fit into memory. 0 is no limit.
func lockPaths(s *session.Session) int { return (s.MaxPaths + lockPathCost - 1) / lockPathCost }

// lockFlags are the flags that select functions of locks.
type lockFlags struct{ lock, unlock, cond string }

func (f *lockFlags) add(flags *pflag.FlagSet) {
	flags.StringVar(&f.lock, "lock", "", "treat functions that match `REGEXP` as taking a lock")
	addUnlock(flags, &f.unlock)
	flags.StringVar(&f.cond, "cond", "", "treat functions that match `REGEXP` as condition waits, which release the lock while they wait")
}

func addUnlock(flags *pflag.FlagSet, unlock *string) {
	flags.StringVar(unlock, "unlock", "", "treat functions that match `REGEXP` as releasing a lock")
}

func (f *lockFlags) functions(names symbolize.Names) (func(reader.FuncID) locks.Function, error) {
	lock, err1 := session.Regexp("lock", f.lock)
	unlock, err2 := session.Regexp("unlock", f.unlock)
	cond, err3 := session.Regexp("cond", f.cond)
	return locks.ByName(names, lock, unlock, cond), cmp.Or(err1, err2, err3)
}

// waitFlags are the flags that select functions that wait for other threads or release them.
type waitFlags struct{ wait, unlock string }

func (f *waitFlags) add(flags *pflag.FlagSet) {
	f.addWait(flags)
	addUnlock(flags, &f.unlock)
}

// addWait adds only --wait.
func (f *waitFlags) addWait(flags *pflag.FlagSet) {
	flags.StringVar(&f.wait, "wait", "", "treat functions that match `REGEXP` as waits")
}

func (f *waitFlags) roles(names symbolize.Names) (func(reader.FuncID) why.Role, error) {
	wait, err1 := session.Regexp("wait", f.wait)
	unlock, err2 := session.Regexp("unlock", f.unlock)
	return why.RolesByName(names, wait, unlock), cmp.Or(err1, err2)
}
