package why

import (
	"encoding/binary"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/xray-tools/xray/reader"
)

// packEvents packs events of a thread, the last of the events before them at a time.
func packEvents(events []reader.Event, basic bool, before uint64) reader.Packed {
	p := reader.Packed{Basic: basic, TSC: before, CPU: events[0].CPU}
	for _, e := range events {
		if basic {
			p.Records = binary.LittleEndian.AppendUint64(p.Records, uint64(e.CPU)<<16|uint64(e.Kind)<<24|uint64(uint32(e.Func))<<32)
			p.Records = binary.LittleEndian.AppendUint64(p.Records, e.TSC)
			p.Records = append(p.Records, make([]byte, 16)...)
		} else {
			p.Records = binary.LittleEndian.AppendUint64(p.Records, uint64(e.Kind)<<1|uint64(uint32(e.Func))<<4|(e.TSC-before)<<32)
			before = e.TSC
		}
	}
	return p
}

// unpackEvents returns the events of a block without their processors.
func unpackEvents(b *reader.Block) []reader.Event {
	var events []reader.Event
	for _, e := range b.Events {
		e.CPU = 0
		events = append(events, e)
	}
	tsc := b.Packed.TSC
	for in := b.Packed.Records; len(in) > 0; {
		if b.Packed.Basic {
			r := at[on](in, 0)
			events, in = append(events, reader.Event{TSC: r.time, Func: r.fn, Kind: r.kind}), in[basicRecord:]
			continue
		}
		r := at[off](in, 0)
		tsc += r.time
		events, in = append(events, reader.Event{TSC: tsc, Func: r.fn, Kind: r.kind}), in[fdrRecord:]
	}
	return events
}

// blocks is a source of blocks that are all of one thread.
type blocks []*reader.Block

func (s blocks) Each(_ int, fn func(int, *reader.Block) error) error {
	for _, b := range s {
		if err := fn(0, b); err != nil {
			return err
		}
	}
	return nil
}

// Packed records are nested like events, and the same pairs are found in them.
func TestNestingOfPackedRecords(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		basic := rapid.Bool().Draw(t, "basic")
		var plain, packed blocks
		tsc := uint64(1000)
		for range rapid.IntRange(1, 4).Draw(t, "blocks") {
			before := tsc
			var events []reader.Event
			for range rapid.IntRange(1, 30).Draw(t, "events") {
				tsc += rapid.SampledFrom([]uint64{0, 1, 900, 1<<32 - 1}).Draw(t, "ticks")
				if basic && rapid.IntRange(0, 20).Draw(t, "back") == 0 {
					tsc -= min(tsc, 5000)
				}
				events = append(events, reader.Event{
					TSC: tsc, Func: reader.FuncID(rapid.IntRange(1, 4).Draw(t, "func")),
					Kind: rapid.SampledFrom([]reader.Kind{reader.Enter, reader.Enter, reader.Exit, reader.TailExit}).Draw(t, "kind"),
				})
			}
			plain = append(plain, &reader.Block{Events: events})
			in := &reader.Block{Packed: packEvents(events, basic, before)}
			if rapid.IntRange(0, 3).Draw(t, "unpacked") == 0 {
				in = plain[len(plain)-1]
			}
			packed = append(packed, in)
			tsc += rapid.SampledFrom([]uint64{0, 1 << 33}).Draw(t, "pause")
		}
		pairs, first, err := findTailCalls(plain, 1, 1000)
		if err != nil {
			t.Fatal(err)
		}
		same, sameFirst, _ := findTailCalls(packed, 1, 1000)
		if first != sameFirst || len(pairs) != len(same) {
			t.Fatalf("pairs %v from %d on, packed %v from %d on", pairs, first, same, sameFirst)
		}
		for p := range pairs {
			if !same[p] {
				t.Fatalf("pair %v is not found in packed records", p)
			}
		}
		for range rapid.IntRange(0, 6).Draw(t, "pairs") {
			pairs[pair{reader.FuncID(rapid.IntRange(1, 4).Draw(t, "caller")), reader.FuncID(rapid.IntRange(1, 4).Draw(t, "callee"))}] = true
		}
		nested := func(src blocks) (all []reader.Event) {
			if err := (nesting{src, pairs}).EachPacked(1, func(_ int, b *reader.Block) error {
				all = append(all, unpackEvents(b)...)
				return nil
			}); err != nil {
				t.Fatal(err)
			}
			return all
		}
		if want, got := nested(plain), nested(packed); !slices.Equal(want, got) {
			t.Fatalf("nested events %v, packed %v", want, got)
		}
	})
}
