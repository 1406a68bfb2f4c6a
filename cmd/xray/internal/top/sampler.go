// Package top records a running process for a part of each interval, so that recording stays within
// a budget of the process's CPU time.
package top

import (
	"bytes"
	"context"
	"io"
	"math/rand/v2"
	"time"

	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/recorder/live"
)

// source is the rings of a process. [live.Reader] implements it.
type source interface {
	Read(ctx context.Context, each func(live.RootCall)) (live.State, error)
	Newest() uint64
	WriteTrace(w io.Writer, from, to uint64, edit func(*reader.Recording)) error
}

// process is what a sampler does to a process.
type process interface {
	// Start makes the process record into its rings. Stop ends the recording.
	Start(context.Context) error
	Stop(context.Context) error
	// CPU returns the CPU time of the process.
	CPU() time.Duration
}

// clock tells the time. Tests replace it.
type clock interface {
	Now() time.Time
	Sleep(context.Context, time.Duration)
}

// samplerOptions are the options of a sampler.
type samplerOptions struct {
	Interval time.Duration
	// Budget is the part of the process's CPU time that recording may cost. 1 or more is no limit.
	Budget float64
	// Others is set if the process already records into its rings.
	Others bool
}

// interval is what was recorded in an interval.
type interval struct {
	Began time.Time
	// The trace has all calls that began at Known or later. Numbers are to cover the time from From
	// to To. All are TSCs.
	Known, From, To uint64
	// Part is set if the budget was spent, or the memory for records was full, before the interval
	// ended.
	Part bool
	// Records is the number of records. Lost is the number of records that were overwritten before
	// they were read. Both are estimated from the size.
	Records, Lost uint64
	// Cost estimates what recording cost in the interval, as a part of the process's CPU time.
	// Slower is the same for only the recorded time. If AtLeast is set, both are lower bounds.
	Cost, Slower float64
	AtLeast      bool
	Trace        []byte
}

// recordCost is the assumed cost of a record: half the cost of a recorded call.
const recordCost = 10 * time.Nanosecond

// historyBytes is the size of the records that the source should keep: those of an interval, and
// earlier ones, which tell which calls are open.
const historyBytes = 2 * mostBytes

const (
	recordSize = 8
	// mostBytes limits the records of an interval.
	mostBytes = 32 << 20
	chunkSize = 64 << 10
	// leastCPU is a part of a processor. If the process uses less, the budget is a share of this.
	leastCPU = 0.1
	// shortestPause and longestPause limit the time between two reads of the rings.
	shortestPause, longestPause = 500 * time.Microsecond, 50 * time.Millisecond
	// mostSlower is the largest estimate of Interval.Slower. Above it, nearly all CPU time is the cost, so
	// the estimate of the rest is worthless.
	mostSlower = 4
	// fullest is the share of a ring above which records could be overwritten before they are read.
	fullest = 0.75
	// jitter is the part of an interval by which the start of the next one varies at random if
	// interval.Part is set.
	jitter = 0.2
)

// sampler records a process. It is not safe for concurrent use.
type sampler struct {
	source    source
	process   process
	clock     clock
	options   samplerOptions
	recording bool
	known     uint64 // when the recording began
	last      uint64 // end of the previous interval
	due       time.Time
}

// newSampler returns a sampler of a process that does not record yet, unless samplerOptions.Others is set.
func newSampler(s source, p process, c clock, o samplerOptions) *sampler {
	return &sampler{source: s, process: p, clock: c, options: o}
}

// Close ends the recording.
func (s *sampler) Close(ctx context.Context) error {
	if !s.recording || s.options.Others {
		return nil
	}
	s.recording = false
	return s.process.Stop(ctx)
}

// Next waits until the next interval begins, and records in it. An error means that the process has
// ended or cannot be read.
func (s *sampler) Next(ctx context.Context) (*interval, error) {
	s.clock.Sleep(ctx, s.due.Sub(s.clock.Now()))
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	i := &interval{Began: s.clock.Now()}
	s.due = i.Began.Add(s.options.Interval)
	defer func() {
		if i.Part {
			// Recording at regular times could always hit the same phase of the process's work.
			s.due = s.due.Add(time.Duration((rand.Float64() - 0.5) * jitter * float64(s.options.Interval)))
		}
	}()
	if err := s.begin(ctx); err != nil {
		return nil, err
	}
	i.Known, i.From = s.known, s.last
	if err := s.observe(ctx, i); err != nil {
		return nil, err
	}
	i.To = s.source.Newest()
	s.last = i.To
	if i.Part {
		if err := s.Close(ctx); err != nil {
			return nil, err
		}
	}
	var trace bytes.Buffer
	if err := s.source.WriteTrace(&trace, i.Known, i.To, func(*reader.Recording) {}); err != nil {
		return nil, err
	}
	i.Trace = trace.Bytes()
	return i, nil
}

// begin makes the process record, unless it already does.
func (s *sampler) begin(ctx context.Context) error {
	if s.recording {
		return nil
	}
	if !s.options.Others {
		if err := s.process.Start(ctx); err != nil {
			return err
		}
	}
	s.recording = true
	// Earlier records belong to no interval.
	if _, err := s.source.Read(ctx, ignore); err != nil {
		return err
	}
	s.known, s.last = s.source.Newest(), s.source.Newest()
	return nil
}

func ignore(live.RootCall) {}

// observe reads the rings until the interval ends, or until the budget for it is spent.
func (s *sampler) observe(ctx context.Context, i *interval) error {
	pause, cpu := shortestPause, s.process.CPU()
	bytes := int64(0)
	for {
		s.clock.Sleep(ctx, min(pause, s.due.Sub(s.clock.Now())))
		state, err := s.source.Read(ctx, ignore)
		if err != nil {
			return err
		}
		bytes += state.Bytes
		i.Lost += state.Lost * chunkSize / recordSize
		i.Records = uint64(bytes) / recordSize
		now := s.clock.Now()
		cost := time.Duration(i.Records) * recordCost
		i.Part = s.spent(i, cost, s.process.CPU()-cpu, now.Sub(i.Began)) || bytes >= mostBytes || s.limited() && state.Fill > fullest
		if i.Part || !now.Before(s.due) || ctx.Err() != nil {
			return nil
		}
		if state.Fill > fullest/5 {
			pause = shortestPause
		} else {
			// Pauses grow with the time that has passed, so the budget is exceeded by little.
			pause = max(shortestPause, min(now.Sub(i.Began)/8, longestPause))
		}
	}
}

func (s *sampler) limited() bool { return s.options.Budget < 1 && !s.options.Others }

// spent reports whether the budget of an interval is spent. In the time that has passed, recording has
// cost this much and the process has used this much CPU time. spent sets i.Cost, i.Slower and i.AtLeast.
func (s *sampler) spent(i *interval, cost, used, passed time.Duration) bool {
	// The CPU time without recording. The estimates of both may be far off.
	own := max(used-cost, cost/mostSlower, 1)
	i.AtLeast = used-cost < cost/mostSlower
	i.Slower = float64(cost) / float64(own)
	// Assume that the process continues at this rate.
	whole := float64(own) / float64(max(passed, 1)) * float64(max(passed, s.options.Interval))
	i.Cost = float64(cost) / max(whole, 1)
	return s.limited() && float64(cost) >= s.options.Budget*max(whole, leastCPU*float64(s.options.Interval))
}
