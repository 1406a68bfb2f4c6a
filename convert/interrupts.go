package convert

import (
	"github.com/xray-tools/xray/reader/calls"
	"github.com/xray-tools/xray/sched"
)

// interruptsTrack is the name of the track of interrupts.
const interruptsTrack = "interrupts"

// interruptsOf returns the interrupts from the first start of a call of a batch to the last end,
// except those that begin before a time.
func (o *Options) interruptsOf(b *calls.Batch, after uint64) []sched.Interrupt {
	file := int(b.Thread.File)
	if o.OffCPU == nil || file >= len(o.Sched) || o.Sched[file] == nil || len(b.Calls) == 0 {
		return nil
	}
	from, to := ^uint64(0), uint64(0)
	for i := range b.Calls {
		c := &b.Calls[i]
		from, to = min(from, c.Start), max(to, c.Start+c.Duration)
	}
	list := o.Sched[file].Thread(b.Thread.Thread).Interrupts(from, to)
	for len(list) > 0 && list[0].From < max(from, after) {
		list = list[1:]
	}
	return list
}

// interrupts writes interrupts to a track below that of the thread.
func (p *Perfetto) interrupts(t *perfettoThread, b *calls.Batch) {
	list := p.opts.interruptsOf(b, t.interrupted)
	if len(list) == 0 {
		return
	}
	track := uint64(interruptTracks | (b.Index + 1))
	if t.interrupted == 0 {
		p.track(track, uint64(b.Index+1), trackName, []byte(interruptsTrack), "")
	}
	t.interrupted = list[len(list)-1].From + 1
	end := func(at uint64) {
		p.outOfOrder(t, max(0, p.time.at(at)), appendPresent(appendPresent(nil, eventType, sliceEnd), eventTrack, track))
	}
	var open []uint64 // the ends of outer interrupts
	for i := range list {
		in := &list[i]
		for len(open) > 0 && open[len(open)-1] <= in.From {
			end(open[len(open)-1])
			open = open[:len(open)-1]
		}
		event := appendPresent(nil, eventType, sliceBegin)
		event = appendPresent(event, eventTrack, track)
		p.outOfOrder(t, max(0, p.time.at(in.From)), appendPresent(event, eventName, t.name(in.Source.InterruptLabel())))
		open = append(open, in.To)
	}
	for len(open) > 0 {
		end(open[len(open)-1])
		open = open[:len(open)-1]
	}
}
