package debuginfo

import "math"

// lineStrings resolves strings of line tables.
type lineStrings interface {
	lineString(offset uint64) string // in .debug_line_str
	debugString(offset uint64) string
}

// lineFiles finds the files of a line table. It indexes the table once, so lookups take
// constant time. It can be reused for another table.
type lineFiles struct {
	t           *lineTable
	dirs, files lineNames
}

// lineNames is a list of directories or files.
type lineNames struct {
	fields []lineField
	at     []uint32 // offset of each entry from the start of the lists
}

type lineField struct{ content, form uint64 }

// lineFile is a file or directory of a table.
type lineFile struct {
	name string
	dir  uint64
	md5  []byte // nil when there is none; only DWARF 5 has it
}

// read indexes a table.
func (l *lineFiles) read(t *lineTable) {
	l.t = t
	l.dirs.at, l.files.at = l.dirs.at[:0], l.files.at[:0]
	if uint64(len(t.lists)) > math.MaxUint32 {
		return
	}
	c := cursor{b: t.lists, order: t.order}
	if t.version >= 5 {
		l.dirs.read(t, &c)
		l.files.read(t, &c)
		return
	}
	// Counting starts at 1.
	l.dirs.at, l.files.at = append(l.dirs.at, 0), append(l.files.at, 0)
	for at := t.offset(&c); len(c.cstring()) > 0; at = t.offset(&c) {
		l.dirs.at = append(l.dirs.at, at)
	}
	for at := t.offset(&c); len(c.cstring()) > 0; at = t.offset(&c) {
		c.uleb() // directory
		c.uleb() // time
		c.uleb() // size
		if c.bad {
			break
		}
		l.files.at = append(l.files.at, at)
	}
}

// offset returns the position of a cursor in the lists.
func (t *lineTable) offset(c *cursor) uint32 { return uint32(len(t.lists) - len(c.b)) }

// read indexes a list of DWARF 5.
func (n *lineNames) read(t *lineTable, c *cursor) {
	n.fields = n.fields[:0]
	size := 0
	for range c.uint(1) {
		f := lineField{c.uleb(), c.uleb()}
		n.fields = append(n.fields, f)
		if s := formSize(f.form, unitKind{t.wide, t.addressSize}); s < 0 || size < 0 {
			size = -1
		} else {
			size += s
		}
	}
	count := c.uleb()
	if count > uint64(len(c.b)) {
		// Every real entry takes space. This check stops a damaged count of empty entries.
		c.bad = true
	}
	for ; count > 0 && !c.bad; count-- {
		at := t.offset(c)
		if size >= 0 {
			c.take(uint64(size))
		} else {
			for _, f := range n.fields {
				c.form(f.form, unitKind{t.wide, t.addressSize})
			}
		}
		if !c.bad {
			n.at = append(n.at, at)
		}
	}
}

// entry returns an entry of a list. It returns false if there is none.
func (l *lineFiles) entry(n *lineNames, i uint64, strs lineStrings) (f lineFile, ok bool) {
	if i >= uint64(len(n.at)) || i == 0 && l.t.version < 5 {
		return f, false
	}
	c := cursor{b: l.t.lists[n.at[i]:], order: l.t.order}
	if l.t.version < 5 {
		f.name = string(c.cstring())
		f.dir = c.uleb() // directories do not have it
		return f, true
	}
	for _, fd := range n.fields {
		v := c.form(fd.form, unitKind{l.t.wide, l.t.addressSize})
		switch fd.content {
		case lnctPath:
			f.name = v.text(strs)
		case lnctDirectoryIndex:
			f.dir = v.n
		case lnctMD5:
			f.md5 = v.inline
		}
	}
	if len(f.md5) != 16 {
		f.md5 = nil
	}
	return f, true
}

// file returns the path of a file and its MD5, nil if there is none. Before DWARF 5, the path
// can be relative to the compilation directory, which is not in the table.
func (l *lineFiles) file(i uint64, strs lineStrings) (path string, md5 []byte) {
	f, ok := l.entry(&l.files, i, strs)
	if !ok {
		return "", nil
	}
	dir, ok := l.entry(&l.dirs, f.dir, strs)
	if l.t.version < 5 {
		if !ok {
			return f.name, nil
		}
		return joinPath(dir.name, f.name), nil
	}
	root, _ := l.entry(&l.dirs, 0, strs)
	base := joinPath("", root.name)
	if f.dir != 0 {
		base = joinPath(base, dir.name)
	}
	return joinPath(base, f.name), f.md5
}

// file returns the path of a file in the unit's line table.
func (u *unit) file(n uint64) string {
	if u.table < 0 {
		return ""
	}
	t := u.lines.tableAt(u.table)
	if t == nil {
		return ""
	}
	path, _ := t.file(n, u.lines)
	if t.t.version < 5 && path != "" {
		path = joinPath(u.dir.String(), path)
	}
	return path
}

// tableAt returns the files of the line table at an offset; nil if there is none.
func (d *debugData) tableAt(offset int64) *lineFiles {
	if d.files.t != nil && d.tableOffset == offset {
		return &d.files
	}
	b, err := d.line.at(uint64(offset), 12)
	if err != nil || len(b) < 12 {
		return nil
	}
	c := cursor{b: b, order: d.o.f.ByteOrder}
	length, wide := c.uint(4), false
	if length == 0xFFFFFFFF {
		length, wide = c.uint(8), true
	}
	start := uint64(offset) + uint64(len(b)-len(c.b))
	if length > d.line.s.Size-start {
		return nil
	}
	body, err := d.line.at(start, int(length))
	if err != nil {
		return nil
	}
	t, err := parseLineTable(body, d.o.f.ByteOrder, wide, d.o.word)
	if err != nil {
		return nil
	}
	d.files.read(t)
	d.tableOffset = offset
	return &d.files
}
