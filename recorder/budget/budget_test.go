//go:build linux && amd64

package budget

import (
	"cmp"
	"context"
	"encoding/binary"
	"encoding/json"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/recorder/ring"
)

// simulated is a process whose functions are called at known rates, and the memory of its budget.
type simulated struct {
	rates     []float64  // calls per ns of its own CPU time
	behind    []float64  // fractions of calls
	made      []float64  // calls so far
	reading   []float64  // cost of reading the values of a recorded call, ns
	charged   []uint64   // the same of all recorded calls
	counted   [][]uint64 // by thread
	limits    []uint64
	sleds     []bool // entries are on
	uncounted []bool
	sampled   []uint32
	spent     uint32
	turn      int     // next thread
	own, cpu  float64 // CPU time excluding and including the cost of recording, ns
	counting  float64 // cost of counting a call, ns
	sampling  float64 // the same in samples
	random    *rand.Rand
	blinded   bool // it no longer notices switches
	idle      bool // it makes no calls in samples, and uses little CPU time
	lasted    func(id uint32, ticks uint64)
}

const (
	simulatedCall     = 50.0
	simulatedPatching = 100e3 // ns
)

func newSimulated(rates []float64) *simulated {
	n := len(rates)
	s := &simulated{rates: rates, counting: countingCost, sampling: sampleCounting, behind: make([]float64, n), made: make([]float64, n), reading: make([]float64, n), charged: make([]uint64, n), counted: [][]uint64{make([]uint64, n)}, limits: make([]uint64, n),
		sleds: make([]bool, n), uncounted: make([]bool, n), random: rand.New(rand.NewPCG(1, 2))}
	for id := range s.limits {
		s.limits[id], s.sleds[id] = ring.TrialCalls, true
	}
	return s
}

// newController returns a budget whose choices are the same in each run of the test.
func (s *simulated) newBudget(share float64) *Controller {
	b := newController(s, share)
	b.random = s.random.Float64
	return b
}

// run simulates the process for ns of CPU time.
func (s *simulated) run(ns float64) {
	const longest = 1e6
	for step := 0.0; ns > 0; ns -= step {
		step = min(ns, longest)
		cost := 0.0
		counted := s.counted[s.turn%len(s.counted)]
		s.turn++
		for id, rate := range s.rates {
			s.behind[id] += rate * step * (0.5 + s.random.Float64())
			n := math.Floor(s.behind[id])
			s.behind[id] -= n
			s.made[id] += n
			if !s.sleds[id] {
				continue
			}
			before := counted[id]
			counted[id] += uint64(n)
			recorded := min(counted[id], s.limits[id]) - min(before, s.limits[id])
			for range recorded {
				s.lasted(uint32(id), 100)
			}
			if s.limits[id] > 0 && counted[id] >= s.limits[id] && before < s.limits[id] {
				s.spent++
			}
			s.charged[id] += recorded * uint64(s.reading[id])
			cost += float64(recorded)*(simulatedCall+s.reading[id]) + (n-float64(recorded))*s.counting
		}
		s.own += step
		s.cpu += step + cost
	}
}

func (s *simulated) Do(_ context.Context, v any, command string) error {
	answer := v.(*reply)
	s.blinded = s.blinded || command == "budget offcpu=0"
	sample := strings.HasPrefix(command, "budget sample=")
	s.follow(sample)
	if sample {
		cpu := s.cpu
		s.counting = s.sampling
		length, _ := strconv.ParseFloat(strings.TrimPrefix(command, "budget sample="), 64)
		if s.idle {
			s.cpu, s.own = s.cpu+float64(leastSample)/10, s.own+float64(leastSample)/10 // without calls
		} else {
			s.run(length)
		}
		s.sampleEnds()
		s.counting = countingCost
		s.follow(false)
		answer.SampleCPUNS = uint64(s.cpu - cpu)
		answer.SampleTicks = answer.SampleCPUNS
	}
	s.cpu += simulatedPatching
	answer.PatchingNS = simulatedPatching
	return nil
}

func (s *simulated) follow(sampling bool) {
	for id := range s.sleds {
		s.sleds[id] = s.limits[id] > 0 || sampling && !s.uncounted[id]
	}
}

func (s *simulated) sampleEnds() {
	for _, id := range s.sampled {
		s.limits[id] = 0
	}
}

func (s *simulated) Close()                           {}
func (s *simulated) exhausted() uint32                { return s.spent }
func (s *simulated) decide()                          {}
func (s *simulated) limit(id uint32) uint64           { return s.limits[id] }
func (s *simulated) setLimit(id uint32, calls uint64) { s.limits[id] = calls }
func (s *simulated) setSampled(ids []uint32)          { s.sampled = ids }
func (s *simulated) processes() uint32                { return 1 }
func (s *simulated) inspect(*Controller)              {}
func (s *simulated) over() bool                       { return false }
func (s *simulated) setUncounted(first, bits uint32) {
	for i := range uint32(32) {
		if int(first+i) < len(s.uncounted) {
			s.uncounted[first+i] = bits>>i&1 != 0
		}
	}
}

func (s *simulated) find(b *Controller) {
	if len(b.processes) == 0 {
		p := &processState{clock: func() float64 { return s.cpu }, control: s}
		b.processes, b.estimates[0] = []*processState{p}, p
		b.call, b.tick = simulatedCall, 1
	}
}

func (s *simulated) threads(each func(slot, process uint32, words func(func(id, calls uint64)))) {
	for i, counted := range s.counted {
		each(uint32(i), 0, func(each func(id, calls uint64)) {
			for id, calls := range counted {
				if calls > 0 {
					each(uint64(id), calls)
				}
			}
		})
	}
}

func (s *simulated) charges(each func(id, ticks uint64)) {
	for id, ticks := range s.charged {
		if ticks > 0 {
			each(uint64(id), ticks)
		}
	}
}

// Reading values counts as cost: functions whose calls would fit without it are not recorded, others are, and
// samples record fewer calls of the former.
func TestBudgetOfValues(t *testing.T) {
	const functions, rate, share = 4, 1 / 40e3, 0.02
	s := newSimulated(slices.Repeat([]float64{rate}, functions))
	b := s.newBudget(share)
	recorded := make([]float64, functions)
	s.lasted = func(id uint32, ticks uint64) { recorded[id]++; b.lasted(id, ticks) }
	now := time.Now()
	for round := range 600 {
		if round == 5 { // as in a running process, which gets its values when it already records
			s.reading[0], s.reading[1] = 1600, 1600
		}
		s.run(float64(roundInterval))
		now = now.Add(roundInterval)
		b.round(t.Context(), now, true)
	}
	if cost := s.cpu/s.own - 1; cost > share {
		t.Errorf("the cost is %.1f%% of the CPU time", 100*cost)
	}
	for id, n := range recorded {
		if has := s.reading[id] > 0; has && n > 0.2*s.made[id] || !has && n < 0.8*s.made[id] || n == 0 {
			t.Errorf("%.0f of %.0f calls of function %d were recorded; reading its values takes %.0f ns", n, s.made[id], id, s.reading[id])
		}
		if got := b.readingCost(uint32(id)); math.Abs(got-s.reading[id]) > 1 {
			t.Errorf("reading the values of function %d takes %.0f ns, and is charged with %.0f", id, s.reading[id], got)
		}
	}
}

// The cost stays within the budget, and estimates of uncounted calls have no bias, whether samples count
// all functions or some at a time.
func TestBudgetOfKnownRates(t *testing.T) {
	for _, functions := range []int{5, 200} {
		rates := make([]float64, functions)
		for id := range rates {
			rates[id] = 0.2 / float64(functions) * (0.1 + float64(id%10)/5)
		}
		s := newSimulated(rates)
		b := s.newBudget(0.03)
		s.lasted = b.lasted
		now := time.Now()
		for range 600 {
			s.run(float64(roundInterval))
			now = now.Add(roundInterval)
			b.round(t.Context(), now, true)
		}
		p := b.processes[0]
		p.finish(s.cpu)
		if cost := s.cpu/s.own - 1; cost > 0.03 {
			t.Errorf("%d functions: the cost is %.1f%% of the CPU time", functions, 100*cost)
		}
		var missing, estimated float64
		for id := range rates {
			row, off, e := reader.BudgetFunction{Func: reader.FuncID(id)}, p.offTime(id), p.estimates[id]
			b.estimate(&row, e.samples, 0, off, e.seen)
			missing += s.made[id] - float64(s.counted[0][id])
			estimated += float64(row.Estimated)
			if b.functions[id].off && (off < 0.9*s.own || off > s.own) {
				t.Errorf("%d functions: %d was off for %.2f of %.2f s", functions, id, off/1e9, s.own/1e9)
			}
		}
		if q := estimated / missing; math.Abs(q-1) > 0.04 {
			t.Errorf("%d functions: %.0f calls are estimated, and %.0f were not counted", functions, estimated, missing)
		}
	}
}

// record records the process for some rounds with a budget of 3 %. After the first, counting a call takes
// cost ns. It returns the estimate for the first function, and how many of its calls were not counted.
func (s *simulated) record(t *testing.T, rounds int, cost float64) (row reader.BudgetFunction, missing float64) {
	b := s.newBudget(0.03)
	s.lasted = func(id uint32, ticks uint64) {}
	now := time.Now()
	for range rounds {
		s.run(float64(roundInterval))
		s.counting = cost
		now = now.Add(roundInterval)
		b.round(t.Context(), now, true)
	}
	p := b.processes[0]
	p.finish(s.cpu)
	e := p.estimates[0]
	b.estimate(&row, e.samples, 0, p.offTime(0), e.seen)
	return row, s.made[0] - float64(s.counted[0][0])
}

// The calls of a function that does little but call itself take less time than it takes to count them.
// Margins are meant to hold the true number in 95 of 100 recordings.
func TestBudgetOfHotFunction(t *testing.T) {
	const runs = 100
	for _, cost := range []float64{4.5, sampleCounting, 7.5} {
		outside := 0
		for seed := range uint64(runs) {
			s := newSimulated([]float64{0.43})
			s.random = rand.New(rand.NewPCG(1, seed))
			s.counting, s.sampling = 4, cost
			row, missing := s.record(t, 100, countingCost)
			if q := float64(row.Estimated) / missing; q < 0.4 || q > 2 {
				t.Errorf("counting takes %v ns, seed %d: %d ± %d calls are estimated, and %.0f were not counted", cost, seed, row.Estimated, row.Error, missing)
			}
			if math.Abs(float64(row.Estimated)-missing) > 1.96*float64(row.Error) {
				outside++
			}
		}
		if outside > runs/10 {
			t.Errorf("counting takes %v ns: %d of %d estimates are outside their margins", cost, outside, runs)
		}
	}
}

// In a few seconds, samples determine the estimate, although counting costs less than assumed while the
// function is on.
func TestBudgetOfShortRecording(t *testing.T) {
	const seeds, rounds, own, cost = 20, 20, 7.4, 2.8 // the latter of a call, ns
	missing, estimated := 0.0, 0.0
	for seed := range uint64(seeds) {
		s := newSimulated([]float64{1 / own})
		s.counting, s.sampling, s.random = cost, cost, rand.New(rand.NewPCG(seed, 2))
		row, uncounted := s.record(t, rounds, cost)
		missing += uncounted
		estimated += float64(row.Estimated)
	}
	if q := estimated / missing; q < 0.6 || q > 2.5 {
		t.Errorf("the estimates are %.2f times the calls that were not counted", q)
	}
}

// The margin of a function about which nothing is known includes every possible number of calls.
func TestBudgetOfUnknownRate(t *testing.T) {
	b := newController(nil, 0.03)
	b.functions = make([]functionState, 1)
	var row reader.BudgetFunction
	if b.estimate(&row, sampledRate{}, 0, 1e9, 0); row.Estimated != 0 || row.Error < 1e8 {
		t.Errorf("%d ± %d calls in a second", row.Estimated, row.Error)
	}
}

// One sample at a moment in which a busy function was not called says little. So the estimate is near the
// rate while the function was on. Many such samples say that it is no longer called.
func TestBudgetOfEmptySamples(t *testing.T) {
	const on, off, share = 1e7, 1e8, 0.02
	estimate := func(samples int) (row reader.BudgetFunction) {
		b := newController(nil, 0.03)
		b.functions = []functionState{{watched: on, made: share * on}}
		f := &b.functions[0]
		for range samples {
			f.samples.add(0, off/float64(samples))
			f.counted += 1e5
		}
		b.estimate(&row, sampledRate{ns: off}, 0, off, 0)
		return row
	}
	if row := estimate(1); row.Estimated < share*off/2 || row.Error < row.Estimated/2 {
		t.Errorf("after one short sample: %d ± %d calls", row.Estimated, row.Error)
	}
	if row := estimate(500); row.Estimated > share*off/20 || row.Error < row.Estimated/2 {
		t.Errorf("after 500 samples: %d ± %d calls", row.Estimated, row.Error)
	}
}

// Estimates have no bias if functions are called in phases, some of which cost more to sample at.
func TestBudgetOfPhases(t *testing.T) {
	const functions, phase, rounds = 100, 20, 6000
	s := newSimulated(make([]float64, functions))
	b := s.newBudget(0.03)
	s.lasted = b.lasted
	now := time.Now()
	for round := range rounds {
		for id := range s.rates {
			s.rates[id] = 1e-5
			if id%3 == round/phase%3 {
				s.rates[id] = 0.01 / functions * float64(1+9*(id%2)) * float64(1+id%3)
			}
		}
		s.run(float64(roundInterval))
		now = now.Add(roundInterval)
		b.round(t.Context(), now, true)
	}
	p := b.processes[0]
	p.finish(s.cpu)
	var missing, estimated float64
	for id := range s.rates {
		row, off, e := reader.BudgetFunction{Func: reader.FuncID(id)}, p.offTime(id), p.estimates[id]
		b.estimate(&row, e.samples, 0, off, e.seen)
		missing += s.made[id] - float64(s.counted[0][id])
		estimated += float64(row.Estimated)
	}
	if q := estimated / missing; math.Abs(q-1) > 0.05 {
		t.Errorf("%.0f calls are estimated, and %.0f were not counted", estimated, missing)
	}
}

// Samples at idle moments do not stand for the work between them.
func TestBudgetOfIdleSamples(t *testing.T) {
	s := newSimulated([]float64{0.002})
	b := s.newBudget(0.03)
	s.lasted = b.lasted
	now := time.Now()
	for round := range 2000 {
		s.run(float64(roundInterval))
		s.idle = round%4 > 0
		now = now.Add(roundInterval)
		b.round(t.Context(), now, true)
		s.idle = false
	}
	p := b.processes[0]
	p.finish(s.cpu)
	var row reader.BudgetFunction
	e := p.estimates[0]
	b.estimate(&row, e.samples, 0, p.offTime(0), e.seen)
	if q := float64(row.Estimated) / (s.made[0] - float64(s.counted[0][0])); math.Abs(q-1) > 0.2 {
		t.Errorf("the estimate is %.2f times the calls that were not counted", q)
	}
}

// The cost also stays within the budget if it takes several rounds to measure a rate, as on a busy
// machine. Until then, the limit also bounds a thread with far fewer calls than others.
func TestBudgetOfShortRounds(t *testing.T) {
	const round = leastMeasured / 4
	for _, threads := range []int{1, 2} {
		s := newSimulated([]float64{0.01, 0.02, 0.03})
		b := s.newBudget(0.03)
		recorded := 0
		s.lasted = func(id uint32, ticks uint64) { recorded++; b.lasted(id, ticks) }
		s.run(100e6) // before the first round
		for len(s.counted) < threads {
			s.counted = append(s.counted, make([]uint64, len(s.rates)))
		}
		s.find(b)
		b.processes[0].cpu = s.cpu
		now := time.Now()
		for range 2 + int(leastMeasured/round) { // the first round includes the calls before it
			s.run(round)
			now = now.Add(urgentRound)
			b.round(t.Context(), now, false)
		}
		if most := threads * len(s.rates) * ring.TrialCalls; recorded > most {
			t.Errorf("%d threads: %d calls were recorded, want at most %d", threads, recorded, most)
		}
		for id, f := range b.functions {
			if !f.off {
				t.Errorf("%d threads: function %d is on, with a rate of %.3f", threads, id, f.rate)
			}
		}
	}
}

// A function that is suddenly called often is not recorded often before its rate is known.
func TestBudgetLimitsGrow(t *testing.T) {
	s := newSimulated([]float64{0.05})
	b := s.newBudget(0.03)
	s.lasted = b.lasted
	s.counted[0][0], s.cpu = 500, 3e6
	b.round(t.Context(), time.Now(), false)
	if limit := s.limits[0]; limit <= 500 || limit > 500*(1+mostGrowth)+ring.TrialCalls {
		t.Errorf("after 500 calls, the limit is %d", limit)
	}
}

// If switching a process's sleds was not worth it, they are switched later, before counting calls takes
// much CPU time.
func TestBudgetOfIdleProcessIsNotWasted(t *testing.T) {
	s := newSimulated([]float64{0.01})
	b := s.newBudget(0.03)
	s.lasted = b.lasted
	now := time.Now()
	rounds, wasteful := 0, false
	for ; s.sleds[0] && rounds < 100; rounds++ {
		s.run(1e6)
		if wasteful = b.wasteful(); rounds == 0 || wasteful {
			now = now.Add(urgentRound)
			b.round(t.Context(), now, false)
		}
	}
	if s.sleds[0] || !wasteful || b.processes[0].wasted != 0 {
		t.Errorf("after %d ms of CPU time, sleds on: %v, wasteful: %v", rounds, s.sleds[0], wasteful)
	}
	if rounds > 10 {
		t.Errorf("the sleds were switched off after %d ms of CPU time", rounds)
	}
}

// Noticing switches ends once it has cost too much, and not while the budget has room for it.
func TestBudgetEndsNoticing(t *testing.T) {
	for _, c := range []struct {
		spent float64 // relative to the CPU time
		ends  bool
	}{{0.8 * 0.03 * noticingShare, false}, {0.05, true}} {
		s := newSimulated([]float64{0.01})
		b := s.newBudget(0.03)
		s.lasted = b.lasted
		now := time.Now()
		for range 100 {
			s.run(float64(roundInterval))
			s.cpu += c.spent * float64(roundInterval)
			b.spent = c.spent * float64(roundInterval)
			now = now.Add(roundInterval)
			b.round(t.Context(), now, true)
		}
		if s.blinded != c.ends || b.blind != c.ends {
			t.Errorf("with %.1f%% of the CPU time, noticing switches has ended: %v, want %v", 100*c.spent, s.blinded, c.ends)
		}
	}
}

// The cost of a switch event depends on how long the thread waited. Other records cost nothing here.
func TestSwitchCost(t *testing.T) {
	event := func(s reader.Switch) []byte {
		head := binary.LittleEndian.AppendUint64(nil, ring.RecordCustom<<1|1)
		return append(reader.AppendSwitch(append(head, make([]byte, 8)...), s), make([]byte, 8)...)
	}
	short, long := switchCost(event(reader.Switch{OffNS: 1000, Voluntary: 1})), switchCost(event(reader.Switch{OffNS: 1e9, Voluntary: 1}))
	preempted := switchCost(event(reader.Switch{OffNS: 1e9, Involuntary: 1}))
	if preempted <= 0 || short <= preempted || short > 1.1*preempted || long < 5*short {
		t.Errorf("a short wait costs %.0f ns, a long one %.0f ns, a preemption %.0f ns", short, long, preempted)
	}
	stamp := []byte{ring.RecordStamp<<1 | 1, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0}
	other := append(binary.LittleEndian.AppendUint64(nil, ring.RecordCustom<<1|1), make([]byte, 24)...)
	if a, b := switchCost(stamp), switchCost(other); a != 0 || b != 0 {
		t.Errorf("a stamp costs %.0f ns, another event %.0f ns", a, b)
	}
}

// Durations are read from chunks that are not yet full, and each is counted once.
func TestBudgetFollowsCurrentChunks(t *testing.T) {
	const id = 7
	b := newController(nil, 0.03)
	chunk := make([]byte, ring.ChunkHeader+64)
	put := func(at int, kind reader.Kind, tsc uint32) {
		binary.LittleEndian.PutUint64(chunk[at:], uint64(tsc)<<32|id<<4|uint64(kind)<<1)
	}
	expect := func(what string, calls, squares float64) {
		t.Helper()
		if f := &b.functions[id]; f.calls != calls || f.squares != squares {
			t.Errorf("%s: %v calls, sum of squares %v; expected %v and %v", what, f.calls, f.squares, calls, squares)
		}
	}
	put(ring.ChunkHeader, reader.Enter, 10)
	put(ring.ChunkHeader+8, reader.Exit, 15)
	put(ring.ChunkHeader+16, reader.Enter, 20)
	b.follow(1, 1, 1, chunk, true)
	expect("part of a chunk", 1, 25)
	b.follow(1, 1, 1, chunk, true)
	expect("the same part", 1, 25)
	put(ring.ChunkHeader+24, reader.Exit, 30)
	put(ring.ChunkHeader+32, reader.Enter, 40)
	b.follow(1, 1, 1, chunk[:ring.ChunkHeader+40], false)
	expect("the whole chunk", 2, 125)
	clear(chunk)
	put(ring.ChunkHeader, reader.Exit, 43)
	b.follow(1, 1, 2, chunk, true)
	expect("the next chunk", 3, 134)
	b.follow(1, 1, 1, chunk, false)
	b.follow(1, 2, 1, chunk, true)
	expect("an older chunk, and another thread", 3, 134)
}

// slowControl is a process that answers a command when it is told to.
type slowControl struct{ has, answers chan struct{} }

func (c *slowControl) Do(ctx context.Context, v any, _ string) error {
	close(c.has)
	<-c.answers
	return cmp.Or(ctx.Err(), json.Unmarshal([]byte(`{"cut": [7], "cut_tsc": 5}`), v))
}

func (*slowControl) Close() {}

// If a recording ends while a process switches functions off, the open calls that it cuts are known.
func TestStopAwaitsTheAnswer(t *testing.T) {
	t.Parallel()
	c := &slowControl{make(chan struct{}), make(chan struct{})}
	p := &processState{control: c}
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan *reply)
	go func() { done <- new(Controller).command(ctx, p, "budget", time.Now()) }()
	<-c.has
	stop()
	close(c.answers)
	if answer := <-done; answer == nil || len(p.cuts) != 1 || p.cuts[0].Func != 7 || p.cuts[0].TSC != 5 {
		t.Errorf("got the answer %+v and the cuts %v", answer, p.cuts)
	}
	if new(Controller).command(ctx, p, "budget", time.Now()) != nil {
		t.Error("a command was sent after the end")
	}
}
