package session

import (
	"cmp"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/spf13/pflag"

	"github.com/xray-tools/xray/cmd/xray/internal/cli"
	"github.com/xray-tools/xray/convert"
	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/reader/calls"
	"github.com/xray-tools/xray/report/label"
	"github.com/xray-tools/xray/symbolize"
)

// Scope is the part of a trace that a run analyzes. The zero Scope is the whole trace.
//
// Analyses of single calls run with the Scope of their session. An invocation is a call with all
// calls inside. Nothing may be missing from it, so analyses of invocations run with the zero
// Scope, and choose invocations by thread and time themselves.
type Scope struct {
	calls.Filter
	// Spans are the times that the filter covers, in order and disjoint. A Scope from the
	// command line has at least one.
	Spans []convert.Span
}

// OfThreads returns a scope that only chooses threads.
func (sc Scope) OfThreads() Scope { return Scope{Filter: calls.Filter{Thread: sc.Thread}} }

// OfAnyDuration returns the scope without the choice by duration, for outputs that drop short
// calls themselves.
func (sc Scope) OfAnyDuration() Scope {
	sc.MinDuration = 0
	return sc
}

// ScopeKind says which flags a command has to choose calls.
type ScopeKind uint8

// The kinds of scopes, each of which has the flags of the one before.
const (
	Everything ScopeKind = iota
	ByPlace              // thread and time
	ByCall               // also function, duration and depth
)

// scopeFlags are the flags that choose calls.
type scopeFlags struct {
	threads  []string
	function string
	timeFlags
	minDuration string
	maxDepth    int
}

func (f *scopeFlags) add(flags *pflag.FlagSet, kind ScopeKind) {
	if kind == Everything {
		return
	}
	flags.StringArrayVar(&f.threads, "thread", nil, "only this `THREAD`: an ID, or PROCESS/THREAD; repeatable")
	f.timeFlags.add(flags)
	if kind == ByPlace {
		return
	}
	flags.StringVar(&f.function, "func", "", "only calls of functions that match `REGEXP`")
	flags.StringVar(&f.minDuration, "min-duration", "", "only calls that take at least `TIME`")
	cli.AddCount(flags, &f.maxDepth, "max-depth", "", 1, "only calls at most `N` deep; 1 is the outermost")
}

// build makes a Scope from the flags. It may make passes over the trace.
func (f *scopeFlags) build(s *Session) (sc Scope, err error) {
	sc.MaxDepth = uint32(f.maxDepth)
	if sc.MinDuration, err = s.ParseTicks("min-duration", f.minDuration); err != nil {
		return sc, err
	}
	if sc.Func, err = s.ChooseFuncs("func", f.function); err != nil {
		return sc, err
	}
	if sc.Thread, err = s.chooseThreads(f.threads); err != nil {
		return sc, err
	}
	if sc.Spans, err = f.timeFlags.spans(s); err != nil {
		return sc, err
	}
	sc.From, sc.To = sc.Spans[0].From, sc.Spans[len(sc.Spans)-1].To
	return sc, nil
}

// Regexp compiles the value of a flag. It returns nil for "".
func Regexp(flag, text string) (*regexp.Regexp, error) {
	if text == "" {
		return nil, nil
	}
	re, err := regexp.Compile(text)
	if err != nil {
		return nil, cli.Usagef("--%s: %w", flag, err)
	}
	return re, nil
}

// ChooseFuncs returns a function that reports whether a function's name, full or short, matches the
// regular expression of a flag. It returns nil for "". An expression with a # may also match the ID of a
// function with a name. If no function matches, the summary says so. The result may be called
// concurrently.
func (s *Session) ChooseFuncs(flag, text string) (func(reader.FuncID) bool, error) {
	re, err := Regexp(flag, text)
	if re == nil {
		return nil, err
	}
	byID := s.Names != nil && strings.Contains(text, "#")
	matches := func(id reader.FuncID) bool {
		return symbolize.Matches(re, symbolize.Label(s.Names, id)) ||
			slices.ContainsFunc(symbolize.Others(s.Names, id), func(name string) bool { return symbolize.Matches(re, name) })
	}
	if strings.Contains(text, "[") {
		// It may name the object or the file that reports show for functions of one name.
		plain, full := matches, s.FullNames()
		short := symbolize.Distinct(symbolize.Shortened(s.Names))
		matches = func(id reader.FuncID) bool {
			return plain(id) || re.MatchString(symbolize.Label(short, id)) || re.MatchString(symbolize.Label(full, id))
		}
	}
	var found atomic.Bool
	var lock sync.Mutex
	others := make(map[string]bool) // names of functions that do not match, until one does
	s.Note(func() string {
		switch {
		case found.Load():
			return ""
		case s.Names == nil:
			return fmt.Sprintf("no function matches --%s %q: without a map (-m), functions are named by number, like #18", flag, re)
		}
		note := fmt.Sprintf("no function that was called matches --%s %q", flag, re)
		if none := symbolize.Sledless(s.objectPaths(), re); none != "" {
			return note + none
		}
		lock.Lock()
		defer lock.Unlock()
		if like := label.Nearest(text, others); len(like) > 0 {
			note += ". The nearest names are " + strings.Join(like, ", ")
		}
		return note
	})
	return func(id reader.FuncID) bool {
		keep := matches(id) || byID && re.MatchString(symbolize.Label(nil, id))
		if keep {
			found.Store(true)
		} else if !found.Load() {
			lock.Lock()
			others[symbolize.Shorten(symbolize.Label(s.Names, id))] = true
			lock.Unlock()
		}
		return keep
	}, nil
}

// objectPaths returns the recorded programs and libraries.
func (s *Session) objectPaths() (paths []string) {
	for _, r := range s.Trace.Recordings() {
		for _, o := range r.Objects {
			if o.Path != "" && !slices.Contains(paths, o.Path) {
				paths = append(paths, o.Path)
			}
		}
	}
	return paths
}

// AddRoot adds --root.
func AddRoot(flags *pflag.FlagSet, root *string) {
	flags.StringVar(root, "root", "", "select the outermost calls of functions that match `REGEXP`")
}

// AddRootDepth adds --root-depth.
func AddRootDepth(flags *pflag.FlagSet, depth *int) {
	*depth = 1
	flags.Var((*cli.CountOrAll)(depth), "root-depth", "if calls of --root nest, as in an interpreter, select those at depth `N` among them; 1 is the outermost, and all selects each call")
}

// chooseThreads makes a filter from --thread flags. It returns nil if there are none.
func (s *Session) chooseThreads(args []string) (func(reader.Thread) bool, error) {
	if len(args) == 0 {
		return nil, nil
	}
	type wanted struct {
		process, thread int32
		anyProcess      bool
	}
	var list []wanted
	for _, arg := range args {
		process, thread, pair := strings.Cut(arg, "/")
		if !pair {
			process, thread = "0", arg
		}
		p, err1 := strconv.ParseInt(process, 10, 32)
		t, err2 := strconv.ParseInt(thread, 10, 32)
		if errors.Join(err1, err2) != nil {
			return nil, cli.Usagef("--thread: %q is neither a thread ID nor PROCESS/THREAD", arg)
		}
		list = append(list, wanted{int32(p), int32(t), !pair})
	}
	matches := func(w wanted, t reader.Thread) bool {
		return w.thread == t.Thread && (w.anyProcess || w.process == t.Process)
	}
	var mu sync.Mutex
	seen := make(map[reader.Thread]bool)
	for i, w := range list {
		s.Note(func() string {
			var there []reader.Thread
			for t := range seen {
				if matches(w, t) {
					return ""
				}
				there = append(there, t)
			}
			return fmt.Sprintf("no thread %s; the threads are %s", args[i], threadList(there))
		})
	}
	return func(t reader.Thread) bool {
		mu.Lock()
		seen[t] = true
		mu.Unlock()
		return slices.ContainsFunc(list, func(w wanted) bool { return matches(w, t) })
	}, nil
}

// threadList names the first few threads in the form that --thread takes.
func threadList(threads []reader.Thread) string {
	slices.SortFunc(threads, func(a, b reader.Thread) int {
		return cmp.Or(cmp.Compare(a.Process, b.Process), cmp.Compare(a.Thread, b.Thread))
	})
	var words []string
	for _, t := range threads {
		words = append(words, fmt.Sprintf("%d/%d", t.Process, t.Thread))
	}
	return cli.ShortList(slices.Compact(words), 20)
}

// ParseTicks parses the time in a flag: a duration (1.5s) or a number of ticks (1000ticks). ""
// is 0.
func (s *Session) ParseTicks(flag, text string) (uint64, error) {
	return ParseTicks(flag, text, s.Clock)
}

// ParseTicks is [Session.ParseTicks] for a given clock.
func ParseTicks(flag, text string, c reader.Clock) (uint64, error) {
	if text == "" {
		return 0, nil
	}
	ticks, err := c.Parse(text)
	if err != nil {
		return 0, cli.Usagef("--%s: %w", flag, err)
	}
	return ticks, nil
}
