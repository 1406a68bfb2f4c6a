package observe

import (
	"crypto/rand"
	"crypto/subtle"
	"encoding/hex"
	"strconv"

	"github.com/xray-tools/xray/recorder"
	"github.com/xray-tools/xray/recorder/ring"
)

// Options say what an [Observer] does with recorded data.
type Options struct {
	Session uint64 `json:"session"` // ID of the recording; processes of other sessions are refused
	// Key proves that a process belongs to the recording: it is in the environment of the recorded
	// processes, which only they, their users and root can read. See [NewKey].
	Key    string `json:"key"`
	Output string `json:"output"` // template of the traces' paths, as in [recorder.Options]
	// Rings keeps the threads' rings and writes them when their process ends. Otherwise chunks
	// are written as they fill up.
	Rings bool  `json:"rings"`
	Drop  bool  `json:"drop"`  // drop records instead of making threads wait
	Limit int64 `json:"limit"` // maximum bytes written for each process; 0 means no limit
	// Compress writes compressed traces.
	Compress bool `json:"compress"`
	Sched    bool `json:"sched"` // also record scheduler events, if permitted
	IO       bool `json:"io"`    // the processes record I/O of the C library, so find who has the other ends of pipes
	// Interrupts also records interrupts of the threads, if Sched is set.
	Interrupts bool `json:"interrupts"`
	// Budget is the CPU time that recording may take, relative to the CPU time of the program without
	// recording, such as 0.03. 0 means no limit. An executed program shares it with its forked children.
	Budget float64 `json:"budget"`
	// Filter selects the functions that all processes record. nil is all functions.
	Filter *Filter `json:"-"`
}

// For returns options, with a new key, for the observer of programs with these options.
func For(o *recorder.Options) Options {
	return Options{
		Session: o.Session, Key: NewKey(), Output: o.Output, Rings: o.Ring > 0, Limit: o.Limit, Budget: o.Budget,
		Drop: o.Drop, Compress: o.Compress, Sched: o.Sched, Interrupts: o.Interrupts,
	}
}

// Name is the abstract socket name of the observer.
func (o *Options) Name() string { return "xray-observer-" + strconv.FormatUint(o.Session, 10) }

// Address is the value of [recorder.Options.Observer]: the name and the key.
func (o *Options) Address() string { return o.Name() + ":" + o.Key }

// NewKey returns a new [Options.Key].
func NewKey() string {
	b := make([]byte, ring.KeySize/2)
	_, _ = rand.Read(b) // never fails
	return hex.EncodeToString(b)
}

// accepts reports whether key is that of the recording.
func (o *Options) accepts(key []byte) bool {
	return len(o.Key) == ring.KeySize && subtle.ConstantTimeCompare(key, []byte(o.Key)) == 1
}

// Result is what an observer has written.
type Result struct {
	Traces   []Trace   `json:"traces"`   // of processes that have ended
	Running  []Process `json:"running"`  // processes still running
	Problems []string  `json:"problems"` // errors
	// Left says why instrumented programs that the processes executed could not be recorded.
	Left []string `json:"left"`
	// Unselected are the instrumented objects, if the filter selects no function of any of them.
	Unselected []string `json:"unselected"`
	// Unused are the regular expressions of [Filter.Args], [Filter.Results] and [Filter.When] that match no recorded function.
	Unused []string `json:"unused"`
}

// Trace is a trace that was written.
type Trace struct {
	Path     string `json:"path"`
	PID      int    `json:"pid"`
	WaitedNS uint64 `json:"waited_ns"` // total time that threads waited for the observer
	Problem  string `json:"problem"`   // why records are missing, or ""
}

// Process is a recorded process.
type Process struct {
	PID   int    `json:"pid"`
	Trace string `json:"trace"` // "" while it has recorded nothing
}
