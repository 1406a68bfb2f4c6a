// Package launch records programs and running processes. It starts a program with the recorder, or finds
// the recorder of a process or brings it there, tells it what to record, and says at the end what was
// recorded. The commands record, watch, top and ctl share it.
//
// The way of a recording: flags fill a [Plan]. [Plan.Program] starts the observer, a process of this program
// that writes the traces, and then the program, whose recorder finds the options in its environment.
// [Plan.Process] sends them to the control socket of a process instead.
package launch

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/xray-tools/xray/cmd/xray/internal/cli"
	"github.com/xray-tools/xray/cmd/xray/internal/session"
	"github.com/xray-tools/xray/recorder"
	"github.com/xray-tools/xray/recorder/args"
	"github.com/xray-tools/xray/recorder/build"
	"github.com/xray-tools/xray/recorder/observe"
)

// Plan says what to record, and how. Flags fill it.
type Plan struct {
	*cli.Streams
	recorder.Options
	Selection
	Libcalls Libcalls
	Compiler string // for the recorder; "" for the first that is found

	count, profile, noLibcalls bool
}

// Selection selects the functions to record.
type Selection struct {
	Func, Exclude string   // regular expressions, or ""
	Args, Results []string // values of functions: see package args
	When          []string // conditions
	session.DebugFlags
}

// AddFlags adds the flags that say what to record.
func (plan *Plan) AddFlags(f *pflag.FlagSet) {
	plan.AddPrune(f)
	f.BoolVar(&plan.count, "count", false, "count calls per function instead of recording individual calls")
	f.BoolVar(&plan.profile, "profile", false, "record a call-path profile instead of individual calls")
	plan.AddDepth(f)
	cli.AddSize(f, &plan.Limit, "limit", "stop writing after `SIZE` (for example 500M or 2G)")
	plan.AddWindow(f)
	plan.Selection.AddFlags(f)
	plan.AddValues(f)
}

// AddPrune adds --prune.
func (plan *Plan) AddPrune(f *pflag.FlagSet) {
	cli.AddDuration(f, &plan.Threshold, "prune", "drop calls shorter than `TIME` (for example 5us) unless they contain a longer call")
}

// AddDepth adds --depth.
func (plan *Plan) AddDepth(f *pflag.FlagSet) {
	cli.AddCount(f, &plan.Depth, "depth", "", 0, "record only calls at most `N` deep; 1 is the outermost, 0 is no limit")
}

// AddWindow adds --window.
func (plan *Plan) AddWindow(f *pflag.FlagSet) {
	cli.AddWindow(f, &plan.Window, &plan.Every, "window", "record in windows, `TIME/TIME`: 1s/60s records 1 second of every minute")
}

// AddLibcalls adds --libcalls and --no-libcalls.
func (plan *Plan) AddLibcalls(f *pflag.FlagSet) {
	plan.Libcalls.AddFlag(f)
	f.BoolVar(&plan.noLibcalls, "no-libcalls", false, "do not record C library calls, which is the default")
}

// AddCompiler adds --cc.
func AddCompiler(f *pflag.FlagSet, cc *string) {
	f.StringVar(cc, "cc", "", "use the C compiler `COMMAND` (default $CC, or else the first compiler found)")
}

// AddFlags adds the flags that select functions.
func (s *Selection) AddFlags(f *pflag.FlagSet) {
	f.StringVar(&s.Func, "func", "", "record only functions that match `REGEXP`")
	f.StringVar(&s.Exclude, "exclude", "", "do not record functions that match `REGEXP`")
	s.AddDirs(f)
}

// AddValues adds the flags that select arguments and results.
func (s *Selection) AddValues(f *pflag.FlagSet) {
	f.StringArrayVar(&s.Args, "args", nil, "record arguments of functions: `REGEXP[: EXPR, ...]`, as in 'handle: req->id, key.size()'; all parameters without EXPR")
	f.StringArrayVar(&s.Results, "results", nil, "record results of functions: `REGEXP[: EXPR, ...]`, as in 'parse: result->size()'")
	f.StringArrayVar(&s.When, "when", nil, "record only calls for which `REGEXP: EXPR OP VALUE` holds, and what is inside them, as in 'handle: req->tenant == 17'")
}

// Libcalls is the value of --libcalls, which selects sets of libc functions. "" selects none.
type Libcalls string

// AddFlag adds the flag.
func (c *Libcalls) AddFlag(f *pflag.FlagSet) {
	f.StringVar((*string)(c), "libcalls", "", "also record C library calls; `LIST` selects the sets locks, io, sleep, alloc, copy, or all (default "+build.DefaultCallSets+")")
	f.Lookup("libcalls").NoOptDefVal = build.DefaultCallSets
}

// Sets returns the sets of libc functions.
func (c Libcalls) Sets() ([]build.CallSet, error) {
	if c == "" {
		return nil, nil
	}
	sets, err := build.ParseCallSets(string(c))
	if err != nil {
		return nil, cli.Usagef("--libcalls: %w", err)
	}
	return sets, nil
}

// Check sets the mode, and rejects flags that contradict each other.
func (plan *Plan) Check() error {
	var chosen []string
	choose := func(is bool, flag string, mode recorder.Mode) {
		if is {
			chosen = append(chosen, flag)
			plan.Mode = mode
		}
	}
	choose(plan.Threshold > 0, "--prune", recorder.Prune)
	choose(plan.count, "--count", recorder.Count)
	choose(plan.profile, "--profile", recorder.Profile)
	switch {
	case len(chosen) > 1:
		return cli.Usagef("choose one of %s", strings.Join(chosen, " and "))
	case len(plan.When) > 0 && (plan.Sums() || plan.Every > 0):
		return cli.Usagef("--when cannot be used with --count, --profile or --window")
	case plan.Depth > 0 && plan.Sums():
		return cli.Usagef("--depth cannot be used with %s, which records no individual calls", chosen[0])
	case plan.Every > 0 && (plan.Depth > 0 || plan.profile):
		return cli.Usagef("--window cannot be used with --depth or --profile: when a window begins, the recorder does not know which calls are open")
	case plan.wantsValues() && plan.Sums():
		return cli.Usagef("--args and --results cannot be used with %s, which records no individual calls", chosen[0])
	case plan.noLibcalls && plan.Libcalls != "":
		return cli.Usagef("--libcalls cannot be used with --no-libcalls")
	}
	if len(plan.When) > 0 && plan.Depth == 0 {
		plan.Depth = recorder.MaxDepth // the recorder knows in this mode which calls are open
	}
	if err := plan.CheckWindows(); err != nil {
		return cli.Usagef("--window: %w", err)
	}
	if _, err := plan.filter(plan.Streams); err != nil {
		return err
	}
	_, err := plan.Libcalls.Sets()
	return err
}

// Sums reports whether to record sums instead of calls.
func (plan *Plan) Sums() bool { return plan.count || plan.profile }

// selects reports whether flags select functions.
func (s *Selection) selects() bool { return s.Func != "" || s.Exclude != "" || s.wantsValues() }

func (s *Selection) wantsValues() bool { return len(s.Args)+len(s.Results)+len(s.When) > 0 }

// filter compiles the selection.
func (s *Selection) filter(streams *cli.Streams) (*observe.Filter, error) {
	f := &observe.Filter{Names: s.Options(streams)}
	var err error
	if f.Func, err = session.Regexp("func", s.Func); err != nil {
		return nil, err
	}
	if f.Exclude, err = session.Regexp("exclude", s.Exclude); err != nil {
		return nil, err
	}
	if f.Args, err = parseValues("args", s.Args); err != nil {
		return nil, err
	}
	if f.Results, err = parseValues("results", s.Results); err != nil {
		return nil, err
	}
	for _, text := range s.When {
		c, err := args.ParseCondition(text)
		if err != nil {
			return nil, cli.Usagef("--when: %w", err)
		}
		f.When = append(f.When, c)
	}
	return f, nil
}

func parseValues(flag string, texts []string) (specs []*args.Spec, err error) {
	for _, text := range texts {
		spec, err := args.Parse(text)
		if err != nil {
			return nil, cli.Usagef("--%s: %w", flag, err)
		}
		specs = append(specs, spec)
	}
	return specs, nil
}

// leastRing is the size of two chunks: the one being written and a complete one.
const leastRing = 128 << 10

// CheckSizes returns an error if a size is too small for --ring or --memory. 0 is none.
func CheckSizes(ring, memory int64) error {
	switch {
	case ring > 0 && ring < leastRing:
		return cli.Usagef("--ring: must be at least %dK, not %d bytes", leastRing>>10, ring)
	case memory > 0 && memory < recorder.LeastMemory:
		return cli.Usagef("--memory: must be at least %dM, not %d bytes", recorder.LeastMemory>>20, memory)
	}
	return nil
}

// Build compiles the recorder unless it is in the cache. On a terminal it says why that
// takes a moment. If it is interrupted, it leaves no files behind.
func Build(ctx context.Context, streams *cli.Streams, cc string) (build.Library, error) {
	ctx, stop := UntilInterrupted(ctx)
	defer stop()
	if cli.IsTerminal(streams.Stderr.Raw) {
		message := time.AfterFunc(300*time.Millisecond, func() {
			fmt.Fprintln(streams.Stderr, "xray: compiling the recorder; this happens only once")
		})
		defer message.Stop()
	}
	l, err := build.Runtime(ctx, cc)
	if err != nil && ctx.Err() != nil {
		return l, errors.New("interrupted while compiling the recorder")
	}
	return l, err
}
