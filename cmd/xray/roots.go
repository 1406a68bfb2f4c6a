package main

import (
	"fmt"
	"regexp"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/xray-tools/xray/explain/slowest"
	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/reader/calls"
)

// rootFlags are the flags of subcommands about the invocations of root functions.
type rootFlags struct {
	traceFlags
	root string
}

func (f *rootFlags) add(flags *pflag.FlagSet) {
	f.nameFlags.add(flags)
	f.addStrict(flags)
	f.filter.addPlace(flags)
	flags.StringVar(&f.root, "root", "", "look at the outermost calls of functions whose name matches `REGEXP`")
}

// open opens a trace. The filter of the session moves to the options, for calls
// must not be left out of invocations.
func (f *rootFlags) open(a *app, cmd *cobra.Command, args []string) (*session, slowest.Options, error) {
	if f.root == "" {
		return nil, slowest.Options{}, usagef("give --root REGEXP: the function whose calls are to be looked at")
	}
	re, err := regexp.Compile(f.root)
	if err != nil {
		return nil, slowest.Options{}, usagef("--root: %w", err)
	}
	s, err := a.open(cmd, &f.traceFlags, args)
	if err != nil {
		return nil, slowest.Options{}, err
	}
	opts := slowest.Options{Root: s.chooseFuncs("root", re), Thread: s.filter.Thread, From: s.filter.From, To: s.filter.To}
	s.filter = calls.Filter{}
	return s, opts, nil
}

// searchSlowest finds the slowest invocations.
func (s *session) searchSlowest(opts slowest.Options) (*slowest.Found, *calls.Stats, error) {
	sink, stats, err := analyse(s, calls.Options{Paths: true, Roots: opts.Root, Budget: calls.RootsOnly()}, func() *slowest.Search { return slowest.NewSearch(opts) })
	if err != nil {
		return nil, stats, err
	}
	return sink.Found(), stats, nil
}

// fewInvocations are no more than may be kept, to find one among them.
const fewInvocations = 1 << 16

// numbered finds when the invocation with a number is, from 1 on in the order of
// their starts.
func (s *session) numbered(root func(reader.FuncID) bool, number uint64) (start, duration uint64, err error) {
	if _, err := s.start(); err != nil {
		return 0, 0, err
	}
	opts := slowest.Options{Root: root, From: s.first, Top: fewInvocations}
	n := number
	for {
		census, _, err := analyse(s, calls.Options{Paths: true, Roots: opts.Root, Budget: calls.RootsOnly()}, func() *slowest.Census { return slowest.NewCensus(opts, s.last) })
		if err != nil {
			return 0, 0, err
		}
		if count := census.Count(); n > count {
			return 0, 0, fmt.Errorf("there is no invocation %d: the trace has %d", number, count)
		}
		part := census.Part(n)
		n -= part.Before
		opts.From, opts.To = part.From, part.To
		if part.Count <= fewInvocations || part.To == part.From+1 {
			break
		}
	}
	found, _, err := s.searchSlowest(opts)
	if err != nil {
		return 0, 0, err
	}
	v := found.ByTime(n)
	return v.Start, v.Duration, nil
}
