// Package top records a running process for a part of each interval, so that this costs no more of
// the process's CPU time than it may.
package top

import (
	"bytes"
	"context"
	"io"
	"math/rand/v2"
	"time"

	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/recorder"
)

// Source is the rings of a process. [recorder.Live] is one.
type Source interface {
	Read(ctx context.Context, each func(recorder.RootCall)) (recorder.LiveState, error)
	Newest() uint64
	WriteTrace(w io.Writer, from, to uint64, edit func(*reader.Recording)) error
}

// Process is what a sampler does to a process.
type Process interface {
	// Start has it record into its rings, and Stop ends that.
	Start(context.Context) error
	Stop(context.Context) error
	// CPU returns the time that it has spent on processors.
	CPU() time.Duration
}

// Clock is the time. Tests have another one.
type Clock interface {
	Now() time.Time
	Sleep(context.Context, time.Duration)
}

// Options of a sampler.
type Options struct {
	Interval time.Duration
	// Budget is the part of the process's CPU time that recording may cost. 1 and more is no limit.
	Budget float64
	// Others is set if the process records into its rings anyway.
	Others bool
}

// Interval is what was recorded in an interval.
type Interval struct {
	Began time.Time
	// Calls that began at Known or later are in the trace. Numbers are to be of the time from From to
	// To. All are TSCs.
	Known, From, To uint64
	// Part says that the budget was spent before the end of the interval, or the memory for records
	// full.
	Part bool
	// Records is the number of records, and Lost that of records that were overwritten before they
	// were read, estimated from their size.
	Records, Lost uint64
	// Cost is the part of the process's CPU time that recording cost in the interval, and Slower
	// while it was recorded, as estimated.
	Cost, Slower float64
	Trace        []byte
}

// RecordCost is the time that a record is taken to cost: half of what a recorded call costs.
const RecordCost = 10 * time.Nanosecond

// HistoryBytes are to be kept of what was recorded: an interval, and what came before it, to know the
// calls that are open.
const HistoryBytes = 2 * mostBytes

const (
	recordSize = 8
	// mostBytes is what is recorded in an interval at most. The source keeps [HistoryBytes].
	mostBytes = 32 << 20
	chunkSize = 64 << 10
	// leastCPU is the part of a processor that the budget is of if the process takes less.
	leastCPU = 0.1
	// shortestPause and longestPause are between two looks at the rings.
	shortestPause, longestPause = 500 * time.Microsecond, 50 * time.Millisecond
	// fullest is the share of a ring above which records could be overwritten before they are read.
	fullest = 0.75
	// jitter is the part of an interval by which the next one is moved at random after a part.
	jitter = 0.2
)

// Sampler records a process. It is not safe for concurrent use.
type Sampler struct {
	source    Source
	process   Process
	clock     Clock
	options   Options
	recording bool
	known     uint64 // since when it records
	last      uint64 // end of the previous interval
	due       time.Time
}

// NewSampler returns a sampler of a process that does not record yet, unless Options.Others is set.
func NewSampler(s Source, p Process, c Clock, o Options) *Sampler {
	return &Sampler{source: s, process: p, clock: c, options: o}
}

// Close ends the recording.
func (s *Sampler) Close(ctx context.Context) error {
	if !s.recording || s.options.Others {
		return nil
	}
	s.recording = false
	return s.process.Stop(ctx)
}

// Next waits until the next interval begins, and records in it. An error means that the process has
// ended or cannot be read any more.
func (s *Sampler) Next(ctx context.Context) (*Interval, error) {
	s.clock.Sleep(ctx, s.due.Sub(s.clock.Now()))
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	i := &Interval{Began: s.clock.Now()}
	s.due = i.Began.Add(s.options.Interval)
	defer func() {
		if i.Part {
			// Parts at regular times could always meet the same moment of what the process does.
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

// begin has the process record, unless it does.
func (s *Sampler) begin(ctx context.Context) error {
	if s.recording {
		return nil
	}
	if !s.options.Others {
		if err := s.process.Start(ctx); err != nil {
			return err
		}
	}
	s.recording = true
	// What was recorded before belongs to no interval.
	if _, err := s.source.Read(ctx, ignore); err != nil {
		return err
	}
	s.known, s.last = s.source.Newest(), s.source.Newest()
	return nil
}

func ignore(recorder.RootCall) {}

// observe reads the rings until the interval ends, or until the budget for it is spent.
func (s *Sampler) observe(ctx context.Context, i *Interval) error {
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
		cost := time.Duration(i.Records) * RecordCost
		i.Part = s.spent(i, cost, s.process.CPU()-cpu, now.Sub(i.Began)) || bytes >= mostBytes || s.limited() && state.Fill > fullest
		if i.Part || !now.Before(s.due) || ctx.Err() != nil {
			return nil
		}
		if state.Fill > fullest/5 {
			pause = shortestPause
		} else {
			// The end of the budget is not missed by much.
			pause = max(shortestPause, min(now.Sub(i.Began)/8, longestPause))
		}
	}
}

func (s *Sampler) limited() bool { return s.options.Budget < 1 && !s.options.Others }

// spent reports whether the budget of an interval is spent, when recording has cost some time and the
// process has used some in a part of the interval.
func (s *Sampler) spent(i *Interval, cost, used, passed time.Duration) bool {
	// What the process used without recording. The estimates of both may be far off.
	own := max(used-cost, cost/4, 1)
	i.Slower = float64(cost) / float64(own)
	// The process will go on like that.
	whole := float64(own) / float64(max(passed, 1)) * float64(max(passed, s.options.Interval))
	i.Cost = float64(cost) / max(whole, 1)
	return s.limited() && float64(cost) >= s.options.Budget*max(whole, leastCPU*float64(s.options.Interval))
}
