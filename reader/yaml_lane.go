package reader

import (
	"cmp"
	"context"
)

func (y *yamlTrace) lanes(*pass) ([]lane, error) {
	lanes := make([]lane, len(y.order))
	for i, l := range y.order {
		lanes[i] = l
	}
	return lanes, nil
}

func (y *yamlTrace) each(_ *pass, n int, fn func(int, *Block) error) error {
	n = max(1, min(n, len(y.order)))
	return parallel(n, func(ctx context.Context, shard int) error {
		for i := shard; i < len(y.order); i += n {
			d := &yamlDecoder{lane: y.order[i]}
			for end := len(d.lane.events); d.pos < end; {
				if err := cmp.Or(ctx.Err(), fn(shard, d.block(min(end, d.pos+blockEvents)))); err != nil {
					return err
				}
			}
		}
		return nil
	})
}

func (y *yamlTrace) stream(_ *pass, _ Order, fn func(*Block) error) error {
	decoders := make(map[*yamlLane]*yamlDecoder)
	for _, l := range y.runs {
		d := decoders[l]
		if d == nil {
			d = &yamlDecoder{lane: l}
			decoders[l] = d
		}
		for end := l.runs[d.run].end; d.pos < end; {
			if err := fn(d.block(min(end, d.pos+blockEvents))); err != nil {
				return err
			}
		}
		d.run++
	}
	return nil
}

func (y *yamlTrace) records(func(Record, error) bool) {}

func (l *yamlLane) first() (tsc uint64, at place, ok bool) {
	return l.events[0].TSC, place{file: l.thread.File, inFile: l.runs[0].place}, true
}

func (l *yamlLane) decoder(_ *pass, eventCap int) laneDecoder {
	return &yamlDecoder{lane: l, eventCap: eventCap}
}

// yamlDecoder walks a lane run by run.
type yamlDecoder struct {
	lane     *yamlLane
	eventCap int
	run      int // in lane.runs
	pos      int // in lane.events
	args     int // in lane.args
	payloads int // in lane.payloads
	out      Block
}

func (d *yamlDecoder) close() {}

func (d *yamlDecoder) next() (*Block, error) {
	if d.pos == len(d.lane.events) {
		return nil, nil
	}
	r := d.lane.runs[d.run]
	b := d.block(min(r.end, d.pos+d.eventCap))
	b.place = r.place
	if d.pos == r.end {
		d.run++
	}
	return b, nil
}

// block takes the events up to end.
func (d *yamlDecoder) block(end int) *Block {
	l := d.lane
	b := &d.out
	b.Thread, b.Index, b.Offset = l.thread, l.index, -1
	b.Events = l.events[d.pos:end]
	b.Args, b.Payloads = b.Args[:0], b.Payloads[:0]
	for d.args < len(l.args) && l.args[d.args].Event < end {
		a := l.args[d.args]
		a.Event -= d.pos
		b.Args = append(b.Args, a)
		d.args++
	}
	for d.payloads < len(l.payloads) && l.payloads[d.payloads].Event < end {
		p := l.payloads[d.payloads]
		p.Event -= d.pos
		b.Payloads = append(b.Payloads, p)
		d.payloads++
	}
	d.pos = end
	return b
}
