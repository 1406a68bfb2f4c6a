package session

import (
	"math"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"github.com/xray-tools/xray/cmd/xray/internal/cli"
	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/reader/arrivals"
	"github.com/xray-tools/xray/tables/summary"
)

// TraceFlags are the flags about opening traces. Every command that reads traces has them. The
// zero value has the defaults.
type TraceFlags struct {
	maxThreads int
	clockRate  string
	arrivals   *arrivals.Inputs
}

// AddFlags adds the flags.
func (f *TraceFlags) AddFlags(flags *pflag.FlagSet) {
	f.maxThreads, f.arrivals = reader.DefaultMaxThreads, &arrivals.Inputs{}
	cli.AddCount(flags, &f.maxThreads, "max-threads", "", 1, "accept traces with up to `N` threads; each thread can take 3 KB of memory")
	flags.StringVar(&f.clockRate, "clock-rate", "", "assume a clock of `RATE` ticks per second (for example 2.5GHz) for traces that do not state it")
}

// OpenTrace opens the traces on the command line. Errors name the flags that help.
func (f *TraceFlags) OpenTrace(streams *cli.Streams, paths ...string) (*reader.Trace, error) {
	frequency, err := f.frequency()
	if err != nil {
		return nil, err
	}
	in := f.inputs(streams)
	t, err := reader.Open(reader.Options{Stdin: streams.Stdin, MaxThreads: f.maxThreads, Frequency: frequency, Fetch: in.Fetch}, paths...)
	if err != nil {
		return nil, ExplainTrace(err)
	}
	return t, nil
}

// OpenTrace opens more traces with the flags of the session. The caller closes them.
func (s *Session) OpenTrace(paths ...string) (*reader.Trace, error) {
	return s.traces.OpenTrace(s.Streams, paths...)
}

// inputs tells summaries from traces.
func (f *TraceFlags) inputs(streams *cli.Streams) *arrivals.Inputs {
	if f.arrivals == nil {
		f.arrivals = &arrivals.Inputs{}
	}
	in := f.arrivals
	in.Magic, in.Stdin, in.AtEnd = summary.Magic, &streams.Stdin, streams.AtEnd
	in.Progress = func(what string, of interface{ Progress() (int64, int64) }) func() { return streams.Progress(what, of) }
	return in
}

// frequency returns --clock-rate in ticks per second, or 0 if it was not given.
func (f *TraceFlags) frequency() (uint64, error) {
	if f.clockRate == "" {
		return 0, nil
	}
	text, unit := f.clockRate, 1.0
	for suffix, factor := range map[string]float64{"GHz": 1e9, "MHz": 1e6, "kHz": 1e3} {
		if number, ok := strings.CutSuffix(text, suffix); ok {
			text, unit = strings.TrimSpace(number), factor
		}
	}
	number, err := strconv.ParseFloat(strings.TrimSuffix(text, "Hz"), 64)
	if rate := number * unit; err == nil && rate >= 1 && rate < 1e15 {
		return uint64(math.Round(rate)), nil
	}
	return 0, cli.Usagef("--clock-rate: %q is not a number of ticks per second: write 2.5GHz or 2500000000", f.clockRate)
}
