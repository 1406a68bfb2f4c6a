package main

import (
	"strings"

	"github.com/spf13/pflag"

	"github.com/xray-tools/xray/account"
	"github.com/xray-tools/xray/cmd/xray/internal/cli"
	"github.com/xray-tools/xray/cmd/xray/internal/session"
	"github.com/xray-tools/xray/internal/probecost"
	"github.com/xray-tools/xray/reader"
)

// costFlags say what recording a call costs.
type costFlags struct {
	compensate bool
	cost       string
}

func (f *costFlags) add(flags *pflag.FlagSet) {
	flags.StringVar(&f.cost, "probe-cost", "", "assume that recording a call costs `TIME`, such as 25ns or 20ns..30ns")
}

// usualCosts are what recorders take for a call, from the least to the most that was
// measured. The least is that of functions that processors work on while they record;
// see docs/account.md and docs/recorder.md.
var usualCosts = []struct {
	kind, from, to string
}{
	{"xray's recorder", "2ns", "35ns"},
	{"LLVM's FDR mode", "75ns", "210ns"},
	{"LLVM's basic mode", "600ns", "900ns"},
}

// of is the cost of a call, and in words where it is from. Where several traces are
// read together it is that of the recorder of the first.
func (f *costFlags) of(s *session.Session) (probecost.Cost, string, error) {
	if f.cost != "" {
		c, err := parseCost(f.cost, s.Clock)
		return c, "--probe-cost", err
	}
	if !s.Clock.Known() {
		return probecost.Cost{}, "", cli.Usagef("give --probe-cost in ticks: the trace does not state the frequency of its clock")
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
		err = cli.Usagef("give --probe-cost in ticks: the trace states a clock frequency of %d ticks per second, which is implausible", s.Clock.Frequency)
	}
	return c, "usual for " + usual.kind, err
}

// measured is of, but prefers what the recorder of the first trace has measured when it
// began.
func (f *costFlags) measured(s *session.Session) (probecost.Cost, string, error) {
	if r := s.Trace.Recording(0); f.cost == "" && r != nil && !r.Foreign() && r.Process.Probe > 0 && r.Process.Probe < mostCost {
		// What is measured is probes one after the other. In programs, processors work on
		// other things meanwhile, but miss their caches: a call took 0.76 of that in Lua, 0.88 in
		// SQLite and 0.95 in the tests of yaml-cpp. See docs/exclude.md.
		return probecost.Cost{Low: r.Process.Probe / 4 * 3, High: r.Process.Probe}, "measured when the recording began", nil
	}
	return f.of(s)
}

// parseCost reads a time or a range of times, in thousandths of ticks.
func parseCost(text string, c reader.Clock) (probecost.Cost, error) {
	low, high, ok := strings.Cut(text, "..")
	if !ok {
		high = low
	}
	var cost probecost.Cost
	var err error
	if cost.Low, err = parseThousandths(low, c); err == nil {
		cost.High, err = parseThousandths(high, c)
	}
	if err == nil && (cost.Low > cost.High || cost.High == 0) {
		err = cli.Usagef("--probe-cost: %q is not a range of times like 20ns..30ns", text)
	}
	return cost, err
}

// mostCost bounds what a call may cost, in thousandths of ticks: some minutes.
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

// asked reports whether the cost is to be subtracted.
func (f *costFlags) asked() bool { return f.compensate || f.cost != "" }

// compensation subtracts the cost, and then chooses calls.
func (f *costFlags) compensation(s *session.Session) (*account.Compensation, string, error) {
	cost, source, err := f.of(s)
	if err != nil {
		return nil, "", err
	}
	s.Note(func() string { return unrecorded(s) })
	return &account.Compensation{Cost: cost, Keep: s.Scope.Keeper}, source, nil
}

// unrecorded says that calls that are not in the trace cost time, too; "" if all are in it.
func unrecorded(s *session.Session) string {
	for i := range s.Trace.Files() {
		if r := s.Trace.Recording(i); r != nil && (r.Process.ThresholdNS > 0 || r.Process.Depth > 0) {
			return "calls that the recorder dropped because they were short or deep have a cost, too, which is not subtracted"
		}
	}
	return ""
}
