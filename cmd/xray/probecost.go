package main

import (
	"strings"

	"github.com/spf13/pflag"

	"github.com/xray-tools/xray/account"
	"github.com/xray-tools/xray/cmd/xray/internal/cli"
	"github.com/xray-tools/xray/cmd/xray/internal/session"
	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/reader/calls"
)

// costFlags are the flags about the cost of recording a call.
type costFlags struct {
	compensate bool
	cost       string
}

func (f *costFlags) add(flags *pflag.FlagSet) {
	flags.StringVar(&f.cost, "probe-cost", "", "assume that recording a call costs `TIME` (for example 25ns or 20ns..30ns)")
}

// usualCosts are the lowest and the highest measured costs of recording a call. The lowest
// applies to functions whose own work overlaps with the recording; see docs/account.md and
// docs/recorder.md.
var usualCosts = []struct {
	kind, from, to string
}{
	{"xray's recorder", "2ns", "35ns"},
	{"LLVM's FDR mode", "75ns", "210ns"},
	{"LLVM's basic mode", "600ns", "900ns"},
}

// of returns the cost of a call and, in words, its source. For several traces, it is the cost of
// the first one's recorder.
func (f *costFlags) of(s *session.Session) (calls.ProbeCost, string, error) {
	if f.cost != "" {
		c, err := parseCost(f.cost, s.Clock)
		return c, "--probe-cost", err
	}
	if !s.Clock.Known() {
		return calls.ProbeCost{}, "", cli.Usagef("the trace does not state its clock frequency: pass --probe-cost in ticks")
	}
	usual := &usualCosts[0]
	if r := s.Trace.Recording(0); r == nil || r.Foreign() {
		usual = &usualCosts[1]
		if s.Trace.Header(0).Type == reader.Basic {
			usual = &usualCosts[2]
		}
	}
	c, err := parseCost(usual.from+".."+usual.to, s.Clock)
	if err != nil {
		err = cli.Usagef("the trace states an implausible clock frequency of %d ticks per second: pass --probe-cost in ticks", s.Clock.Frequency)
	}
	return c, "usual for " + usual.kind, err
}

// measured is like of, but prefers what the recorder of the first trace measured at its
// start.
func (f *costFlags) measured(s *session.Session) (calls.ProbeCost, string, error) {
	if r := s.Trace.Recording(0); f.cost == "" && r != nil && !r.Foreign() && r.Process.Probe > 0 && r.Process.Probe < mostCost {
		// The recorder measures probes in a loop. In a program, they overlap with other work, but
		// also miss the cache: a call took 0.76 times as long in Lua, 0.88 times in SQLite and
		// 0.95 times in the tests of yaml-cpp. See docs/exclude.md.
		return calls.ProbeCost{Low: r.Process.Probe / 4 * 3, High: r.Process.Probe}, "measured when the recording began", nil
	}
	return f.of(s)
}

// parseCost parses a time or a range of times. It returns thousandths of ticks.
func parseCost(text string, c reader.Clock) (calls.ProbeCost, error) {
	low, high, ok := strings.Cut(text, "..")
	if !ok {
		high = low
	}
	var cost calls.ProbeCost
	var err error
	if cost.Low, err = parseThousandths(low, c); err == nil {
		cost.High, err = parseThousandths(high, c)
	}
	if err == nil && (cost.Low > cost.High || cost.High == 0) {
		err = cli.Usagef("--probe-cost: %q is not a range of times like 20ns..30ns", text)
	}
	return cost, err
}

// mostCost is the largest valid cost of a call, in thousandths of ticks: some minutes.
const mostCost = 1 << 50

func parseThousandths(text string, c reader.Clock) (uint64, error) {
	digits, ticks := strings.CutSuffix(text, "ticks")
	if ticks {
		text = digits + "000ticks"
	}
	n, err := session.ParseTicks("probe-cost", text, reader.Clock{Frequency: 1000 * c.Frequency})
	if err == nil && n > mostCost {
		err = cli.Usagef("--probe-cost: %q is more than a call can cost", text)
	}
	return n, err
}

// asked reports whether to subtract the cost.
func (f *costFlags) asked() bool { return f.compensate || f.cost != "" }

// compensation returns how to subtract the cost and choose calls after that.
func (f *costFlags) compensation(s *session.Session) (*account.Compensation, string, error) {
	cost, source, err := f.of(s)
	if err != nil {
		return nil, "", err
	}
	s.Note(func() string { return unrecorded(s) })
	return &account.Compensation{Cost: cost, Keep: s.Scope.Keeper}, source, nil
}

// unrecorded returns the caveat that calls outside the trace have a cost too, or "" if there are
// none.
func unrecorded(s *session.Session) string {
	for _, r := range s.Trace.Recordings() {
		if r.Process.ThresholdNS > 0 || r.Process.Depth > 0 {
			return "calls that the recorder dropped because they were short or deep have a cost, too, which is not subtracted"
		}
	}
	return ""
}
