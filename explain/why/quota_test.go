package why_test

import (
	"regexp"
	"strings"
	"testing"

	"github.com/xray-tools/xray/explain/why"
	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/report"
)

// A CPU quota is the reason for time in the run queue as far as it stopped the cgroup meanwhile. Then nothing is said
// about who ran instead.
func TestQuotaStops(t *testing.T) {
	for name, test := range map[string]struct {
		when, much uint64 // when the quota stopped the cgroup after each slow call began, and for how long in all
		stops      bool
	}{"then": {0, 90_000, true}, "at other times": {400_000, 90_000, false}, "too little": {0, 20_000, false}, "never": {0, 0, false}} {
		p := newProgram(1)
		q := reader.Quota{Group: "/web", QuotaNS: 50e6, PeriodNS: 100e6, Samples: []reader.QuotaSample{{TSC: 1}}}
		p.requests(6000, func(th *thread, i int) {
			th.call(work, 2000, func() {
				if i%150 == 60 {
					th.switched(0, 100_000)
					last := q.Samples[len(q.Samples)-1]
					before := last
					before.TSC = th.now + test.when - 100_000
					last.TSC, last.Throttled, last.ThrottledNS = th.now+test.when, last.Throttled+1, last.ThrottledNS+test.much
					q.Samples = append(q.Samples, before, last)
				}
			})
		})
		o := known()
		o.Quotas = func(int) []reader.Quota { return []reader.Quota{q} }
		r := explain(t, p, o)
		text := strings.Join(strings.Fields(written(r, names, why.View{}, report.Text)), " ")
		stopped := r.Preempted.Throttled
		if said := strings.Contains(text, "quota"); (stopped != nil) != test.stops || said != test.stops {
			t.Errorf("%s: got %+v, %q", name, stopped, text)
		}
		if test.stops && (stopped.Periods != 40 || stopped.NS != 40*90_000 || stopped.Share < 0.85 || stopped.Share > 0.91 ||
			!regexp.MustCompile(`it is preempted: the CPU quota of the cgroup /web stopped it \(40 periods, 3\.600ms\)`).MatchString(text)) {
			t.Errorf("%s: got %+v, %q", name, stopped, text)
		}
	}
}
