package convert

import (
	"strconv"

	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/symbolize"
)

// label returns the name of a function, or "#id" if it is unknown.
func (o *Options) label(id reader.FuncID) string { return symbolize.Label(o.Names, id) }

// labelOrID returns the name of a function for the formats of llvm-xray. Without names, it returns
// the decimal ID.
func (o *Options) labelOrID(id reader.FuncID) string {
	if o.Names == nil {
		return strconv.Itoa(int(id))
	}
	return symbolize.Label(o.Names, id)
}

// labels caches the text of functions in a format, because rendering it for every record is slow.
// The cache has a fixed size, because IDs of a damaged trace are arbitrary. If all functions
// are of one object and fewer than the slots, nothing is rendered twice.
type labels struct {
	render func(dst []byte, id reader.FuncID) []byte
	slots  []labelSlot
}

type labelSlot struct {
	id   reader.FuncID
	text []byte // nil while the slot is empty
}

const labelSlots = 1 << 16

func newLabels(render func([]byte, reader.FuncID) []byte) labels {
	return labels{render, make([]labelSlot, labelSlots)}
}

// of returns the text of a function, which is valid until the next call.
func (l *labels) of(id reader.FuncID) []byte {
	// The IDs of an object count up from 1, so the low bits are a perfect hash of them. The
	// multiplication separates the objects.
	u := uint32(id)
	slot := &l.slots[(u^u>>24*0x9E37)%labelSlots]
	if slot.id != id || slot.text == nil {
		slot.id, slot.text = id, l.render(slot.text[:0], id)
	}
	return slot.text
}
