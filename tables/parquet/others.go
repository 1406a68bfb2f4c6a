package parquet

import (
	"errors"
	"slices"
	"strings"

	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/reader/calls"
	"github.com/xray-tools/xray/symbolize"
)

// text returns the value of an optional column: nil, which is null, for "".
func text(s string) any {
	if s == "" {
		return nil
	}
	return s
}

// event writes a row of the table events.
func (w *Writer) event(t *threadRow, e *calls.Event) error {
	if w.events == nil {
		var err error
		if w.events, err = w.newRows(&eventsTable); err != nil {
			return err
		}
	}
	kind := "custom"
	var typ, words, request any
	if e.Kind == reader.Typed {
		kind, typ = "typed", int32(e.Type)
	}
	if e.IsText() {
		words = string(e.Data)
	}
	if mark, ok := e.Mark(); ok {
		kind, words = "mark", text(mark.Text)
		if mark.Request {
			request = mark.ID
		}
	}
	var id, name, path any
	if e.Func != 0 {
		id, name, path = int32(e.Func), w.opts.function(e.Func).name, int32(e.Path)
	}
	return w.events.add(t.thread.Process, t.thread.Thread, text(t.name), w.opts.time(e.TSC), kind, typ,
		int32(e.CPU), int32(e.Depth), id, name, path, words, request, e.Data)
}

// tables writes the tables other than calls. The last one is traces, which says that the others are
// complete.
func (w *Writer) tables(s *Summary) error {
	if w.events == nil {
		var err error
		if w.events, err = w.newRows(&eventsTable); err != nil {
			return err
		}
	}
	if err := w.events.close(); err != nil {
		return err
	}
	for _, t := range []struct {
		table *Table
		fill  func(*rows) error
	}{
		{&functionsTable, w.functionRows},
		{&pathsTable, w.pathRows},
		{&threadsTable, w.threadRows},
		{&tracesTable, func(r *rows) error { return w.traceRow(r, s) }},
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
	var ids []reader.FuncID
	for id := range w.calls.functions {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	for _, id := range ids {
		f := w.opts.function(id)
		var linkage, address, object, line any
		if f.line != 0 {
			line = f.line
		}
		if w.opts.Names != nil {
			if s, ok := w.opts.Names.Func(id); ok {
				linkage = text(s.Linkage)
				if s.Address != 0 {
					address = s.Address
				}
				object = text(symbolize.ObjectName(w.opts.Names, id))
			}
		}
		if err := r.add(int32(id), f.name, linkage, text(f.file), line, address, object); err != nil {
			return err
		}
	}
	return nil
}

// deepestStack is the maximum length of a call path that is also written as text.
const deepestStack = 256

func (w *Writer) pathRows(r *rows) error {
	if w.paths == nil {
		return nil
	}
	depths := make([]int32, w.paths.Len())
	names := map[reader.FuncID]string{}
	nameOf := func(id reader.FuncID) string {
		name, known := names[id]
		if !known {
			name = w.opts.function(id).name
			names[id] = name
		}
		return name
	}
	var frames []reader.FuncID
	var words []string
	for id := calls.PathID(1); int(id) < w.paths.Len(); id++ {
		above, fn := w.paths.Parent(id), w.paths.Func(id)
		var parent, stack any
		if above != 0 {
			depths[id], parent = depths[above]+1, int32(above)
		}
		if depths[id] < deepestStack {
			frames, words = w.paths.Frames(frames[:0], id), words[:0]
			for _, f := range frames {
				words = append(words, nameOf(f))
			}
			stack = strings.Join(words, ";")
		}
		if err := r.add(int32(id), parent, depths[id], int32(fn), nameOf(fn), stack); err != nil {
			return err
		}
	}
	return nil
}

func (w *Writer) threadRows(r *rows) error {
	for i := range w.threads {
		t := &w.threads[i]
		if !t.seen {
			continue
		}
		var first, last any
		if t.calls > 0 {
			first, last = w.opts.time(t.first), w.opts.time(t.last)
		}
		if err := r.add(t.thread.Process, t.thread.Thread, text(t.name), text(t.process), t.calls, first, last); err != nil {
			return err
		}
	}
	return nil
}

func (w *Writer) traceRow(r *rows, s *Summary) error {
	var frequency, started, host, process, program, buildID, command any
	if w.opts.Clock.Known() {
		frequency = saturated(w.opts.Clock.Frequency)
	}
	if s.Started != 0 {
		started = s.Started
	}
	if p := s.Process; p != nil {
		host, process, program, buildID = text(p.Host), p.PID, text(p.Exe), text(p.BuildID)
		command = p.Argv
	}
	st := s.Stats
	return r.add(s.Name, int32(Version), w.opts.Clock.Unit(), frequency, started, w.opts.Base, w.opts.Last,
		w.opts.time(max(w.opts.Base, w.opts.Last)), int64(st.Events), w.calls.rows, int64(st.Calls), int32(s.Threads),
		int64(st.Inferred), int64(st.Truncated), int64(st.Left), int64(st.Unmatched), s.Losses, s.LostRecords,
		host, process, program, buildID, command, text(s.OffProcessor), int64(st.Off.Unknown), int64(st.Off.Unqueued), s.Caveats)
}
