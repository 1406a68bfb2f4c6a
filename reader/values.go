package reader

import (
	"encoding/binary"

	"github.com/xray-tools/xray/recorder/args/value"
)

// RecordedValues describes the arguments and results that were recorded of a function: its values, in the
// order of their numbers at entries and at exits.
type RecordedValues struct {
	ID    FuncID              `json:"id"`
	Since uint64              `json:"since,omitempty"` // TSC; earlier calls have other values, or none. 0: all calls
	Entry []value.Description `json:"entry,omitempty"`
	Exit  []value.Description `json:"exit,omitempty"`
	// Missing is why the recorder does not record the values after all, or "".
	Missing string `json:"missing,omitempty"`
}

// RecordedWhen is the condition of a function. If there are any, the trace has only calls for which theirs holds, and
// what is inside.
type RecordedWhen struct {
	ID        FuncID `json:"id"`
	Since     uint64 `json:"since,omitempty"` // TSC
	Condition string `json:"condition"`
}

// Value is an argument or a result that needs more than a number, of the innermost open call.
type Value struct {
	Index uint16 // among the values of the function's entries, or of its exits
	Exit  bool
	// Recorded is the value. Data is part of the payload. Of an unreadable value, it has the bytes that could be
	// read. Length is that of Data for a string whose end was not found, and the reason for a value that does
	// not exist.
	value.Recorded
}

const (
	valueHeadSize = 8
	valueOfExit   = 8
	unknownLength = 1<<32 - 1
)

// ParseValue reads the payload of a custom event as a value of the innermost open call. It returns false if
// the event is not a value.
func ParseValue(payload []byte) (Value, bool) {
	kind, body, ok := SplitMetadata(payload)
	if !ok || kind != MetadataValue || len(body) < valueHeadSize {
		return Value{}, false
	}
	le := binary.LittleEndian
	flags := le.Uint16(body[2:])
	v := Value{le.Uint16(body), flags&valueOfExit != 0, value.Recorded{Flags: flags &^ valueOfExit, Length: le.Uint32(body[4:]), Data: body[valueHeadSize:]}}
	switch {
	case v.Flags&value.None != 0:
		v.Data = nil
	case v.Length == unknownLength:
		v.Length = uint32(len(v.Data))
	case int64(v.Length) < int64(len(v.Data)):
		v.Data = v.Data[:v.Length] // zeros may follow a string
	}
	return v, true
}

type valuesBody struct {
	Functions []RecordedValues `json:"functions,omitempty"`
	Refused   []value.Refused  `json:"refused,omitempty"`
	When      []RecordedWhen   `json:"when,omitempty"`
}

// addValues adds what an event says to what earlier ones said. The last one about the same function and time
// counts.
func (r *Recording) addValues(body []byte) error {
	var b valuesBody
	if err := decodeJSON(body, &b, maxMetadataItems); err != nil {
		return err
	}
	type key struct {
		id    FuncID
		since uint64
	}
	at := make(map[key]int, len(r.Values))
	for i, v := range r.Values {
		at[key{v.ID, v.Since}] = i
	}
	for _, v := range b.Functions {
		k := key{v.ID, v.Since}
		if i, known := at[k]; known {
			r.Values[i] = v
			continue
		}
		at[k] = len(r.Values)
		r.Values = append(r.Values, v)
	}
	have := make(map[value.Refused]bool, len(r.Unread))
	for _, u := range r.Unread {
		have[u] = true
	}
	for _, u := range b.Refused {
		if !have[u] {
			have[u] = true
			r.Unread = append(r.Unread, u)
		}
	}
	known := make(map[RecordedWhen]bool, len(r.When))
	for _, w := range r.When {
		known[w] = true
	}
	for _, w := range b.When {
		if !known[w] {
			known[w] = true
			r.When = append(r.When, w)
		}
	}
	return nil
}

func (r *Recording) valuesBodies(add func([]byte)) {
	size := func(v *RecordedValues) (n int) {
		for _, list := range [...][]value.Description{v.Entry, v.Exit} {
			for i := range list {
				n += 100 + len(list[i].Expression) + len(list[i].Type) + 40*len(list[i].Enumerators)
			}
		}
		return n
	}
	for part := range chunks(r.Values, size) {
		add(encodeJSON(valuesBody{Functions: part}))
	}
	for part := range chunks(r.Unread, func(u *value.Refused) int { return len(u.Function) + len(u.Expression) + len(u.Why) }) {
		add(encodeJSON(valuesBody{Refused: part}))
	}
	for part := range chunks(r.When, func(w *RecordedWhen) int { return 50 + len(w.Condition) }) {
		add(encodeJSON(valuesBody{When: part}))
	}
}
