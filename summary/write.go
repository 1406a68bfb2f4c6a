package summary

import (
	"cmp"
	"encoding/json"
	"errors"
	"io"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/compress/zstd"

	"github.com/xray-tools/xray/reader/calls"
)

const (
	// fullRowGroup is the number of rows at which a row group ends, and shortRowGroup where
	// it may end at the end of a group.
	fullRowGroup  = 1 << 16
	shortRowGroup = 1 << 13
	// writeBatch is the number of rows that are handed to the encoder together.
	writeBatch = 256
	// pageSize is the size of a page in memory.
	pageSize = 1 << 20
)

// codec compresses pages. It keeps encoders for later files.
var codec = zstd.Codec{Level: zstd.SpeedDefault}

// Writer writes a file. Groups are written in the order of their keys, each once.
type Writer struct {
	out   *parquet.GenericWriter[row]
	meta  fileMeta
	rows  []row
	spare []int64 // for optional values of rows
	bins  []bin   // for histograms of rows
	paths []string
	inRow int // rows in the row group
}

// NewWriter returns a writer to w. The caller calls Close, which does not close w.
func NewWriter(w io.Writer) *Writer {
	return &Writer{
		out: parquet.NewGenericWriter[row](w,
			parquet.CreatedBy(creator, "", ""),
			parquet.Compression(&codec),
			parquet.PageBufferSize(pageSize),
			parquet.DataPageStatistics(false),
			parquet.DefaultEncodingFor(parquet.Int32, &parquet.DeltaBinaryPacked),
			parquet.DefaultEncodingFor(parquet.Int64, &parquet.DeltaBinaryPacked),
		),
		meta: fileMeta{Version: Version, Groups: []fileRows{}},
	}
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
		if len(w.rows) == writeBatch {
			return w.flush()
		}
		return nil
	})
	if err := cmp.Or(err, w.flush()); err != nil {
		return err
	}
	w.meta.Groups = append(w.meta.Groups, fileRows{g.Key, int64(g.Len())})
	if w.inRow >= shortRowGroup {
		return w.endRowGroup()
	}
	return nil
}

// append adds the row of a path to those that are to be written.
func (w *Writer) append(g *Group, path calls.PathID, depth int) {
	f, s, k := g.name(path), &g.sums[path], &g.Key
	w.paths = append(w.paths[:depth], f.Name)
	if depth > 0 {
		w.paths[depth] = w.paths[depth-1] + "\n" + f.Name
	}
	r := row{
		Program: k.Program, BuildID: k.BuildID, Host: k.Host, Labels: k.Labels, Unit: k.Unit, Path: w.paths[depth],
		Depth: int32(depth), Function: f.Name, Symbol: f.Symbol, File: f.File, Line: f.Line, Object: f.Object,
		Calls: int64(s.Calls), Time: int64(s.Time), SelfTime: int64(s.Self),
		OpenCalls: int64(s.Open), OpenTime: int64(s.OpenTime), OpenSelfTime: int64(s.OpenSelf), NestedTime: int64(s.Nested),
		Inferred: int64(s.Inferred), Left: int64(s.Left), TailExited: int64(s.TailExited), Continued: int64(s.Continued),
		Untimed: int64(s.Untimed), PrunedCalls: int64(s.Pruned), PrunedTime: int64(s.PrunedTime),
		FoldedCalls: int64(s.Folded), FoldedSelfTime: int64(s.FoldedSelf),
	}
	if s.Calls > 0 && s.Min <= s.Max {
		r.Min, r.Max = w.value(s.Min), w.value(s.Max)
	}
	if s.OffKnown {
		r.OnCPU, r.Blocked, r.Queued = w.value(s.OnCPU), w.value(s.Blocked), w.value(s.Queued)
	}
	from := len(w.bins)
	for b, n := range g.slab.all(&g.bins[path]) {
		w.bins = append(w.bins, bin{int32(b), int64(n.Durations), int64(n.Selves), int64(n.Coarse)})
	}
	r.Bins = w.bins[from:len(w.bins):len(w.bins)]
	w.rows = append(w.rows, r)
}

// value returns a pointer to a value that is valid until the next flush.
func (w *Writer) value(v uint64) *int64 {
	w.spare = append(w.spare, int64(v))
	return &w.spare[len(w.spare)-1]
}

func (w *Writer) flush() error {
	_, err := w.out.Write(w.rows)
	w.inRow += len(w.rows)
	w.rows, w.spare, w.bins = w.rows[:0], w.spare[:0], w.bins[:0]
	if err == nil && w.inRow >= fullRowGroup {
		err = w.endRowGroup()
	}
	return err
}

func (w *Writer) endRowGroup() error {
	w.inRow = 0
	return w.out.Flush()
}

// Close writes the end of the file.
func (w *Writer) Close() error {
	meta, err := json.Marshal(&w.meta)
	if err != nil {
		return err
	}
	w.out.SetKeyValueMetadata(metaKey, string(meta))
	return w.out.Close()
}
