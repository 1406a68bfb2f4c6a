package session

import (
	"bufio"
	"context"
	"math"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"github.com/xray-tools/xray/cmd/xray/internal/cli"
	"github.com/xray-tools/xray/internal/remote"
	"github.com/xray-tools/xray/reader"
)

// TraceFlags are the flags about opening traces. Every command that reads traces has them. The
// zero value has the defaults.
type TraceFlags struct {
	maxThreads int
	clockRate  string
	arrivals   *arrivals
}

// AddFlags adds the flags.
func (f *TraceFlags) AddFlags(flags *pflag.FlagSet) {
	f.maxThreads, f.arrivals = reader.DefaultMaxThreads, &arrivals{}
	cli.AddCount(flags, &f.maxThreads, "max-threads", "", 1, "accept traces with up to `N` threads; each thread can take 3 KB of memory")
	flags.StringVar(&f.clockRate, "clock-rate", "", "assume a clock of `RATE` ticks per second (for example 2.5GHz) for traces that do not state it")
}

// OpenTrace opens the traces on the command line. Errors name the flags that help.
func (f *TraceFlags) OpenTrace(streams *cli.Streams, paths ...string) (*reader.Trace, error) {
	frequency, err := f.frequency()
	if err != nil {
		return nil, err
	}
	t, err := reader.Open(reader.Options{
		Stdin: streams.Stdin, MaxThreads: f.maxThreads, Frequency: frequency,
		Fetch: func(path string) (string, reader.Stream, error) { return f.arrivals.fetch(streams, path) },
	}, paths...)
	if err != nil {
		return nil, ExplainTrace(err)
	}
	return t, nil
}

// OpenTrace opens more traces with the flags of the session. The caller closes them.
func (s *Session) OpenTrace(paths ...string) (*reader.Trace, error) {
	return s.traces.OpenTrace(s.Streams, paths...)
}

// fetched is a file from a URL, whose beginning can be looked at. It shows its progress on a
// terminal from show to Close.
type fetched struct {
	*remote.Stream
	head *bufio.Reader
	name string
	stop func() // nil before show
}

func fetch(path string) (*fetched, error) {
	s, err := remote.Open(context.Background(), path, remote.Options{})
	if err != nil {
		return nil, err
	}
	return &fetched{Stream: s, head: bufio.NewReader(s), name: remote.Name(path)}, nil
}

func (f *fetched) Read(b []byte) (int, error) { return f.head.Read(b) }

func (f *fetched) show(streams *cli.Streams) { f.stop = streams.Progress("fetching "+f.name, f.Stream) }

func (f *fetched) Close() error {
	if f.stop != nil {
		f.stop()
	}
	return f.Stream.Close()
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
