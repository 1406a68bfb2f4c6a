package main

import (
	"fmt"

	"github.com/xray-tools/xray/cmd/xray/internal/session"
	"github.com/xray-tools/xray/convert"
	"github.com/xray-tools/xray/reader/calls"
	"github.com/xray-tools/xray/report/label"
)

// keepLongest returns the scope without the shortest calls, so that a limited number is left unless most is 0, and what it
// keeps and drops. It reports that on standard error and in note.
func keepLongest(s *session.Session, counts *convert.LengthCounts, most int) (scope session.Scope, choice convert.LengthChoice, note string) {
	choices := counts.Choices()
	if choice = choices[len(choices)-1]; most > 0 {
		choice = choices[convert.LongestCalls(choices, uint64(most))]
	}
	scope = s.Scope
	if note = leftOut(s, choice, false); note != "" {
		scope.MinDuration = max(scope.MinDuration, choice.Shortest)
		reportLeftOut(s, note, "--max-calls")
	}
	return scope, choice, note
}

// leftOut describes the calls that a choice leaves out. It returns "" if there are none.
func leftOut(s *session.Session, c convert.LengthChoice, events bool) string {
	if c.Left == 0 {
		return ""
	}
	note := fmt.Sprintf("%s shorter than %s omitted", label.Count(uint64(c.Left), "call", "calls"), s.Clock.Format(c.Shortest))
	if c.Kept == 0 {
		note = "all calls omitted"
	}
	with := ", with "
	if events {
		with += "their events and "
	}
	if all := float64(c.KeptSelf) + float64(c.LeftSelf); all > 0 {
		note += fmt.Sprintf("%s%.1f%% of the time", with, 100*float64(c.LeftSelf)/all)
	}
	return note
}

func reportLeftOut(s *session.Session, note, flag string) {
	s.Say("%s: to see them, select part of the trace or raise %s", note, flag)
}

// chooseCalls chooses the calls that a timeline shows: the longest, if there is a limit. It
// removes the shortest duration from the scope, because timelines drop short calls
// themselves.
func (c *conversion) chooseCalls(s *session.Session, opts convert.Options) (convert.Options, error) {
	opts.Shortest = c.scope.MinDuration
	all := c.scope
	c.scope = c.scope.OfAnyDuration()
	if c.most == 0 && c.size == 0 && !c.holdsMuch(s) {
		return opts, nil
	}
	counts, run, err := session.Analyze(s, all, calls.Options{}, func() *convert.LengthCounts { return &convert.LengthCounts{} })
	if err != nil {
		return opts, err
	}
	choices := counts.Choices()
	if c.most > 0 {
		choices = choices[:convert.LongestCalls(choices, uint64(c.most))+1]
	}
	choose := func(choice convert.LengthChoice) convert.Options {
		tried := opts
		if tried.LeftOut = leftOut(s, choice, run.Custom > 0); tried.LeftOut != "" {
			tried.Shortest = max(opts.Shortest, choice.Shortest)
			tried.LeftOutEvery = c.spanOfCounters(s, choice, run.Threads)
		}
		return tried
	}
	flag, chosen := "--max-calls", len(choices)-1
	if c.spec.perCall > 0 {
		const leastBytes = 16 // of a call in a file
		kept := choices[chosen].Kept
		if c.size > 0 {
			kept = min(kept, uint64(c.size/leastBytes))
		}
		if err := s.Hold(kept, c.spec.perCall, "keep the longest calls with --max-calls"); err != nil {
			return opts, err
		}
	}
	if c.size > 0 {
		fits, err := c.fit(s, choices, choose)
		if err != nil {
			return opts, err
		}
		if fits < chosen {
			flag, chosen = "--max-size", fits
		}
	}
	opts = choose(choices[chosen])
	if opts.LeftOut != "" {
		reportLeftOut(s, opts.LeftOut, flag)
	}
	return opts, nil
}

// holdsMuch reports whether the writer may need more memory for the calls of the trace than tables may take.
func (c *conversion) holdsMuch(s *session.Session) bool {
	const leastBytes = 8 // of a record
	size := int64(0)
	for i := range s.Trace.Files() {
		size += s.Trace.Size(i)
	}
	return c.spec.perCall > 0 && size/(2*leastBytes) > s.TableMemory/c.spec.perCall
}

// spanOfCounters returns the length of the spans for which a timeline counts the calls that it
// leaves out. The counters take at most a twentieth of its size.
func (c *conversion) spanOfCounters(s *session.Session, choice convert.LengthChoice, threads int) uint64 {
	const most, least, bytesOfSpan, bytesOfCall = 400, 10, 200, 50
	size := c.size
	if size == 0 {
		size = int64(choice.Kept) * bytesOfCall
	}
	spans := uint64(min(max(size/20/bytesOfSpan/int64(max(threads, 1)), least), most))
	all, _ := s.Span() // known: timelines begin with it
	first, last := max(all.First, c.scope.From), all.Last
	if c.scope.To > 0 {
		last = min(last, c.scope.To)
	}
	return (max(first, last)-first)/spans + 1
}

// fit returns the index of a choice that shows nearly as much as fits in a file of the given size.
// It makes a pass for each choice that it tries.
func (c *conversion) fit(s *session.Session, choices []convert.LengthChoice, choose func(convert.LengthChoice) convert.Options) (int, error) {
	const firstGuess, enough = 60, 0.85 // bytes of a call; parts of the size
	fits, over := -1, len(choices)      // places of a choice that fits, and of one that does not
	target := uint64(c.size / firstGuess)
	for tries := 0; over-fits > 1 && (tries < 5 || fits < 0); tries++ {
		i := min(max(convert.LongestCalls(choices, target), fits+1), over-1)
		var written counter
		if _, err := c.spec.write(c, s, choose(choices[i]), &written); err != nil {
			return 0, err
		}
		perCall := float64(written) / float64(max(choices[i].Kept, 1))
		target = uint64(0.97 * float64(c.size) / max(perCall, 1))
		switch {
		case int64(written) > c.size:
			over = i
		case float64(written) > enough*float64(c.size):
			return i, nil
		default:
			fits = i
		}
	}
	if fits < 0 {
		return 0, fmt.Errorf("--max-size %d is too small even without calls: select part of the trace", c.size)
	}
	return fits, nil
}

// counter counts the bytes that are written to it.
type counter int64

func (c *counter) Write(p []byte) (int, error) {
	*c += counter(len(p))
	return len(p), nil
}

// adviseOnSize returns advice for a timeline that has become too large, or "".
func adviseOnSize(f *traceFormat, written int64) string {
	if f.viewer == "" || written <= f.mostBytes {
		return ""
	}
	return fmt.Sprintf("wrote %s, but %s works well only up to about %s: use --max-size 100M to keep the longest calls, or select part of the trace with --from and --to",
		label.Bytes(uint64(written)), f.viewer, label.Bytes(uint64(f.mostBytes)))
}
