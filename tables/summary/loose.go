package summary

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/reader/calls"
)

// looseRow is a row of a file whose order is unknown.
type looseRow struct {
	key      [5]uint32
	path     uint32
	function functionTexts
	batch    *batch
	at       int
	firstBin int
}

// maxLooseRows bounds the memory for a file with unordered rows.
const maxLooseRows = 1 << 20

// Groups reads all groups of a file whose rows are in any order, in memory. There may be
// several rows of a path.
func (f *File) Groups() ([]*Group, error) {
	if n := f.file.Rows; n > maxLooseRows {
		return nil, f.named(fmt.Errorf("%d rows were written by another program, but xray can sort at most %d: "+
			"split them into several files by program, build or host", n, maxLooseRows))
	}
	rows, err := f.looseRows()
	if err != nil {
		return nil, f.named(err)
	}
	groups, err := f.group(rows)
	return groups, f.named(err)
}

func (f *File) looseRows() ([]looseRow, error) {
	var rows []looseRow
	for n := f.file.Rows - f.done; n > 0; n -= batchRows {
		err := f.rowsInto(newBatch(n), min(n, batchRows), func(b *batch) error {
			rows = f.appendLoose(rows, b)
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	list := f.texts.list
	slices.SortStableFunc(rows, func(a, b looseRow) int {
		for i := range a.key {
			if c := cmp.Compare(list[a.key[i]], list[b.key[i]]); c != 0 {
				return c
			}
		}
		return cmp.Compare(list[a.path], list[b.path])
	})
	return rows, nil
}

func (f *File) appendLoose(rows []looseRow, b *batch) []looseRow {
	// A row group may end within a batch.
	own := *b
	firstBin := 0
	for i := range b.n {
		r := looseRow{
			path: b.paths[i], batch: &own, at: i, firstBin: firstBin,
			function: functionTexts{b.names[0][i], b.names[1][i], b.names[2][i], b.names[3][i], b.line[i]},
		}
		for k := range r.key {
			r.key[k] = b.keys[k][i]
		}
		rows = append(rows, r)
		firstBin = b.binEnds[i]
	}
	return rows
}

// group makes groups of rows that are in order.
func (f *File) group(rows []looseRow) ([]*Group, error) {
	var groups []*Group
	var adder *rowAdder
	var paths map[string]calls.PathID
	for i := range rows {
		r := &rows[i]
		if i == 0 || r.key != rows[i-1].key {
			g := NewGroup(f.key(r))
			groups, adder, paths = append(groups, g), newRowAdder(g, f.texts), make(map[string]calls.PathID)
		}
		path := adder.loosePath(r, paths)
		if err := adder.add(r.batch, r.at, r.firstBin, path); err != nil {
			return nil, err
		}
	}
	return groups, nil
}

func (f *File) key(r *looseRow) Key {
	text := func(i int) string { return f.texts.list[r.key[i]] }
	return Key{Program: text(0), BuildID: text(1), Host: text(2), Labels: cmp.Or(text(3), NoLabels), Unit: text(4)}
}

// loosePath returns the path of a row. Rows of callers come first, if there are any.
func (a *rowAdder) loosePath(r *looseRow, paths map[string]calls.PathID) calls.PathID {
	text := a.texts.list[r.path]
	if known, ok := paths[text]; ok && a.texts.list[r.function.name] == "" {
		return known
	}
	parent := calls.PathID(0)
	a.stack = a.stack[:1]
	for from := 0; ; {
		n := strings.IndexByte(text[from:], '\n')
		if n < 0 {
			name := text[from:]
			path := a.g.child(parent, 0, a.orFolded(a.looseFunction(r, name), len(a.stack)-1))
			if _, ok := paths[text]; !ok {
				paths[text] = path
			}
			return path
		}
		above := text[:from+n]
		path, ok := paths[above]
		if !ok {
			path = a.g.child(parent, 0, a.orFolded(a.g.function(Function{Name: text[from : from+n]}), len(a.stack)-1))
			paths[above] = path
		}
		parent = path
		a.stack = append(a.stack, path)
		from += n + 1
	}
}

// looseFunction returns the function of a row, whose path ends in a name.
func (a *rowAdder) looseFunction(r *looseRow, name string) reader.FuncID {
	t, text := &r.function, a.texts.list
	return a.g.function(Function{
		Name: name, Symbol: text[t.symbol], File: text[t.file], Line: int32(min(t.line, 1<<31-1)), Object: text[t.object],
	})
}
