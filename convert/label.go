package convert

import (
	"strconv"

	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/symbolize"
)

// label is what functions are called where llvm-xray would say "#id".
func (o *Options) label(id reader.FuncID) string { return symbolize.Label(o.Names, id) }

// labelOrID is what the formats of llvm-xray call functions: ids without a map.
func (o *Options) labelOrID(id reader.FuncID) string {
	if o.Names == nil {
		return strconv.Itoa(int(id))
	}
	return symbolize.Label(o.Names, id)
}

// labels holds what a format writes for a function, rendered once, not once for
// every record. It is a cache of fixed size: ids of a damaged trace are
// arbitrary, and must not make it grow. In a program with fewer functions than
// it has slots nothing is ever rendered twice.
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
	// The ids of an object count up from 1, so the low bits are a perfect hash
	// of them; the multiplication sets the objects apart.
	u := uint32(id)
	slot := &l.slots[(u^u>>24*0x9E37)%labelSlots]
	if slot.id != id || slot.text == nil {
		slot.id, slot.text = id, l.render(slot.text[:0], id)
	}
	return slot.text
}
