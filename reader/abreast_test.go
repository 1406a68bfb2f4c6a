package reader_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/xray-tools/xray/reader"
)

// Threads advance together: none has an event before a time that was reached. Each yields the same
// events as in other orders.
func TestEachAbreast(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(3, 4))
	steps := map[string]func() int64{
		"equal":  func() int64 { return 0 },
		"back":   func() int64 { return r.Int64N(100) - 20 },
		"uneven": func() int64 { return r.Int64N(1 << r.IntN(20)) },
	}
	for name, step := range steps {
		for _, fdr := range []bool{false, true} {
			for _, threads := range []int{1, 3, 100} {
				text, _ := genTrace(r, fdr, threads, 9_000, step)
				tr := open(t, text)
				type time struct{ last, offset uint64 } // of a thread
				times := make(map[reader.Thread]time)
				reached, past, ended := uint64(0), 0, false
				var got []string
				err := tr.EachAbreast(func(b *reader.Block) error {
					b = unpacked(b)
					for i, e := range b.Events {
						got = append(got, line(b, i))
						at := times[b.Thread]
						if now := e.TSC + at.offset; now < at.last {
							at.offset += at.last - now
						}
						at.last = e.TSC + at.offset
						if times[b.Thread] = at; at.last < reached {
							past++
						}
					}
					return nil
				}, func(tsc uint64) {
					if tsc < reached || ended {
						past++
					}
					reached, ended = tsc, tsc == 1<<64-1
				})
				if err != nil {
					t.Fatal(err)
				}
				want := events(t, tr, reader.ThreadOrder)
				slices.Sort(want)
				slices.Sort(got)
				how := fmt.Sprintf("%s/fdr=%v/threads=%d", name, fdr, threads)
				if !slices.Equal(want, got) {
					t.Errorf("%s: got %d events, want %d", how, len(got), len(want))
				}
				if past > 0 || !ended {
					t.Errorf("%s: %d events and times came too late, the end was reached: %v", how, past, ended)
				}
			}
		}
	}
}

func TestEachAbreastEndsWithAnError(t *testing.T) {
	t.Parallel()
	text, _ := genTrace(rand.New(rand.NewPCG(1, 2)), true, 3, 5_000, func() int64 { return 1 })
	stop, blocks := errors.New("stop"), 0
	err := open(t, text).EachAbreast(func(*reader.Block) error { blocks++; return stop }, func(uint64) {})
	if err != stop || blocks != 1 {
		t.Errorf("got error %v after %d blocks", err, blocks)
	}
}
