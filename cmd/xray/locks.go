package main

import (
	"regexp"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/xray-tools/xray/cmd/xray/internal/cli"
	"github.com/xray-tools/xray/cmd/xray/internal/session"
	"github.com/xray-tools/xray/explain/locks"
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
		Thread: s.Scope.Thread, From: s.Scope.From, To: s.Scope.To, Clock: s.Clock, Processes: processes(s), Short: s.ShortTicks(), MaxPaths: lockPaths(s), Memory: s.TableMemory,
		Code:   s.Code,
		Wakers: sched.NewLogs(s.Trace),
	}
	var err error
	if opts.Function, err = c.which.functions(s); err != nil {
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
	lock, guard := regexp.MustCompile(lockNames), regexp.MustCompile(`^std::(lock_guard|unique_lock|shared_lock)\b.*::(lock_guard|unique_lock|shared_lock)$`)
	members := symbolize.NewMembers(func(name string) int {
		f, ok := locks.Libc(name)
		switch {
		case ok && (f.Role == locks.Lock || f.Role == locks.TryLock), !ok && lock.MatchString(name):
			return 1
		case guard.MatchString(name):
			return 2
		}
		return 0
	})
	return label.Locks{
		Variable: s.DataAt,
		Member:   func(taker reader.FuncID) string { return members.Passed(s.Names, taker) },
	}
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
	addNames(flags, &f.lock, "lock", lockNames, "treat functions that match `REGEXP` as taking a lock")
	addNames(flags, &f.unlock, "unlock", unlockNames, "treat functions that match `REGEXP` as releasing a lock")
	addNames(flags, &f.cond, "cond", condNames, "treat functions that match `REGEXP` as condition waits, which release the lock while they wait")
}

// Suffixes of names: functions that take a lock only if it is free, and functions that take a
// shared lock.
const (
	tryNames    = `(^|[^A-Za-z])[Tt]ry_?([Ll]ock|[Aa]cquire|[Ee]nter)\w*$|[a-z]Try(Lock|Acquire|Enter)\w*$`
	sharedNames = `(?i)shared|rdlock|(^|[^a-z])read`
)

// functions guesses from names what functions do to locks.
func (f *lockFlags) functions(s *session.Session) (func(reader.FuncID) locks.Function, error) {
	var patterns [3]*regexp.Regexp
	for i, flag := range []struct{ name, value string }{{"lock", f.lock}, {"unlock", f.unlock}, {"cond", f.cond}} {
		var err error
		if patterns[i], err = regexp.Compile(flag.value); err != nil {
			return nil, cli.Usagef("--%s: %w", flag.name, err)
		}
	}
	lock, unlock, cond := patterns[0], patterns[1], patterns[2]
	try, shared := regexp.MustCompile(tryNames), regexp.MustCompile(sharedNames)
	return func(fn reader.FuncID) locks.Function {
		full := symbolize.Label(s.Names, fn)
		name := symbolize.Shorten(full)
		if f, ok := locks.Libc(name); ok {
			return f
		}
		class, last := splitName(name)
		is := locks.Function{Class: class, Constructor: isConstructor(class, last)}
		switch {
		case matchesEither(unlock, full, f.unlock != unlockNames):
			is.Role = locks.Unlock
		case matchesEither(cond, full, f.cond != condNames):
			is.Role = locks.Condition
		case strings.HasPrefix(last, "~"):
			is.Class = "" // a destructor of a class that is named after a lock
		case try.MatchString(last):
			is.Role, is.Shared = locks.TryLock, shared.MatchString(last)
		case matchesEither(lock, full, f.lock != lockNames):
			is.Role, is.Shared = locks.Lock, shared.MatchString(last)
		default:
			is.Class = ""
		}
		return is
	}, nil
}

// splitName splits a qualified name into class and method. The class of a C function is its name
// up to the last underscore.
func splitName(name string) (class, last string) {
	depth := 0
	for i := len(name) - 1; i > 0; i-- {
		switch name[i] {
		case '>':
			depth++
		case '<':
			depth--
		case ':':
			if depth == 0 && name[i-1] == ':' {
				return name[:i-1], name[i+1:]
			}
		}
	}
	if i := strings.LastIndexByte(name, '_'); i > 0 {
		return name[:i], name
	}
	return "", name
}

// isConstructor reports whether a method has the name of its class, apart from template
// arguments.
func isConstructor(class, last string) bool {
	if i := strings.IndexByte(class, '<'); i > 0 {
		class = class[:i]
	}
	return class != "" && class[strings.LastIndexByte(class, ':')+1:] == last
}
