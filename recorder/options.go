package recorder

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// EnvVar is the environment variable with the runtime's options.
const EnvVar = "XRAY_RECORDER"

// Mode is what to record.
type Mode string

const (
	Record  Mode = "record"  // every entry and exit
	Prune   Mode = "prune"   // calls that last at least a threshold, and their callers
	Count   Mode = "count"   // the number of calls of each function
	Profile Mode = "profile" // call paths with counts, times and histograms
	Off     Mode = "off"     // nothing: the recording is paused
	On      Mode = "on"      // resume the mode before the pause; never in a status
)

// Settings says what to record. The zero value records every call.
type Settings struct {
	Mode      Mode          // Record if empty
	Threshold time.Duration // for Prune
	Depth     int           // record only calls at most this deep; 0 means no limit
	Limit     int64         // maximum bytes written for each process; 0 means no limit
	// Window is how long to record in each period of Every. Both are 0 to record all the time.
	Window, Every time.Duration
	// Budget is the share of the CPU time that recording may take, such as 0.03. 0 means no limit. Package
	// budget decides what is recorded, in an observer or in who reads a running process.
	Budget float64
}

func (r *Settings) words() []string {
	mode := r.Mode
	if mode == "" {
		mode = Record
	}
	var words []string
	number := func(key string, n int64) { words = append(words, key+"="+strconv.FormatInt(n, 10)) }
	switch {
	case r.Depth > 0:
		// Mode depth also prunes if there is a threshold.
		words = append(words, "mode=depth")
		number("threshold", int64(r.Threshold))
		number("depth", int64(r.Depth))
	case r.Threshold > 0:
		words = append(words, "mode="+string(mode))
		number("threshold", int64(r.Threshold))
	default:
		words = append(words, "mode="+string(mode))
	}
	if r.Limit > 0 {
		number("limit", r.Limit)
	}
	if r.Every > 0 {
		number("window", int64(r.Window))
		number("every", int64(r.Every))
	}
	return words
}

// leastWindow is the shortest window, and the shortest time between two windows.
const leastWindow = time.Millisecond

// CheckWindows returns an error if the recorder cannot record in these windows.
func (r *Settings) CheckWindows() error {
	switch {
	case r.Every == 0 && r.Window == 0:
		return nil
	case r.Window < leastWindow || r.Every < r.Window+leastWindow:
		return fmt.Errorf("a window must last at least %v and end at least %[1]v before the next one begins", leastWindow)
	case r.Depth > 0 || r.Mode == Profile:
		return errors.New("windows require mode record, prune or count without a depth limit, because the depth of a thread is unknown after a window")
	case r.Threshold >= r.Every-r.Window:
		return fmt.Errorf("the prune threshold of %v must be shorter than the time between windows, %v", r.Threshold, r.Every-r.Window)
	}
	return nil
}

// Millionths returns a share in millionths, at least 1.
func Millionths(share float64) uint64 { return max(1, uint64(math.Round(share*1e6))) }

// limited is a budget as the runtime takes it.
func limited(budget float64) string { return strconv.FormatUint(Millionths(budget), 10) }

// StartCommand returns the command that starts the recording. With stream, pass a file with the command,
// to which all records are written. Without it, the rings keep the latest records.
func (r *Settings) StartCommand(stream bool) string {
	words := append([]string{"start"}, r.words()...)
	if r.Budget > 0 {
		words = append(words, "limited="+limited(r.Budget))
	}
	if stream {
		words = append(words, "stream=1")
	}
	return strings.Join(words, " ")
}

// ModeCommand returns the command that changes what is recorded. It does not change a limit or windows.
func (r *Settings) ModeCommand() string {
	what := *r
	what.Window, what.Every = 0, 0
	words := what.words()
	words[0] = strings.TrimPrefix(words[0], "mode=")
	return "mode " + strings.Join(words, " ")
}

// MaxDepth is the largest limit of the depth.
const MaxDepth = 256

// LeastMemory is the least limit of memory for records.
const LeastMemory = 1 << 20

// Options are passed to the runtime in the environment of a new program.
type Options struct {
	Settings
	// Output is a template of the trace's path: %p is the process ID, %e the program's base
	// name, %% a percent sign. See [EscapeTemplate].
	Output string
	// Ring is the size of each thread's ring in bytes, to keep only the latest records. 0 writes all
	// records continuously.
	Ring int64
	// Memory limits the records of all threads of a process in memory, in bytes. 0 is no limit. The minimum is
	// [LeastMemory].
	Memory int64
	// Select asks the observer which functions of each object to record. Where that fails, SelectAll says
	// whether to record all or none.
	Select, SelectAll bool
	// Preload are the objects that are preloaded for the recording. The runtime also preloads them into programs
	// that the process executes, whatever environment it gives them.
	Preload []string
	// Given is the value of LD_PRELOAD that the program sees, if it is not the one that the loader sees. See
	// package build.
	Given string
	// NoFollow does not record processes that the program starts.
	NoFollow bool
	// Observer is the address of the observer that writes the trace. If it is "" or the process
	// cannot reach it, the process writes its trace itself.
	Observer string
	// Session identifies the recording in the traces and rings of all processes. It distinguishes
	// them from other programs that are recorded at the same time.
	Session uint64
	// NoOffCPU does not record when threads were off CPU.
	NoOffCPU bool
	// Fibers tells the stacks apart that a thread switches between. Modes record and prune can do that.
	Fibers bool
	// Idle records nothing until a command starts recording.
	Idle bool
	// Await is the process that starts a recording before main, and then sends the command go. The process
	// waits for it, at most ten seconds, if it is the parent and there is something to record. 0 is none.
	Await int
	// Quiet suppresses the runtime's warnings.
	Quiet bool

	// Drop, Compress, Sched and Interrupts are for the observer: see package observe.
	Drop, Compress, Sched, Interrupts bool
}

// Environment returns the environment entry that holds the options.
func (o *Options) Environment() string {
	words := o.words()
	add := func(key, value string) { words = append(words, key+"="+escapeOption(value)) }
	start := "1"
	if o.Idle {
		start = "0"
	}
	add("start", start)
	add("control", "1")
	if o.Output != "" {
		add("output", o.Output)
	}
	if o.Ring > 0 {
		add("stream", "0")
		add("ring", strconv.FormatInt(o.Ring, 10))
	} else {
		add("stream", "1")
	}
	if o.Memory > 0 {
		add("memory", strconv.FormatInt(o.Memory, 10))
	}
	switch {
	case o.Select && o.SelectAll:
		add("select", "except")
	case o.Select:
		add("select", "only")
	}
	if len(o.Preload) > 0 {
		add("preload", strings.Join(o.Preload, ":"))
	}
	follow := "1"
	if o.NoFollow {
		follow = "0"
	}
	add("follow", follow)
	if o.Observer != "" {
		add("observer", o.Observer)
	}
	if o.Session != 0 {
		add("session", strconv.FormatUint(o.Session, 10))
	}
	if o.NoOffCPU {
		add("offcpu", "0")
	}
	if o.Fibers {
		add("fibers", "1")
	}
	if o.Await != 0 {
		add("await", strconv.Itoa(o.Await))
	}
	if o.Budget > 0 {
		// Without the observer, which has the budget, the process does not record.
		add("limited", limited(o.Budget))
	}
	if o.Quiet {
		add("quiet", "1")
	}
	if o.Given != "" {
		add("restore", "1") // the runtime cuts the variable here
		add("given", o.Given)
	}
	return EnvVar + "=" + strings.Join(words, ",")
}

// escapeOption escapes commas, which would end an option's value.
func escapeOption(s string) string {
	return strings.NewReplacer("%", "%25", ",", "%2C").Replace(s)
}

// EscapeTemplate returns a template that stands for exactly this path.
func EscapeTemplate(path string) string { return strings.ReplaceAll(path, "%", "%%") }

// ExpandTemplate returns the path that a process writes to for a template.
func ExpandTemplate(template string, pid int, program string) string {
	return strings.NewReplacer("%%", "%", "%p", strconv.Itoa(pid), "%e", program).Replace(template)
}

// CheckTemplate returns an error if a percent sign in a template is not followed by p, e or another
// percent sign.
func CheckTemplate(template string) error {
	for i := 0; i < len(template); i++ {
		if template[i] != '%' {
			continue
		}
		i++
		if i == len(template) || !strings.ContainsRune("%pe", rune(template[i])) {
			return fmt.Errorf("%q: after %%, use p (process ID), e (program name) or %% (a percent sign)", template)
		}
	}
	return nil
}
