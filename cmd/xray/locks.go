package main

import (
	"regexp"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/xray-tools/xray/explain/locks"
	"github.com/xray-tools/xray/internal/label"
	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/report"
	"github.com/xray-tools/xray/symbolize"
)

func (a *app) locksCommand() *cobra.Command {
	var (
		flags traceFlags
		which lockFlags
		view  = locks.View{Top: 5, Paths: 5}
		all   bool
		out   reportFlags
	)
	cmd := &cobra.Command{
		Use:   "locks TRACE...",
		Short: "Show which locks threads waited for, and who held them",
		Long: `locks shows for every lock how often it was taken, how long threads waited for it
and held it, who waited while whom held it, and when several waited at a time. It
also shows which locks are taken while others are held, and where that can be a
deadlock.

Lock functions are known by name. A lock is the address that they log as their
first argument; of those that log none, all calls are taken to be about one lock.`,
		Example: `  xray locks -m ./server trace.xray
  xray locks -m ./server --lock 'Latch::get$' --unlock 'Latch::put$' trace.xray
  xray locks -m ./server --format csv -o locks.csv trace.xray`,
		Args: operands("a TRACE", 1, true),
		RunE: func(cmd *cobra.Command, args []string) error {
			s, err := a.open(cmd, &flags, args)
			if err != nil {
				return err
			}
			defer s.close()
			opts := locks.Options{Thread: s.filter.Thread, From: s.filter.From, To: s.filter.To, Clock: s.clock, Short: s.shortTicks(), MaxPaths: (s.paths + lockPathCost - 1) / lockPathCost}
			if opts.Function, err = which.functions(s); err != nil {
				return err
			}
			first := &firstUnmatched{}
			if s.strict {
				opts.Unmatched = first.see
			}
			stop := a.progress(s.name, s.trace)
			found, stats, err := locks.Analyze(s.trace, opts)
			stop()
			if err == nil {
				err = s.checkStrict(first)
			}
			if err != nil {
				return err
			}
			view.Threads = label.Threads{Name: s.trace.ThreadName, Files: s.trace.Files()}
			if all {
				view.Top, view.Paths = 0, 0
			}
			s.first = found.First
			err = s.writeDoc(&out, stats, func(names symbolize.Names) []report.Node { return found.Body(names, view) })
			s.summary(stats)
			return err
		},
	}
	f := cmd.Flags()
	flags.nameFlags.add(f)
	flags.addStrict(f)
	flags.filter.addPlace(f)
	flags.paths.add(f)
	which.add(f)
	addCount(f, &view.Top, "top", "n", 1, "show `N` locks, those with most waiting")
	addCount(f, &view.Paths, "paths", "", 1, "show `N` call paths of each")
	f.BoolVar(&all, "all", false, "show all locks and call paths")
	out.add(f)
	addKeepGoing(f)
	spellings(f, nil)
	return cmd
}

// lockPathCost is how much more memory a path takes than in other commands, where there are
// waits and holds of each.
const lockPathCost = 8

// lockFlags say which functions deal with locks.
type lockFlags struct{ lock, unlock, cond string }

func (f *lockFlags) add(flags *pflag.FlagSet) {
	flags.StringVar(&f.lock, "lock", lockNames, "functions whose name matches `REGEXP` take a lock")
	flags.StringVar(&f.unlock, "unlock", unlockNames, "functions whose name matches `REGEXP` give back a lock")
	flags.StringVar(&f.cond, "cond", condNames, "functions whose name matches `REGEXP` wait without the lock")
	// The defaults are too long for the help, and documented.
	for _, name := range []string{"lock", "unlock", "cond"} {
		flags.Lookup(name).DefValue = ""
	}
}

// Functions that take a lock if they need not wait for it, and of those that take
// one, those that share it, by the last parts of their names.
const (
	tryNames    = `(^|[^A-Za-z])[Tt]ry_?([Ll]ock|[Aa]cquire|[Ee]nter)\w*$|[a-z]Try(Lock|Acquire|Enter)\w*$`
	sharedNames = `(?i)shared|rdlock|(^|[^a-z])read`
)

// functions says what functions do to locks, as their names tell.
func (f *lockFlags) functions(s *session) (func(reader.FuncID) locks.Function, error) {
	var patterns [3]*regexp.Regexp
	for i, flag := range []struct{ name, value string }{{"lock", f.lock}, {"unlock", f.unlock}, {"cond", f.cond}} {
		var err error
		if patterns[i], err = regexp.Compile(flag.value); err != nil {
			return nil, usagef("--%s: %w", flag.name, err)
		}
	}
	lock, unlock, cond := patterns[0], patterns[1], patterns[2]
	try, shared := regexp.MustCompile(tryNames), regexp.MustCompile(sharedNames)
	return func(fn reader.FuncID) locks.Function {
		name := symbolize.Shorten(symbolize.Label(s.names, fn))
		class, last := splitName(name)
		is := locks.Function{Class: class, Constructor: isConstructor(class, last)}
		switch {
		case unlock.MatchString(name):
			is.Role = locks.Unlock
		case cond.MatchString(name):
			is.Role = locks.Condition
		case try.MatchString(last):
			is.Role, is.Shared = locks.TryLock, shared.MatchString(last)
		case lock.MatchString(name):
			is.Role, is.Shared = locks.Lock, shared.MatchString(last)
		default:
			is.Class = ""
		}
		return is
	}, nil
}

// splitName parts a qualified name into class and method. The class of a C function
// is its name up to the last underscore.
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

// isConstructor reports whether a method is called as its class, template arguments
// aside.
func isConstructor(class, last string) bool {
	if i := strings.IndexByte(class, '<'); i > 0 {
		class = class[:i]
	}
	return class != "" && class[strings.LastIndexByte(class, ':')+1:] == last
}
