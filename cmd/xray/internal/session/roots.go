package session

import (
	"fmt"

	"github.com/xray-tools/xray/explain/invocation"
	"github.com/xray-tools/xray/explain/slowest"
	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/reader/calls"
)

// SearchSlowest finds the slowest invocations.
func (s *Session) SearchSlowest(opts slowest.Options) (*slowest.Found, *Run, error) {
	sink, run, err := Analyze(s, Scope{}, rootsOnly(opts.Root, opts.RootDepth), func() *slowest.Search { return slowest.NewSearch(opts) })
	if err != nil {
		return nil, run, err
	}
	return sink.Found(), run, nil
}

// Choose chooses invocations. See [slowest.Choice.Chosen].
func (s *Session) Choose(opts slowest.ChoiceOptions) (slow, others []invocation.Key, found uint64, err error) {
	sink, _, err := Analyze(s, Scope{}, rootsOnly(opts.Root, 1), func() *slowest.Choice { return slowest.NewChoice(opts) })
	if err != nil {
		return nil, nil, 0, err
	}
	slow, others, found = sink.Chosen()
	return slow, others, found, nil
}

// rootsOnly rebuilds only the calls of roots at a depth among them.
func rootsOnly(root func(reader.FuncID) bool, depth int) calls.Options {
	return calls.Options{Paths: true, Roots: root, RootDepth: depth, Budget: calls.RootsOnly()}
}

// fewInvocations limits the invocations that are kept to find one of them.
const fewInvocations = 1 << 16

// numbered finds the time of the invocation with a number, for a root and a depth. They are numbered from 1
// in the order of their starts.
func (s *Session) numbered(opts slowest.Options, number uint64) (start, duration uint64, err error) {
	all, err := s.Span()
	if err != nil {
		return 0, 0, err
	}
	opts.From, opts.Top = all.First, fewInvocations
	n := number
	for {
		census, _, err := Analyze(s, Scope{}, rootsOnly(opts.Root, opts.RootDepth), func() *slowest.Census { return slowest.NewCensus(opts, all.Last) })
		if err != nil {
			return 0, 0, err
		}
		if count := census.Count(); n > count {
			return 0, 0, fmt.Errorf("there is no call %d: the trace has %d", number, count)
		}
		part := census.Part(n)
		n -= part.Before
		opts.From, opts.To = part.From, part.To
		if part.Count <= fewInvocations || part.To == part.From+1 {
			break
		}
	}
	found, _, err := s.SearchSlowest(opts)
	if err != nil {
		return 0, 0, err
	}
	v := found.ByTime(n)
	return v.Start, v.Duration, nil
}
