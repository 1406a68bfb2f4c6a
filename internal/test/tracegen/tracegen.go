// Package tracegen makes XRay traces of any length that resemble those of a multi-threaded
// server. The same options always make the same bytes. The package imports nothing from this
// module, so that it can test and measure all of it.
//
// The model, in the order in which it is drawn from the seed:
//
//   - A program. Functions are in layers. Each has up to six call sites, whose callees are one
//     to three layers further down. A few popular callees are preferred. Most sites always call,
//     some nearly always, some rarely, and a few are loops: like real code, the program mostly
//     repeats itself. A few functions may call themselves, and a few leave through a tail call.
//     See program.go.
//   - Threads, which start together and serve requests. Each request is a call tree under one of
//     the roots, followed by a wait for the next. Trees are 5 to 20 deep and most calls are
//     leaves.
//   - Time. The ticks between two records are log-normally distributed, scaled by how slow the
//     function is. They come in steps of 26 ticks, as common hardware counts at 2.6 GHz, so that
//     durations repeat as they do in reality. Rarely a thread is preempted, or moves to another
//     CPU. See thread.go. With Options.Spread, the gaps of each function spread over six
//     decades, from 4 ns to 4 ms for the median function.
//   - The log: FDR version 5 as 16 KB buffers, in the order in which the threads took them;
//     basic version 3 as runs of 1024 records, in the order in which they became full; or trace
//     YAML, ordered by time only within runs.
//
// With Options.Random there is no program: every call is of a random function, and a thread
// calls or returns at random.
//
// Three things differ from reality, the first two so that llvm-xray can be measured on the same
// traces. First, all threads begin at the same tick: account of llvm-xray refuses records that
// are earlier than the first, in whatever order it reads the threads. Second, in FDR logs both
// the seconds and the microseconds of the wall clock grow from block to block: llvm-xray
// considers blocks ordered only if both do, and shuffles the others. Third, there are TSCWrap
// records without a wrap, because a wrap would need a wait of most of a second. Readers cannot
// tell.
package tracegen

import (
	"bufio"
	"errors"
	"fmt"
	"io"
)

// Format is a kind of trace file.
type Format string

const (
	FDR   Format = "fdr"   // flight data recorder, version 5
	Basic Format = "basic" // version 3
	YAML  Format = "yaml"  // trace YAML, version 1: the one that llvm-xray reads
)

// Frequency is the clock of all generated traces, in ticks per second.
const Frequency = 2_600_000_000

// Options say what to generate. Zero fields take the value that is given with
// them.
type Options struct {
	Format Format // FDR
	Seed   uint64
	// Run numbers the runs of a seed's program. Each serves different requests.
	Run       uint64
	Records   int64 // entries and exits: 1 M
	Threads   int   // 16
	Functions int   // 2000; at least 100, at most 65535
	// Open lets the trace end in the middle of calls. Otherwise, the last records of each thread
	// return from all open calls. (An odd number of records leaves one call open in any case.)
	Open bool
	// Unwind lets exceptions leave some calls without an exit record.
	Unwind bool
	// Random draws each callee from all functions, so that hardly any call path occurs twice.
	Random bool
	// Spread draws durations from a wide distribution. Otherwise the durations of one function
	// are similar.
	Spread bool
}

// withDefaults fills in zero fields.
func (o Options) withDefaults() (Options, error) {
	if o.Format == "" {
		o.Format = FDR
	}
	if o.Records == 0 {
		o.Records = 1_000_000
	}
	if o.Threads == 0 {
		o.Threads = 16
	}
	if o.Functions == 0 {
		o.Functions = 2000
	}
	switch {
	case o.Format != FDR && o.Format != Basic && o.Format != YAML:
		return o, fmt.Errorf("unknown format %q: it is fdr, basic or yaml", o.Format)
	case o.Records < 0:
		return o, errors.New("the number of records is negative")
	case o.Threads < 0 || o.Threads > 1<<16:
		return o, errors.New("the number of threads is not between 1 and 65536")
	case o.Functions < minFunctions || o.Functions > maxFunctions:
		return o, fmt.Errorf("the number of functions is not between %d and %d", minFunctions, maxFunctions)
	}
	return o, nil
}

// Truth has the contents of a trace, counted while it was generated. The slices are indexed by
// function id.
type Truth struct {
	Records int64
	Entries []int64  // entry records
	Calls   []int64  // calls with an exit of their own, tail exits included
	Ticks   []uint64 // total duration of those, callees included
	Open    int64    // calls without an exit, whether unwound or open at the end
	Depth   int      // of the deepest call; the outermost has 1
}

// kind is the kind of a record, as on disk.
type kind uint8

const (
	enter kind = iota
	exit
	tailExit
)

// record is one entry or exit of a thread.
type record struct {
	tsc  uint64
	fn   uint32
	kind kind
	cpu  uint8
	// wrap asks for a TSCWrap record in front.
	wrap bool
}

// run has the records that one thread adds to the log at once.
type run struct {
	thread     int
	start, end uint64 // of the first and last record
	bytes      []byte
}

// encoder puts records of one thread into runs.
type encoder interface {
	header() []byte
	// fill takes records from t, at most as many as make one run, and encodes
	// them into r, which it may have filled before.
	fill(t *thread, r *run)
	// earlier says which of two runs comes first in the file.
	earlier(a, b *run) bool
	footer() []byte
}

// Generate writes a trace to w, streaming: memory does not grow with Records.
func Generate(w io.Writer, opts Options) (*Truth, error) {
	opts, err := opts.withDefaults()
	if err != nil {
		return nil, fmt.Errorf("generate trace: %w", err)
	}
	truth := &Truth{
		Entries: make([]int64, opts.Functions+1),
		Calls:   make([]int64, opts.Functions+1),
		Ticks:   make([]uint64, opts.Functions+1),
	}
	prog := newProgram(opts.Seed, opts.Functions)
	threads := newThreads(prog, truth, opts)
	var enc encoder
	switch opts.Format {
	case Basic:
		enc = basicEncoder{}
	case YAML:
		enc = yamlEncoder{}
	default:
		enc = &fdrEncoder{}
	}

	out := bufio.NewWriterSize(w, 1<<18)
	// Errors of out stay, so that the last Flush returns the first of them.
	_, _ = out.Write(enc.header())
	runs := make([]*run, 0, len(threads))
	for i, t := range threads {
		if t.left > 0 {
			r := &run{thread: i}
			enc.fill(t, r)
			runs = append(runs, r)
		}
	}
	for len(runs) > 0 {
		next := 0
		for i := 1; i < len(runs); i++ {
			if enc.earlier(runs[i], runs[next]) {
				next = i
			}
		}
		r := runs[next]
		if _, err := out.Write(r.bytes); err != nil {
			return nil, fmt.Errorf("generate trace: %w", err)
		}
		if t := threads[r.thread]; t.left > 0 {
			enc.fill(t, r)
			continue
		}
		runs = append(runs[:next], runs[next+1:]...)
	}
	_, _ = out.Write(enc.footer())
	if err := out.Flush(); err != nil {
		return nil, fmt.Errorf("generate trace: %w", err)
	}
	for _, t := range threads {
		truth.Open += int64(len(t.stack))
	}
	return truth, nil
}
