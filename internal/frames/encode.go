package frames

import (
	"encoding/binary"
	"hash/crc32"
	"slices"
)

// Encoder makes frames. It is not safe for concurrent use.
type Encoder struct {
	model
	out, known, times, words, runs, others []byte
	records                                int
}

// Encode returns frames with these bytes of a log. It is fastest, and the frames are smallest, if
// they are a block. The result is valid until the next call.
func (e *Encoder) Encode(log []byte) []byte {
	e.out = e.out[:0]
	for len(log) > 0 {
		n := min(len(log), MaxSize)
		e.frame(log[:n])
		log = log[n:]
	}
	return e.out
}

func (e *Encoder) frame(log []byte) {
	e.model = model{}
	e.records, e.known, e.times = 0, e.known[:0], e.times[:0]
	e.words, e.runs, e.others = e.words[:0], e.runs[:0], e.others[:0]
	head := min(len(log), HeadSize)
	for from, at := head, 0; from < len(log); {
		// Everything but function records stays unchanged. A record may begin in the head.
		for at < len(log) && (at < head || !isFunction(log[at:])) {
			at = min(at+sizeOf(log[at:]), len(log))
		}
		n := e.functions(log[at:])
		e.others = append(e.others, log[from:at]...)
		e.runs = binary.AppendUvarint(e.runs, uint64(at-from))
		e.runs = binary.AppendUvarint(e.runs, uint64(n))
		at += n * recordSize
		from = at
	}
	le := binary.LittleEndian
	begin := len(e.out)
	e.out = append(e.out, Magic...)
	for _, n := range []int{len(log), e.records, len(e.times), len(e.words), len(e.runs)} {
		e.out = le.AppendUint32(e.out, uint32(n))
	}
	e.out = append(e.out, make([]byte, HeaderSize-24)...)
	e.out = append(e.out, log[:head]...)
	for _, part := range [][]byte{e.known, e.times, e.words, e.runs, e.others} {
		e.out = append(e.out, part...)
	}
	frame := e.out[begin:]
	le.PutUint32(frame[24:], crc32.Checksum(frame[HeaderSize+head:], castagnoli))
	le.PutUint32(frame[28:], headSum(frame, head))
}

// isFunction reports whether b begins with a function record, or bytes that look like one.
func isFunction(b []byte) bool { return len(b) >= recordSize && b[0]&1 == 0 }

// sizeOf returns the size of the record at the beginning of b, as far as it is known without more
// of the log. If that is wrong, frames are larger.
func sizeOf(b []byte) int {
	switch {
	case b[0]&1 == 0:
		return recordSize
	case len(b) >= 16 && (b[0] == 0x0b || b[0] == 0x11): // an event with a payload
		return 16 + int(min(binary.LittleEndian.Uint32(b[1:]), MaxSize))
	}
	return 16
}

// functions encodes the function records at the beginning of b, and returns their number.
func (e *Encoder) functions(b []byte) int {
	most := len(b) / recordSize
	size := len(e.known)
	e.known = slices.Grow(e.known, most/4+2)
	e.times = slices.Grow(e.times, 5*most)
	known, times := e.known[:size+most/4+2], e.times[len(e.times):cap(e.times)]
	clear(known[size:])
	m, past := &e.model, e.past
	at, n := e.records, 0
	for ; isFunction(b); b = b[recordSize:] {
		record := binary.LittleEndian.Uint64(b)
		word := uint32(record)
		three, one := m.places(past)
		if word != *three {
			how := byte(asWord)
			switch word {
			case m.exit(past):
				how = asExit
			case *one:
				how = asAfter
			default:
				e.words = binary.AppendUvarint(e.words, uint64(word>>1))
			}
			*three, *one = word, word
			known[at/4] |= how << (at % 4 * 2)
		}
		past = m.follow(past, word)
		at++
		switch t := uint32(record >> 32); {
		case t < shortTime:
			times[n] = byte(t)
			n++
		case t < longTime:
			t -= shortTime
			times[n], times[n+1] = byte(shortTime+t>>8), byte(t)
			n += 2
		default:
			times[n] = 0xff
			binary.LittleEndian.PutUint32(times[n+1:], t)
			n += 5
		}
	}
	done := at - e.records
	e.past, e.records, e.known, e.times = past, at, known[:(at+3)/4], e.times[:len(e.times)+n]
	return done
}
