package convert

import (
	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/reader/calls"
)

// ChooseRecords returns what leaves in a block only the records that f chooses;
// nil when f chooses all. An entry and its exit stay or go together, so that the
// calls of what is left are those that f chooses of the trace: by their thread,
// function, depth, and the time at which they begin. An exit without an entry is
// of a call that began before the trace, and stays where From is 0. Custom and
// typed events are chosen by thread, time and depth. f.MinDuration is ignored, as
// durations are not known yet.
//
// The blocks of a thread must come in order. The block that is returned is that
// which was passed, or one that stays valid until the next call for its thread.
// Memory grows with threads and the depth of their stacks.
func ChooseRecords(f calls.Filter) func(*reader.Block) *reader.Block {
	if f.From == 0 && f.To == 0 && f.Thread == nil && f.Func == nil && f.MaxDepth == 0 {
		return nil
	}
	c := &chooser{Filter: f, funcs: make(map[reader.FuncID]bool), threads: make(map[int]*chosenThread)}
	return c.block
}

type chooser struct {
	calls.Filter
	funcs   map[reader.FuncID]bool // answers of Func
	threads map[int]*chosenThread  // by Block.Index
}

// chosenThread is what a chooser has of a thread.
type chosenThread struct {
	recordStack
	wanted bool
	out    reader.Block
}

func (c *chooser) block(b *reader.Block) *reader.Block {
	t := c.threads[b.Index]
	if t == nil {
		t = &chosenThread{wanted: c.Thread == nil || c.Thread(b.Thread)}
		c.threads[b.Index] = t
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

// keep chooses the next record of a thread.
func (c *chooser) keep(t *chosenThread, e *reader.Event) bool {
	depth := uint32(len(t.open))
	switch {
	case e.Kind.IsEnter():
		keep := c.within(e.TSC) && (c.MaxDepth == 0 || depth < c.MaxDepth) && c.function(e.Func)
		t.push(openRecord{fn: e.Func, kept: keep})
		return keep
	case e.Kind.IsExit():
		if i := t.find(e.Func); i >= 0 {
			kept := t.open[i].kept
			t.cut(i)
			return kept
		}
		return c.From == 0 && (c.MaxDepth == 0 || depth < c.MaxDepth) && c.function(e.Func)
	default:
		return c.within(e.TSC) && (c.MaxDepth == 0 || depth <= c.MaxDepth)
	}
}

func (c *chooser) within(tsc uint64) bool { return tsc >= c.From && (c.To == 0 || tsc < c.To) }

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
