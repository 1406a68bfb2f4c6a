package sql

import "github.com/xray-tools/xray/reader/calls"

// pathText is a call path's text. DB remembers the texts of pathSlots paths, which may be long.
type pathText struct {
	id   calls.PathID
	text any
}

const pathSlots = 1 << 12

// stack returns the names of a path's functions.
func (db *DB) stack(id calls.PathID) any {
	slot := &db.stacks[id%pathSlots]
	if slot.text == nil || slot.id != id {
		*slot = pathText{id, db.opts.Stack(db.paths.frames(id))}
	}
	return slot.text
}
