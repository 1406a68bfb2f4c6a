package reader

import (
	"encoding/binary"
	"encoding/json"
)

// RecordedValues describes the arguments and results that were recorded of a function: its values, in the
// order of their numbers at entries and at exits. The descriptions are JSON.
type RecordedValues struct {
	ID    FuncID            `json:"id"`
	Since uint64            `json:"since,omitempty"` // TSC; earlier calls have other values, or none. 0: all calls
	Entry []json.RawMessage `json:"entry,omitempty"`
	Exit  []json.RawMessage `json:"exit,omitempty"`
	// Missing is why the recorder does not record the values after all, or "".
	Missing string `json:"missing,omitempty"`
}

// UnreadValue is an expression of the user that is not recorded for a function, and why.
type UnreadValue struct {
	Function   string `json:"function"`
	Expression string `json:"expression"`
	Why        string `json:"why"`
}

// Value is an argument or a result that needs more than a number, of the innermost open call.
type Value struct {
	Index uint16 // among the values of the function's entries, or of its exits
	Flags ValueFlags
	// Length is the full length of the value in bytes, [UnknownLength] for a string of which the end was not
	// found. Of a value that is not readable, it is how many of its bytes are in Data. Of one that does not
	// exist, it is the reason.
	Length uint32
	Data   []byte // the value's first bytes, little-endian; part of the payload
}

// UnknownLength is the length of a string that is longer than what was read of it.
const UnknownLength = 1<<32 - 1

// ValueFlags say what is special about a [Value].
type ValueFlags uint16

const (
	ValueTruncated  ValueFlags = 1  // Data has only the first bytes
	ValueUnreadable ValueFlags = 2  // its memory could not be read, or only the bytes of Data
	ValueNone       ValueFlags = 4  // it does not exist: there is a null pointer on the way to it, or an optional is empty
	ValueOfExit     ValueFlags = 8  // it is a result
	ValueForbidden  ValueFlags = 16 // it is unreadable because the process was not allowed to ask the system
)

const valueHeadSize = 8

// ParseValue reads the payload of a custom event as a value of the innermost open call. It returns false if
// the event is not a value.
func ParseValue(payload []byte) (Value, bool) {
	kind, body, ok := SplitMetadata(payload)
	if !ok || kind != MetadataValue || len(body) < valueHeadSize {
		return Value{}, false
	}
	le := binary.LittleEndian
	v := Value{le.Uint16(body), ValueFlags(le.Uint16(body[2:])), le.Uint32(body[4:]), body[valueHeadSize:]}
	if v.Flags&ValueNone != 0 {
		v.Data = nil
	} else if int64(v.Length) < int64(len(v.Data)) {
		v.Data = v.Data[:v.Length] // zeros may follow a string
	}
	return v, true
}

type valuesBody struct {
	Functions []RecordedValues `json:"functions"`
	Refused   []UnreadValue    `json:"refused"`
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
	have := make(map[UnreadValue]bool, len(r.Unread))
	for _, u := range r.Unread {
		have[u] = true
	}
	for _, u := range b.Refused {
		if !have[u] {
			have[u] = true
			r.Unread = append(r.Unread, u)
		}
	}
	return nil
}

func (r *Recording) valuesBodies(add func([]byte)) {
	size := func(v *RecordedValues) (n int) {
		for _, list := range [...][]json.RawMessage{v.Entry, v.Exit} {
			for _, d := range list {
				n += len(d)
			}
		}
		return n
	}
	for part := range chunks(r.Values, size) {
		add(encodeJSON(valuesBody{Functions: part}))
	}
	for part := range chunks(r.Unread, func(u *UnreadValue) int { return len(u.Function) + len(u.Expression) + len(u.Why) }) {
		add(encodeJSON(valuesBody{Refused: part}))
	}
}
