package tracewrite

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"iter"

	"github.com/xray-tools/xray/reader"
)

// AppendMetadata appends the payload of a custom event that holds metadata.
func AppendMetadata(dst []byte, kind reader.MetadataKind, body []byte) []byte {
	dst = append(dst, reader.MetadataHead...)
	dst = binary.LittleEndian.AppendUint16(dst, uint16(kind))
	return append(dst, body...)
}

// AppendMark appends the payload of a custom event that is a mark.
func AppendMark(dst []byte, m reader.Mark) []byte {
	if !m.Request {
		return AppendMetadata(dst, reader.MetadataMark, []byte(m.Text))
	}
	body := binary.LittleEndian.AppendUint64(nil, m.ID)
	return AppendMetadata(dst, reader.MetadataRequest, append(body, m.Text...))
}

// oldBucket is a thread id that llvm-xray 14 looks at before all others, as newer
// ones do at 0. They take the first timestamp that they meet for the earliest of
// the file, and refuse what is earlier.
const oldBucket = 908620

// AppendRecording appends what must come first in a recorder's file: a block with
// all that r says, and one that says a part again, as llvm-xray knows only threads
// with records. Both have the earliest time of the file.
func AppendRecording(dst []byte, r *reader.Recording, first uint64) []byte {
	for _, thread := range []int32{0, oldBucket} {
		var b []byte
		for _, rec := range []reader.Record{
			{Kind: reader.NewBuffer, Thread: thread},
			{Kind: reader.WallClock},
			{Kind: reader.PID},
			{Kind: reader.NewCPUID, TSC: first},
		} {
			b = AppendRecord(b, &fdrV5, &rec)
		}
		if thread == 0 {
			b = append(b, recordingEvents(r)...)
		} else {
			b = append(b, recordingEvents(&reader.Recording{Process: r.Process})...)
		}
		dst = AppendRecord(dst, &fdrV5, &reader.Record{Kind: reader.BufferExtents, Value: uint64(len(b))})
		dst = append(dst, b...)
	}
	return dst
}

// recordingEvents encodes what r says, one custom event for each kind.
func recordingEvents(r *reader.Recording) []byte {
	var all []byte
	add := func(kind reader.MetadataKind, body []byte) {
		all = AppendRecord(all, &fdrV5, &reader.Record{Kind: reader.CustomEvent, Data: AppendMetadata(nil, kind, body)})
	}
	addJSON := func(kind reader.MetadataKind, v any) {
		var body bytes.Buffer
		e := json.NewEncoder(&body)
		e.SetEscapeHTML(false)
		_ = e.Encode(v) // nothing in it can fail
		add(kind, bytes.TrimSuffix(body.Bytes(), []byte("\n")))
	}
	for _, part := range []struct {
		kind reader.MetadataKind
		body any
		have bool
	}{
		{reader.MetadataProcess, r.Process, true},
		{reader.MetadataObjects, map[string]any{"objects": r.Objects}, len(r.Objects) > 0},
		{reader.MetadataThreads, map[string]any{"threads": r.Threads}, len(r.Threads) > 0},
		{reader.MetadataClock, r.Clock, r.Clock.Frequency != 0 || r.Clock.Invariant || len(r.Clock.Anchors) > 0},
		{reader.MetadataLosses, map[string]any{"losses": r.Losses, "refusals": r.Refusals}, len(r.Losses)+len(r.Refusals) > 0},
		{reader.MetadataChanges, map[string]any{"changes": r.Changes}, len(r.Changes) > 0},
	} {
		if !part.have {
			continue
		}
		addJSON(part.kind, part.body)
	}
	if len(r.Addresses) > 0 {
		b := binary.LittleEndian.AppendUint64(nil, uint64(len(r.Addresses)))
		for _, a := range r.Addresses {
			b = binary.LittleEndian.AppendUint64(b, a)
		}
		add(reader.MetadataAddresses, b)
	}
	if len(r.Counters) > 0 {
		b := binary.LittleEndian.AppendUint64(nil, uint64(len(r.Counters)))
		for _, c := range r.Counters {
			b = binary.LittleEndian.AppendUint64(b, uint64(uint32(c.Func)))
			b = binary.LittleEndian.AppendUint64(b, c.Calls)
		}
		add(reader.MetadataCounters, b)
	}
	if len(r.Profiles) > 0 {
		add(reader.MetadataProfile, reader.AppendProfiles(nil, r.Profiles))
	}
	if p := &r.Pruned; len(p.Functions) > 0 || p.From != 0 || p.To != 0 { // that nothing was left out is worth knowing
		add(reader.MetadataPruned, reader.AppendPruned(nil, &r.Pruned))
	}
	for functions := range chunks(r.Functions, func(f *reader.NamedFunction) int { return len(f.Name) + len(f.File) }) {
		addJSON(reader.MetadataFunctions, map[string]any{"functions": functions})
	}
	for sources := range chunks(r.Sources, func(s *reader.SourceText) int { return len(s.Text) + len(s.File) }) {
		addJSON(reader.MetadataSources, map[string]any{"sources": sources})
	}
	return all
}

// chunks cuts a list into parts that fit into one event each.
func chunks[T any](list []T, size func(*T) int) iter.Seq[[]T] {
	const maxItems, maxBytes = 4096, 1 << 20
	return func(yield func([]T) bool) {
		for start := 0; start < len(list); {
			end, bytes := start+1, size(&list[start])
			for end < len(list) && end-start < maxItems && bytes < maxBytes {
				bytes += size(&list[end])
				end++
			}
			if !yield(list[start:end]) {
				return
			}
			start = end
		}
	}
}
