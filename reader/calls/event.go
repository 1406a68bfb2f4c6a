package calls

import (
	"encoding/hex"
	"fmt"
	"strconv"
	"unicode"
	"unicode/utf8"

	"github.com/xray-tools/xray/reader"
)

// Event is a custom or typed event with its place in the call tree.
type Event struct {
	TSC   uint64      // see Call.Start
	Kind  reader.Kind // reader.Custom or reader.Typed
	Type  uint16      // of a typed event
	CPU   uint16
	Func  reader.FuncID // the innermost open call; 0 if there was none
	Path  PathID
	Depth uint32
	Call  int // how many of Batch.Calls had ended
	Data  []byte
}

// Mark returns the event as a mark, or false if it is not a mark.
func (e *Event) Mark() (reader.Mark, bool) {
	if e.Kind != reader.Custom {
		return reader.Mark{}, false
	}
	return reader.ParseMark(e.Data)
}

// Name returns the kind of the event, or the text of a mark.
func (e *Event) Name() string {
	if e.Kind == reader.Typed {
		return "typed event " + strconv.FormatUint(uint64(e.Type), 10)
	}
	if mark, ok := e.Mark(); ok {
		return mark.String()
	}
	if d, ok := reader.ParseDescriptor(e.Data); ok {
		return fmt.Sprintf("descriptor %d is %s", d.FD, d)
	}
	return "custom event"
}

// IsText reports whether Data is more readable as text than as bytes.
func (e *Event) IsText() bool {
	for data := e.Data; len(data) > 0; {
		r, size := utf8.DecodeRune(data)
		if r == utf8.RuneError && size == 1 || !unicode.IsPrint(r) && r != '\n' && r != '\t' {
			return false
		}
		data = data[size:]
	}
	return true
}

// String returns the name and the payload of the event, as text or as hexadecimal bytes.
func (e *Event) String() string {
	if _, ok := e.Mark(); ok {
		return e.Name()
	}
	if _, ok := reader.ParseDescriptor(e.Data); ok && e.Kind == reader.Custom {
		return e.Name()
	}
	if e.IsText() {
		return e.Name() + ": " + string(e.Data)
	}
	return e.Name() + ": " + hex.EncodeToString(e.Data)
}
