package parquet

import (
	"errors"
	"maps"
	"slices"

	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/reader/calls"
	"github.com/xray-tools/xray/tables"
)

// event writes a row of the table events.
func (w *Writer) event(t *tables.Thread, e *calls.Event) error {
	if err := w.begin(); err != nil {
		return err
	}
	return w.events.add(tables.Events.Row(&w.opts.Source, &tables.Event{Event: e, Thread: t}, tables.Files))
}

// begin begins the table events.
func (w *Writer) begin() (err error) {
	if w.events == nil {
		w.events, err = w.newRows(&tables.Events.Table)
	}
	return err
}

// tables writes the tables other than calls. The last one is traces, which says that the others are
// complete.
func (w *Writer) tables(trace *tables.Trace) error {
	if err := w.begin(); err != nil {
		return err
	}
	if err := w.events.close(); err != nil {
		return err
	}
	for _, t := range []struct {
		table *tables.Table
		fill  func(*rows) error
	}{
		{&tables.Functions.Table, w.functionRows},
		{&tables.Paths.Table, w.pathRows},
		{&tables.Threads.Table, w.threadRows},
		{&tables.Traces.Table, func(r *rows) error {
			trace.Rows, trace.Last = w.calls.rows, w.opts.Last
			return r.add(tables.Traces.Row(&w.opts.Source, trace, tables.Files))
		}},
	} {
		r, err := w.newRows(t.table)
		if err != nil {
			return err
		}
		if err := errors.Join(t.fill(r), r.close()); err != nil {
			return err
		}
	}
	return nil
}

func (w *Writer) functionRows(r *rows) error {
	for _, id := range slices.Sorted(maps.Keys(w.calls.functions)) {
		if err := r.add(tables.Functions.Row(&w.opts.Source, w.opts.Function(id), tables.Files)); err != nil {
			return err
		}
	}
	return nil
}

func (w *Writer) pathRows(r *rows) error {
	if w.paths == nil {
		return nil
	}
	var frames []reader.FuncID
	return tables.EachPath(w.paths, func(p *tables.Path) error {
		if p.Depth < tables.DeepestStack {
			frames = w.paths.Frames(frames[:0], p.ID)
			p.Stack = w.opts.Stack(frames)
		}
		return r.add(tables.Paths.Row(&w.opts.Source, p, tables.Files))
	})
}

func (w *Writer) threadRows(r *rows) error {
	for _, t := range w.threads {
		if t != nil {
			if err := r.add(tables.Threads.Row(&w.opts.Source, t, tables.Files)); err != nil {
				return err
			}
		}
	}
	return nil
}
