package convert

import (
	"cmp"
	"slices"

	"pgregory.net/rapid"

	"github.com/xray-tools/xray/reader/calls"
)

// genShortest draws the shortest duration that a timeline shows, and whether it shows the other
// calls as runs.
func genShortest(t *rapid.T, opts *Options, batches []*calls.Batch) {
	durations := []uint64{0, 1, 1000, 200_000}
	for _, b := range batches {
		for _, c := range b.Calls {
			durations = append(durations, c.Duration+1)
		}
	}
	opts.Shortest = rapid.SampledFrom(durations).Draw(t, "shortest")
	if rapid.Bool().Draw(t, "runs") {
		opts.LeftOut = "short ones left out"
		opts.LeftOutEvery = rapid.SampledFrom([]uint64{0, 1, 100, 100_000}).Draw(t, "every")
	}
}

// runsOf finds the runs of calls that a timeline omits from a whole thread. It starts from the
// callers and cuts each one's calls where one is shown and at pauses.
func runsOf(b *calls.Batch, opts Options) []shortRun {
	if opts.LeftOut == "" {
		return nil
	}
	var runs []shortRun
	for caller := range len(b.Calls) + 1 {
		depth, first := uint32(0), 0
		if caller < len(b.Calls) {
			depth = b.Calls[caller].Depth + 1
			first = caller - within(b, caller)
		}
		var run shortRun
		end := func() {
			if run.took >= opts.Shortest && run.calls > 0 {
				runs = append(runs, run)
			}
			run = shortRun{}
		}
		for i := first; i < caller; i++ {
			c := &b.Calls[i]
			switch {
			case c.Depth != depth:
			case c.Duration >= opts.Shortest:
				end()
			default:
				if run.calls > 0 && c.Start-run.end >= opts.Shortest {
					end()
				}
				if run.calls == 0 {
					run.start = c.Start
				}
				run.end = c.Start + c.Duration
				run.took += c.Duration
				run.calls += 1 + uint64(within(b, i))
			}
		}
		end()
	}
	return runs
}

// within counts the calls inside a call.
func within(b *calls.Batch, i int) int {
	n := 0
	for n < i && b.Calls[i-1-n].Depth > b.Calls[i].Depth {
		n++
	}
	return n
}

// leftOutOf counts the calls of a thread that must be in the counter of calls omitted.
func leftOutOf(b *calls.Batch, opts Options) (n uint64) {
	if opts.LeftOut == "" || opts.LeftOutEvery == 0 {
		return 0
	}
	for i := range b.Calls {
		if b.Calls[i].Duration < opts.Shortest {
			n++
		}
	}
	return n
}

// placeEvents sorts the events of a whole thread and assigns them to calls. An event with the time of
// an entry or an end comes before it.
func placeEvents(b *calls.Batch) {
	slices.SortStableFunc(b.Events, func(x, y calls.Event) int { return cmp.Compare(x.TSC, y.TSC) })
	for i := range b.Events {
		e := &b.Events[i]
		e.Depth, e.Call = 0, 0
		for _, c := range b.Calls {
			if c.Start < e.TSC && e.TSC <= c.Start+c.Duration {
				e.Depth = max(e.Depth, c.Depth+1)
			}
			if c.Start+c.Duration < e.TSC {
				e.Call++
			}
		}
	}
}

// shows reports whether a timeline shows an event of a whole thread.
func shows(b *calls.Batch, e *calls.Event, opts Options) bool {
	if opts.LeftOut == "" {
		return true
	}
	for _, c := range b.Calls {
		if c.Depth+1 == e.Depth && c.Start < e.TSC && e.TSC <= c.Start+c.Duration {
			return c.Duration >= opts.Shortest
		}
	}
	return true
}
