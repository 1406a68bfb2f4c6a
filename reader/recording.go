package reader

import (
	"errors"
	"fmt"
	"iter"
	"math/bits"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/xray-tools/xray/recorder/args/value"
)

// Recording is the metadata that xray's recorder writes into its traces: the process, the
// objects that function IDs belong to, and the clock. Unknown fields are zero. It must not
// be changed.
type Recording struct {
	Process Process
	// Objects have disjoint ranges of IDs, in ascending order, beginning with the program.
	// Objects without IDs follow, in the recorder's order.
	Objects []Object
	Threads []ThreadInfo
	Clock   RecordedClock
	// Losses are the data that the recorder says it lost.
	Losses   []RecordedLoss
	Refusals []Refusal // files that could not be instrumented
	// Addresses are the addresses in memory of functions whose code has no instrumentation
	// map: those of ID 1, 2 and so on.
	Addresses []uint64
	Counters  []Counter // in file order
	Changes   []Change
	Profiles  []Profile        // of profile mode, by thread
	Pruned    Pruned           // of prune mode; without functions if none was dropped or none is known
	Sched     Sched            // the kernel's scheduler events
	Budget    Budget           // of a recording with a budget, and what it left out; zero without one
	Windows   []RecordedWindow // of a recording with windows, in order of time
	// Values describe the arguments and results that were asked for, and Unread those that are not recorded.
	Values []RecordedValues
	Unread []value.Refused
	// When are the conditions of recorded calls.
	When []RecordedWhen
	// Functions and Sources are from `xray pack`: functions by ID, without duplicates, and
	// passages of source code by file and line.
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
	BuildID  string   `json:"build_id"` // of the program; lowercase hex
	Host     string   `json:"host"`
	PageSize uint64   `json:"page_size"`
	Mode     string   `json:"mode"`
	// ThresholdNS is the duration below which calls were dropped, and Depth the maximum
	// depth that was recorded. 0 means no limit.
	ThresholdNS uint64 `json:"threshold_ns"`
	Depth       uint32 `json:"depth"`
	// WindowNS is the time recorded in every EveryNS nanoseconds. Both are 0 without windows.
	WindowNS uint64 `json:"window_ns,omitempty"`
	EveryNS  uint64 `json:"every_ns,omitempty"`
	Recorder string `json:"recorder"` // version
	// Session identifies the run of `xray record` that the process was part of, or 0.
	Session uint64 `json:"session"`
	// CPUNS is the CPU time of the process, in nanoseconds, from TSC CPUFrom, at the start
	// of the recording, to CPUTo, or 0 if it is unknown.
	CPUNS   uint64 `json:"cpu_ns"`
	CPUFrom uint64 `json:"cpu_from"`
	CPUTo   uint64 `json:"cpu_to"`
	// Probe is the cost of recording a call, in thousandths of a tick, measured at the start
	// of the recording, or 0 if it is unknown.
	Probe uint64 `json:"probe"`
	// SetupNS is the CPU time of the recorder at the start of the recording. ChunksNS is
	// the CPU time in which threads handed over full chunks and took new ones. LandingsNS
	// is the CPU time to find the calls that an exception or longjmp leaves. The last two
	// are extrapolated from samples. All are in nanoseconds and part of CPUNS, or 0 if
	// unknown.
	SetupNS    uint64 `json:"setup_ns,omitempty"`
	ChunksNS   uint64 `json:"chunks_ns,omitempty"`
	LandingsNS uint64 `json:"landings_ns,omitempty"`
	// Complete says that the recording ended normally. It is false for a process that wrote
	// its trace itself and was killed. Its last records of each thread are missing.
	Complete bool `json:"complete"`
	// WaitedNS is the total time that threads waited for the process that writes the trace.
	WaitedNS uint64 `json:"waited_ns,omitempty"`
	// WritingNS is the CPU time of that process to write the trace, in nanoseconds, or 0 if
	// it is unknown.
	WritingNS uint64 `json:"writing_ns,omitempty"`
	// Memory is the limit of memory for records and what became of it, or nil without a limit.
	Memory *Memory `json:"memory,omitempty"`
	// NoSched is why there are no scheduler events although the user asked for them, or "".
	NoSched string `json:"no_sched,omitempty"`
	// OffCPU says how the recorder noticed that threads were switched out ("rseq"). If it
	// is empty, the trace has no [Switch] events, and NoOffCPU says why, if that is known.
	OffCPU   string `json:"offcpu,omitempty"`
	NoOffCPU string `json:"no_offcpu,omitempty"`
	// Quotas are those CPU quotas that may have stopped the process, of its cgroup and those around it. xray record
	// writes them at the end.
	Quotas []Quota `json:"quotas,omitempty"`
	// Ends are ends of the process's pipes that other processes had, if the recording has I/O of the C library and xray
	// record was permitted to see them. It looks now and then, so some may be missing.
	Ends []OtherEnd `json:"ends,omitempty"`
	// Watched is set in traces that `xray watch` wrote, of slow calls or for comparison.
	Watched *Watched `json:"watched,omitempty"`
}

// OtherEnd is an end of a pipe that another process had.
type OtherEnd struct {
	Inode uint64 `json:"inode"`
	Write bool   `json:"write"` // it is the end to write to
	PID   int32  `json:"pid"`
	Name  string `json:"name"` // of the process, as in /proc/PID/comm
}

// Quota is the CPU quota of a cgroup: QuotaNS nanoseconds of CPU time in each period of PeriodNS.
type Quota struct {
	Group    string `json:"group"`
	QuotaNS  uint64 `json:"quota_ns"`
	PeriodNS uint64 `json:"period_ns"`
	// Samples are in order of time. The first one is at the beginning of the recording.
	Samples []QuotaSample `json:"samples"`
}

// QuotaSample says how often a quota had stopped a cgroup until a time: in how many periods, and for how
// long, in nanoseconds, of all CPUs together.
type QuotaSample struct {
	TSC         uint64 `json:"tsc"`
	Throttled   uint64 `json:"throttled"`
	ThrottledNS uint64 `json:"throttled_ns"`
}

// Memory is a limit of memory for the records of all threads of a process, in bytes. Peak is the most that was
// in use at once. Least and Most are what one thread had at its end, of those in the trace. Records in rings of
// threads that had ended were given up when others needed the memory.
type Memory struct {
	Limit        uint64 `json:"limit"`
	Used         uint64 `json:"used"` // at the end
	Peak         uint64 `json:"peak"`
	Least        uint64 `json:"least"`
	Most         uint64 `json:"most"`
	RingsGivenUp uint64 `json:"rings_given_up"`
	BytesGivenUp uint64 `json:"bytes_given_up"`
}

// Watched says which calls xray watch selected: calls of functions that match the regular expression
// Root and that take longer than OverNS nanoseconds, or 0 if that is unknown. UsualFromNS and
// UsualToNS are the first and the third quartile of the durations of all calls until then, or 0 if
// there were too few calls.
type Watched struct {
	Root        string `json:"root"`
	OverNS      uint64 `json:"over_ns,omitempty"`
	UsualFromNS uint64 `json:"usual_from_ns,omitempty"`
	UsualToNS   uint64 `json:"usual_to_ns,omitempty"`
}

// Object is the program or a shared object of the process.
type Object struct {
	First   FuncID     `json:"first"` // the ID of its first function; 0 if it has none
	Count   uint32     `json:"count"` // of its functions
	Path    string     `json:"path"`
	BuildID string     `json:"build_id"` // lowercase hex; "" if it has none
	Bias    Address    `json:"bias"`     // address in memory minus address in the file
	Text    [2]Address `json:"text"`     // its code in memory: start and end
	// Loaded and Unloaded are TSCs. Unloaded is 0 if the object stayed loaded.
	Loaded   uint64 `json:"loaded"`
	Unloaded uint64 `json:"unloaded"`
	State    string `json:"state"` // ready, refused or gone
	Why      string `json:"why,omitempty"`
	// LeftOff are functions that the recorder does not record, or not fully, because it would do
	// harm or record what is not true.
	LeftOff []LeftOff `json:"left_off,omitempty"`
	// Opened is how often the object was opened during the recording. Calls are missing
	// from before each opening until its sleds were patched. Missed is the total of these
	// times in ticks. The longest was from Absent to Recorded, both TSCs.
	Opened   uint64 `json:"opened,omitempty"`
	Absent   uint64 `json:"absent,omitempty"`
	Recorded uint64 `json:"recorded,omitempty"`
	Missed   uint64 `json:"missed,omitempty"`
	// Names are the linkage names of its functions, in order, for objects whose files other
	// machines do not have: those of xray with functions of the C library.
	Names []string `json:"names,omitempty"`
}

// LeftOff are functions of an object that are left off for the same reason.
type LeftOff struct {
	Why   string `json:"why"`
	Count uint32 `json:"count"`
	// Counted means that their calls are recorded, without durations.
	Counted bool `json:"counted,omitempty"`
	// Functions are the first 200 of them, counted from 1 in the object.
	Functions []uint32 `json:"functions"`
}

// Holds reports whether an ID belongs to the object.
func (o *Object) Holds(id FuncID) bool { return id >= o.First && uint32(id-o.First) < o.Count }

// Address is an address in memory. In JSON it is a string, for example 0x1000, because
// programs that read JSON round large numbers.
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

// ThreadInfo is the recorder's information about a thread.
type ThreadInfo struct {
	PID   int32  `json:"pid"`
	TID   int32  `json:"tid"`
	Name  string `json:"name"`
	First uint64 `json:"first"` // TSC of the first record
	Last  uint64 `json:"last"`  // TSC of the last record, or slightly later
	// Dropped is the number of missing records, and Truncated that of truncated payloads.
	Dropped   uint64 `json:"dropped"`
	Truncated uint64 `json:"truncated"`
	// Overwritten is the number of chunks of earlier records that a ring overwrote.
	Overwritten uint64 `json:"overwritten,omitempty"`
}

// RecordedClock relates the TSC to the clocks of the system.
type RecordedClock struct {
	Frequency uint64   `json:"frequency"` // ticks per second, as measured by the recorder
	Invariant bool     `json:"invariant"` // always runs at the same speed
	Anchors   []Anchor `json:"anchors"`   // in time order
}

// Anchor is the reading of several clocks at one moment.
type Anchor struct {
	TSC  uint64 `json:"tsc"`
	Raw  uint64 `json:"raw"`  // CLOCK_MONOTONIC_RAW in nanoseconds
	Real uint64 `json:"real"` // CLOCK_REALTIME in nanoseconds
	// Mono is CLOCK_MONOTONIC in nanoseconds, or 0 if the recorder did not read it.
	Mono  uint64 `json:"mono,omitempty"`
	Width uint64 `json:"width"` // ticks between the two TSC reads around the others
}

// RecordedLoss counts records or other data that the recorder could not write.
type RecordedLoss struct {
	Cause string `json:"cause"`
	Count uint64 `json:"count"`
}

// Refusal is a file whose functions could not be recorded.
type Refusal struct {
	Path string `json:"path"`
	Why  string `json:"why"`
}

// Counter is the number of calls of a function.
type Counter struct {
	Func  FuncID
	Calls uint64
}

// Change is a change of what was recorded.
type Change struct {
	TSC  uint64 `json:"tsc"`
	What string `json:"what"`
}

// ChangesSince returns the changes that affect records from a TSC on. It omits those of earlier
// recordings of the process.
func (r *Recording) ChangesSince(first uint64) []Change {
	from := 0
	for i, c := range r.Changes {
		if c.TSC <= first && strings.HasPrefix(c.What, "start") {
			from = i
		}
	}
	for from > 0 && strings.HasPrefix(r.Changes[from-1].What, "filter") {
		from-- // it is for this recording
	}
	return r.Changes[from:]
}

// Recording returns the metadata of xray's recorder in a file, or nil if another recorder
// wrote it.
func (t *Trace) Recording(file int) *Recording { return t.files[file].recording }

// Recordings yields the metadata of xray's recorder in the files that it wrote, by the number of the file.
func (t *Trace) Recordings() iter.Seq2[int, *Recording] {
	return func(yield func(int, *Recording) bool) {
		for i, f := range t.files {
			if f.recording != nil && !yield(i, f.recording) {
				return
			}
		}
	}
}

// Processes returns, for each file, the number of the first file of the same process. Files without a recording are
// of processes of their own.
func (t *Trace) Processes() []int {
	type process struct {
		host, exe string
		pid       int32
	}
	first := make(map[process]int)
	list := make([]int, len(t.files))
	for i := range list {
		list[i] = i
	}
	for i, r := range t.Recordings() {
		if r.Process.PID == 0 {
			continue
		}
		p := process{r.Process.Host, r.Process.Exe, r.Process.PID}
		if n, ok := first[p]; ok {
			list[i] = n
		} else {
			first[p] = i
		}
	}
	return list
}

// Whole reports whether exits without an entry are of calls that were open when the recording began, in all files.
func (t *Trace) Whole() bool {
	return !slices.ContainsFunc(t.files, func(f *file) bool { return f.recording == nil || !f.recording.Whole() })
}

// Watched is the common statement of all files about the calls for which they were written, or
// nil if one file has none or another one. Durations come from the latest file, because the
// most calls, and the shortest slow one, were known then.
func (t *Trace) Watched() *Watched {
	var found *Watched
	latest := uint64(0)
	for i := range t.Files() {
		r := t.Recording(i)
		if r == nil || r.Process.Watched == nil {
			return nil
		}
		w, at := *r.Process.Watched, uint64(0)
		if n := len(r.Clock.Anchors); n > 0 {
			at = r.Clock.Anchors[n-1].Real
		}
		switch {
		case found == nil:
			found, latest = &w, at
		case w.Root != found.Root:
			return nil
		default:
			over := min(w.OverNS, found.OverNS)
			if over == 0 {
				over = max(w.OverNS, found.OverNS)
			}
			if at >= latest {
				found, latest = &w, at
			}
			found.OverNS = over
		}
	}
	return found
}

// ThreadName returns the name of a thread, or "" if it is unknown.
func (t *Trace) ThreadName(th Thread) string {
	if n := th.Fiber(); n > 0 {
		return fmt.Sprintf("fiber %d", n)
	}
	return t.files[th.File].threadNames[[2]int32{th.Process, th.Thread}]
}

// nameThreads collects the names of threads. The kernel reuses IDs. Of threads with the
// same ID, the last name counts.
func (f *file) nameThreads() {
	if f.recording == nil {
		return
	}
	f.threadNames = make(map[[2]int32]string, len(f.recording.Threads))
	for _, info := range f.recording.Threads {
		f.threadNames[[2]int32{info.PID, info.TID}] = info.Name
	}
}

// ProcessName returns the name of a thread's program, without its directory, or "" if it is
// unknown.
func (t *Trace) ProcessName(th Thread) string {
	r := t.files[th.File].recording
	if r == nil || r.Process.PID != th.Process || r.Process.Exe == "" {
		return ""
	}
	return path.Base(r.Process.Exe)
}

// Objects returns the objects that the IDs of all files belong to, and the addresses of
// functions without an instrumentation map. Objects with the same build ID are one, with the path
// that it has in the first file. It is an error if an ID means different functions in different
// files, which happens if not all files are recordings of programs with instrumentation maps. Files of
// other recorders count as files of the same program. Without a recording, there are no objects.
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

// minAnchored is the least distance of anchors, in nanoseconds, for a measured frequency.
// Their error is less than a microsecond.
const minAnchored = 1_000_000

// measured returns the frequency between the first and the last anchor, and the time
// between them in nanoseconds, or 0 if there are none or they are too close.
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

// Realtime converts a TSC to nanoseconds since 1970. It returns false if the recorder
// recorded no time. It is as exact as the anchors, and does not step if the system's clock
// was set: between two anchors, time is linear.
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
	// Ticks and nanoseconds of the interval that contains tsc, or that is nearest.
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

// mulDiv returns a*b/c rounded to the nearest, or false if it exceeds 64 bits.
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
