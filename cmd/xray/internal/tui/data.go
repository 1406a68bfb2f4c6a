// Package tui shows the functions, the call tree and the threads of a trace or a running process in
// a terminal.
//
// [Model] is the state of the display: keys and data change it, and View returns its lines. It does
// not access a terminal. [Run] connects it to one.
package tui

import (
	"github.com/xray-tools/xray/reader"
)

// Data is the data to show. It does not change once it is shown. Times are in ticks of Clock.
type Data struct {
	Clock reader.Clock
	// Title is the first line, and Notes are sentences that hold for all numbers.
	Title string
	Notes []string
	// Observed is the time that the numbers cover, to show them per second. 0 shows sums.
	Observed uint64
	// OffCPU is set if off-CPU times are known.
	OffCPU bool
	// Missing is the number of calls that ended in the shown time but whose start is unknown. No other
	// number includes them.
	Missing   uint64
	Functions []Function
	Threads   []Thread
	// Frames are call paths: callers before callees, each followed by those below it.
	Frames []Frame
	// Slowest and Source return lines about a function, for a screen of this width. They may take a
	// long time, and are called from another goroutine, one call at a time.
	Slowest, Source func(fn reader.FuncID, width int) ([]string, error)
	// Save writes the trace to a file, and returns its path. It may be nil.
	Save func() (string, error)
}

// Function is a function with its calls.
type Function struct {
	ID             reader.FuncID
	Name, Location string
	Calls, Open    uint64 // calls that ended, and those that have not
	Self, Total    uint64
	// CPU is the part of Self on CPU. The rest is Blocked, Queued, and waits for the recorder.
	CPU, Blocked, Queued uint64
	P50, P99, Max        uint64 // of the calls that ended
	Octaves              []uint64
}

// Thread is a thread with its calls.
type Thread struct {
	Name                       string
	Calls                      uint64
	Self, CPU, Blocked, Queued uint64        // of all functions
	Busiest                    reader.FuncID // the function with the largest self time
}

// Frame is a call path: its last function, called through the path of its parent.
type Frame struct {
	Func        reader.FuncID
	Parent      int // position in Data.Frames; -1 for an outermost function
	Calls       uint64
	Self, Total uint64
}
