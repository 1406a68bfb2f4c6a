package locks_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/xray-tools/xray/explain/locks"
	"github.com/xray-tools/xray/internal/test/schedtrace"
	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/sched"
)

// blames returns text that the tests below compare.
func blames(r *locks.Report) string {
	var b strings.Builder
	for _, l := range r.Locks {
		for _, x := range l.Blame {
			fmt.Fprintf(&b, "%v waited %d for %v, %d by waker\n", x.Waiter, x.Ticks, x.Holder, x.ByWaker)
		}
		for _, c := range l.Convoys {
			fmt.Fprintf(&b, "convoy held by %d %v\n", c.Holder.Thread, c.Path)
		}
		fmt.Fprintf(&b, "queued %d, free %d, contended %d\n", l.Queuing.Lo, l.Free().Lo, l.Contended)
	}
	fmt.Fprintf(&b, "%d waits, %d\n", r.Woken.Count, r.Woken.Ticks)
	return b.String()
}

func TestWakers(t *testing.T) {
	for _, c := range []struct {
		name    string
		threads []string
		sleeps  []schedtrace.Sleep
		want    string
	}{
		{
			"no hold is recorded", []string{
				"500 +2 1000 +10(16) 9000 -10 9100 +11(16) 9110 -11 9200 -2",
				"600 +1 700 +4 8800 -4 9500 -1",
			},
			[]schedtrace.Sleep{{Thread: 1, Out: 1100, Woken: 8600, In: 8900, By: 2}},
			"[2] waited 7500 for [1 4], 7500 by waker\nqueued 300, free 500, contended 1\n1 waits, 7500\n",
		},
		{
			"the waker's hold is recorded", []string{
				"500 +2 1000 +10(16) 9000 -10 9100 +11(16) 9110 -11 9200 -2",
				"600 +1 700 +10(16) 710 -10 8500 +11(16) 8800 -11 9500 -1",
			},
			[]schedtrace.Sleep{{Thread: 1, Out: 1100, Woken: 8600, In: 8900, By: 2}},
			"[2] waited 7800 for [1], 0 by waker\nqueued 300, free 210, contended 1\n0 waits, 0\n",
		},
		{
			"two holders: the first is recorded", []string{
				"500 +2 1000 +10(16) 9000 -10 9100 +11(16) 9110 -11 9200 -2",
				"600 +1 700 +10(16) 710 -10 3000 +11(16) 3100 -11 9500 -1",
				"610 +3 8700 -3",
			},
			[]schedtrace.Sleep{{Thread: 1, Out: 1100, Woken: 8600, In: 8900, By: 3}},
			"[2] waited 5500 for [3], 5500 by waker\n[2] waited 2100 for [1], 0 by waker\nqueued 300, free 410, contended 1\n1 waits, 5500\n",
		},
		{
			"the lock is taken by a third before the wake-up", []string{
				"500 +2 1000 +10(16) 9000 -10 9100 +11(16) 9110 -11 9200 -2",
				"600 +1 700 +10(16) 710 -10 2900 +11(16) 3100 -11 9500 -1",
				"610 +3 2910 +10(16) 2920 -10 8000 +11(16) 8100 -11 8700 -3",
			},
			[]schedtrace.Sleep{{Thread: 1, Out: 1100, Woken: 3050, In: 3060, By: 2}, {Thread: 1, Out: 3070, Woken: 8050, In: 8900, By: 3}},
			"[2] waited 5180 for [3], 0 by waker\n[2] waited 1920 for [1], 0 by waker\n[3] waited 10 for [1], 0 by waker\nqueued 860, free 910, contended 1\n0 waits, 0\n",
		},
		{
			"a release is not recorded", []string{
				"500 +2 1000 +10(16) 9000 -10 9100 +11(16) 9110 -11 9200 -2",
				"600 +1 700 +10(16) 710 -10 9500 -1",
				"610 +3 8700 -3",
			},
			[]schedtrace.Sleep{{Thread: 1, Out: 1100, Woken: 8600, In: 8900, By: 3}},
			"[2] waited 7500 for [3], 7500 by waker\n[2] waited 500 for [1], 0 by waker\nqueued 300, free 10, contended 1\n1 waits, 7500\n",
		},
		{
			"a release is recorded late", []string{
				"500 +2 1000 +10(16) 9000 -10 9100 +11(16) 9110 -11 9200 -2",
				"600 +1 700 +10(16) 710 -10 8650 +11(16) 8700 -11 9500 -1",
				"610 +3 8700 -3",
			},
			[]schedtrace.Sleep{{Thread: 1, Out: 1100, Woken: 8600, In: 8900, By: 3}},
			"[2] waited 7700 for [1], 0 by waker\nqueued 300, free 310, contended 1\n0 waits, 0\n",
		},
		{
			"no addresses", []string{
				"500 +2 1000 +10 9000 -10 9100 +11 9110 -11 9200 -2",
				"600 +1 700 +10 710 -10 8650 +11 8700 -11 9500 -1",
				"610 +3 8000 +11 8700 -11 8900 -3",
			},
			[]schedtrace.Sleep{{Thread: 1, Out: 1100, Woken: 8600, In: 8900, By: 3}},
			"[2] waited 7500 for [3], 7500 by waker\n[2] waited 200 for [1], 0 by waker\nqueued 300, free 310, contended 1\n1 waits, 7500\n",
		},
		{
			"interrupts, other processes and the thread itself are no holders", []string{
				"500 +2 1000 +10(16) 9000 -10 9100 +11(16) 9110 -11 9200 -2",
				"600 +1 9500 -1",
			},
			[]schedtrace.Sleep{
				{Thread: 1, Out: 1100, Woken: 1600, In: 1900, By: 2, Flags: reader.WokenByInterrupt}, {Thread: 1, Out: 2100, Woken: 2600, In: 2900},
				{Thread: 1, Out: 3100, Woken: 3600, In: 3900, By: 1},
			},
			"queued 900, free 8000, contended 0\n0 waits, 0\n",
		},
		{
			"a convoy", []string{
				"500 +2 1000 +10(16) 9000 -10 9100 +11(16) 9110 -11 9200 -2",
				"600 +1 9500 -1",
				"550 +4 1500 +10(16) 9300 -10 9310 +11(16) 9320 -11 9330 -4",
			},
			[]schedtrace.Sleep{{Thread: 1, Out: 1100, Woken: 8600, In: 8900, By: 2}},
			"[2] waited 7500 for [1], 7500 by waker\n[4] waited 110 for [2], 0 by waker\nconvoy held by 2 [1]\nqueued 300, free 8190, contended 2\n1 waits, 7500\n",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			trace := schedtrace.Open(t, c.threads, c.sleeps)
			for _, shards := range []int{1, 3} {
				got := blames(analyze(t, trace, locks.Options{Wakers: sched.NewLogs(trace), Shards: shards}))
				if diff := cmp.Diff(c.want, got); diff != "" {
					t.Errorf("(-want +got):\n%s", diff)
				}
			}
		})
	}
}
