package convert

import (
	"cmp"
	"io"
	"slices"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/encoding/protowire"
	"pgregory.net/rapid"

	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/reader/calls"
)

// setOpens gives a batch the entries of its calls.
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
	slices.SortStableFunc(b.Events, func(x, y calls.Event) int { return cmp.Compare(x.TSC, y.TSC) })
}

// slice is a call as Perfetto shows it, or with a duration of -1 an instant.
type slice struct {
	Track           uint64
	Name            string
	Start, Duration int64
	Line            uint64
	Flow            uint64
}

// decodePerfetto reads a trace as Perfetto does.
func decodePerfetto(t rapid.TB, data string) []slice {
	t.Helper()
	type sequence struct {
		track   uint64
		now     int64
		names   map[uint64]string
		lines   map[uint64]uint64
		open    []slice
		cleared bool
	}
	sequences := map[uint64]*sequence{}
	var all []slice
	each(t, []byte(data), func(field protowire.Number, _ uint64, packet []byte) {
		if field != tracePacket {
			t.Fatalf("field %d of the trace", field)
		}
		var id, flags, delta uint64
		var event, interned, defaults []byte
		each(t, packet, func(field protowire.Number, v uint64, data []byte) {
			switch field {
			case packetSequence:
				id = v
			case packetSequenceFlags:
				flags = v
			case packetTimestamp:
				delta = v
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
			t.Fatalf("an event of sequence %d before its state", id)
		}
		s.now += int64(delta)
		now := slice{Track: s.track, Start: s.now, Duration: -1}
		var kind uint64
		each(t, event, func(field protowire.Number, v uint64, data []byte) {
			switch field {
			case eventType:
				kind = v
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
		switch kind {
		case sliceBegin:
			s.open = append(s.open, now)
		case sliceEnd:
			if len(s.open) == 0 {
				t.Fatalf("sequence %d ends what it has not begun", id)
			}
			last := s.open[len(s.open)-1]
			s.open = s.open[:len(s.open)-1]
			last.Duration = s.now - last.Start
			all = append(all, last)
		case instantEvent:
			all = append(all, now)
		}
	})
	for id, s := range sequences {
		if len(s.open) > 0 {
			t.Fatalf("sequence %d leaves %v open", id, s.open)
		}
	}
	return sortSlices(all)
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

// Perfetto gets every call that is long enough, and every event, in the right order.
func TestPerfettoShowsAll(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		batches := genBatches(t)
		shortest := rapid.SampledFrom([]uint64{0, 1, 1000, 200_000}).Draw(t, "shortest")
		opts := Options{
			Header: reader.Header{CycleFrequency: rapid.SampledFrom([]uint64{1_000_000_000, 3_000_000_001, 0}).Draw(t, "frequency")},
			Names:  hostile, Base: rapid.Uint64Range(0, 2_000_000).Draw(t, "base"),
		}
		axis := opts.timeline()
		at := func(tsc uint64) int64 { return max(0, axis.at(tsc)) }
		var want []slice
		for _, b := range batches {
			setOpens(b)
			for _, c := range b.Calls {
				if c.Duration < shortest {
					continue
				}
				s := slice{Track: uint64(b.Index + 1), Name: validText(opts.label(c.Func)), Start: at(c.Start)}
				if s.Duration = at(c.Start+c.Duration) - s.Start; c.Func < 9 {
					s.Line = uint64(c.Func) * 10
				}
				want = append(want, s)
			}
			for _, e := range b.Events {
				mark, _ := e.Mark()
				want = append(want, slice{Track: uint64(b.Index + 1), Name: validText(e.Name()), Start: at(e.TSC), Duration: -1, Flow: mark.ID})
			}
		}
		got := decodePerfetto(t, write(t, func(w io.Writer, opts Options) *Perfetto { return NewPerfetto(w, opts, shortest, nil) }, opts, batches...))
		if diff := gocmp.Diff(sortSlices(want), got); diff != "" {
			t.Fatalf("-want +got:\n%s", diff)
		}
	})
}
