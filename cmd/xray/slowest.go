package main

import (
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/xray-tools/xray/cmd/xray/internal/cli"
	"github.com/xray-tools/xray/cmd/xray/internal/session"
	"github.com/xray-tools/xray/explain/invocation"
	"github.com/xray-tools/xray/explain/locks"
	"github.com/xray-tools/xray/explain/slowest"
	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/reader/calls"
	"github.com/xray-tools/xray/report"
	"github.com/xray-tools/xray/sched"
	"github.com/xray-tools/xray/symbolize"
)

// slowestRun is one run of slowest.
type slowestRun struct {
	inputs    session.Inputs
	output    session.Output
	root      string
	ids       idFlags
	rootDepth int
	which     lockFlags
	top       int
	perThread bool
	minShare  float64
}

func newSlowest() slowestRun {
	return slowestRun{
		inputs: session.Inputs{Scope: session.ByPlace, PathMemory: true},
		top:    5, minShare: 0.01,
	}
}

func (a *app) slowestCommand() *cobra.Command {
	c := newSlowest()
	return a.overTraces(command{
		use:   "slowest TRACE...",
		short: "Show the slowest calls of a function and what they did",
		long: `Show the slowest outermost calls of the functions that --root selects. For each call,
show its thread, its time since the start of the trace, and its call tree next to the
mean of usual calls. Usual calls have durations between the first and third quartile.
slowest ignores calls that are open at the end of the trace. Without --root, it chooses a
function as xray why does.

If a call waited for a lock, the tree shows who held the lock. xray recognizes lock
functions by name, as in xray locks.

With --id, --id-func or --id-event, show requests, which may change threads, as xray why does.

Calls are numbered in trace order. Pass the number of a call to xray slice --around, for
example --around handleRequest#4711.`,
		example: `  xray slowest -m ./server --root '^handleRequest' trace.xray
  xray slowest -m ./server --root '^handleRequest' --top 1 --format json trace.xray`,
		inputs: &c.inputs,
		output: &c.output,
		alias:  map[string]string{"func": "root"},
		flags:  c.addFlags,
		run:    c.run,
	})
}

func (c *slowestRun) addFlags(f *pflag.FlagSet) {
	session.AddRoot(f, &c.root)
	session.AddRootDepth(f, &c.rootDepth)
	c.ids.add(f)
	c.which.add(f)
	cli.AddCount(f, &c.top, "top", "n", 1, "show the `N` slowest calls")
	cli.AddPerThread(f, &c.perThread, "")
	cli.AddShare(f, &c.minShare, "min-share", "omit paths with less than `PERCENT` of the call's time; JSON has all")
}

func (c *slowestRun) run(s *session.Session) error {
	root, found, chosen, err := c.chooseRoot(s)
	if err != nil {
		return err
	}
	slow, run, err := c.find(s, root, found)
	if err != nil {
		return err
	}
	return s.Report(&c.output, run, func(names symbolize.Names) []report.Node { return append(chosen(names), slow.Body(names, c.view())...) })
}

// chooseRoot returns the functions that the expression of --root selects, or requests if the flags say what identifies
// them. chosen describes the choice. found is as in [chooseRoot].
func (c *slowestRun) chooseRoot(s *session.Session) (root func(reader.FuncID) bool, found *invocation.Slowest, chosen func(symbolize.Names) []report.Node, err error) {
	if !c.ids.given() {
		return chooseRoot(s, c.root, c.keep(s))
	}
	requests, err := c.ids.asCalls(s, c.root, true)
	if err != nil {
		return nil, nil, nil, err
	}
	s.Scope.Thread = nil // requests are on threads of their own, and selected already
	return isRequest, nil, func(symbolize.Names) []report.Node { return requests.said() }, nil
}

// keep returns how many slow calls of each function the pass that chooses the root should keep, or 0 if it cannot find
// what slowest wants.
func (c *slowestRun) keep(s *session.Session) int {
	const few = 100
	if c.perThread || c.rootDepth > 1 || c.rootDepth == calls.EveryRoot || s.Alias != nil || c.top > few {
		return 0
	}
	return c.top
}

func (c *slowestRun) view() slowest.View { return slowest.View{MinShare: c.minShare} }

// find runs the analysis. found may be nil.
func (c *slowestRun) find(s *session.Session, root func(reader.FuncID) bool, found *invocation.Slowest) (*slowest.Report, *session.Run, error) {
	opts := slowest.Options{Root: root, RootDepth: c.rootDepth, Thread: s.Scope.Thread, From: s.Scope.From, To: s.Scope.To, Top: c.top, PerThread: c.perThread, Values: s.Expressions()}
	var search *slowest.Found
	if found != nil {
		search = slowest.NewFound(opts, found)
	} else {
		var err error
		if search, _, err = s.SearchSlowest(opts); err != nil {
			return nil, nil, err
		}
	}
	trees, run, err := session.Analyze(s, session.Scope{}, calls.Options{Paths: true, Roots: opts.Root, RootDepth: opts.RootDepth, OffCPU: s.OffCPU()},
		func() *slowest.TreesAndFuncs {
			return &slowest.TreesAndFuncs{Trees: slowest.NewTrees(search), Finder: locks.NewFinder()}
		})
	if err != nil {
		return nil, nil, err
	}
	run.Start = run.First
	slow := trees.Report(s.Clock)
	slow.OffCPU = s.OffCPU() != nil
	return slow, run, c.findHolders(s, slow, trees.Finder, run.Threads == 1)
}

// findHolders adds the holders of the locks that the slowest calls waited for. alone says that the trace has a single
// thread.
func (c *slowestRun) findHolders(s *session.Session, slow *slowest.Report, found *locks.Finder, alone bool) error {
	functions, err := c.which.functions(s.Names)
	if err != nil || s.Replaced() { // locks are found in the trace, which has other threads
		return err
	}
	opts := locks.Options{Function: functions, Clock: s.Clock, MaxPaths: lockPaths(s), Memory: s.TableMemory, Code: s.Code, Wakers: sched.NewLogs(s.Trace), Alone: alone}
	if s.Alias == nil {
		opts.Found = found
	}
	if !slow.FindWaits(&opts) {
		return nil
	}
	defer s.Progress()()
	_, _, err = locks.Analyze(s.Trace, opts)
	return err
}
