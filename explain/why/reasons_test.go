package why_test

import (
	"cmp"
	"encoding/binary"
	"encoding/json"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/xray-tools/xray/explain/why"
	"github.com/xray-tools/xray/internal/tracewrite"
	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/reader/calls"
	"github.com/xray-tools/xray/recorder/args/value"
	"github.com/xray-tools/xray/report"
)

// asked has the expressions of the programs below: n and op of handle, and key and m of work.
func asked() *calls.Expressions {
	list := func(texts ...string) (list []value.Description) {
		for _, t := range texts {
			var d value.Description
			if err := json.Unmarshal([]byte(t), &d); err != nil {
				panic(err)
			}
			list = append(list, d)
		}
		return list
	}
	return calls.ExpressionsOf(&reader.Recording{Values: []reader.RecordedValues{
		{ID: handle, Entry: list(
			`{"expression":"req->n","type":"int","kind":"scalar","format":"int","size":4}`,
			`{"expression":"req->op","type":"Op","kind":"scalar","format":"enum","size":4,"enumerators":{"0":"GET","1":"PUT","2":"COMPRESS"}}`)},
		{ID: work, Entry: list(
			`{"expression":"m","type":"int","kind":"scalar","format":"int","size":4}`,
			`{"expression":"key","type":"std::string","kind":"bytes","format":"string"}`)},
	}})
}

// valuedRequest is what a request is called with, and how long it works.
type valuedRequest struct {
	n, op, m uint64
	key      string
	takes    uint64 // ticks of work itself
	parse    uint64 // ticks of parse; 0 for 500
	own      uint64 // ticks of handle in addition
	wait     uint64 // ticks in lock
	queued   uint64 // ticks in the run queue
}

// valuedProgram is a program whose requests have values.
func valuedProgram(threads, n int, draw func(t *thread, i int) valuedRequest) *program {
	p := newProgram(threads)
	for _, t := range p.threads {
		t.rng = rand.New(rand.NewPCG(7, t.rng.Uint64()))
		for i := range n {
			r := draw(t, i)
			t.values(handle, r.n, r.op)
			t.self(500)
			if r.queued > 0 {
				t.switched(0, r.queued)
			}
			t.call(parse, cmp.Or(r.parse, 500))
			if r.wait > 0 {
				t.call(lock, r.wait)
			}
			t.values(work, r.m)
			t.text(1, r.key)
			t.finish(work, r.takes, nil)
			t.self(500 + r.own)
			t.event(reader.Exit, handle)
			t.self(3000)
		}
	}
	return p
}

// values enters a function with scalars.
func (t *thread) values(fn reader.FuncID, scalars ...uint64) {
	t.event(reader.EnterArg, fn)
	t.events[len(t.events)-1].Side = true
	for _, v := range scalars {
		t.args = append(t.args, reader.Arg{Event: len(t.events) - 1, Value: v})
	}
}

// text adds a string as a value of the function that was entered last.
func (t *thread) text(index uint16, s string) {
	t.event(reader.Custom, 0)
	t.events[len(t.events)-1].Side = true
	body := binary.LittleEndian.AppendUint16(nil, index)
	body = binary.LittleEndian.AppendUint16(body, 0)
	body = binary.LittleEndian.AppendUint32(body, uint32(len(s)))
	t.payloads = append(t.payloads, reader.Payload{Event: len(t.events) - 1, Data: tracewrite.AppendMetadata(nil, reader.MetadataValue, append(body, s...))})
}

func reasonOf(t *testing.T, p *program) (why.Cause, string) {
	t.Helper()
	o := options()
	o.Values = asked()
	r := explain(t, p, o)
	text := written(r, names, why.View{}, report.Text)
	return only(t, r), text
}

func TestReasons(t *testing.T) {
	keys := []string{"a", "bb", "user:17", "session"}
	usual := func(t *thread) valuedRequest {
		return valuedRequest{n: t.rng.Uint64N(1000), op: t.rng.Uint64N(2), m: t.rng.Uint64N(100), key: keys[t.rng.IntN(len(keys))], takes: 2000}
	}
	for name, test := range map[string]struct {
		draw func(t *thread, i int) valuedRequest
		want []string // in the text; none means no reason
	}{
		"category": {func(t *thread, i int) valuedRequest {
			r := usual(t)
			if t.rng.IntN(60) == 0 {
				if r.op = 2; t.rng.IntN(10) > 0 {
					r.takes = 90_000
				}
			}
			return r
		}, []string{"work() itself is slower when req->op = COMPRESS in handle(int)"}},
		"text": {func(t *thread, i int) valuedRequest {
			r := usual(t)
			if t.rng.IntN(60) == 0 {
				r.key, r.takes = "user:4711", 90_000
			}
			return r
		}, []string{`work() itself is slower when key = "user:4711"`, "It goes along with: the length of key > 8"}},
		"threshold": {func(t *thread, i int) valuedRequest {
			r := usual(t)
			if r.n = t.rng.Uint64N(4000); t.rng.IntN(60) == 0 {
				r.n, r.takes = 4097+t.rng.Uint64N(100_000), 90_000
			}
			return r
		}, []string{"work() itself is slower when req->n > 4,096 in handle(int)"}},
		"linear": {func(t *thread, i int) valuedRequest {
			r := usual(t)
			r.m = t.rng.Uint64N(100)
			if t.rng.IntN(60) == 0 {
				r.m = 1000 + t.rng.Uint64N(9000)
			}
			r.takes = 2000 + 9*r.m
			return r
		}, []string{"when m > ", "work() takes 10ns per unit of m"}},
		"quadratic": {func(t *thread, i int) valuedRequest {
			r := usual(t)
			r.m = t.rng.Uint64N(100)
			if t.rng.IntN(60) == 0 {
				r.m = 100 + t.rng.Uint64N(300)
			}
			r.takes = 2000 + r.m*r.m
			return r
		}, []string{"when m > ", "the time of work() grows with the square of m"}},
		"length": {func(t *thread, i int) valuedRequest {
			r := usual(t)
			size := t.rng.IntN(32)
			if t.rng.IntN(60) == 0 {
				size = 500 + t.rng.IntN(5000)
			}
			r.key = strings.Repeat("x", size)
			r.takes = 2000 + 9*uint64(size)
			return r
		}, []string{"when the length of key > ", "work() takes 10ns per byte of key"}},
		"interaction": {func(t *thread, i int) valuedRequest {
			r := usual(t)
			r.op = t.rng.Uint64N(9) / 3
			if r.n = t.rng.Uint64N(1000); t.rng.IntN(25) == 0 {
				r.n = 5000 + t.rng.Uint64N(1000)
			}
			if r.op == 2 && r.n > 4096 {
				r.takes = 90_000
			}
			return r
		}, []string{"when req->n > ", " and req->op = COMPRESS in handle(int)"}},
		"none": {func(t *thread, i int) valuedRequest {
			r := usual(t)
			if t.rng.IntN(60) == 0 {
				r.takes = 90_000
			}
			return r
		}, nil},
		// In bursts n is large, and nearly all is slow. The few fast requests of a burst have the same n.
		"load": {func(t *thread, i int) valuedRequest {
			r := usual(t)
			if t.now%12_000_000 > 11_000_000 {
				if r.n = 5000 + t.rng.Uint64N(1000); t.rng.IntN(3) > 0 {
					r.takes = 90_000
				}
			}
			return r
		}, nil},
		// In bursts n is large, and all is slow.
		"bursts": {func(t *thread, i int) valuedRequest {
			r := usual(t)
			if t.now%12_000_000 > 11_000_000 {
				r.n, r.takes = 5000+t.rng.Uint64N(1000), 90_000
			}
			return r
		}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, text := reasonOf(t, valuedProgram(3, 6000, test.draw))
			if c.Func != work || c.Kind != why.Slower {
				t.Errorf("got cause %+v", c)
			}
			if test.want == nil && c.Reason != nil {
				t.Errorf("got reason %+v\n%s", c.Reason, text)
			}
			for _, want := range test.want {
				if !strings.Contains(strings.Join(strings.Fields(text), " "), want) {
					t.Errorf("want %q in\n%s\n%+v", want, text, c.Reason)
				}
			}
		})
	}
}

// Few calls lose far more to something else. So chance could be the reason of what the others lose, unless they have
// an argument in common.
func TestReasonProves(t *testing.T) {
	t.Parallel()
	for _, planted := range []bool{true, false} {
		p := valuedProgram(4, 3000, func(t *thread, i int) valuedRequest {
			r := valuedRequest{n: t.rng.Uint64N(1000), op: t.rng.Uint64N(2), key: "a", takes: 2000}
			if t.rng.IntN(60) == 0 {
				if r.takes = 4000; planted {
					r.op = 2
				}
			}
			if t.rng.IntN(1500) == 0 {
				r.queued = 8_000_000
			}
			return r
		})
		o := known()
		o.Values = asked()
		r := explain(t, p, o)
		text := strings.Join(strings.Fields(written(r, names, why.View{}, report.Text)), " ")
		if !planted {
			if len(r.Causes) != 0 || len(r.Suspects) != 1 || r.Suspects[0].Func != work || r.Suspects[0].Reason != nil {
				t.Errorf("got %+v, %+v:\n%s", r.Causes, r.Suspects, text)
			}
			continue
		}
		if len(r.Causes) != 1 || r.Causes[0].Func != work || r.Causes[0].Reason == nil || len(r.Suspects) != 0 {
			t.Errorf("got %+v, %+v:\n%s", r.Causes, r.Suspects, text)
			continue
		}
		for _, want := range []string{
			"lost time): work() itself is slower when req->op = COMPRESS in handle(int)",
			"sure yes: disturbances do not depend on arguments, and ",
		} {
			if !strings.Contains(text, want) {
				t.Errorf("want %q in:\n%s", want, text)
			}
		}
	}
}

// An argument proves a cause only if it explains three quarters of the loss by itself: calls with it that are drawn from
// all calls lose as much.
func TestReasonProvesAlone(t *testing.T) {
	t.Parallel()
	for more, proven := range map[uint64]bool{1300: false, 1700: true} {
		p := valuedProgram(4, 3000, func(t *thread, i int) valuedRequest {
			r := valuedRequest{n: t.rng.Uint64N(1000), op: t.rng.Uint64N(2), key: "a", takes: 2000}
			if t.rng.IntN(20) == 0 {
				if r.op, r.takes = 2, 2000+more; t.rng.IntN(10) < 3 {
					r.takes = 4000
				}
			}
			if t.rng.IntN(1500) == 0 {
				r.queued = 8_000_000
			}
			return r
		})
		o := known()
		o.Values = asked()
		r := explain(t, p, o)
		if (len(r.Causes) == 1) != proven || (len(r.Suspects) == 1) == proven {
			t.Errorf("%d of 2000: got %+v, %+v:\n%s", more, r.Causes, r.Suspects, written(r, names, why.View{}, report.Text))
		}
	}
}

// Disturbances in requests with random arguments have no cause.
func TestDisturbancesHaveNoArgument(t *testing.T) {
	t.Parallel()
	for seed := range uint64(200) {
		p := valuedProgram(2, 1500, func(t *thread, i int) valuedRequest {
			if i == 0 {
				t.rng = rand.New(rand.NewPCG(seed, t.rng.Uint64()))
			}
			r := valuedRequest{n: t.rng.Uint64N(1000), op: t.rng.Uint64N(3), m: t.rng.Uint64N(100), key: "a", parse: 500, takes: 2000 + t.rng.Uint64N(200)}
			if t.rng.IntN(50) == 0 {
				more := uint64(2000 * t.rng.ExpFloat64())
				switch at := t.rng.Uint64N(1000 + r.parse + r.takes); {
				case at < 1000:
					r.own += more
				case at < 1000+r.parse:
					r.parse += more
				default:
					r.takes += more
				}
			}
			return r
		})
		o := known()
		o.Values = asked()
		r := explain(t, p, o)
		for _, c := range r.Causes {
			t.Errorf("seed %d: got %+v, %+v", seed, c, c.Reason)
		}
	}
}
