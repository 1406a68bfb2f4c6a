package session

import (
	"github.com/spf13/pflag"

	"github.com/xray-tools/xray/cmd/xray/internal/cli"
	"github.com/xray-tools/xray/reader"
)

// TraceFlags say how traces are opened. Every command that reads traces has them. The zero
// value has the defaults.
type TraceFlags struct{ maxThreads int }

// AddFlags adds the flags.
func (f *TraceFlags) AddFlags(flags *pflag.FlagSet) {
	f.maxThreads = reader.DefaultMaxThreads
	cli.AddCount(flags, &f.maxThreads, "max-threads", "", 1, "accept traces of up to `N` threads, which may take N times 3 KB of memory")
}

// OpenTrace opens the traces that a command line names. Errors are in the user's terms.
func (f *TraceFlags) OpenTrace(streams *cli.Streams, paths ...string) (*reader.Trace, error) {
	t, err := reader.Open(reader.Options{Stdin: streams.Stdin, MaxThreads: f.maxThreads}, paths...)
	if err != nil {
		return nil, ExplainTrace(err)
	}
	return t, nil
}

// OpenTrace opens more traces, as those of the session. The caller closes them.
func (s *Session) OpenTrace(paths ...string) (*reader.Trace, error) {
	return s.traces.OpenTrace(s.Streams, paths...)
}
