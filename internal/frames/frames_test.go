package frames

import (
	"bytes"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
)

// decodeAll decodes frames. It checks what holds for all valid ones.
func decodeAll(t testing.TB, b []byte) []byte {
	t.Helper()
	var log []byte
	for len(b) > 0 {
		h, ok := ParseHeader(b[:min(len(b), HeadEnd)])
		if !ok || h.End() > len(b) {
			t.Fatalf("no frame at the last %d bytes", len(b))
		}
		if h.Size > 8*h.End() {
			t.Errorf("a frame of %d bytes has %d", h.End(), h.Size)
		}
		part := bytes.Repeat([]byte{0xaa}, h.Size)
		if err := Decode(part, &h, b[:h.End()]); err != nil {
			t.Fatal(err)
		}
		if head := min(h.Size, HeadSize); !bytes.Equal(part[:head], b[HeaderSize:HeaderSize+head]) {
			t.Error("the head is not in the frame as it is")
		}
		log = append(log, part...)
		b = b[h.End():]
	}
	return log
}

func roundTrip(t testing.TB, e *Encoder, log []byte) (size int) {
	t.Helper()
	b := e.Encode(log)
	if got := decodeAll(t, b); !bytes.Equal(got, log) {
		t.Fatalf("%d bytes become %d others", len(log), len(got))
	}
	return len(b)
}

// calls is a log of function records with these times.
func calls(times ...uint32) (log []byte) {
	for i, t := range times {
		log = binary.LittleEndian.AppendUint32(log, uint32(i/2%300+1)<<4|uint32(i%2)<<1)
		log = binary.LittleEndian.AppendUint32(log, t)
	}
	return log
}

func TestRoundTrip(t *testing.T) {
	var e Encoder
	times := []uint32{0, 1, shortTime - 1, shortTime, longTime - 1, longTime, 1<<32 - 1}
	for range 5 {
		times = append(times, times...)
	}
	log := calls(times...)
	for n := range log {
		roundTrip(t, &e, log[:n])
	}
	roundTrip(t, &e, bytes.Repeat(log, 3*MaxSize/len(log)))
	// Events, with payloads that are not aligned, cut off, or too long.
	event := append([]byte{0x0b, 5, 0, 0, 0}, make([]byte, 16)...)
	for _, size := range []byte{0, 1, 5, 200, 255} {
		event[1], event[4] = size, size&0x80
		roundTrip(t, &e, bytes.Join([][]byte{event, log[:200], event, event, log, event}, nil))
	}
	// Exits of more functions than were entered, and entries of more than the stack has.
	r := rand.New(rand.NewPCG(1, 2))
	for _, kind := range []uint32{0, 1, 2, 3, 7} {
		var deep []byte
		for range 1000 {
			deep = binary.LittleEndian.AppendUint64(deep, uint64(r.Uint32N(1<<28)<<4|kind<<1))
		}
		roundTrip(t, &e, deep)
	}
	noise := make([]byte, 10000)
	for range 20 {
		for i := range noise {
			noise[i] = byte(r.Uint32())
		}
		if n := roundTrip(t, &e, noise); n > len(noise)+len(noise)/2+HeaderSize {
			t.Errorf("%d bytes of noise take %d", len(noise), n)
		}
	}
}

func TestRealTraces(t *testing.T) {
	traces, err := filepath.Glob("../../testdata/*.xray")
	if err != nil || len(traces) == 0 {
		t.Fatal(traces, err)
	}
	var e Encoder
	for _, path := range traces {
		log, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		roundTrip(t, &e, log)
	}
}

// byTheBook decodes a frame as docs/dev/format.md says, without checks.
func byTheBook(frame []byte) (log []byte) {
	field := func(at int) int { return int(binary.LittleEndian.Uint32(frame[at:])) }
	n, r := field(4), field(8)
	head := min(n, 80)
	log, rest := append(log, frame[32:32+head]...), frame[32+head:]
	part := func(size int) (p []byte) {
		p, rest = rest[:size], rest[size:]
		return p
	}
	known, times, words, runs := part((r+3)/4), part(field(12)), part(field(16)), part(field(20))
	others := part(n - head - 8*r)
	number := func(b *[]byte) (v uint32) {
		for shift := 0; ; shift += 7 {
			c := (*b)[0]
			*b = (*b)[1:]
			if v |= uint32(c&127) << shift; c < 128 {
				return v
			}
		}
	}
	var three [4096]uint32
	var one [2048]uint32
	var stack [256]uint32
	var depth uint8
	var last, before, first uint32
	for record := 0; len(log) < n; {
		count := number(&runs)
		log, others = append(log, others[:count]...), others[count:]
		for range number(&runs) {
			i, j := (last+3*before+5*first)>>20, last>>21
			bits := known[record/4] >> (2 * (record % 4)) & 3
			record++
			word := [3]uint32{three[i], stack[depth]&^15 | 2, one[j]}
			if bits == 3 {
				word = [3]uint32{2 * number(&words)}
			}
			w := word[bits%3]
			if bits != 0 {
				three[i], one[j] = w, w
			}
			first, before, last = before, last, w*0x9e3779b1
			stack[depth+1] = w
			switch w >> 1 & 7 {
			case 1, 2, 5, 6:
				depth--
			default:
				depth++
			}
			b, t := times[0], uint32(times[0])
			times = times[1:]
			switch {
			case b == 255:
				t, times = binary.LittleEndian.Uint32(times), times[4:]
			case b >= 224:
				t, times = 224+256*(t-224)+uint32(times[0]), times[1:]
			}
			log = binary.LittleEndian.AppendUint32(binary.LittleEndian.AppendUint32(log, w), t)
		}
	}
	return log
}

// The format is the one that is documented.
func TestFormat(t *testing.T) {
	var e Encoder
	log, err := os.ReadFile("../../testdata/kvserver-fdr.xray")
	if err != nil {
		t.Fatal(err)
	}
	log = append(append(log[:150000:150000], benchmarkLog()...), calls(0, 223, 224, 225, 479, 480, 8159, 8160, 8161, 1<<32-1)...)
	frame := e.Encode(log)
	if h, ok := ParseHeader(frame); !ok || h.End() != len(frame) || h.records < 10000 {
		t.Fatalf("got %+v, want one frame of %d bytes", h, len(frame))
	}
	if !bytes.Equal(byTheBook(frame), log) {
		t.Error("docs/dev/format.md describes another format")
	}
}

// Calls that repeat themselves take a byte for each time, and two bits for each word.
func TestSize(t *testing.T) {
	var e Encoder
	log := bytes.Repeat(calls(100, 101), 4000)
	if n := roundTrip(t, &e, log); n > 8000+2000+300 {
		t.Errorf("4000 calls take %d bytes", n)
	}
}

// seal makes the checksums of a frame right.
func seal(frame []byte) {
	if len(frame) < HeaderSize {
		return
	}
	copy(frame, Magic)
	head := min(len(frame)-HeaderSize, HeadSize, int(binary.LittleEndian.Uint32(frame[4:])))
	binary.LittleEndian.PutUint32(frame[24:], crc32.Checksum(frame[HeaderSize+head:], castagnoli))
	binary.LittleEndian.PutUint32(frame[28:], headSum(frame, head))
}

// A frame whose parts do not fit each other is an error. Any changed bit is one, too.
func TestDamagedFrames(t *testing.T) {
	var e Encoder
	frame := bytes.Clone(e.Encode(append(calls(1, 2, 300, 4), bytes.Repeat(calls(1, 20000, 2, 1, 5), 7)...)))
	h, _ := ParseHeader(frame)
	dst := make([]byte, h.Size)
	for i := range frame {
		for bit := range 8 {
			b := bytes.Clone(frame)
			b[i] ^= 1 << bit
			if h, ok := ParseHeader(b); ok && (i < HeadEnd || Decode(dst, &h, b) == nil) {
				t.Errorf("bit %d of byte %d was changed without an error", bit, i)
			}
		}
	}
	for at := 4; at < 24; at += 4 {
		b := bytes.Clone(frame)
		b[at]++
		for range 9 {
			seal(b)
			if h, ok := ParseHeader(b); ok && len(b) == h.End() && !errors.Is(Decode(make([]byte, h.Size), &h, b), errContents) {
				t.Errorf("a wrong size at %d is not an error", at)
			}
			b = append(b, 0)
		}
	}
	// Other bytes may be another log, or none.
	for i := HeadEnd; i < len(frame); i++ {
		for _, v := range []byte{0, 1, 0x7f, 0x80, 0xff} {
			b := bytes.Clone(frame)
			b[i] = v
			seal(b)
			if h, ok := ParseHeader(b); !ok || Decode(dst, &h, b) != nil && bytes.Equal(b, frame) {
				t.Errorf("%#x at %d: the frame is not read", v, i)
			}
		}
	}
}

// FuzzFrames decodes any frame with valid checksums, and encodes any log.
func FuzzFrames(f *testing.F) {
	var e Encoder
	f.Add(bytes.Clone(e.Encode(calls(1, 300, 9000, 1<<31))))
	f.Add(bytes.Clone(e.Encode(bytes.Repeat(calls(1, 300, 3), 100))))
	f.Add(calls(1, 2))
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) > 1<<16 {
			return
		}
		roundTrip(t, &e, b)
		seal(b)
		h, ok := ParseHeader(b)
		if !ok || h.End() > len(b) {
			return
		}
		b = b[:h.End()]
		seal(b)
		dst := make([]byte, h.Size)
		if h, ok = ParseHeader(b); ok && Decode(dst, &h, b) == nil {
			roundTrip(t, &e, dst)
		}
	})
}

func benchmarkLog() []byte {
	r := rand.New(rand.NewPCG(1, 2))
	log := make([]byte, 0, 64<<10)
	var stack []uint32
	for len(log)+8 <= cap(log) {
		// Functions call others in a fixed order, as programs do.
		if depth := len(stack); depth > 0 && (depth > 12 || r.Uint32N(2) == 0) {
			log = binary.LittleEndian.AppendUint32(log, stack[depth-1]<<4|2)
			stack = stack[:depth-1]
		} else {
			caller := uint32(7)
			if depth > 0 {
				caller = stack[depth-1]
			}
			stack = append(stack, caller*31%97+r.Uint32N(8)/7+1)
			log = binary.LittleEndian.AppendUint32(log, stack[depth]<<4)
		}
		log = binary.LittleEndian.AppendUint32(log, 30+r.Uint32N(100)+r.Uint32N(20)/19*300)
	}
	return log
}

func BenchmarkEncode(b *testing.B) {
	var e Encoder
	log := benchmarkLog()
	b.SetBytes(int64(len(log)))
	for b.Loop() {
		e.Encode(log)
	}
}

func BenchmarkDecode(b *testing.B) {
	var e Encoder
	log := benchmarkLog()
	frame := e.Encode(log)
	h, _ := ParseHeader(frame)
	b.SetBytes(int64(len(log)))
	for b.Loop() {
		if err := Decode(log, &h, frame); err != nil {
			b.Fatal(err)
		}
	}
}
