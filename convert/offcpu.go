package convert

import (
	"strconv"

	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/reader/calls"
)

// offCPUTrack is the name of the track, or the category, of off-CPU times.
const offCPUTrack = "off CPU"

// offSpan is an off-CPU time in a timeline.
type offSpan struct {
	state      string
	start, end uint64 // TSC
	place      string // how inexact the position is; "" if it is exact
	switches   string // numbers of switches; "" except in the first span of a gap
	by         string // what ran instead, or ended the wait; "" if unknown
	waker      int32  // thread of the process that woke this thread at start; 0 for none
}

// offSpans returns the spans of a gap. The thread noticed the gap only at the gap's end, so the
// spans are placed there: first blocked by the program, then blocked by the recorder, then in the
// run queue. They may have been earlier.
func (t *timeline) offSpans(g *calls.Gap) []offSpan {
	off := g.Sum()
	if off == 0 {
		return nil
	}
	start := g.To - off
	place := ""
	if slack := start - g.From; slack > off/16 {
		place = "up to " + t.clock.Format(slack) + " earlier"
	}
	switches := strconv.FormatUint(uint64(g.Voluntary), 10) + " voluntary, " + strconv.FormatUint(uint64(g.Involuntary), 10) + " involuntary"
	var list []offSpan
	if g.Blocked > 0 {
		state := "blocked"
		if !g.QueueKnown {
			state = "blocked or in the run queue"
		}
		list = append(list, offSpan{state, start, start + g.Blocked, place, switches, "", 0})
		switches = ""
	}
	if g.Recorder > 0 {
		list = append(list, offSpan{"waiting for the recorder", start + g.Blocked, g.To - g.Queued, place, switches, "", 0})
		switches = ""
	}
	if g.Queued > 0 {
		list = append(list, offSpan{"in the run queue", g.To - g.Queued, g.To, place, switches, "", 0})
	}
	return list
}

// gaps writes off-CPU times to a track below that of the thread.
func (p *Perfetto) gaps(t *perfettoThread, b *calls.Batch) {
	track := uint64(offCPUTracks | (b.Index + 1))
	for i := range b.Gaps {
		for _, s := range p.time.spansOf(&p.opts, b.Thread, &b.Gaps[i]) {
			if !t.hasGaps {
				t.hasGaps = true
				p.track(track, uint64(b.Index+1), trackName, []byte(offCPUTrack), "")
			}
			event := appendPresent(nil, eventType, sliceBegin)
			event = appendPresent(event, eventTrack, track)
			event = appendPresent(event, eventName, t.name(s.state))
			if s.switches != "" {
				event = annotateText(event, "switches", s.switches)
			}
			if s.place != "" {
				event = annotateText(event, "when", s.place)
			}
			if s.by != "" {
				event = annotateText(event, "by", s.by)
			}
			if s.waker != 0 {
				event = appendFlow(event, wakeID(b.Thread, s.start))
				p.wake(reader.Thread{File: b.Thread.File, Process: b.Thread.Process, Thread: s.waker}, wakeUp{s.start, b.Thread})
			}
			p.outOfOrder(t, max(0, p.time.at(s.start)), event)
			p.outOfOrder(t, max(0, p.time.at(s.end)), appendPresent(appendPresent(nil, eventType, sliceEnd), eventTrack, track))
		}
	}
}

// gaps writes off-CPU times as asynchronous events, which viewers draw on a separate track.
func (c *Chrome) gaps(t *chromeThread, b *calls.Batch) {
	for i := range b.Gaps {
		for _, s := range c.time.spansOf(&c.opts, b.Thread, &b.Gaps[i]) {
			for _, edge := range []struct {
				kind string
				tsc  uint64
			}{{"b", s.start}, {"e", s.end}} {
				buf := append(c.next(c.out.buf), `{"name":"`...)
				buf = append(append(buf, s.state...), `","cat":"`+offCPUTrack+`","id2":{"local":"`...)
				buf = strconv.AppendInt(buf, int64(b.Thread.Thread), 10)
				buf = append(append(append(buf, `"},"ph":"`...), edge.kind...), `","ts":`...)
				buf = append(c.time.appendMicros(buf, c.time.at(edge.tsc)), t.end...)
				if edge.kind == "b" && s.switches+s.place != "" {
					buf = append(buf, `,"args":{"switches":"`...)
					buf = append(append(append(buf, s.switches...), `","when":"`...), s.place...)
					buf = append(buf, `"}`...)
				}
				c.out.buf = c.out.spill(append(buf, '}'))
			}
		}
	}
}

// gaps adds a marker for each off-CPU time.
func (f *Firefox) gaps(t *firefoxThread, b *calls.Batch) {
	for i := range b.Gaps {
		for _, s := range f.time.spansOf(&f.opts, b.Thread, &b.Gaps[i]) {
			data := appendJSON([]byte(`{"type":"offcpu","switches":`), s.switches)
			data = appendJSON(append(data, `,"place":`...), s.place)
			t.gaps = append(t.gaps, firefoxMarker{name: f.texts.of(s.state), start: s.start, end: s.end, call: true, data: string(data)})
		}
	}
}
