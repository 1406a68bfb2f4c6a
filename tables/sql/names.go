package sql

import (
	"database/sql/driver"
	"strings"

	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/reader/calls"
	"github.com/xray-tools/xray/symbolize"
)

// function has the columns of a function, ready for SQLite.
type function struct {
	id               reader.FuncID
	name, file, line driver.Value
}

// nameCache remembers functions and call paths. It has a fixed size, because IDs of a
// damaged trace are arbitrary.
type nameCache struct {
	names     symbolize.Names
	functions []*function
	paths     []pathText
}

type pathText struct {
	id   calls.PathID
	text driver.Value
}

const (
	functionSlots = 1 << 16
	pathSlots     = 1 << 12 // paths may be long
)

func newNameCache(names symbolize.Names) *nameCache {
	return &nameCache{names: names, functions: make([]*function, functionSlots), paths: make([]pathText, pathSlots)}
}

// of returns a function.
func (c *nameCache) of(id reader.FuncID) *function {
	slot := &c.functions[(uint32(id)^uint32(id)>>24*0x9E37)%functionSlots]
	if *slot == nil || (*slot).id != id {
		f := &function{id: id, name: symbolize.Label(c.names, id)}
		if c.names != nil {
			if s, ok := c.names.Func(id); ok && s.File != "" {
				f.file = s.File
				if s.Line > 0 {
					f.line = int64(s.Line)
				}
			}
		}
		*slot = f
	}
	return *slot
}

// name returns the name of a function.
func (c *nameCache) name(id reader.FuncID) string { return c.of(id).name.(string) }

// path returns the names of a path's functions.
func (c *nameCache) path(t *pathTree, id calls.PathID) driver.Value {
	slot := &c.paths[id%pathSlots]
	if slot.text == nil || slot.id != id {
		*slot = pathText{id, c.joined(t.frames(id))}
	}
	return slot.text
}

// joined puts the names of a path's functions together.
func (c *nameCache) joined(frames []reader.FuncID) string {
	var b strings.Builder
	for i, id := range frames {
		if i > 0 {
			b.WriteByte(';')
		}
		b.WriteString(c.name(id))
	}
	return b.String()
}
