package reader

import (
	"errors"
	"fmt"
	"math/bits"
	"path"
	"slices"
	"strconv"
)

// Recording is what the recorder of this project says about the trace that it
// wrote: whose it is, which objects the ids are of, and how its clock runs. What
// it does not say is zero. It must not be changed.
type Recording struct {
	Process Process
	// Objects have disjoint ranges of ids, in ascending order, of which the first is
	// that of the program. Objects without ids come behind, in the recorder's order.
	Objects []Object
	Threads []ThreadInfo
	Clock   RecordedClock
	// Losses are what the recorder knows to be missing.
	Losses   []RecordedLoss
	Refusals []Refusal // files that could not be instrumented
	// Addresses are those of the functions in a process whose code has no
	// instrumentation map: of id 1, 2 and so on, as they were in memory.
	Addresses []uint64
	Counters  []Counter // ordered as in the file
	Changes   []Change
	Profiles  []Profile // of profile mode, by thread
	Pruned    Pruned    // of prune mode; without functions where none was pruned, or none is known
	// Functions and Sources are what `xray pack` put in: functions by id, without
	// duplicates, and passages of source code by file and line.
	Functions []NamedFunction
	Sources   []SourceText
}

// Process is the process that was recorded.
type Process struct {
	PID      int32    `json:"pid"`
	PPID     int32    `json:"ppid"`
	UID      uint32   `json:"uid"`
	Exe      string   `json:"exe"`
	Argv     []string `json:"argv"`
	BuildID  string   `json:"build_id"` // of the program; lower-case hex
	Host     string   `json:"host"`
	PageSize uint64   `json:"page_size"`
	Mode     string   `json:"mode"`
	// ThresholdNS is the duration below which calls were left out, and Depth the
	// deepest call that was recorded; 0 for no such bound.
	ThresholdNS uint64 `json:"threshold_ns"`
	Depth       uint32 `json:"depth"`
	Recorder    string `json:"recorder"` // version
	// Session tells the run of `xray record` that the process was part of from
	// others; 0 for none.
	Session uint64 `json:"session"`
	// CPUNS is the CPU time of the process, in nanoseconds, from the TSC CPUFrom, when the
	// recording began, to CPUTo; 0 when it is not known.
	CPUNS   uint64 `json:"cpu_ns"`
	CPUFrom uint64 `json:"cpu_from"`
	CPUTo   uint64 `json:"cpu_to"`
	// Probe is what recording a call takes, in thousandths of ticks, as measured when the
	// recording began; 0 when it is not known.
	Probe uint64 `json:"probe"`
	// SetupNS is the CPU time that the recorder took when the recording began. ChunksNS is
	// that in which threads handed over full chunks and took others, and LandingsNS that in
	// which they found the calls that an exception or longjmp leaves, both extrapolated
	// from some. All are nanoseconds and part of CPUNS, and 0 when they are not known.
	SetupNS    uint64 `json:"setup_ns,omitempty"`
	ChunksNS   uint64 `json:"chunks_ns,omitempty"`
	LandingsNS uint64 `json:"landings_ns,omitempty"`
	// Complete tells that the recording ended as it should. A process that wrote its
	// trace itself and was killed leaves false, and lacks the last records of each thread.
	Complete bool `json:"complete"`
	// WaitedNS is how long threads waited, in all, for the process that writes the
	// trace.
	WaitedNS uint64 `json:"waited_ns,omitempty"`
	// WritingNS is the CPU time that this process took to write the trace, in nanoseconds;
	// 0 when it is not known.
	WritingNS uint64 `json:"writing_ns,omitempty"`
}

// Object is the program or a shared object of the process.
type Object struct {
	First   FuncID     `json:"first"` // the id of its first function; 0 when it has none
	Count   uint32     `json:"count"` // of its functions
	Path    string     `json:"path"`
	BuildID string     `json:"build_id"` // lower-case hex; "" when it has none
	Bias    Address    `json:"bias"`     // address in memory less the address in the file
	Text    [2]Address `json:"text"`     // its code in memory: from, and up to
	// Loaded and Unloaded are TSCs; Unloaded is 0 for one that stayed.
	Loaded   uint64 `json:"loaded"`
	Unloaded uint64 `json:"unloaded"`
	State    string `json:"state"` // ready, refused or gone
	Why      string `json:"why,omitempty"`
	// Opened is how often it was opened while others were recorded. Calls from when it was
	// not there yet until its sleds were on are missing: Missed is the ticks of all these
	// times, and the longest was from Absent to Recorded, both TSCs.
	Opened   uint64 `json:"opened,omitempty"`
	Absent   uint64 `json:"absent,omitempty"`
	Recorded uint64 `json:"recorded,omitempty"`
	Missed   uint64 `json:"missed,omitempty"`
}

// Holds reports whether an id is of the object.
func (o *Object) Holds(id FuncID) bool { return id >= o.First && uint32(id-o.First) < o.Count }

// Address is an address in memory. In JSON it is a string, as 0x1000: programs
// that read JSON round large numbers.
type Address uint64

// MarshalText implements encoding.TextMarshaler.
func (a Address) MarshalText() ([]byte, error) {
	return strconv.AppendUint([]byte("0x"), uint64(a), 16), nil
}

// UnmarshalText implements encoding.TextUnmarshaler.
func (a *Address) UnmarshalText(text []byte) error {
	v, err := strconv.ParseUint(string(text), 0, 64)
	if err != nil {
		return fmt.Errorf("address %q: want 0x and hexadecimal digits", text)
	}
	*a = Address(v)
	return nil
}

// ThreadInfo is what the recorder knows of a thread.
type ThreadInfo struct {
	PID   int32  `json:"pid"`
	TID   int32  `json:"tid"`
	Name  string `json:"name"`
	First uint64 `json:"first"` // TSC of the first record
	Last  uint64 `json:"last"`  // TSC of the last one, or somewhat later
	// Dropped records are missing, and Truncated payloads were cut off.
	Dropped   uint64 `json:"dropped"`
	Truncated uint64 `json:"truncated"`
	// Overwritten chunks of earlier records are missing: the trace is of a ring.
	Overwritten uint64 `json:"overwritten,omitempty"`
}

// RecordedClock is how the TSC relates to the clocks of the system.
type RecordedClock struct {
	Frequency uint64   `json:"frequency"` // ticks a second, as measured by the recorder
	Invariant bool     `json:"invariant"` // runs at one speed always
	Anchors   []Anchor `json:"anchors"`   // in order of time
}

// Anchor is what several clocks said at one moment.
type Anchor struct {
	TSC   uint64 `json:"tsc"`
	Raw   uint64 `json:"raw"`   // CLOCK_MONOTONIC_RAW in nanoseconds
	Real  uint64 `json:"real"`  // CLOCK_REALTIME in nanoseconds
	Width uint64 `json:"width"` // ticks between the two readings of the TSC around the others
}

// RecordedLoss is something that the recorder could not write.
type RecordedLoss struct {
	Cause string `json:"cause"`
	Count uint64 `json:"count"`
}

// Refusal is a file whose functions could not be recorded.
type Refusal struct {
	Path string `json:"path"`
	Why  string `json:"why"`
}

// Counter is how often a function was called.
type Counter struct {
	Func  FuncID
	Calls uint64
}

// Change is a change of what was recorded.
type Change struct {
	TSC  uint64 `json:"tsc"`
	What string `json:"what"`
}

// Recording returns what the recorder of a file says about it; nil when it was
// written by another recorder.
func (t *Trace) Recording(file int) *Recording { return t.files[file].recording }

// ThreadName returns the name that a thread had; "" when that is not known.
func (t *Trace) ThreadName(th Thread) string {
	return t.files[th.File].threadNames[[2]int32{th.Process, th.Thread}]
}

// nameThreads collects the names of threads. The kernel gives ids out again; of
// threads with the same the last one's name counts.
func (f *file) nameThreads() {
	if f.recording == nil {
		return
	}
	f.threadNames = make(map[[2]int32]string, len(f.recording.Threads))
	for _, info := range f.recording.Threads {
		f.threadNames[[2]int32{info.PID, info.TID}] = info.Name
	}
}

// ProcessName returns the name of a thread's program, without its folder; "" when
// that is not known.
func (t *Trace) ProcessName(th Thread) string {
	r := t.files[th.File].recording
	if r == nil || r.Process.PID != th.Process || r.Process.Exe == "" {
		return ""
	}
	return path.Base(r.Process.Exe)
}

// Objects returns the objects that the ids of all files are of, and the addresses
// of functions without an instrumentation map. It is an error when an id means
// different functions in different files. Files of other recorders count as files
// of the same program. Without a recording there are no objects.
func (t *Trace) Objects() ([]Object, []uint64, error) {
	var objects []Object
	var addresses []uint64
	var first *file
	for _, f := range t.files {
		if f.recording == nil || f.recording.Foreign() {
			continue
		}
		if first == nil {
			first, objects, addresses = f, f.recording.Objects, f.recording.Addresses
			continue
		}
		var err error
		if objects, err = disjoint(slices.Concat(objects, f.recording.Objects)); err == nil && !slices.Equal(addresses, f.recording.Addresses) {
			err = errors.New("functions are identified by address")
		}
		if err != nil {
			return nil, nil, fmt.Errorf("%s and %s use the same IDs for different functions (%w): analyze them separately", first.name, f.name, err)
		}
	}
	return objects, addresses, nil
}

const nanosPerSecond = 1_000_000_000

// minAnchored is the least distance of anchors, in nanoseconds, from which a
// frequency is taken: what they are off by is less than a microsecond.
const minAnchored = 1_000_000

// measured is the frequency between the first and the last anchor, and the time
// between them in nanoseconds; 0 when there are none, or too near to each other.
func (c *RecordedClock) measured() (frequency, span uint64) {
	n := len(c.Anchors)
	if n < 2 {
		return 0, 0
	}
	first, last := &c.Anchors[0], &c.Anchors[n-1]
	ticks, span := last.TSC-first.TSC, last.Raw-first.Raw
	if span < minAnchored {
		return 0, 0
	}
	frequency, ok := mulDiv(ticks, nanosPerSecond, span)
	if !ok {
		return 0, 0
	}
	return frequency, span
}

// Realtime is the time of a TSC in nanoseconds since 1970, and false when the
// recorder noted no time. It is as exact as the anchors, and does not step where
// the system's clock was set: up to the next anchor time goes on as it began.
func (c *RecordedClock) Realtime(tsc uint64) (nanos uint64, ok bool) {
	n := len(c.Anchors)
	if n == 0 {
		return 0, false
	}
	i := 0
	for i+1 < n && c.Anchors[i+1].TSC <= tsc {
		i++
	}
	a := &c.Anchors[i]
	// Ticks and nanoseconds of the stretch that tsc is in, or is nearest to.
	ticks, span := c.Frequency, uint64(nanosPerSecond)
	if j := min(i, n-2); j >= 0 {
		ticks, span = c.Anchors[j+1].TSC-c.Anchors[j].TSC, c.Anchors[j+1].Raw-c.Anchors[j].Raw
	}
	if tsc < a.TSC {
		back, ok := mulDiv(a.TSC-tsc, span, ticks)
		return a.Real - back, ok && back <= a.Real
	}
	on, ok := mulDiv(tsc-a.TSC, span, ticks)
	nanos = a.Real + on
	return nanos, ok && nanos >= on
}

// mulDiv is a*b/c rounded to the nearest, and false where that has no 64 bits.
func mulDiv(a, b, c uint64) (uint64, bool) {
	hi, lo := bits.Mul64(a, b)
	lo, carry := bits.Add64(lo, c/2, 0)
	hi += carry
	if hi >= c {
		return 0, false
	}
	q, _ := bits.Div64(hi, lo, c)
	return q, true
}
