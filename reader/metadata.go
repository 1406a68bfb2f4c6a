package reader

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
)

// The recorder of this project writes FDR logs. What FDR has no place for is in
// custom events, which other tools pass over:
//
//	"XRYM"  u16 schema  u16 kind  body
//
// Those about the whole trace are in blocks of process 0, of which there is one at
// the start of the file, and perhaps others later. Of each kind
// the last one in the file counts, but what `xray pack` adds may be shared out to several. Marks are in the blocks of the thread that set
// them. See "The recorder's metadata" in docs/format.md.

// MetadataKind says what the body of a metadata event is.
type MetadataKind uint16

const (
	MetadataProcess   MetadataKind = 1  // JSON: [Process]
	MetadataObjects   MetadataKind = 2  // JSON: "objects", of [Object]
	MetadataThreads   MetadataKind = 3  // JSON: "threads", of [ThreadInfo]
	MetadataClock     MetadataKind = 4  // JSON: [RecordedClock]
	MetadataLosses    MetadataKind = 5  // JSON: "losses" and "refusals"
	MetadataAddresses MetadataKind = 6  // number of addresses, addresses; 8 bytes each
	MetadataCounters  MetadataKind = 7  // number of counters; id, 4 bytes of zeros, calls
	MetadataChanges   MetadataKind = 8  // JSON: "changes", of [Change]
	MetadataProfile   MetadataKind = 9  // [Recording.Profiles]; see parseProfiles
	MetadataFunctions MetadataKind = 10 // JSON: "functions", of [NamedFunction]; all events count
	MetadataSources   MetadataKind = 11 // JSON: "sources", of [SourceText]; all events count
	MetadataPruned    MetadataKind = 12 // [Recording.Pruned]; see parsePruned
	MetadataMark      MetadataKind = 16 // text
	MetadataRequest   MetadataKind = 17 // id, 8 bytes; text
	MetadataLanding   MetadataKind = 18 // [Landing]: cause, 4 bytes; calls, 4 bytes
	MetadataName      MetadataKind = 19 // thread id, 4 bytes; its new name
)

// MetadataHead is what every payload with metadata of the known schema begins
// with; the kind follows, 2 bytes, and then the body.
const MetadataHead = "XRYM\x01\x00"

// RecorderMark is the end of the header of the recorder's files.
const RecorderMark = "XRYMFDR1"

const (
	metadataMagic    = "XRYM"
	metadataHeadSize = len(MetadataHead) + 2
	// maxMetadata bounds what one event holds: addresses of 8 million functions.
	maxMetadata = 64 << 20
	// maxMetadataJSON and maxMetadataItems bound what a JSON body can make its
	// decoder allocate. Items with many fields take more; of functions and sources,
	// of which all events count, the writer puts 4096 into one.
	maxMetadataJSON  = 16 << 20
	maxMetadataItems = 1 << 18
	maxLargeItems    = 1 << 14
)

// SplitMetadata takes the payload of a custom event apart. It reports false for
// one that is no metadata, or of another schema. The body is part of payload.
func SplitMetadata(payload []byte) (kind MetadataKind, body []byte, ok bool) {
	if len(payload) < metadataHeadSize || string(payload[:len(MetadataHead)]) != MetadataHead {
		return 0, nil, false
	}
	return MetadataKind(binary.LittleEndian.Uint16(payload[len(MetadataHead):])), payload[metadataHeadSize:], true
}

// Mark is a note in the trace that a program left, or the recorder when the program did
// something.
type Mark struct {
	// Named tells that the thread ID, of the same process, is named Text from here on.
	Named bool
	// Request tells that the thread works on the request of the given id from
	// here on; on none when the id is 0.
	Request bool
	ID      uint64
	Text    string
}

// ParseMark reads the payload of a custom event as a mark; false when it is none.
func ParseMark(payload []byte) (Mark, bool) {
	kind, body, ok := SplitMetadata(payload)
	switch {
	case ok && kind == MetadataMark:
		return Mark{Text: string(body)}, true
	case ok && kind == MetadataRequest && len(body) >= 8:
		return Mark{Request: true, ID: binary.LittleEndian.Uint64(body), Text: string(body[8:])}, true
	case ok && kind == MetadataName && len(body) >= 4:
		return Mark{Named: true, ID: uint64(binary.LittleEndian.Uint32(body)), Text: string(body[4:])}, true
	}
	return Mark{}, false
}

// Landing tells that control left calls without returning from them, and landed in a
// function further out: by an exception or longjmp. The exits that follow in its thread at
// the same time, Calls at most, are of those calls.
type Landing struct {
	Cause LandingCause
	Calls uint32
}

// LandingCause is how control left.
type LandingCause uint32

const (
	Unwound LandingCause = 1 // the stack was unwound: an exception, a panic, a cancelled thread
	Jumped  LandingCause = 2 // longjmp
)

// ParseLanding reads the payload of a custom event as a landing; false when it is none.
func ParseLanding(payload []byte) (Landing, bool) {
	kind, body, ok := SplitMetadata(payload)
	if !ok || kind != MetadataLanding || len(body) < 8 {
		return Landing{}, false
	}
	le := binary.LittleEndian
	return Landing{LandingCause(le.Uint32(body)), le.Uint32(body[4:])}, true
}

// String gives the mark in words.
func (m Mark) String() string {
	switch {
	case m.Named:
		return fmt.Sprintf("thread %d is named %s", m.ID, m.Text)
	case !m.Request:
		return m.Text
	case m.ID == 0:
		return "request ends"
	case m.Text == "":
		return fmt.Sprintf("request %d", m.ID)
	}
	return fmt.Sprintf("request %d: %s", m.ID, m.Text)
}

// isMetadata reports whether a block of process 0 is one of metadata. No process
// has that id, but traces that people wrote may.
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
	return len(data) >= metadataSize && data[0] == metadataByte(CustomEvent, &l.file.header) &&
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
			// Where the file ends before the block does, that has been said.
			if b.declared <= end || end != l.file.in.size {
				l.badMetadata(pos, end-pos, err)
			}
			return nil
		}
		l.metadataRecord(&r, pos)
	}
	return nil
}

// ParseRecording reads metadata as it is in an FDR log of version 5, one block or several
// of them. With an error, the recording has what could be read.
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
				failed = cmp.Or(failed, fmt.Errorf("metadata of kind %d: %w", kind, err))
			}
		}
	}
	return recording, failed
}

func (l *fdrLog) metadataRecord(r *Record, pos int64) {
	switch r.Kind {
	case NewBuffer, WallClock, PID, NewCPUID, TSCWrap:
		return // they only make the block one
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
			l.newerMetadata(r, pos, fmt.Sprintf("metadata of kind %d", kind))
		case err != nil:
			l.badMetadata(pos, int64(r.Size), fmt.Errorf("kind %d: %w", kind, err))
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

// set takes over the body of a metadata event. It reports whether the kind is
// known. What an error is about is left out.
func (r *Recording) set(kind MetadataKind, body []byte) (known bool, err error) {
	switch kind {
	case MetadataProcess:
		var p Process
		if err = decodeJSON(body, &p, maxMetadataItems); err == nil {
			// The command is that of the start. Programs may write over it later.
			if len(r.Process.Argv) > 0 {
				p.Argv = r.Process.Argv
			}
			r.Process = p
		}
	case MetadataObjects:
		var list struct{ Objects []Object }
		if err = decodeJSON(body, &list, maxLargeItems); err == nil {
			r.Objects, err = disjoint(list.Objects)
		}
	case MetadataThreads:
		var list struct{ Threads []ThreadInfo }
		if err = decodeJSON(body, &list, maxMetadataItems); err == nil {
			r.Threads = list.Threads
		}
	case MetadataClock:
		var c RecordedClock
		if err = decodeJSON(body, &c, maxMetadataItems); err == nil {
			c.Anchors, err = ascending(c.Anchors)
			r.Clock = c
		}
	case MetadataLosses:
		var list struct {
			Losses   []RecordedLoss
			Refusals []Refusal
		}
		if err = decodeJSON(body, &list, maxMetadataItems); err == nil {
			r.Losses, r.Refusals = list.Losses, list.Refusals
		}
	case MetadataAddresses:
		var words []byte
		words, err = counted(body, 8)
		r.Addresses = make([]uint64, len(words)/8)
		for i := range r.Addresses {
			r.Addresses[i] = binary.LittleEndian.Uint64(words[8*i:])
		}
	case MetadataCounters:
		var entries []byte
		entries, err = counted(body, 16)
		r.Counters = make([]Counter, len(entries)/16)
		for i := range r.Counters {
			e := entries[16*i:]
			r.Counters[i] = Counter{FuncID(binary.LittleEndian.Uint32(e)), binary.LittleEndian.Uint64(e[8:])}
		}
	case MetadataChanges:
		var list struct{ Changes []Change }
		if err = decodeJSON(body, &list, maxMetadataItems); err == nil {
			r.Changes = list.Changes
		}
	case MetadataProfile:
		r.Profiles, err = parseProfiles(body)
	case MetadataPruned:
		r.Pruned, err = parsePruned(body)
	case MetadataFunctions:
		var list struct{ Functions []NamedFunction }
		if err = decodeJSON(body, &list, maxLargeItems); err == nil {
			err = r.addFunctions(list.Functions)
		}
	case MetadataSources:
		var list struct{ Sources []SourceText }
		if err = decodeJSON(body, &list, maxLargeItems); err == nil {
			err = r.addSources(list.Sources)
		}
	default:
		return false, nil
	}
	return true, err
}

// decodeJSON decodes a body into v. Every item of a list is an object, so that
// braces bound the items.
func decodeJSON(body []byte, v any, most int) error {
	if len(body) > maxMetadataJSON {
		return fmt.Errorf("%d bytes of JSON, more than %d", len(body), maxMetadataJSON)
	}
	if n := bytes.Count(body, []byte("{")); n > most {
		return fmt.Errorf("%d objects of JSON, more than %d", n, most)
	}
	err := json.Unmarshal(body, v)
	if wrong := (*json.UnmarshalTypeError)(nil); errors.As(err, &wrong) {
		return fmt.Errorf("JSON field %s: a %s does not fit", wrong.Field, wrong.Value)
	}
	return err
}

// counted returns the entries of a table that starts with their number; those
// that are there, with an error where the number is another.
func counted(body []byte, size int) ([]byte, error) {
	if len(body) < 8 {
		return nil, fmt.Errorf("a table of %d bytes has no number of entries", len(body))
	}
	n, entries := binary.LittleEndian.Uint64(body), body[8:]
	there := uint64(len(entries) / size)
	if n != there {
		return entries[:min(n, there)*uint64(size)], fmt.Errorf("a table of %d entries has %d", n, there)
	}
	return entries, nil
}

// disjoint orders objects by their ids; those without come last: code that has no
// map is told by its address alone. An object that came back is there once.
// Those whose ids are out of range, or others' too, are left out, with an error.
func disjoint(objects []Object) ([]Object, error) {
	objects = slices.Clone(objects)
	for i := range objects {
		if objects[i].Count == 0 {
			objects[i].First = 0
		}
	}
	slices.SortStableFunc(objects, func(a, b Object) int {
		if a.Count == 0 || b.Count == 0 {
			return cmp.Compare(b.Count, a.Count)
		}
		return cmp.Compare(a.First, b.First)
	})
	var kept []Object
	var err error
	for _, o := range objects {
		if o.Count == 0 {
			kept = append(kept, o)
			continue
		}
		if o.First < 1 || uint64(o.First)+uint64(o.Count) > maxRecordedFunc+1 {
			err = fmt.Errorf("object %s: %d functions from id %d on are not within 1 to %d", o.Path, o.Count, o.First, maxRecordedFunc)
			continue
		}
		if n := len(kept); n > 0 && kept[n-1].Holds(o.First) {
			if last := &kept[n-1]; last.First != o.First || last.Count != o.Count || last.Path != o.Path || last.BuildID != o.BuildID {
				err = fmt.Errorf("objects %s and %s share id %d", last.Path, o.Path, o.First)
			}
			continue
		}
		kept = append(kept, o)
	}
	return kept, err
}

// maxRecordedFunc is the largest id that an FDR log holds.
const maxRecordedFunc = 1<<28 - 1

// ascending leaves out anchors at which a clock stands or goes back.
func ascending(anchors []Anchor) ([]Anchor, error) {
	var kept []Anchor
	var err error
	for i, a := range anchors {
		if n := len(kept); n > 0 && (a.TSC <= kept[n-1].TSC || a.Raw <= kept[n-1].Raw) {
			err = fmt.Errorf("clock anchor %d is not after the one before", i)
			continue
		}
		kept = append(kept, a)
	}
	return kept, err
}
