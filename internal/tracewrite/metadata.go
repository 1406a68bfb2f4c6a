package tracewrite

import (
	"encoding/binary"
	"hash/crc32"
	"slices"

	"github.com/xray-tools/xray/reader"
)

// AppendMetadata appends the payload of a custom event with metadata.
func AppendMetadata(dst []byte, kind reader.MetadataKind, body []byte) []byte {
	dst = append(dst, reader.MetadataHead...)
	dst = binary.LittleEndian.AppendUint16(dst, uint16(kind))
	return append(dst, body...)
}

// AppendMark appends the payload of a custom event with a mark.
func AppendMark(dst []byte, m reader.Mark) []byte {
	if part := map[bool]uint32{m.Resumed: 1, m.Ready: 2}[true]; part != 0 {
		body := binary.LittleEndian.AppendUint64(nil, m.ID)
		return AppendMetadata(dst, reader.MetadataPart, binary.LittleEndian.AppendUint32(body, part))
	}
	if !m.Request {
		return AppendMetadata(dst, reader.MetadataMark, []byte(m.Text))
	}
	body := binary.LittleEndian.AppendUint64(nil, m.ID)
	return AppendMetadata(dst, reader.MetadataRequest, append(body, m.Text...))
}

// oldBucket is the thread id that llvm-xray 14 reads first. Newer versions read 0 first. They
// treat the first timestamp that they read as the earliest of the file, and refuse earlier
// ones.
const oldBucket = 908620

// AppendRecording appends the beginning of a recorder's file: a block with all of r, and a
// second one with a part of r, since llvm-xray knows only threads with records. Both have the
// earliest time of the file.
func AppendRecording(dst []byte, r *reader.Recording, first uint64) []byte {
	for _, thread := range []int32{0, oldBucket} {
		b := beginBlock(thread, first)
		if thread == 0 {
			b = append(b, recordingEvents(r)...)
		} else {
			b = append(b, recordingEvents(&reader.Recording{Process: r.Process})...)
		}
		dst = endBlock(dst, b)
	}
	return dst
}

// recordingEvents encodes r as custom events.
func recordingEvents(r *reader.Recording) []byte {
	var all []byte
	for kind, body := range r.Metadata() {
		all = AppendRecord(all, &fdrV5, &reader.Record{Kind: reader.CustomEvent, Data: AppendMetadata(nil, kind, body)})
	}
	return all
}

// AppendSched appends a block of metadata with scheduler events, and with the tasks that they
// name, numbered from firstTask. first is the earliest time of the file.
func AppendSched(dst []byte, firstTask uint32, tasks []reader.Task, part *reader.SchedPart, first uint64) []byte {
	b := beginBlock(0, first)
	add := func(kind reader.MetadataKind, body []byte) {
		b = AppendRecord(b, &fdrV5, &reader.Record{Kind: reader.CustomEvent, Data: AppendMetadata(nil, kind, body)})
	}
	for len(tasks) > 0 {
		n := min(len(tasks), 4096)
		add(reader.MetadataTasks, reader.AppendTasks(nil, firstTask, tasks[:n]))
		firstTask += uint32(n)
		tasks = tasks[n:]
	}
	p, events := *part, part.Events
	for {
		n := min(len(events), reader.SchedPartEvents)
		p.Events, events = events[:n], events[n:]
		add(reader.MetadataSched, reader.AppendSched(nil, &p))
		if p.Lost = 0; len(events) == 0 {
			break
		}
	}
	return endBlock(dst, b)
}

// AppendWindows appends a block of metadata with windows that follow those in the file. first is the
// earliest time of the file.
func AppendWindows(dst []byte, windows []reader.RecordedWindow, first uint64) []byte {
	return appendKinds(dst, &reader.Recording{Windows: windows}, first, reader.MetadataWindows)
}

// AppendBudget appends a block of metadata with the calls that a recording with a budget left out.
// first is the earliest time of the file.
func AppendBudget(dst []byte, b *reader.Budget, first uint64) []byte {
	return appendKinds(dst, &reader.Recording{Budget: *b}, first, reader.MetadataBudget, reader.MetadataSwitched)
}

// appendKinds appends a block with the metadata of these kinds.
func appendKinds(dst []byte, r *reader.Recording, first uint64, kinds ...reader.MetadataKind) []byte {
	b := beginBlock(0, first)
	for kind, body := range r.Metadata() {
		if slices.Contains(kinds, kind) {
			b = AppendRecord(b, &fdrV5, &reader.Record{Kind: reader.CustomEvent, Data: AppendMetadata(nil, kind, body)})
		}
	}
	return endBlock(dst, b)
}

// beginBlock returns the start of a block of metadata, which endBlock appends.
func beginBlock(thread int32, first uint64) (b []byte) {
	for _, rec := range []reader.Record{
		{Kind: reader.NewBuffer, Thread: thread},
		{Kind: reader.WallClock},
		{Kind: reader.PID},
		{Kind: reader.NewCPUID, TSC: first},
	} {
		b = AppendRecord(b, &fdrV5, &rec)
	}
	return AppendChecksum(b)
}

// endBlock appends a block. If dst is the header of a file, the checksum of the block covers it, too.
func endBlock(dst, b []byte) []byte {
	from := len(dst)
	dst = AppendRecord(dst, &fdrV5, &reader.Record{Kind: reader.BufferExtents, Value: uint64(len(b))})
	dst = append(dst, b...)
	if from == HeaderSize {
		from = 0
	}
	seal(dst[from:], len(dst)-len(b)+checksumAt-metadataSize-from)
	return dst
}

// checksumAt is the offset of the checksum in a block.
const checksumAt = 5 * metadataSize

// AppendChecksum appends an event for the checksum of a block after its first records, which end with
// NewCPUId. [Seal] sets it.
func AppendChecksum(dst []byte) []byte {
	return AppendRecord(dst, &fdrV5, &reader.Record{Kind: reader.CustomEvent,
		Data: AppendMetadata(nil, reader.MetadataChecksum, make([]byte, reader.ChecksumSize))})
}

// Seal sets the checksum of a block.
func Seal(b []byte) { seal(b, checksumAt) }

// seal sets the checksum of all of b in the event at an offset.
func seal(b []byte, at int) {
	const size = metadataSize + len(reader.MetadataHead) + 2 + reader.ChecksumSize
	body := b[at+size-reader.ChecksumSize : at+size]
	le := binary.LittleEndian
	le.PutUint32(body, crc32.Update(crc32.Checksum(b[at+size:], reader.ChecksumTable), reader.ChecksumTable, b[:at]))
	le.PutUint32(body[4:], uint32(at))
	le.PutUint32(body[8:], uint32(len(b)-at-size))
}
