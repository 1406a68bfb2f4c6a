package convert

import (
	"encoding/binary"
	"math"
	"slices"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/reader/calls"
)

// Most batches contain only calls that are all shown and have no arguments. Their packets differ
// only in the time and the track event. So packets are copied from templates, in whole words. Later
// copies overwrite the surplus bytes.

// eventTemplate is the last part of a packet: its track event, with tag and size.
type eventTemplate struct {
	words [3]uint64 // its bytes, little-endian
	size  int32
	fn    reader.FuncID
}

// newEventTemplate returns the template of a track event of at most 22 bytes.
func newEventTemplate(fn reader.FuncID, event []byte) eventTemplate {
	var buf [24]byte
	t := eventTemplate{fn: fn, size: int32(len(appendBytes(buf[:0], packetTrackEvent, event)))}
	for i := range t.words {
		t.words[i] = binary.LittleEndian.Uint64(buf[8*i:])
	}
	return t
}

// event returns the track event without tag and size, in new memory.
func (t *eventTemplate) event() []byte {
	buf := make([]byte, 0, 24)
	for _, w := range t.words {
		buf = binary.LittleEndian.AppendUint64(buf, w)
	}
	return buf[2:t.size]
}

// plainEndTemplate is the template of plainEnd.
var plainEndTemplate = newEventTemplate(0, plainEnd)

// eventTemplates has the templates that begin calls, by function. It is a hash table with linear
// probing, at most half full.
type eventTemplates struct {
	slots []eventTemplate // size is 0 where it is free
	used  int
}

// slot returns the slot that has or should get the template of a function.
func (s *eventTemplates) slot(fn reader.FuncID) *eventTemplate {
	mask := uint32(len(s.slots) - 1)
	for i := uint32(fn) * 0x9e3779b1 >> 7; ; i++ {
		t := &s.slots[i&mask]
		if t.fn == fn && t.size > 0 || t.size == 0 {
			return t
		}
	}
}

// find returns the template of a function, or nil if there is none yet.
func (s *eventTemplates) find(fn reader.FuncID) *eventTemplate {
	if len(s.slots) == 0 {
		return nil
	}
	if t := s.slot(fn); t.size > 0 {
		return t
	}
	return nil
}

// add adds the template of a new function.
func (s *eventTemplates) add(t eventTemplate) *eventTemplate {
	if 2*s.used >= len(s.slots) {
		old := s.slots
		s.slots = make([]eventTemplate, max(16, 2*len(old)))
		for i := range old {
			if old[i].size > 0 {
				*s.slot(old[i].fn) = old[i]
			}
		}
	}
	s.used++
	slot := s.slot(t.fn)
	*slot = t
	return slot
}

// plain reports whether a batch has only calls, all of them shown and without arguments and results.
// Arguments and events are rare, and calls are omitted only on request.
func (p *Perfetto) plain(t *perfettoThread, b *calls.Batch) bool {
	return p.opts.Shortest == 0 && t.calls.short == nil && len(b.Args)+len(b.Events)+len(t.pending) == 0 &&
		(p.opts.Values == nil || len(b.Values)+len(b.Results) == 0)
}

// plainCalls writes the calls of a plain batch. It keeps entries after the last call that ended
// until a batch has the next call that ends.
func (p *Perfetto) plainCalls(t *perfettoThread, b *calls.Batch) {
	l, opens := &t.calls, b.Opens
	p.named = p.named[:0]
	if len(b.Calls) > 0 {
		l.settle(math.MaxUint64)
		for i := range b.Calls {
			for len(opens) > 0 && opens[0].Call <= i {
				l.shown++
				p.templated(t, opens[0].Start, p.beginning(t, opens[0].Func), 1)
				opens = opens[1:]
			}
			l.shown--
			if c := &b.Calls[i]; c.End < calls.Inferred {
				p.templated(t, c.Start+c.Duration, &plainEndTemplate, -1)
			} else {
				p.end(t, c, nil)
			}
		}
		// Only the number of calls that are shown matters, not their contents.
		l.open = slices.Grow(l.open[:0], l.shown)[:l.shown]
	}
	for i := range opens {
		l.enter(&opens[i])
	}
}

// mostTemplated is more than the size of any packet that is made from templates.
const mostTemplated = 64

// templated is packet for the event of a template.
func (p *Perfetto) templated(t *perfettoThread, tsc uint64, event *eventTemplate, change int) {
	at := max(0, p.time.at(tsc))
	delta := uint64(at - t.last)
	if delta >= quiet || len(t.fresh) > 0 {
		p.packet(t, tsc, event.event(), change)
		return
	}
	buf := p.out.buf
	if cap(buf)-len(buf) < mostTemplated {
		buf = p.out.flush(buf)
	}
	to := (*[mostTemplated]byte)(buf[len(buf) : len(buf)+mostTemplated])
	to[0] = tracePacket<<3 | byte(protowire.BytesType)
	binary.LittleEndian.PutUint64(to[2:], t.headWords[0])
	binary.LittleEndian.PutUint64(to[10:], t.headWords[1])
	n := 2 + uint(t.headSize)
	// delta is less than quiet, so it has at most three bytes.
	switch {
	case delta < 1<<7:
		to[n] = byte(delta)
		n++
	case delta < 1<<14:
		binary.LittleEndian.PutUint16(to[n:], uint16(delta&0x7f|0x80|delta>>7<<8))
		n += 2
	default:
		binary.LittleEndian.PutUint32(to[n:], uint32(delta&0x7f|0x80|(delta>>7&0x7f|0x80)<<8|delta>>14<<16))
		n += 3
	}
	binary.LittleEndian.PutUint64(to[n:], event.words[0])
	binary.LittleEndian.PutUint64(to[n+8:], event.words[1])
	binary.LittleEndian.PutUint64(to[n+16:], event.words[2])
	n += uint(event.size)
	to[1] = byte(n - 2)
	p.out.buf = buf[:len(buf)+int(n)]
	t.last, p.last = at, max(p.last, at)
	t.count += change
	if t.unsampled++; t.unsampled >= often {
		p.sample(t)
	}
}
