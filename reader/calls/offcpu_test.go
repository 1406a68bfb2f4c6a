package calls_test

import (
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/reader/calls"
)

// waits collects calls, waits and gaps by thread.
type waits map[int]*threadWaits

type threadWaits struct {
	calls []calls.Call
	waits map[int]calls.Wait // by index of the call
	gaps  []calls.Gap
}

func (w waits) Calls(b *calls.Batch) error {
	t := w[b.Index]
	if t == nil {
		t = &threadWaits{waits: make(map[int]calls.Wait)}
		w[b.Index] = t
	}
	for _, x := range b.Waits {
		x.Call += len(t.calls)
		t.waits[x.Call] = x
	}
	t.calls = append(t.calls, b.Calls...)
	t.gaps = append(t.gaps, b.Gaps...)
	return nil
}

func (w waits) Merge(o waits) {
	for i, t := range o {
		w[i] = t
	}
}

// drawSwitches draws a thread whose records have distinct times, and which is switched out now and
// then.
func drawSwitches(t *rapid.T) *reader.Block {
	b := &reader.Block{}
	tsc := uint64(1000)
	for range rapid.IntRange(1, 300).Draw(t, "events") {
		gap := rapid.Uint64Range(1, 50).Draw(t, "gap")
		tsc += gap
		e := reader.Event{TSC: tsc, Func: reader.FuncID(rapid.IntRange(1, 5).Draw(t, "func"))}
		switch kind := rapid.IntRange(0, 9).Draw(t, "kind"); {
		case kind < 5:
			e.Kind = reader.Enter
		case kind < 8:
			e.Kind = reader.Exit
		default:
			e.Kind, e.Func, e.Side = reader.Custom, 0, true
			sw := reader.Switch{OffNS: gap + 3, Voluntary: 1}
			if kind == 9 {
				sw.OffNS = rapid.Uint64Range(0, gap).Draw(t, "off")
				sw.QueuedNS = rapid.Uint64Range(0, sw.OffNS).Draw(t, "queued")
				sw.RecorderNS = rapid.Uint64Range(0, sw.OffNS-sw.QueuedNS).Draw(t, "recorder")
			}
			b.Payloads = append(b.Payloads, reader.Payload{Event: len(b.Events), Data: reader.AppendSwitch(nil, sw)})
		}
		b.Events = append(b.Events, e)
	}
	return b
}

// pieces cuts the block as the reader does, which packs entries and exits.
func pieces(b *reader.Block, pack bool) blocks {
	var list blocks
	payloads := b.Payloads
	for i := range b.Events {
		e := b.Events[i : i+1]
		piece := &reader.Block{Thread: b.Thread, Index: b.Index}
		switch {
		case e[0].Side:
			piece.Events, piece.Payloads = e, []reader.Payload{{Data: payloads[0].Data}}
			payloads = payloads[1:]
		case pack:
			piece = packed{basic: true}.pack(&reader.Block{Thread: b.Thread, Index: b.Index, Events: e})[0]
		default:
			piece.Events = e
		}
		if last := len(list) - 1; pack && last >= 0 && piece.Packed.Len() > 0 && list[last].Packed.Len() > 0 {
			list[last].Packed.Records = append(list[last].Packed.Records, piece.Packed.Records...)
			continue
		}
		list = append(list, piece)
	}
	return list
}

// A call's off-CPU time is that of the gaps between its entry and its end.
func TestWaits(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := drawSwitches(t)
		opts := calls.Options{Shards: 1, OffCPU: &reader.Clock{Frequency: 1e9}}
		if rapid.Bool().Draw(t, "filter") {
			opts.Filter.MinDuration = 20
		}
		for _, pack := range []bool{false, true} {
			w, stats, err := calls.Run(pieces(b, pack), opts, func() waits { return waits{} })
			if err != nil {
				t.Fatal(err)
			}
			th := w[0]
			if stats.Off.Gaps != uint64(len(b.Payloads)) || len(th.gaps) != len(b.Payloads) {
				t.Fatalf("got %d switches, %d gaps, statistics %+v", len(b.Payloads), len(th.gaps), stats.Off)
			}
			for i, c := range th.calls {
				var want calls.Wait
				want.Call = i
				for _, g := range th.gaps {
					if c.Start < g.To && (g.To < c.Start+c.Duration || c.End == calls.Truncated) {
						want.Total.Add(g.Off)
						if g.Depth == c.Depth+1 {
							want.Self.Add(g.Off)
							if g.Func != c.Func {
								t.Fatalf("wrong gap %+v in %+v", g, c)
							}
						}
					}
				}
				got, ok := th.waits[i]
				if !ok {
					got.Call = i
				}
				if diff := gocmp.Diff(want, got); diff != "" {
					t.Fatalf("packed %v: call %+v (-want +got):\n%s", pack, c, diff)
				}
				if got.Total.Sum() > c.Duration || got.Self.Sum() > c.Self {
					t.Fatalf("call %+v: got wait %+v", c, got)
				}
			}
		}
	})
}

// The parts of a gap are as recorded.
func TestPartsOfGap(t *testing.T) {
	b := &reader.Block{
		Events:   []reader.Event{{TSC: 100, Func: 1, Kind: reader.Enter}, {TSC: 500, Kind: reader.Custom, Side: true}, {TSC: 600, Func: 1, Kind: reader.Exit}},
		Payloads: []reader.Payload{{Event: 1, Data: reader.AppendSwitch(nil, reader.Switch{OffNS: 350, QueuedNS: 200, RecorderNS: 120, Voluntary: 2})}},
	}
	w, stats, err := calls.Run(blocks{b}, calls.Options{OffCPU: &reader.Clock{Frequency: 1e9}}, func() waits { return waits{} })
	if err != nil {
		t.Fatal(err)
	}
	want := calls.Off{Blocked: 30, Queued: 200, Recorder: 120}
	if got := w[0].gaps[0].Off; got != want || stats.Off.Off != want || w[0].waits[0].Self != want {
		t.Errorf("got %+v, %+v, %+v", got, stats.Off, w[0].waits)
	}
}

// The trace ends inside a gap of unknown duration, and a switch precedes all records.
func TestUnknownGaps(t *testing.T) {
	var b reader.Block
	for i, sw := range []reader.Switch{
		{OffNS: 100, QueuedNS: reader.UnknownNS, Voluntary: 2},
		{OffNS: reader.UnknownNS, QueuedNS: reader.UnknownNS},
	} {
		b.Events = append(b.Events, reader.Event{TSC: 1000 + 500*uint64(i), Kind: reader.Custom, Side: true})
		b.Payloads = append(b.Payloads, reader.Payload{Event: i, Data: reader.AppendSwitch(nil, sw)})
	}
	w, stats, err := calls.Run(blocks{&b}, calls.Options{OffCPU: &reader.Clock{Frequency: 2e9}}, func() waits { return waits{} })
	if err != nil {
		t.Fatal(err)
	}
	want := []calls.Gap{
		{From: 800, To: 1000, Off: calls.Off{Blocked: 200}, Known: true, Voluntary: 2},
		{From: 1000, To: 1500},
	}
	if diff := gocmp.Diff(want, w[0].gaps); diff != "" {
		t.Errorf("gaps (-want +got):\n%s", diff)
	}
	if diff := gocmp.Diff(calls.OffStats{Gaps: 2, Off: calls.Off{Blocked: 200}, Voluntary: 2, Unknown: 1, Unqueued: 1}, stats.Off); diff != "" {
		t.Errorf("statistics (-want +got):\n%s", diff)
	}
}

// Off-CPU time between a tail exit and the next entry belongs to the call that the tail call
// continues, or to its caller.
func TestGapsAfterTailExits(t *testing.T) {
	sw := reader.Switch{OffNS: 40, Voluntary: 1}
	payload := reader.AppendSwitch(nil, sw)
	for _, continues := range []bool{true, false} {
		b := &reader.Block{
			Events: []reader.Event{
				{TSC: 100, Func: 1, Kind: reader.Enter}, {TSC: 110, Func: 2, Kind: reader.Enter}, {TSC: 120, Func: 2, Kind: reader.TailExit},
				{TSC: 170, Kind: reader.Custom, Side: true}, {TSC: 171, Func: 3, Kind: reader.Enter}, {TSC: 180, Func: 3, Kind: reader.Exit}, {TSC: 190, Func: 1, Kind: reader.Exit},
			},
			Payloads: []reader.Payload{{Event: 3, Data: payload}},
		}
		opts := calls.Options{Shards: 1, OffCPU: &reader.Clock{Frequency: 1_000_000_000}}
		opts.Continue = func(from, to reader.FuncID) bool { return continues && from == 2 && to == 3 }
		got, _, err := calls.Run(blocks{b}, opts, func() waits { return make(waits) })
		if err != nil {
			t.Fatal(err)
		}
		th := got[0]
		for i, c := range th.calls {
			w := th.waits[i]
			if w.Total.Blocked > c.Duration || w.Self.Blocked > c.Self {
				t.Errorf("continues %v: call %+v: got waits %+v", continues, c, w)
			}
			self := map[bool]reader.FuncID{true: 2, false: 1}[continues]
			if want := uint64(40); c.Func == self && w.Self.Blocked != want || c.Func != self && w.Self.Blocked != 0 {
				t.Errorf("continues %v: call %+v: got waits %+v", continues, c, w)
			}
		}
		if len(th.calls) != 3 || len(th.gaps) != 1 || th.gaps[0].From != 120 || th.gaps[0].To != 170 {
			t.Errorf("continues %v: got calls %+v, gaps %+v", continues, th.calls, th.gaps)
		}
	}
}

// An interrupt counts as self time of the innermost call only. Interrupts do not change the other
// off-CPU times, and take at most the call's time in total.
func TestInterruptsOfCalls(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := drawSwitches(t)
		last := b.Events[len(b.Events)-1].TSC
		var list []calls.Stretch
		for at := uint64(990); at < last+20; {
			from := at + rapid.Uint64Range(0, 60).Draw(t, "pause")
			at = from + rapid.Uint64Range(1, 4).Draw(t, "length")
			list = append(list, calls.Stretch{From: from, To: at})
		}
		opts := calls.Options{Shards: 1, OffCPU: &reader.Clock{Frequency: 1e9}}
		run := func() *threadWaits {
			w, _, err := calls.Run(pieces(b, true), opts, func() waits { return waits{} })
			if err != nil {
				t.Fatal(err)
			}
			return w[0]
		}
		without := run()
		opts.Interrupts = func(reader.Thread) []calls.Stretch { return list }
		with := run()
		if diff := gocmp.Diff(without.calls, with.calls); diff != "" {
			t.Fatalf("other calls (-without +with):\n%s", diff)
		}
		for i, c := range with.calls {
			inside := func(in calls.Stretch, c *calls.Call) bool { return in.From >= c.Start && in.From < c.Start+c.Duration }
			var self, total uint64
			for _, in := range list {
				if !inside(in, &c) {
					continue
				}
				total += in.To - in.From
				own := true
				for k := range with.calls[:i] {
					own = own && (with.calls[k].Depth <= c.Depth || !inside(in, &with.calls[k]))
				}
				if own {
					self += in.To - in.From
				}
			}
			want := without.waits[i]
			want.Call = i
			want.Self.Interrupted = min(self, c.Self-want.Self.Sum())
			want.Total.Interrupted = min(total, c.Duration-want.Total.Sum())
			got, ok := with.waits[i]
			if !ok {
				got.Call = i
			}
			if diff := gocmp.Diff(want, got); diff != "" {
				t.Fatalf("call %+v (-want +got):\n%s", c, diff)
			}
		}
	})
}
