package recorder

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// EnvVar is the variable of the environment that the runtime takes its options
// from.
const EnvVar = "XRAY_RECORDER"

// Mode is what is recorded.
type Mode string

const (
	Record  Mode = "record"  // every entry and exit
	Prune   Mode = "prune"   // calls that last at least a threshold, and those around them
	Count   Mode = "count"   // how often each function was called
	Profile Mode = "profile" // call paths with counts, times and histograms
	Off     Mode = "off"     // nothing: a recording that goes on is paused
	On      Mode = "on"      // what was recorded before the pause; no mode of [Status]
)

// Recording says what to record; the zero value is every call.
type Recording struct {
	Mode      Mode          // Record when empty
	Threshold time.Duration // of Prune
	Depth     int           // record only calls at most so deep; 0 is no bound
	Limit     int64         // bytes written for each process; 0 is no bound
}

func (r *Recording) words() []string {
	mode := r.Mode
	if mode == "" {
		mode = Record
	}
	var words []string
	number := func(key string, n int64) { words = append(words, key+"="+strconv.FormatInt(n, 10)) }
	switch {
	case r.Depth > 0:
		// A mode of its own, which prunes if there is a threshold.
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
	return words
}

// StartCommand is the command by which a runtime starts the recording. With stream
// a file has to go with it, which all is written to; without, the rings keep the
// latest records.
func (r *Recording) StartCommand(stream bool) string {
	words := append([]string{"start"}, r.words()...)
	if stream {
		words = append(words, "stream=1")
	}
	return strings.Join(words, " ")
}

// ModeCommand is the command by which a runtime changes what it records. A limit
// stays as it is.
func (r *Recording) ModeCommand() string {
	words := r.words()
	words[0] = strings.TrimPrefix(words[0], "mode=")
	return "mode " + strings.Join(words, " ")
}

// Options is what a program that is started is told in its environment.
type Options struct {
	Recording
	// Output is a template of the trace's path: %p is the process, %e the
	// program's base name, %% a percent sign. See [EscapeTemplate].
	Output string
	// Ring is the size of a thread's ring in bytes when only that much of the end
	// of the recording is wanted. 0 is all: records are written all along.
	Ring int64
	// Filter is a file that [Filter.Write] wrote; "" is every function.
	Filter string
	// NoFollow leaves the processes that the program starts alone.
	NoFollow bool
	// Observer is the name of the [Observer] that writes the trace. With "", or where the
	// process cannot reach it, the process writes its trace itself.
	Observer string
	// Session is noted in the traces and rings of all processes, which tells them from
	// those of other programs that are recorded at the same time.
	Session uint64
	// NoOffCPU leaves out when threads were off the processor.
	NoOffCPU bool
	// Quiet suppresses the runtime's warnings.
	Quiet bool
}

// Environment returns the entry of the environment that holds the options.
func (o *Options) Environment() string {
	words := o.words()
	add := func(key, value string) { words = append(words, key+"="+escapeOption(value)) }
	add("start", "1")
	add("control", "1")
	add("output", o.Output)
	if o.Ring > 0 {
		add("stream", "0")
		add("ring", strconv.FormatInt(o.Ring, 10))
	} else {
		add("stream", "1")
	}
	if o.Filter != "" {
		add("filter", o.Filter)
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
	if o.Quiet {
		add("quiet", "1")
	}
	return EnvVar + "=" + strings.Join(words, ",")
}

// escapeOption keeps commas from ending an option's value.
func escapeOption(s string) string {
	return strings.NewReplacer("%", "%25", ",", "%2C").Replace(s)
}

// EscapeTemplate makes a template that stands for the path itself.
func EscapeTemplate(path string) string { return strings.ReplaceAll(path, "%", "%%") }

// ExpandTemplate is the path that a process writes to by a template.
func ExpandTemplate(template string, pid int, program string) string {
	return strings.NewReplacer("%%", "%", "%p", strconv.Itoa(pid), "%e", program).Replace(template)
}

// CheckTemplate is an error when a template has anything after a percent sign
// that means nothing.
func CheckTemplate(template string) error {
	for i := 0; i < len(template); i++ {
		if template[i] != '%' {
			continue
		}
		i++
		if i == len(template) || !strings.ContainsRune("%pe", rune(template[i])) {
			return fmt.Errorf("%q: behind %% may come p for the process, e for the program's name, and %% for itself", template)
		}
	}
	return nil
}
