package main

import (
	"strings"

	"github.com/spf13/pflag"

	"github.com/xray-tools/xray/account"
	"github.com/xray-tools/xray/internal/probecost"
	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/reader/calls"
)

// costFlags say what recording a call costs.
type costFlags struct {
	compensate bool
	cost       string
}

func (f *costFlags) add(flags *pflag.FlagSet) {
	flags.StringVar(&f.cost, "probe-cost", "", "recording a call, entry and exit, costs `TIME`, as 25ns or 20ns..30ns")
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
func (f *costFlags) of(s *session) (probecost.Cost, string, error) {
	if f.cost != "" {
		c, err := parseCost(f.cost, s.clock)
		return c, "as said", err
	}
	if !s.clock.Known() {
		return probecost.Cost{}, "", usagef("give --probe-cost in ticks: the trace does not say how long a tick is")
	}
	usual := &usualCosts[0]
	if r := s.trace.Recording(0); r == nil || r.Foreign() {
		usual = &usualCosts[1]
		if s.trace.Header(0).Type == reader.Basic {
			usual = &usualCosts[2]
		}
	}
	c, err := parseCost(usual.from+".."+usual.to, s.clock)
	if err != nil {
		err = usagef("give --probe-cost in ticks: the trace's clock of %d ticks a second cannot be right", s.clock.Frequency)
	}
	return c, "usual for " + usual.kind, err
}

// measured is of, but prefers what the recorder of the first trace has measured when it
// began.
func (f *costFlags) measured(s *session) (probecost.Cost, string, error) {
	if r := s.trace.Recording(0); f.cost == "" && r != nil && !r.Foreign() && r.Process.Probe > 0 && r.Process.Probe < mostCost {
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
		err = usagef("--probe-cost: %q is no range of times from the least to the most, as 20ns..30ns", text)
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
	n, err := parseTicks("probe-cost", text, reader.Clock{Frequency: 1000 * c.Frequency})
	if err == nil && n > mostCost {
		err = usagef("--probe-cost: %q is more than a call can cost", text)
	}
	return n, err
}

// compensation is nil unless it is asked for.
func (f *costFlags) compensation(s *session, recursiveOnly bool) (*account.Compensation, string, error) {
	if !f.compensate && f.cost == "" {
		return nil, "", nil
	}
	if recursiveOnly {
		return nil, "", usagef("--compensate does not go with --recursive-calls-only")
	}
	cost, source, err := f.of(s)
	if err != nil {
		return nil, "", err
	}
	filter := s.filter
	s.filter = calls.Filter{Thread: filter.Thread}
	s.notes = append(s.notes, s.unrecorded)
	return &account.Compensation{Cost: cost, Keep: filter.Keeper}, source, nil
}

// unrecorded says that calls cost time that are not in the trace; "" where all are.
func (s *session) unrecorded() string {
	for i := range s.trace.Files() {
		if r := s.trace.Recording(i); r != nil && (r.Process.ThresholdNS > 0 || r.Process.Depth > 0) {
			return "calls that the recorder left out because they were short or deep have a cost too, which is not taken out"
		}
	}
	return ""
}
