package convert

import (
	"unsafe"

	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/reader/calls"
)

// longCalls finds the calls of a thread that take at least min ticks, for writers that write
// entries. It reports a call as soon as it is known to be long enough, in the order of entries
// and before anything inside.
type longCalls struct {
	min    uint64
	memory *int64 // bytes of open, of all threads together
	open   []openCall
	shown  int // number of open calls that begin was called for
	begin  func(*openCall)
	short  *shortCalls
}

// openCall is an entry whose exit has not been seen yet.
type openCall struct {
	start uint64
	fn    reader.FuncID
	depth uint32
}

const openCallBytes = int64(unsafe.Sizeof(openCall{}))

func (l *longCalls) enter(o *calls.Open) {
	before := cap(l.open)
	l.open = append(l.open, openCall{o.Start, o.Func, o.Depth})
	*l.memory += openCallBytes * int64(cap(l.open)-before)
	l.short.enter(o.Depth)
}

// settle calls begin for the open calls that are long enough at time now, and reports whether all
// are.
func (l *longCalls) settle(now uint64) bool {
	for l.shown < len(l.open) {
		o := &l.open[l.shown]
		if now-o.start < l.min {
			return false
		}
		l.short.before(o.depth)
		l.shown++
		l.begin(o)
	}
	return true
}

// leave ends the innermost call, and reports whether it took long enough.
func (l *longCalls) leave(c *calls.Call) bool {
	l.settle(c.Start + c.Duration)
	n := len(l.open) - 1
	l.open = l.open[:n]
	shown := l.shown > n
	l.shown = min(l.shown, n)
	l.short.leave(c, shown)
	return shown
}

// finish shows the remaining runs at the end of the thread.
func (l *longCalls) finish() {
	l.short.finish()
	*l.memory -= openCallBytes * int64(cap(l.open))
	l.open = nil
}
