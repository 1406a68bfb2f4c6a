package why_test

import (
	"regexp"
	"strings"
	"testing"

	"github.com/xray-tools/xray/explain/why"
	"github.com/xray-tools/xray/internal/test/testnames"
	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/report"
)

// Calls that begin late because the event loop is busy with another callback are told, with and without records of the
// poll. A loop that waits for files first is none, nor one that nothing keeps busy, nor a thread that is preempted.
func TestLoops(t *testing.T) {
	const run, poll = flush, query // of the loop
	for name, test := range map[string]struct {
		polls, idle, preempted, unknown bool
		beside                          bool // other callbacks are preempted for long
		late                            bool
	}{
		"poll":      {polls: true, late: true},
		"no poll":   {late: true},
		"beside":    {polls: true, beside: true, late: true},
		"idle":      {polls: true, idle: true},
		"preempted": {polls: true, preempted: true},
		"no loop":   {unknown: true},
	} {
		p := newProgram(1)
		th := p.threads[0]
		wait := func() {
			if test.polls {
				th.call(poll, 300, func() { th.switched(20_000, 0) })
			} else {
				th.switched(20_000, 0)
			}
		}
		th.call(run, 1000, func() {
			for turn := range 1500 {
				wait()
				for i := range 4 {
					th.call(handle, 4000, func() {
						if test.beside && turn%10 == 7 && i == 0 {
							th.call(sort, 100_000, func() { th.switched(0, 9_000_000) })
						}
						if turn%50 != 20 || i > 0 {
							return
						}
						if test.preempted {
							th.switched(0, 900_000)
						} else {
							th.call(work, 900_000)
						}
					})
					if test.idle {
						wait()
					}
				}
			}
		})
		o := known()
		o.Root = func(fn reader.FuncID) bool { return fn == handle }
		o.Loop = func(fn reader.FuncID) why.LoopRole {
			switch {
			case test.unknown:
				return why.NoLoop
			case fn == poll:
				return why.Polls
			case fn == run && !test.polls:
				return why.Loops
			}
			return why.NoLoop
		}
		r := explain(t, p, o)
		if !test.late {
			if r.Loop != nil {
				t.Errorf("%s: got %+v", name, r.Loop)
			}
			continue
		}
		l := r.Loop
		if l == nil || l.Func != run || l.Callback != handle || l.Busy != work || !l.Requests || l.Calls != 90 || l.Turns != 30 ||
			l.Took < 900_000 || l.Mean < 900_000 || l.Longest > 1_300_000 || l.Share < 0.99 && !test.beside {
			t.Errorf("%s: got %+v", name, l)
			continue
		}
		text := strings.Join(strings.Fields(written(r, names, why.View{}, report.Text)), " ")
		if !regexp.MustCompile(`ALSO \(before the calls\): they wait for the event loop, which is busy in work\(\) for 1\.\d+ms, called for another call of handle\(int\)\. Up to 90 calls in 30 turns`).MatchString(text) {
			t.Errorf("%s: the report says %q", name, text)
		}
	}
}

// passes counts the passes over a trace.
type passes struct {
	*program
	n int
}

func (p *passes) Each(n int, fn func(int, *reader.Block) error) error {
	p.n++
	return p.program.Each(n, fn)
}

// Event loops take no pass of their own, and traces without them are not searched.
func TestLoopsTakeNoPass(t *testing.T) {
	for _, test := range []struct {
		name string
		role why.LoopRole // of query, inside and outside of the root
		fn   reader.FuncID
		root reader.FuncID
	}{{"no loop", why.NoLoop, query, handle}, {"inside", why.Polls, query, handle}, {"outside", why.Loops, handle, query}, {"root", why.Loops, handle, handle}} {
		p := &passes{program: newProgram(2)}
		p.requests(1000, func(t *thread, i int) {
			t.call(query, 300)
			if slowAt(i) {
				t.call(query, 90_000)
			}
		})
		o := known()
		o.Root = func(fn reader.FuncID) bool { return fn == test.root }
		explain(t, p, o)
		without := p.n
		asked := make(map[reader.FuncID]bool)
		o.Calls.Shards = 1
		o.Loop = func(fn reader.FuncID) why.LoopRole {
			asked[fn] = true
			if fn == test.fn {
				return test.role
			}
			return why.NoLoop
		}
		p.n = 0
		explain(t, p, o)
		if p.n != without || !asked[query] || !asked[handle] && test.role == why.NoLoop {
			t.Errorf("%s: got %d passes, want %d; asked for %v", test.name, p.n, without, asked)
		}
	}
}

func TestLoopsByName(t *testing.T) {
	for name, want := range map[string]why.LoopRole{
		"epoll_wait": why.Polls, "epoll_pwait2": why.Polls, "ppoll": why.Polls, "Log::poll()": why.NoLoop,
		"runLoop": why.Loops, "EventLoop::run()": why.Loops, "Loop::run()": why.Loops, "event_base_loop": why.Loops, "uv_run": why.Loops,
		"asio::io_context::run()": why.Loops, "loopback(int)": why.NoLoop, "Looper::draw()": why.NoLoop, "work(int)": why.NoLoop,
	} {
		if got := why.LoopsByName(testnames.Names{7: name})(7); got != want {
			t.Errorf("%s: got %v", name, got)
		}
	}
}
