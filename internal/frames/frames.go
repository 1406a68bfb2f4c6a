// Package frames compresses the logs of recorders. A compressed log is a sequence of frames, each with
// some bytes of the log: usually a block, which has the records of a thread for a while. Every
// frame is decoded on its own, so a reader finds and decodes the ones that it needs.
//
// A frame takes function records apart. Function and kind are predicted from the records before,
// and times take as few bytes as they need. All other bytes stay as they are. There is no entropy
// coder, so encoding is as fast as writing the bytes that it saves, and a frame of n bytes
// never decodes to more than 8 n. See "Compressed logs" in docs/dev/format.md.
package frames

import (
	"encoding/binary"
	"hash/crc32"
)

const (
	// Magic is the beginning of each frame, and of a compressed log.
	Magic = "XRZ1"
	// HeaderSize is the size of a frame's header.
	HeaderSize = 32
	// HeadSize is the number of bytes of the log that follow the header unchanged, unless the
	// frame has fewer. They identify the block.
	HeadSize = 80
	// HeadEnd is the number of bytes that [ParseHeader] needs, unless the file ends before.
	HeadEnd = HeaderSize + HeadSize
	// MaxSize limits the bytes of the log in a frame.
	MaxSize = 256 << 10
)

// Header describes a frame.
type Header struct {
	Size    int // bytes of the log
	records int // function records
	// Bytes of the frame's parts.
	times, words, runs, others int
	sum                        uint32
}

// End returns the size of the frame, with its header.
func (h *Header) End() int {
	return HeaderSize + h.head() + (h.records+3)/4 + h.times + h.words + h.runs + h.others
}

// head is the number of bytes that follow the header unchanged.
func (h *Header) head() int { return min(h.Size, HeadSize) }

// castagnoli is the polynomial that processors have an instruction for.
var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// headSum is the checksum of a header and the bytes after it.
func headSum(frame []byte, head int) uint32 {
	return crc32.Update(crc32.Checksum(frame[:HeaderSize-4], castagnoli), castagnoli, frame[HeaderSize:HeaderSize+head])
}

// ParseHeader reads a header at the beginning of b, which has [HeadEnd] bytes, or fewer at
// the end of the file. It returns false if there is no frame.
func ParseHeader(b []byte) (h Header, ok bool) {
	if len(b) < HeaderSize || string(b[:len(Magic)]) != Magic {
		return h, false
	}
	var n [5]int
	for i := range n {
		v := binary.LittleEndian.Uint32(b[4+4*i:])
		if v > MaxSize {
			return h, false
		}
		n[i] = int(v)
	}
	h = Header{Size: n[0], records: n[1], times: n[2], words: n[3], runs: n[4], sum: binary.LittleEndian.Uint32(b[24:])}
	h.others = h.Size - h.head() - recordSize*h.records
	ok = h.Size > 0 && h.others >= 0 && len(b) >= HeaderSize+h.head() &&
		headSum(b, h.head()) == binary.LittleEndian.Uint32(b[28:])
	return h, ok
}

// recordSize is the size of a function record.
const recordSize = 8

// How the word of a function record, its first four bytes, is known.
const (
	asBefore = iota // the word that last followed the same three words
	asExit          // the exit of the function on top of the stack
	asAfter         // the word that last followed the same word
	asWord          // it is among the words
)

// model predicts words from the words before. Encoder and decoder build the same model.
type model struct {
	three [1 << threeBits]uint32 // what followed three words
	one   [1 << oneBits]uint32   // what followed a word
	stack [256]uint32            // functions that are open, from some depth on
	past
}

// past is the state of a model after the words before. Loops keep it in registers.
type past struct {
	last, before, first uint32 // hashes of the last three words
	depth               uint8  // of the stack's top
}

const (
	threeBits = 12
	oneBits   = 11
)

// places returns where predictions of the next word are.
func (m *model) places(p past) (three, one *uint32) {
	return &m.three[(p.last+3*p.before+5*p.first)>>(32-threeBits)], &m.one[p.last>>(32-oneBits)]
}

// exit is the exit of the function on top of the stack.
func (m *model) exit(p past) uint32 { return m.stack[p.depth]&^15 | 2 }

// follow takes note of a word.
func (m *model) follow(p past, word uint32) past {
	m.stack[p.depth+1] = word
	// The tables use the upper bits of hashes. Kinds 1 and 2 are exits.
	return past{word * 0x9e3779b1, p.last, p.before, p.depth + 1 - uint8(word>>1&7+1)&2}
}

// Times take one byte below shortTime, two below longTime, and five otherwise.
const (
	shortTime = 0xe0
	longTime  = shortTime + (0xff-shortTime)<<8
)
