package top

import (
	"context"
	"errors"
	"io"
	"testing"
	"time"

	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/recorder/live"
)

// machine is a process, its rings and the time. A tick is a nanosecond.
type machine struct {
	now       time.Duration
	cpu       float64 // CPUs that the process uses
	rate      float64 // records a second while it records
	recording bool
	read      time.Duration
	starts    int
	stops     int
	traces    [][2]uint64
	ring      float64 // records, 0 for no limit
	ended     bool
}

func (m *machine) Now() time.Time { return time.Unix(0, int64(m.now)) }

func (m *machine) Sleep(_ context.Context, d time.Duration) { m.now += max(0, d) }

func (m *machine) CPU() time.Duration { return time.Duration(float64(m.now) * m.cpu) }

func (m *machine) Start(context.Context) error {
	m.recording, m.read = true, m.now
	m.starts++
	return nil
}

func (m *machine) Stop(context.Context) error {
	m.recording = false
	m.stops++
	return nil
}

func (m *machine) Newest() uint64 { return uint64(m.now) }

func (m *machine) Read(context.Context, func(live.RootCall)) (live.State, error) {
	if m.ended {
		return live.State{}, errors.New("ended")
	}
	records := 0.0
	if m.recording {
		records = (m.now - m.read).Seconds() * m.rate
	}
	m.read = m.now
	s := live.State{Bytes: int64(records) * recordSize}
	if m.ring > 0 {
		s.Fill = min(1, records/m.ring)
	}
	return s, nil
}

func (m *machine) WriteTrace(w io.Writer, from, to uint64, _ func(*reader.Recording)) error {
	m.traces = append(m.traces, [2]uint64{from, to})
	_, err := io.WriteString(w, "trace")
	return err
}

func sample(t *testing.T, m *machine, budget float64, intervals int) (list []*interval) {
	t.Helper()
	s := newSampler(m, m, m, samplerOptions{Interval: time.Second, Budget: budget})
	for range intervals {
		i, err := s.Next(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		if string(i.Trace) != "trace" || i.From < i.Known || i.To <= i.From {
			t.Fatalf("%+v", i)
		}
		list = append(list, i)
	}
	if err := s.Close(context.Background()); err != nil || m.recording || m.starts != m.stops {
		t.Errorf("%d starts, %d stops; recording: %t, %v", m.starts, m.stops, m.recording, err)
	}
	return list
}

func observed(i *interval) time.Duration { return time.Duration(i.To - i.From) }

// A process that makes few calls is recorded all the time, without gaps, and patched once.
func TestCheap(t *testing.T) {
	m := &machine{cpu: 1, rate: 1e6} // 10 ms a second
	list := sample(t, m, 0.03, 4)
	for n, i := range list {
		if n > 0 && (i.From != list[n-1].To || i.Known != list[0].From) {
			t.Errorf("interval %d: from %d, known from %d; the one before ended at %d", n, i.From, i.Known, list[n-1].To)
		}
		if i.Part || observed(i) < 999*time.Millisecond || i.Cost < 0.009 || i.Cost > 0.011 {
			t.Errorf("interval %d: %s observed, part: %t, cost %g", n, observed(i), i.Part, i.Cost)
		}
	}
	if m.starts != 1 {
		t.Errorf("%d starts, want 1", m.starts)
	}
}

// A process that makes many calls is recorded for a part of each interval, at irregular times.
func TestBudget(t *testing.T) {
	m := &machine{cpu: 1, rate: 25e6} // 250 ms a second: 0.33 of the rest
	distances := make(map[time.Duration]bool)
	var before time.Time
	for n, i := range sample(t, m, 0.03, 10) {
		if !i.Part || observed(i) < 80*time.Millisecond || observed(i) > 110*time.Millisecond || i.Cost < 0.029 || i.Cost > 0.035 {
			t.Errorf("interval %d: %s observed, part: %t, cost %g", n, observed(i), i.Part, i.Cost)
		}
		if i.Slower < 0.3 || i.Slower > 0.36 {
			t.Errorf("interval %d: slower by %g, want 0.33", n, i.Slower)
		}
		distances[i.Began.Sub(before)] = true
		before = i.Began
	}
	if len(distances) < 8 || m.starts != 10 {
		t.Errorf("%d different distances, %d starts", len(distances), m.starts)
	}
}

// If recording costs nearly all CPU time, the estimates are lower bounds, and say so.
func TestExpensive(t *testing.T) {
	for _, c := range []struct {
		rate    float64
		slower  float64
		atLeast bool
	}{
		{78e6, 3.55, false}, // 780 ms of each second
		{82e6, 4, true},
		{200e6, 4, true}, // more than there is
	} {
		i := sample(t, &machine{cpu: 1, rate: c.rate}, 1, 1)[0]
		if i.AtLeast != c.atLeast || i.Slower < c.slower*0.99 || i.Slower > c.slower*1.01 {
			t.Errorf("%g records a second: slower by %g, at least: %t; want %g, %t", c.rate, i.Slower, i.AtLeast, c.slower, c.atLeast)
		}
	}
}

// A process that sleeps may be recorded although it takes no CPU time.
func TestIdle(t *testing.T) {
	for _, i := range sample(t, &machine{cpu: 1e-6, rate: 10_000}, 0.03, 3) {
		if i.Part {
			t.Errorf("%+v", i)
		}
	}
}

// Without a limit, memory is the limit. With one, the recording ends before the rings are full.
func TestMemory(t *testing.T) {
	i := sample(t, &machine{cpu: 1, rate: 100e6}, 1, 1)[0]
	if !i.Part || i.Records*recordSize < mostBytes || i.Records*recordSize > 2*mostBytes {
		t.Errorf("%d records, part: %t", i.Records, i.Part)
	}
	m := &machine{cpu: 100, rate: 100e6, ring: 60_000}
	if i := sample(t, m, 0.5, 1)[0]; !i.Part || i.Records > 100_000 {
		t.Errorf("%d records, part: %t", i.Records, i.Part)
	}
}

// A recording for another client is neither started nor stopped.
func TestOthers(t *testing.T) {
	m := &machine{cpu: 1, rate: 1e6, recording: true}
	s := newSampler(m, m, m, samplerOptions{Interval: time.Second, Budget: 0.0001, Others: true})
	for range 2 {
		if i, err := s.Next(context.Background()); err != nil || i.Part {
			t.Errorf("%+v, %v", i, err)
		}
	}
	if err := s.Close(context.Background()); err != nil || m.starts+m.stops > 0 {
		t.Errorf("%d starts, %d stops, %v", m.starts, m.stops, err)
	}
}

func TestEnd(t *testing.T) {
	m := &machine{cpu: 1, rate: 1}
	s := newSampler(m, m, m, samplerOptions{Interval: time.Second, Budget: 1})
	if _, err := s.Next(context.Background()); err != nil {
		t.Fatal(err)
	}
	m.ended = true
	if _, err := s.Next(context.Background()); err == nil {
		t.Error("no error from a process that has ended")
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := s.Next(ctx); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}
