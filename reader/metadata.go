package reader

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
)

// xray's recorder writes FDR logs. Data that FDR has no records for is in custom events,
// which other tools ignore:
//
//	"XRYM"  u16 schema  u16 kind  body
//
// Events about the whole trace are in blocks of process 0. There is one at the start of the
// file, and perhaps others later. For each kind, the last event in the file counts, but
// what `xray pack` adds may be divided into several events. Marks are in the blocks of the
// thread that set them. See "Recorder metadata" in docs/dev/format.md.

// MetadataHead is the start of every payload with metadata of the known schema. The kind
// follows, in 2 bytes, and then the body.
const MetadataHead = "XRYM\x01\x00"

// RecorderMark is the end of the header of the recorder's files.
const RecorderMark = "XRYMFDR1"

const (
	metadataMagic    = "XRYM"
	metadataHeadSize = len(MetadataHead) + 2
	// maxMetadata limits the size of one event: addresses of 8 million functions.
	maxMetadata = 64 << 20
)

// SplitMetadata splits the payload of a custom event. It returns false if the payload is
// not metadata, or of another schema. The body is part of payload.
func SplitMetadata(payload []byte) (kind MetadataKind, body []byte, ok bool) {
	if len(payload) < metadataHeadSize || string(payload[:len(MetadataHead)]) != MetadataHead {
		return 0, nil, false
	}
	return MetadataKind(binary.LittleEndian.Uint16(payload[len(MetadataHead):])), payload[metadataHeadSize:], true
}

// Mark is a note in the trace from a program, or from the recorder about the program.
type Mark struct {
	// Named says that thread ID, of the same process, has the name Text from here on.
	Named bool
	// Request says that the thread works on the request with the given ID from here on, or
	// on none if the ID is 0.
	Request bool
	// Resumed says that the request began earlier, on this or another thread, and was
	// suspended. It implies Request.
	Resumed bool
	// Ready says that the suspended request with the given ID can go on from here on, when a
	// thread resumes it.
	Ready bool
	ID    uint64
	Text  string
}

// What a part event says about its request.
const (
	partResumed = 1
	partReady   = 2
)

// ParseMark reads the payload of a custom event as a mark. It returns false if the event is not
// a mark.
func ParseMark(payload []byte) (Mark, bool) {
	kind, body, ok := SplitMetadata(payload)
	switch {
	case ok && kind == MetadataMark:
		return Mark{Text: string(body)}, true
	case ok && kind == MetadataRequest && len(body) >= 8:
		return Mark{Request: true, ID: binary.LittleEndian.Uint64(body), Text: string(body[8:])}, true
	case ok && kind == MetadataPart && len(body) >= 12:
		id := binary.LittleEndian.Uint64(body)
		switch binary.LittleEndian.Uint32(body[8:]) {
		case partResumed:
			return Mark{Request: true, Resumed: true, ID: id}, id != 0
		case partReady:
			return Mark{Ready: true, ID: id, Text: fmt.Sprintf("request %d is ready", id)}, true
		}
	case ok && kind == MetadataName && len(body) >= 4:
		return Mark{Named: true, ID: uint64(binary.LittleEndian.Uint32(body)), Text: string(body[4:])}, true
	}
	return Mark{}, false
}

// Landing says that an exception or longjmp left calls without returning, and landed in an
// outer function. The exits that follow in its thread at the same time, at most Calls of them,
// belong to these calls.
type Landing struct {
	Cause LandingCause
	Calls uint32
}

// LandingCause is the way in which calls were left.
type LandingCause uint32

const (
	Unwound LandingCause = 1 // the stack was unwound: an exception, a panic, a cancelled thread
	Jumped  LandingCause = 2 // longjmp
)

// ParseLanding reads the payload of a custom event as a landing. It returns false if the event is
// not a landing.
func ParseLanding(payload []byte) (Landing, bool) {
	kind, body, ok := SplitMetadata(payload)
	if !ok || kind != MetadataLanding || len(body) < 8 {
		return Landing{}, false
	}
	le := binary.LittleEndian
	return Landing{LandingCause(le.Uint32(body)), le.Uint32(body[4:])}, true
}

// Switch says that the thread was switched out, once or several times, between its previous
// record and this event. Counts are those since the previous switch event
// of the thread.
type Switch struct {
	// OffNS is the off-CPU time, and QueuedNS the part of it in which the thread
	// was runnable but not running, in nanoseconds of the kernel's clocks. Both are
	// [UnknownNS] if the recorder could not ask the kernel.
	OffNS, QueuedNS uint64
	// RecorderNS is the part of OffNS - QueuedNS in which the thread waited for the recorder: for
	// memory that the trace's writer had not yet freed, or for the file. It is 0 in old traces.
	RecorderNS uint64
	// Voluntary counts the switches in which the thread blocked or slept, Involuntary those
	// in which it was preempted.
	Voluntary, Involuntary   uint32
	MinorFaults, MajorFaults uint32
}

// UnknownNS is an unknown time in a [Switch].
const UnknownNS = math.MaxUint64

const switchSize = 32 // without RecorderNS

// ParseSwitch reads the payload of a custom event as a switch. It returns false if the event is
// not a switch.
func ParseSwitch(payload []byte) (Switch, bool) {
	kind, body, ok := SplitMetadata(payload)
	if !ok || kind != MetadataSwitch || len(body) < switchSize {
		return Switch{}, false
	}
	le := binary.LittleEndian
	s := Switch{
		OffNS: le.Uint64(body), QueuedNS: le.Uint64(body[8:]),
		Voluntary: le.Uint32(body[16:]), Involuntary: le.Uint32(body[20:]),
		MinorFaults: le.Uint32(body[24:]), MajorFaults: le.Uint32(body[28:]),
	}
	if len(body) >= switchSize+8 {
		s.RecorderNS = le.Uint64(body[switchSize:])
	}
	return s, true
}

// AppendSwitch appends the payload of a switch event.
func AppendSwitch(dst []byte, s Switch) []byte {
	le := binary.LittleEndian
	dst = le.AppendUint16(append(dst, MetadataHead...), uint16(MetadataSwitch))
	for _, v := range [...]uint64{s.OffNS, s.QueuedNS} {
		dst = le.AppendUint64(dst, v)
	}
	for _, v := range [...]uint32{s.Voluntary, s.Involuntary, s.MinorFaults, s.MajorFaults} {
		dst = le.AppendUint32(dst, v)
	}
	return le.AppendUint64(dst, s.RecorderNS)
}

// String describes the mark in words.
func (m Mark) String() string {
	switch {
	case m.Named:
		return fmt.Sprintf("thread %d is named %s", m.ID, m.Text)
	case !m.Request:
		return m.Text
	case m.ID == 0:
		return "request ends"
	case m.Resumed:
		return fmt.Sprintf("request %d resumes", m.ID)
	case m.Text == "":
		return fmt.Sprintf("request %d", m.ID)
	}
	return fmt.Sprintf("request %d: %s", m.ID, m.Text)
}

// isMetadata reports whether a block of process 0 has metadata. No process has that ID, but
// hand-written traces may.
func (l *fdrLog) isMetadata(w *window, b fdrBlock) (bool, error) {
	if l.file.header.Recorder {
		return true, nil
	}
	data, err := w.at(b.start, maxHead+metadataSize+len(metadataMagic))
	if err != nil {
		return false, err
	}
	var r Record
	for {
		n, err := ParseRecord(data, &l.file.header, &r)
		if err != nil || r.Kind != NewBuffer && r.Kind != WallClock && r.Kind != PID && r.Kind != NewCPUID {
			break
		}
		data = data[n:]
	}
	return len(data) >= metadataSize && data[0] == MetadataByte(CustomEvent, l.file.header.ByteOrder) &&
		bytes.HasPrefix(data[metadataSize:], []byte(metadataMagic)), nil
}

// readMetadata reads the metadata of one block.
func (l *fdrLog) readMetadata(w *window, b fdrBlock) error {
	h := &l.file.header
	end := b.end
	if b.start < b.declared && b.declared < b.end {
		end = b.declared
		if err := l.gap(w, b.declared, b.end); err != nil {
			return err
		}
	}
	var r Record
	checked := false
	defer func() {
		switch {
		case b.start == headerSize+metadataSize:
			l.file.checksums = checked
		case l.file.checksums && !checked && !l.file.cut(&b):
			l.file.losses.add(l.file.differs(&b, errNoSum))
		}
	}()
	for pos := b.start; pos < end; pos += int64(r.Size) {
		data, err := w.at(pos, int(min(metadataSize, end-pos)))
		if err != nil {
			return err
		}
		_, err = ParseRecord(data, h, &r)
		if short := (*ShortRecordError)(nil); errors.As(err, &short) && int64(short.Need) <= end-pos {
			if short.Need > maxMetadata {
				r.Size = short.Need
				l.badMetadata(pos, int64(r.Size), fmt.Errorf("%d bytes, more than %d", r.Size, maxMetadata))
				continue
			}
			if data, err = w.at(pos, short.Need); err != nil {
				return err
			}
			_, err = ParseRecord(data, h, &r)
		}
		if err != nil {
			// If the file ends before the block, that is already reported.
			if b.declared <= end || end != l.file.in.size {
				l.badMetadata(pos, end-pos, err)
			}
			return nil
		}
		if body, ok := isChecksum(&r); ok {
			checked = true
			if err := l.checkMetadata(w, &b, body, pos, int64(r.Size)); err != nil {
				return err
			}
			continue
		}
		l.metadataRecord(&r, pos)
	}
	return nil
}

// ParseRecording reads metadata from one or several blocks of an FDR log of version 5. With
// an error, the recording has what could be read.
func ParseRecording(blocks []byte) (*Recording, error) {
	recording := new(Recording)
	h := Header{Version: 5, Type: FDR, ByteOrder: binary.LittleEndian}
	var failed error
	for len(blocks) > 0 {
		var r Record
		n, err := ParseRecord(blocks, &h, &r)
		if err != nil {
			return recording, err
		}
		blocks = blocks[n:]
		if r.Kind != CustomEvent {
			continue
		}
		if kind, body, ok := SplitMetadata(r.Data); ok {
			if _, err := recording.set(kind, body); err != nil {
				failed = cmp.Or(failed, fmt.Errorf("metadata %v: %w", kind, err))
			}
		}
	}
	return recording, failed
}

func (l *fdrLog) metadataRecord(r *Record, pos int64) {
	switch r.Kind {
	case NewBuffer, WallClock, PID, NewCPUID, TSCWrap:
		return // they only complete the block
	case Function:
		if r.Func == 0 && r.FuncKind == Enter && r.Delta == 0 {
			return // padding
		}
	case CustomEvent:
		kind, body, ok := SplitMetadata(r.Data)
		if !ok && bytes.HasPrefix(r.Data, []byte(metadataMagic)) && len(r.Data) >= metadataHeadSize {
			l.newerMetadata(r, pos, fmt.Sprintf("metadata of schema %d", binary.LittleEndian.Uint16(r.Data[4:])))
			return
		}
		if !ok {
			break
		}
		known, err := l.file.recording.set(kind, body)
		switch {
		case !known:
			l.newerMetadata(r, pos, fmt.Sprintf("metadata of kind %d", uint16(kind)))
		case err != nil:
			l.badMetadata(pos, int64(r.Size), fmt.Errorf("%v: %w", kind, err))
		}
		return
	}
	l.badMetadata(pos, int64(r.Size), fmt.Errorf("%v record among metadata", r.Kind))
}

func (l *fdrLog) badMetadata(pos, size int64, err error) {
	l.file.losses.add(Loss{Cause: BadMetadata, File: l.file.name, Offset: pos, Bytes: size, Records: 1, Detail: err.Error()})
}

func (l *fdrLog) newerMetadata(r *Record, pos int64, what string) {
	l.file.losses.add(Loss{Cause: NewerVersion, File: l.file.name, Offset: pos, Bytes: int64(r.Size), Records: 1,
		Detail: what + ", which a newer recorder wrote"})
}
