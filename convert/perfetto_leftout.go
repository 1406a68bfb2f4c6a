package convert

import "slices"

// run writes a run of omitted calls.
func (p *Perfetto) run(t *perfettoThread, r *shortRun) {
	if t.leftOut == nil {
		t.leftOut = appendPresent(appendPresent(nil, eventType, sliceBegin), eventName, t.name(leftOutName))
	}
	var buf [128]byte
	event := append(buf[:0], t.leftOut...)
	event = annotateNumber(event, "calls", r.calls)
	event = annotateText(event, "took", p.time.clock.Format(r.took))
	p.outOfOrder(t, max(0, p.time.at(r.start)), event)
	p.outOfOrder(t, max(0, p.time.at(r.end)), plainEnd)
}

// leftOutFrom writes how many calls are omitted in the time span that begins at tsc.
func (p *Perfetto) leftOutFrom(t *perfettoThread, number, tsc, n uint64) {
	if t.absent {
		t.absent = false
		p.track(leftOutTracks|number, number, trackCounter, nil, leftOutName+", each "+p.time.clock.Format(p.opts.LeftOutEvery))
	}
	event := appendPresent(nil, eventType, counterEvent)
	event = appendPresent(event, eventTrack, leftOutTracks|number)
	p.outOfOrder(t, max(0, p.time.at(tsc)), appendPresent(event, eventCount, n))
}

// outOfOrder writes a track event that may be earlier than the previous packet.
func (p *Perfetto) outOfOrder(t *perfettoThread, at int64, event []byte) {
	head := appendPresent(t.head[:len(t.head):len(t.head)], packetTimestampClock, clockBoottime)
	p.write(t, head, at, event)
}

// dropInstants omits the instants with more than open calls around them.
func (t *perfettoThread) dropInstants(open int) {
	n := len(t.pending)
	for n > 0 && t.pending[n-1].open > open {
		n--
	}
	t.pending = slices.Delete(t.pending, n, len(t.pending))
}
