package convert

import (
	"encoding/json"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/xray-tools/xray/reader"
)

// The file has every call that is long enough, opened and closed in order.
func TestSpeedscopeShowsAll(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		batches := genBatches(t)
		opts := Options{Header: reader.Header{CycleFrequency: 3_000_000_001}, Names: hostile, Base: rapid.Uint64Range(0, 2_000_000).Draw(t, "base")}
		genShortest(t, &opts, batches)
		axis := opts.timeline()
		var want []slice
		for _, b := range batches {
			setOpens(b)
			for _, c := range b.Calls {
				if c.Duration >= opts.Shortest {
					var name string
					if err := json.Unmarshal(appendJSON(nil, opts.label(c.Func)), &name); err != nil {
						t.Fatal(err)
					}
					start := axis.at(c.Start)
					want = append(want, slice{Name: name, Start: start, Duration: axis.at(c.Start+c.Duration) - start})
				}
			}
			for _, r := range runsOf(b, opts) {
				start := axis.at(r.start)
				want = append(want, slice{Name: leftOutName, Start: start, Duration: axis.at(r.end) - start})
			}
		}
		text := write(t, NewSpeedscope, opts, batches...)
		var file struct {
			Shared   struct{ Frames []struct{ Name string } }
			Profiles []struct {
				Type, Unit, Name     string
				StartValue, EndValue int64
				Events               []struct {
					Type  string
					Frame int
					At    int64
				}
			}
		}
		if err := json.Unmarshal([]byte(text), &file); err != nil {
			t.Fatalf("%v in %s", err, text)
		}
		var got []slice
		for _, p := range file.Profiles {
			var open []slice
			last := p.StartValue
			for _, e := range p.Events {
				if e.At < last || e.At > p.EndValue {
					t.Fatalf("event at %d after %d, end %d", e.At, last, p.EndValue)
				}
				last = e.At
				name := file.Shared.Frames[e.Frame].Name
				if e.Type == "O" {
					open = append(open, slice{Name: name, Start: e.At})
					continue
				}
				s := open[len(open)-1]
				open = open[:len(open)-1]
				if s.Name != name {
					t.Fatalf("got close of %s, want %s", name, s.Name)
				}
				s.Duration = e.At - s.Start
				got = append(got, s)
			}
			if len(open) > 0 {
				t.Fatalf("%v stay open", open)
			}
		}
		if diff := gocmp.Diff(sortSlices(want), sortSlices(got)); diff != "" {
			t.Fatalf("(-want +got):\n%s", diff)
		}
	})
}
