package why_test

import (
	"fmt"
	"testing"

	"github.com/xray-tools/xray/reader"
)

// A loop whose body ends in a tail call has one call for each iteration, whether or not the trace
// includes its end. The tail call is inside the body if the binary shows it.
func TestLoopsThatEndInTailCalls(t *testing.T) {
	const turns = 1200
	for _, test := range []struct {
		name string
		tail reader.Kind // how the body is left, before or after unlock
		cut  bool        // the trace ends inside the loop
		seen bool        // the binary shows the tail call
	}{
		{"tail call of an instrumented function", reader.TailExit, false, true},
		{"tail call of an instrumented function, cut", reader.TailExit, true, true},
		{"tail call of an unknown function", reader.TailExit, false, false},
		{"no tail call", reader.Exit, false, true},
	} {
		p := newProgram(2)
		for _, th := range p.threads {
			for i := range turns / 2 {
				th.event(reader.Enter, handle)
				th.event(reader.Enter, lock)
				th.self(20)
				th.event(reader.TailExit, lock) // its tail call has no sled, like that of unlock
				th.now += 20
				th.call(work, 1000)
				if slowAt(i) {
					th.self(90_000)
				}
				if test.tail == reader.TailExit {
					th.event(reader.TailExit, handle)
					th.now += 10
				}
				th.event(reader.Enter, unlock)
				th.self(20)
				th.event(reader.TailExit, unlock)
				th.now += 20
				if test.tail == reader.Exit {
					th.event(reader.Exit, handle)
					th.now += 10
				}
			}
			if test.cut {
				th.event(reader.Enter, handle)
			}
		}
		o := options()
		o.Calls.Continue = func(from, to reader.FuncID) bool { return test.seen && from == handle && to == unlock }
		r := explain(t, p, o)
		if r.Invocations != turns {
			t.Errorf("%s: got %d calls, want %d", test.name, r.Invocations, turns)
		}
		inside := false
		for _, part := range r.Decomposition {
			inside = inside || fmt.Sprint(part.Path) == fmt.Sprint([]reader.FuncID{handle, unlock})
		}
		if inside != test.seen {
			t.Errorf("%s: unlock inside the body: got %v: %+v", test.name, inside, r.Decomposition)
		}
	}
}
