package convert

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/encoding/protowire"
	"pgregory.net/rapid"

	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/reader/calls"
)

// setOpens sets a batch's entries to those of its calls.
func setOpens(b *calls.Batch) {
	b.Opens = nil
	for i, c := range b.Calls {
		first := i
		for first > 0 && b.Calls[first-1].Depth > c.Depth {
			first--
		}
		b.Opens = append(b.Opens, calls.Open{Call: first, Start: c.Start, Func: c.Func, Depth: c.Depth})
	}
	slices.SortStableFunc(b.Opens, func(x, y calls.Open) int {
		return cmp.Or(cmp.Compare(x.Call, y.Call), cmp.Compare(x.Depth, y.Depth))
	})
	placeEvents(b)
}

// slice is a call as Perfetto shows it, or an instant if the duration is -1.
type slice struct {
	Track           uint64
	Name            string
	Start, Duration int64
	Line            uint64
	Flow            uint64
	Calls           uint64 // number of calls omitted
}

// decodePerfetto reads a trace as Perfetto does: packets in order of time, and equal times in the
// order of the file. It also sums the counters of calls omitted, and checks the counter of open
// calls around every pause and at the end.
func decodePerfetto(t rapid.TB, data string) ([]slice, map[uint64]uint64) {
	t.Helper()
	type sequence struct {
		track   uint64
		now     int64
		names   map[uint64]string
		lines   map[uint64]uint64
		cleared bool
		open    int  // calls
		sampled bool // since the last slice or instant
	}
	type trackEvent struct {
		slice
		kind uint64
	}
	var events []trackEvent
	leftOut := map[uint64]uint64{}
	sequences := map[uint64]*sequence{}
	each(t, []byte(data), func(field protowire.Number, _ uint64, packet []byte) {
		if field != tracePacket {
			t.Fatalf("unexpected field %d in the trace", field)
		}
		var id, flags, time, clock uint64
		var event, interned, defaults []byte
		each(t, packet, func(field protowire.Number, v uint64, data []byte) {
			switch field {
			case packetSequence:
				id = v
			case packetSequenceFlags:
				flags = v
			case packetTimestamp:
				time = v
			case packetTimestampClock:
				clock = v
			case packetTrackEvent:
				event = data
			case packetInternedData:
				interned = data
			case packetDefaults:
				defaults = data
			}
		})
		s := sequences[id]
		if s == nil {
			s = &sequence{names: map[uint64]string{}, lines: map[uint64]uint64{}}
			sequences[id] = s
		}
		if flags&stateCleared != 0 {
			s.cleared = true
			each(t, defaults, func(field protowire.Number, _ uint64, data []byte) {
				if field == packetTrackEvent {
					each(t, data, func(_ protowire.Number, v uint64, _ []byte) { s.track = v })
				}
			})
		}
		each(t, interned, func(field protowire.Number, _ uint64, data []byte) {
			var iid, line uint64
			var text string
			each(t, data, func(field protowire.Number, v uint64, data []byte) {
				switch field {
				case 1:
					iid = v
				case 2:
					text = string(data)
				case 4:
					line = v
				}
			})
			if field == internedNames {
				s.names[iid] = text
			} else {
				s.lines[iid] = line
			}
		})
		if event == nil || id == commonSequence {
			return
		}
		if !s.cleared || flags&needsState == 0 {
			t.Fatalf("got an event of sequence %d before its state", id)
		}
		now := trackEvent{slice: slice{Track: s.track, Start: int64(time), Duration: -1}}
		if clock == 0 {
			s.now += int64(time)
			now.Start = s.now
		}
		var count uint64
		each(t, event, func(field protowire.Number, v uint64, data []byte) {
			switch field {
			case eventType:
				now.kind = v
			case eventTrack:
				now.Track = v
			case eventCount:
				count = v
			case eventAnnotation:
				var name string
				var number uint64
				each(t, data, func(field protowire.Number, v uint64, data []byte) {
					switch field {
					case annotationName:
						name = string(data)
					case annotationUint:
						number = v
					}
				})
				if name == "calls" {
					now.Calls = number
				}
			case eventName:
				now.Name = s.names[v]
			case eventNameText:
				now.Name = string(data)
			case eventSource:
				now.Line = s.lines[v]
			case eventFlow:
				now.Flow = v
			}
		})
		switch {
		case now.kind == counterEvent && now.Track >= leftOutTracks:
			leftOut[now.Track] += count
		case clock != 0: // calls omitted
		case now.kind == counterEvent:
			if s.sampled = true; now.Track != counterTracks|s.track || int(count) != s.open {
				t.Fatalf("at %d: counter %#x of track %d: got %d, want %d open calls", now.Start, now.Track, s.track, count, s.open)
			}
		default:
			if time >= quiet && now.Start != int64(time) && !s.sampled {
				t.Fatalf("track %d: no counter value for the pause of %d ns before %d", s.track, time, now.Start)
			}
			s.sampled = false
			switch now.kind {
			case sliceBegin:
				s.open++
			case sliceEnd:
				s.open--
			}
		}
		events = append(events, now)
	})
	for _, s := range sequences {
		if s.cleared && (!s.sampled || s.open != 0) {
			t.Fatalf("at the end, %d calls are open on track %d; sampled: %v", s.open, s.track, s.sampled)
		}
	}
	slices.SortStableFunc(events, func(a, b trackEvent) int { return cmp.Compare(a.Start, b.Start) })
	var all []slice
	open := map[uint64][]slice{}
	for _, e := range events {
		stack := open[e.Track]
		switch e.kind {
		case sliceBegin:
			open[e.Track] = append(stack, e.slice)
		case sliceEnd:
			if len(stack) == 0 {
				t.Fatalf("track %d: an end without a begin", e.Track)
			}
			last := stack[len(stack)-1]
			open[e.Track] = stack[:len(stack)-1]
			last.Duration = e.Start - last.Start
			all = append(all, last)
		case instantEvent:
			all = append(all, e.slice)
		}
	}
	for track, stack := range open {
		if len(stack) > 0 {
			t.Fatalf("track %d: %v did not end", track, stack)
		}
	}
	return sortSlices(all), leftOut
}

func sortSlices(all []slice) []slice {
	slices.SortFunc(all, func(a, b slice) int {
		return cmp.Or(cmp.Compare(a.Track, b.Track), cmp.Compare(a.Start, b.Start), cmp.Compare(a.Duration, b.Duration),
			cmp.Compare(a.Name, b.Name), cmp.Compare(a.Line, b.Line), cmp.Compare(a.Flow, b.Flow))
	})
	return all
}

// each visits the fields of a message.
func each(t rapid.TB, data []byte, fn func(field protowire.Number, v uint64, data []byte)) {
	t.Helper()
	for len(data) > 0 {
		field, kind, n := protowire.ConsumeTag(data)
		if n < 0 {
			t.Fatal(protowire.ParseError(n))
		}
		data = data[n:]
		var v uint64
		var bytes []byte
		switch kind {
		case protowire.VarintType:
			v, n = protowire.ConsumeVarint(data)
		case protowire.Fixed64Type:
			v, n = protowire.ConsumeFixed64(data)
		default:
			bytes, n = protowire.ConsumeBytes(data)
		}
		if n < 0 {
			t.Fatal(protowire.ParseError(n))
		}
		fn(field, v, bytes)
		data = data[n:]
	}
}

// The trace has every call that is long enough, and every event, in the right order.
func TestPerfettoShowsAll(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		batches := genBatches(t)
		opts := Options{
			Header: reader.Header{CycleFrequency: rapid.SampledFrom([]uint64{1_000_000_000, 3_000_000_001, 0}).Draw(t, "frequency")},
			Names:  hostile, Base: rapid.Uint64Range(0, 2_000_000).Draw(t, "base"),
		}
		genShortest(t, &opts, batches)
		axis := opts.timeline()
		at := func(tsc uint64) int64 { return max(0, axis.at(tsc)) }
		var want []slice
		counted := map[uint64]uint64{}
		for _, b := range batches {
			setOpens(b)
			for _, c := range b.Calls {
				if c.Duration < opts.Shortest {
					continue
				}
				s := slice{Track: uint64(b.Index + 1), Name: validText(opts.label(c.Func)), Start: at(c.Start)}
				if s.Duration = at(c.Start+c.Duration) - s.Start; c.Func < 9 {
					s.Line = uint64(c.Func) * 10
				}
				want = append(want, s)
			}
			for _, r := range runsOf(b, opts) {
				start := at(r.start)
				want = append(want, slice{Track: uint64(b.Index + 1), Name: leftOutName, Start: start, Duration: at(r.end) - start, Calls: r.calls})
			}
			if n := leftOutOf(b, opts); n > 0 {
				counted[leftOutTracks|uint64(b.Index+1)] = n
			}
			for i := range b.Events {
				e := &b.Events[i]
				if !shows(b, e, opts) {
					continue
				}
				mark, _ := e.Mark()
				want = append(want, slice{Track: uint64(b.Index + 1), Name: validText(e.Name()), Start: at(e.TSC), Duration: -1, Flow: mark.ID})
			}
		}
		got, leftOut := decodePerfetto(t, write(t, NewPerfetto, opts, batches...))
		if diff := gocmp.Diff(sortSlices(want), got); diff != "" {
			t.Fatalf("(-want +got):\n%s", diff)
		}
		if diff := gocmp.Diff(counted, leftOut); diff != "" {
			t.Fatalf("calls omitted (-want +got):\n%s", diff)
		}
	})
}

// A trace without calls does not give an empty file, because the UI cannot open one.
func TestPerfettoOfNothing(t *testing.T) {
	text := write(t, NewPerfetto, Options{})
	if got, leftOut := decodePerfetto(t, text); text == "" || len(got)+len(leftOut) > 0 {
		t.Errorf("%q: got %v and %v", text, got, leftOut)
	}
}

// cut divides a batch at a random place: after some calls, and after some of the entries that
// follow the last of them.
func cut(t *rapid.T, b *calls.Batch) (first, rest *calls.Batch) {
	n := rapid.IntRange(0, len(b.Calls)).Draw(t, "calls before the cut")
	x, y := *b, *b
	x.Last = false
	x.Calls, y.Calls = b.Calls[:n], b.Calls[n:]
	opens, late := 0, 0
	for opens < len(b.Opens) && b.Opens[opens].Call <= n {
		if b.Opens[opens].Call == n {
			late++
		}
		opens++
	}
	opens -= rapid.IntRange(0, late).Draw(t, "entries after the cut")
	x.Opens, y.Opens = b.Opens[:opens], slices.Clone(b.Opens[opens:])
	for i := range y.Opens {
		y.Opens[i].Call -= n
	}
	var last uint64
	if n > 0 {
		last = b.Calls[n-1].Start + b.Calls[n-1].Duration
	}
	if opens > 0 {
		last = max(last, b.Opens[opens-1].Start)
	}
	events, args := 0, 0
	for events < len(b.Events) && b.Events[events].TSC <= last {
		events++
	}
	x.Events, y.Events = b.Events[:events], slices.Clone(b.Events[events:])
	for i := range y.Events {
		y.Events[i].Call -= n
	}
	for args < len(b.Args) && b.Args[args].Call < n {
		args++
	}
	x.Args, y.Args = b.Args[:args], slices.Clone(b.Args[args:])
	for i := range y.Args {
		y.Args[i].Call -= n
	}
	return &x, &y
}

// Batches without arguments and events have their own code path. The bytes must not depend on where
// batches end.
func TestPerfettoInParts(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		batches := genBatches(t)
		opts := Options{Header: oneGHz, Names: hostile}
		if rapid.Bool().Draw(t, "leave out") {
			genShortest(t, &opts, batches)
		}
		var parts []*calls.Batch
		for _, b := range batches {
			setOpens(b)
			first, rest := cut(t, b)
			middle, last := cut(t, rest)
			parts = append(parts, first, middle, last)
		}
		want := write(t, NewPerfetto, opts, batches...)
		if got := write(t, NewPerfetto, opts, parts...); got != want {
			t.Fatalf("in parts: got %q, want %q", got, want)
		}
	})
}

// A track shows the windows of a recording. One without an end lasts as long as the trace.
func TestPerfettoShowsWindows(t *testing.T) {
	var out bytes.Buffer
	p := NewPerfetto(&out, Options{Header: reader.Header{CycleFrequency: 1_000_000_000}, Base: 100, Windows: [][]reader.RecordedWindow{
		nil, {{From: 100, To: 200}, {From: 300, To: 450}, {From: 600}},
	}})
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
	var got []string
	each(t, out.Bytes(), func(_ protowire.Number, _ uint64, packet []byte) {
		var at uint64
		each(t, packet, func(field protowire.Number, v uint64, data []byte) {
			switch field {
			case packetTimestamp:
				at = v
			case packetTrackEvent:
				var kind, track uint64
				each(t, data, func(field protowire.Number, v uint64, _ []byte) {
					switch field {
					case eventType:
						kind = v
					case eventTrack:
						track = v
					}
				})
				got = append(got, fmt.Sprintf("%d on %d at %d", kind, track-windowTracks, at))
			}
		})
	})
	want := []string{"1 on 1 at 0", "2 on 1 at 100", "1 on 1 at 200", "2 on 1 at 350", "1 on 1 at 500", "2 on 1 at 500"}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}
