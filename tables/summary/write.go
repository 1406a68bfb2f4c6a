package summary

import (
	"cmp"
	"encoding/json"
	"errors"
	"io"
	"slices"

	"github.com/xray-tools/xray/reader/calls"
	"github.com/xray-tools/xray/tables/parquetfile"
)

const (
	// fullRowGroup is the number of rows, or fullBins of bins, at which a row group ends, and
	// shortRowGroup where it may end at the end of a group.
	fullRowGroup  = 1 << 16
	fullBins      = 1 << 19
	shortRowGroup = 1 << 13
)

// Writer writes a file. Groups are written in the order of their keys, each once. It keeps
// a row group in memory.
type Writer struct {
	w       io.Writer
	columns []parquetfile.Column
	file    *parquetfile.File
	encoder *parquetfile.Encoder
	group   parquetfile.Group
	meta    fileMeta
	names   []string // path of the last row at each depth

	// the columns of the row group
	keys              [len(keyColumns)]textColumn
	paths             []string
	depth             []int64
	functions         [len(nameColumns)]textColumn
	line, least, most []int64
	noCalls, noOff    []bool
	counters          [len(counterColumns)][]int64
	binCounts         []uint32
	bins              [len(binColumns)][]int64
}

// textColumn is a dictionary-encoded column.
type textColumn struct {
	keys   []uint32
	values []string
	index  map[string]uint32
}

func (c *textColumn) add(text string) {
	if n := len(c.keys); n > 0 && c.values[c.keys[n-1]] == text {
		c.keys = append(c.keys, c.keys[n-1])
		return
	}
	at, ok := c.index[text]
	if !ok {
		if c.index == nil {
			c.index = make(map[string]uint32)
		}
		at = uint32(len(c.values))
		c.index[text] = at
		c.values = append(c.values, text)
	}
	c.keys = append(c.keys, at)
}

func (c *textColumn) reset() {
	c.keys, c.values = c.keys[:0], c.values[:0]
	clear(c.index)
}

// NewWriter returns a writer to w. The caller calls Close, which does not close w.
func NewWriter(w io.Writer) *Writer {
	list := columns()
	return &Writer{w: w, columns: list, encoder: parquetfile.NewDenseEncoder(list), meta: fileMeta{Version: Version, Groups: []fileRows{}}}
}

// Group writes a group. It is an error if its key is not after that of the last group.
func (w *Writer) Group(g *Group) error {
	if n := len(w.meta.Groups); n > 0 && g.Key.Compare(&w.meta.Groups[n-1].Key) <= 0 {
		return errors.New("groups of a summary are not in order")
	}
	if g.Len() == 0 {
		return nil
	}
	err := g.walk(func(path calls.PathID, depth int) error {
		w.append(g, path, depth)
		if len(w.paths) == fullRowGroup || len(w.bins[0]) >= fullBins {
			return w.flush()
		}
		return nil
	})
	if err != nil {
		return err
	}
	w.meta.Groups = append(w.meta.Groups, fileRows{g.Key, int64(g.Len())})
	if len(w.paths) >= shortRowGroup {
		return w.flush()
	}
	return nil
}

// append adds the row of a path to the row group.
func (w *Writer) append(g *Group, path calls.PathID, depth int) {
	f, s, k := g.name(path), &g.sums[path], &g.Key
	name := f.Name
	if depth > 0 {
		name = w.names[depth-1] + "\n" + f.Name
	}
	w.names = append(w.names[:depth], name)
	for i, text := range [...]string{k.Program, k.BuildID, k.Host, k.Labels, k.Unit} {
		w.keys[i].add(text)
	}
	w.paths = append(w.paths, name)
	w.depth = append(w.depth, int64(depth))
	for i, text := range [...]string{f.Name, f.Symbol, f.File, f.Object} {
		w.functions[i].add(text)
	}
	w.line = append(w.line, int64(f.Line))
	w.least, w.most = append(w.least, int64(s.Min)), append(w.most, int64(s.Max))
	w.noCalls, w.noOff = append(w.noCalls, s.Calls == 0 || s.Min > s.Max), append(w.noOff, !s.OffKnown)
	for i, v := range s.counters() {
		w.counters[i] = append(w.counters[i], int64(*v))
	}
	n := uint32(0)
	for b, c := range g.allBins(int(path)) {
		for i, v := range [...]uint64{uint64(b), c.Durations, c.Selves, c.Coarse} {
			w.bins[i] = append(w.bins[i], int64(v))
		}
		n++
	}
	w.binCounts = append(w.binCounts, n)
}

// flush writes a row group.
func (w *Writer) flush() error {
	if err := w.begin(); err != nil || len(w.paths) == 0 {
		return err
	}
	w.encoder.Begin(&w.group, len(w.paths))
	for _, c := range w.columns {
		w.encode(c.Name)
	}
	clear(w.paths)
	w.paths, w.noCalls, w.noOff, w.binCounts = w.paths[:0], w.noCalls[:0], w.noOff[:0], w.binCounts[:0]
	return w.file.Append(&w.group)
}

// encode encodes a column, which is the next one of the table, and empties it.
func (w *Writer) encode(column string) {
	text := func(c *textColumn) {
		w.encoder.StringOf(parquetfile.Keyed{Keys: c.keys}, c.values)
		c.reset()
	}
	integers := func(values *[]int64, null []bool) {
		w.encoder.Nullable(*values, null)
		*values = (*values)[:0]
	}
	switch column {
	case "path":
		w.encoder.Sorted(w.paths)
		return
	case "depth":
		integers(&w.depth, nil)
		return
	case "line":
		integers(&w.line, nil)
		return
	case "min":
		integers(&w.least, w.noCalls)
		return
	case "max":
		integers(&w.most, w.noCalls)
		return
	}
	if i := slices.Index(keyColumns[:], column); i >= 0 {
		text(&w.keys[i])
	} else if i := slices.Index(nameColumns[:], column); i >= 0 {
		text(&w.functions[i])
	} else if i := slices.Index(binColumns[:], column); i >= 0 {
		w.encoder.Structs(w.binCounts, w.bins[i])
		w.bins[i] = w.bins[i][:0]
	} else if i := slices.Index(counterColumns[:], column); isOffCPU(i) {
		integers(&w.counters[i], w.noOff)
	} else {
		integers(&w.counters[i], nil)
	}
}

// begin begins the file, unless it has begun.
func (w *Writer) begin() (err error) {
	if w.file == nil {
		w.file, err = parquetfile.NewFile(w.w, "summary", creator, w.columns, nil)
	}
	return err
}

// Close writes the end of the file.
func (w *Writer) Close() error {
	meta, err := json.Marshal(&w.meta)
	if err := cmp.Or(err, w.flush()); err != nil {
		return err
	}
	w.file.SetMetadata(metaKey, string(meta))
	return w.file.Close()
}
