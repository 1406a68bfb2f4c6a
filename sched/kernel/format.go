package kernel

import (
	"bytes"
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// eventFormat is the layout of the events of one kind, as its file "format" describes it.
type eventFormat struct {
	ID     uint16
	fields map[string]field
	print  string // of the event's text form
}

type field struct {
	offset, size int
	located      bool // __data_loc: offset and size of the data are in the field
}

var fieldLine = regexp.MustCompile(`^\s*field:(.*?)(\w+)(\[[^\]]*\])?;\s*offset:(\d+);\s*size:(\d+);`)

// parseFormat reads the content of a file events/.../format.
func parseFormat(text string) (*eventFormat, error) {
	f := &eventFormat{fields: make(map[string]field)}
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\n")
		if id, ok := strings.CutPrefix(line, "ID:"); ok {
			n, err := strconv.ParseUint(strings.TrimSpace(id), 10, 16)
			if err != nil {
				return nil, fmt.Errorf("ID of an event: %w", err)
			}
			f.ID = uint16(n)
		}
		if text, ok := strings.CutPrefix(line, "print fmt:"); ok {
			f.print = text
		}
		if m := fieldLine.FindStringSubmatch(line); m != nil {
			offset, err1 := strconv.ParseUint(m[4], 10, 16)
			size, err2 := strconv.ParseUint(m[5], 10, 16)
			if err1 != nil || err2 != nil {
				return nil, fmt.Errorf("field %s out of range", m[2])
			}
			f.fields[m[2]] = field{int(offset), int(size), strings.Contains(m[1], "__data_loc")}
		}
	}
	if f.ID == 0 {
		return nil, fmt.Errorf("the event has no ID")
	}
	return f, nil
}

// need returns fields by their names.
func (f *eventFormat) need(names ...string) ([]field, error) {
	list := make([]field, len(names))
	for i, name := range names {
		var ok bool
		if list[i], ok = f.fields[name]; !ok {
			return nil, fmt.Errorf("event %d has no field %s", f.ID, name)
		}
	}
	return list, nil
}

var stateFlag = regexp.MustCompile(`\{\s*0x([0-9a-f]+),\s*"(.)[^"]*"\s*\}`)

// states returns the letters of task states by their bits, and the bit that says that a task
// was preempted.
func (f *eventFormat) states() (letters map[uint64]byte, preempted uint64) {
	letters = make(map[uint64]byte)
	for _, m := range stateFlag.FindAllStringSubmatch(f.print, -1) {
		if bit, err := strconv.ParseUint(m[1], 16, 32); err == nil && bit != 0 {
			letters[bit] = m[2][0]
			preempted = max(preempted, 2*bit)
		}
	}
	return letters, preempted
}

// uint reads a field as an unsigned number, or 0 if the event is too short.
func (f field) uint(b []byte) uint64 {
	if f.size > 8 || f.offset+f.size > len(b) {
		return 0
	}
	var v uint64
	for i := f.size - 1; i >= 0; i-- {
		v = v<<8 | uint64(b[f.offset+i])
	}
	return v
}

func (f field) int32(b []byte) int32 { return int32(f.uint(b)) }

// comm reads a field as the name of a task.
func (f field) comm(b []byte) (c Comm) {
	offset, size := f.offset, f.size
	if f.located {
		at := f.uint(b)
		offset, size = int(at&0xffff), int(at>>16&0xffff)
	}
	if offset+size > len(b) {
		return c
	}
	text, _, _ := bytes.Cut(b[offset:offset+size], []byte{0})
	copy(c[:], text)
	return c
}
