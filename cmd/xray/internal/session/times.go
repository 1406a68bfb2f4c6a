package session

import (
	"fmt"
	"math"
	"math/bits"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"github.com/xray-tools/xray/cmd/xray/internal/cli"
	"github.com/xray-tools/xray/convert"
	"github.com/xray-tools/xray/explain/slowest"
)

// timeFlags are the flags that choose a part of the time.
type timeFlags struct {
	from, to, last string
	around, margin string
	apart          bool // the command takes several spans of time
}

func (f *timeFlags) add(flags *pflag.FlagSet) {
	flags.StringVar(&f.from, "from", "",
		"omit everything before `TIME` since the start of the trace: 1.5s, 200ms, 1000ticks")
	flags.StringVar(&f.to, "to", "", "omit everything at or after `TIME`")
	flags.StringVar(&f.last, "last", "", "only the last `TIME` of the trace")
	flags.StringVar(&f.around, "around", "",
		"only the time of one call: `ROOT#N`, or ROOT#slowest:1; ROOT is a regular expression")
	flags.StringVar(&f.margin, "margin", "", "with --around: also `TIME` before and after")
}

// check rejects flags that contradict each other.
func (f *timeFlags) check() error {
	switch {
	case f.around != "" && f.from+f.to+f.last != "":
		return cli.Usagef("--around cannot be used with --from, --to and --last")
	case f.last != "" && f.from+f.to != "":
		return cli.Usagef("--last cannot be used with --from and --to")
	case f.around == "" && f.margin != "":
		return cli.Usagef("--margin requires --around")
	}
	return nil
}

// spans returns the times that the flags choose: at least one, in order and disjoint. It may make
// passes over the trace.
func (f *timeFlags) spans(s *Session) ([]convert.Span, error) {
	switch {
	case f.around != "":
		return f.spansAround(s)
	case f.last != "":
		return f.spanAtEnd(s)
	case f.from == "" && f.to == "":
		return []convert.Span{{}}, nil
	}
	from, err := s.ParseTicks("from", f.from)
	if err != nil {
		return nil, err
	}
	to, err := s.ParseTicks("to", f.to)
	if err != nil {
		return nil, err
	}
	all, err := s.Span()
	if err != nil {
		return nil, err
	}
	span := convert.Span{From: saturatingAdd(all.First, from)}
	if all.Last >= all.First && span.From > all.Last {
		s.Note(func() string {
			return fmt.Sprintf("the trace has nothing at or after --from %s: it lasts %s, and times count from its start",
				f.from, s.Clock.Format(all.Last-all.First))
		})
	}
	if f.to != "" {
		span.To = saturatingAdd(all.First, to)
		if span.To <= span.From {
			return nil, cli.Usagef("--to must be later than --from")
		}
	}
	return []convert.Span{span}, nil
}

// spanAtEnd returns the time that --last selects.
func (f *timeFlags) spanAtEnd(s *Session) ([]convert.Span, error) {
	last, err := s.ParseTicks("last", f.last)
	if err != nil {
		return nil, err
	}
	if last == 0 {
		return nil, cli.Usagef("--last: must be more than 0, not %q", f.last)
	}
	all, err := s.Span()
	if err != nil {
		return nil, err
	}
	return []convert.Span{{From: all.Last - min(all.Last, last)}}, nil
}

// spansAround returns the times that --around selects.
func (f *timeFlags) spansAround(s *Session) ([]convert.Span, error) {
	margin, err := s.ParseTicks("margin", f.margin)
	if err != nil {
		return nil, err
	}
	place := strings.LastIndexByte(f.around, '#')
	if place <= 0 {
		return nil, cli.Usagef("--around: %q names no call: write ROOT#N or ROOT#slowest:N", f.around)
	}
	among, which, has := strings.Cut(f.around[place+1:], ":")
	depth, slow := cli.CountOrAll(1), among == "slowest"
	if !has {
		which = among
	} else if !slow {
		err = depth.Set(among)
	}
	n, failed := strconv.ParseUint(which, 10, 31)
	if err != nil || failed != nil || n == 0 {
		return nil, cli.Usagef("--around: %q is not the number of a call: write ROOT#N or ROOT#slowest:N, with N ≥ 1, or ROOT#DEPTH:N as xray slowest --root-depth does",
			f.around[place+1:])
	}
	root, err := s.ChooseFuncs("around", f.around[:place])
	if err != nil {
		return nil, err
	}
	if !slow {
		start, duration, err := s.numbered(slowest.Options{Root: root, RootDepth: int(depth)}, n)
		if err != nil {
			return nil, fmt.Errorf("--around %s: %w", f.around, err)
		}
		return []convert.Span{convert.SpanAround(start, duration, margin)}, nil
	}
	found, _, err := s.SearchSlowest(slowest.Options{Root: root, Top: int(n)})
	if err != nil {
		return nil, err
	}
	if len(found.Slowest) == 0 {
		return nil, fmt.Errorf("--around %s: the trace has no such call", f.around)
	}
	var spans []convert.Span
	for _, v := range found.Slowest {
		spans = append(spans, convert.SpanAround(v.Start, v.Duration, margin))
	}
	if spans = convert.JoinSpans(spans); len(spans) > 1 && !f.apart {
		return nil, cli.Usagef("--around %s: these calls are at %d separate times, but %s supports only one: "+
			"pass it the output of xray slice, or select one call by the number that xray slowest shows",
			f.around, len(spans), s.Command)
	}
	return spans, nil
}

func saturatingAdd(a, b uint64) uint64 {
	if sum, carry := bits.Add64(a, b, 0); carry == 0 {
		return sum
	}
	return math.MaxUint64
}
