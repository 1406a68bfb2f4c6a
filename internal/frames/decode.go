package frames

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
	"sync"
)

var (
	errChecksum = errors.New("its checksum is wrong")
	errContents = errors.New("its parts contradict each other")
)

// models are free models. They are large, and only in use while a frame is decoded.
var models = sync.Pool{New: func() any { return new(model) }}

// Decode decodes a frame of h.End() bytes to dst, which has h.Size bytes. After an error, the
// contents of dst are undefined. It may be called concurrently.
func Decode(dst []byte, h *Header, frame []byte) error {
	if len(dst) != h.Size || len(frame) != h.End() {
		return errContents
	}
	head := HeaderSize + h.head()
	if crc32.Checksum(frame[head:], castagnoli) != h.sum {
		return errChecksum
	}
	copy(dst, frame[HeaderSize:head])
	d := decoder{model: models.Get().(*model)}
	defer models.Put(d.model)
	*d.model = model{}
	rest := frame[head:]
	part := func(n int) (p []byte) {
		p, rest = rest[:n:n], rest[n:]
		return p
	}
	d.known = part((h.records + 3) / 4)
	d.times, d.words = part(h.times), part(h.words)
	runs, others := part(h.runs), rest
	dst = dst[h.head():]
	for len(dst) > 0 {
		n, i := binary.Uvarint(runs)
		records, j := binary.Uvarint(runs[max(i, 0):])
		if i <= 0 || j <= 0 || n > uint64(len(others)) || records > uint64(h.records-d.records) {
			return errContents
		}
		copy(dst, others[:n])
		dst, others, runs = dst[n:], others[n:], runs[i+j:]
		if !d.functions(dst[:records*recordSize]) {
			return errContents
		}
		dst = dst[records*recordSize:]
	}
	if len(d.times)+len(d.words)+len(runs)+len(others) > 0 || d.records != h.records {
		return errContents
	}
	return nil
}

type decoder struct {
	*model
	known, times, words []byte // times and words: the rest
	records             int
}

// functions decodes function records that fill dst.
func (d *decoder) functions(dst []byte) bool {
	m, past, times := d.model, d.past, d.times
	at, n := d.records, 0
	known := byte(0) // of the next records, up to four
	if at%4 != 0 {
		known = d.known[at/4] >> (at % 4 * 2)
	}
	for ; len(dst) >= recordSize; dst = dst[recordSize:] {
		if at%4 == 0 {
			known = d.known[at/4]
		}
		three, one := m.places(past)
		word := *three
		if how := known & 3; how != asBefore {
			switch how {
			case asExit:
				word = m.exit(past)
			case asAfter:
				word = *one
			default:
				v, size := binary.Uvarint(d.words)
				if size <= 0 || v > 1<<31-1 {
					return false
				}
				word, d.words = uint32(v)<<1, d.words[size:]
			}
			*three, *one = word, word
		}
		past = m.follow(past, word)
		at++
		known >>= 2
		if n >= len(times) {
			return false
		}
		t := uint32(times[n])
		switch {
		case t < shortTime:
			n++
		case t < 0xff && len(times)-n >= 2:
			t = shortTime + (t-shortTime)<<8 + uint32(times[n+1])
			n += 2
		case len(times)-n >= 5:
			t = binary.LittleEndian.Uint32(times[n+1:])
			n += 5
		default:
			return false
		}
		binary.LittleEndian.PutUint64(dst, uint64(word)|uint64(t)<<32)
	}
	d.past, d.times, d.records = past, times[n:], at
	return true
}
