package convert

import (
	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/reader/calls"
)

// ChooseRecords returns a function that keeps only the records of a block that f selects,
// or nil if f selects all. It keeps or drops an entry and its exit together. So the calls
// of the result are those that f selects by thread, function and depth. An exit
// without an entry belongs to a call that began before the trace. Custom and typed events are
// selected by thread and depth. f.MinDuration is ignored, because durations are not known yet. So is
// the time of f, for which there is [Slicer].
//
// The blocks of a thread must come in order. The function returns the block that was
// passed, or one that is valid until the next call for its thread. Memory grows with
// threads and the depth of their stacks.
func ChooseRecords(f calls.Filter) func(*reader.Block) *reader.Block {
	if f.Thread == nil && f.Func == nil && f.MaxDepth == 0 {
		return nil
	}
	c := &chooser{Filter: f, funcs: make(map[reader.FuncID]bool), threads: make(map[int]*chosenThread)}
	return c.block
}

type chooser struct {
	calls.Filter
	funcs   map[reader.FuncID]bool // results of Func
	threads map[int]*chosenThread  // by Block.Index
	others  chosenThread           // all threads that are not selected
}

// chosenThread is the state of a thread.
type chosenThread struct {
	recordStack
	wanted bool
	out    reader.Block
}

func (c *chooser) block(b *reader.Block) *reader.Block {
	t := c.threads[b.Index]
	if t == nil {
		if t = &c.others; c.Thread == nil || c.Thread(b.Thread) {
			t = &chosenThread{wanted: true}
		}
		c.threads[b.Index] = t
	}
	if len(b.Events) == 0 { // the end of the thread, see reader.Trace.EachByTime
		delete(c.threads, b.Index)
	}
	out := &t.out
	*out = reader.Block{
		Thread: b.Thread, Index: b.Index, Offset: b.Offset,
		Events: out.Events[:0], Args: out.Args[:0], Payloads: out.Payloads[:0],
	}
	if !t.wanted {
		return out
	}
	args, payloads := b.Args, b.Payloads
	for i := range b.Events {
		e := &b.Events[i]
		if endsWindow(b, i) {
			t.cut(0)
		}
		keep, n := c.keep(t, e), len(out.Events)
		if keep {
			out.Events = append(out.Events, *e)
		}
		for ; len(args) > 0 && args[0].Event == i; args = args[1:] {
			if keep {
				out.Args = append(out.Args, reader.Arg{Event: n, Value: args[0].Value})
			}
		}
		for ; len(payloads) > 0 && payloads[0].Event == i; payloads = payloads[1:] {
			if keep {
				out.Payloads = append(out.Payloads, reader.Payload{Event: n, Type: payloads[0].Type, Data: payloads[0].Data})
			}
		}
	}
	return out
}

// keep reports whether to keep the next record of a thread.
func (c *chooser) keep(t *chosenThread, e *reader.Event) bool {
	depth := uint32(len(t.open))
	switch {
	case e.Kind.IsEnter():
		keep := (c.MaxDepth == 0 || depth < c.MaxDepth) && c.function(e.Func)
		t.push(openRecord{fn: e.Func, kept: keep})
		return keep
	case e.Kind.IsExit():
		if i := t.find(e.Func); i >= 0 {
			kept := t.open[i].kept
			t.cut(i)
			return kept
		}
		return (c.MaxDepth == 0 || depth < c.MaxDepth) && c.function(e.Func)
	default:
		return c.MaxDepth == 0 || depth <= c.MaxDepth
	}
}

func (c *chooser) function(id reader.FuncID) bool {
	if c.Func == nil {
		return true
	}
	keep, ok := c.funcs[id]
	if !ok {
		keep = c.Func(id)
		c.funcs[id] = keep
	}
	return keep
}
