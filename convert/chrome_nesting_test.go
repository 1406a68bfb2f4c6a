package convert

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/reader/calls"
)

// Calls lie within their callers, and after calls that end where they start, even for viewers that
// compute in floating point.
func TestChromeNestsInFloatingPoint(t *testing.T) {
	together, adjacent := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		opts := Options{Header: reader.Header{CycleFrequency: rapid.SampledFrom([]uint64{1_000_000_000, 3_000_000_001, 7_000_000}).Draw(t, "frequency")}}
		batches := genBatches(t)
		for _, b := range batches {
			for i := range b.Calls {
				b.Calls[i].End = calls.Exited // truncated calls end a nanosecond later
			}
		}
		trace := parseChrome(t, write(t, NewChrome, opts, batches...))
		type span struct {
			start, end int64
			from, to   float64
		}
		inside := map[int64][]span{}
		for _, e := range trace.TraceEvents {
			if e.Ph != "X" {
				continue
			}
			ts, err := e.Ts.Float64()
			if err != nil {
				t.Fatal(err)
			}
			dur, err := e.Dur.Float64()
			if err != nil {
				t.Fatal(err)
			}
			start := nanos(t, e.Ts)
			call := span{start, start + nanos(t, *e.Dur), ts, ts + dur}
			for _, in := range inside[e.Tid] {
				if in.start < in.end && in.end == call.start {
					adjacent++
					if in.to > call.from {
						t.Fatalf("%+v ends after %+v starts", in, call)
					}
				}
				if call.start > in.start || in.end > call.end {
					continue
				}
				if in.end == call.end {
					together++
				}
				if call.from > in.from || in.to > call.to {
					t.Fatalf("%+v is inside %+v", in, call)
				}
			}
			inside[e.Tid] = append(inside[e.Tid], call)
		}
	})
	if together == 0 {
		t.Error("no calls ended together")
	}
	if adjacent == 0 {
		t.Error("no calls started where others ended")
	}
}
