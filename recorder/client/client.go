package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/recorder"
	"github.com/xray-tools/xray/recorder/build"
)

// ErrNoRecorder means that a process has no runtime, or that its runtime does not listen.
var ErrNoRecorder = errors.New("no recorder is listening in it")

// ErrForkedFromThreads is the reason that a recorded child, forked from a process with several
// threads, cannot be controlled.
var ErrForkedFromThreads = errors.New("it is being recorded but cannot be controlled: its parent had several threads when it forked, and one of them may have held the loader's lock")

// ErrSealed is the reason that a recorded process with a seccomp filter cannot be controlled.
var ErrSealed = errors.New("it is being recorded but cannot be controlled: a seccomp filter is in place")

// Status is the state of a runtime.
type Status struct {
	PID         int           `json:"pid"`
	Exe         string        `json:"exe"`
	Mode        recorder.Mode `json:"mode"`
	Paused      recorder.Mode `json:"paused"` // mode of the recording if it is paused, or ""
	ThresholdNS int64         `json:"threshold_ns"`
	Depth       int           `json:"depth"`
	Recording   bool          `json:"recording"`
	// Windows describes the windows of the recording. It is nil if everything is recorded.
	Windows *struct {
		LengthNS   int64 `json:"length_ns"`
		EveryNS    int64 `json:"every_ns"`
		Count      int64 `json:"count"`       // windows that have begun
		RecordedNS int64 `json:"recorded_ns"` // their duration so far
		Open       bool  `json:"open"`        // one is open now
	} `json:"windows"`
	// Stream is the continuous recording to a file, or nil.
	Stream *struct {
		Bytes int64 `json:"bytes"`
		Limit int64 `json:"limit"` // 0 means no limit
	} `json:"stream"`
	// Observed means that xray record writes the trace: continuously if ObservedStream is set,
	// and otherwise from the rings when the process ends.
	Observed       bool  `json:"observed"`
	ObservedStream bool  `json:"observed_stream"`
	Limited        bool  `json:"limited"`    // recording within a budget
	RingBytes      int64 `json:"ring_bytes"` // of all threads
	// Memory is the limit of the records of all threads, or nil.
	Memory *struct {
		Limit int64 `json:"limit"`
	} `json:"memory"`
	Threads struct {
		Live int64 `json:"live"`
		Dead int64 `json:"dead"`
	} `json:"threads"`
	Functions int64 `json:"functions"`
	Sleds     int64 `json:"sleds"`
	Patched   int64 `json:"patched"` // sleds that are switched on
	Objects   int64 `json:"objects"`
	// Refused are objects that are not recorded, and the reasons.
	Refused []struct {
		Path string `json:"path"`
		Why  string `json:"why"`
	} `json:"refused"`
	Dropped int64 `json:"dropped"` // lost records
	// OffCPU says how the runtime notices that threads were off CPU. If it does not, NoOffCPU
	// says why.
	OffCPU   string `json:"offcpu"`
	NoOffCPU string `json:"no_offcpu"`
	// LibcallsLeft is the number of functions that [Process.LoadCalls] cannot record in some object,
	// because the object also uses their addresses.
	LibcallsLeft int64 `json:"libcalls_left"`
	// Sealed means that a thread has installed a seccomp filter, so the recorder makes no system
	// calls in the program's threads.
	Sealed    bool     `json:"sealed"`
	Warnings  []string `json:"warnings"`
	Frequency int64    `json:"frequency"` // clock frequency in Hz
	UptimeNS  int64    `json:"uptime_ns"`
}

// answer decodes the runtime's answer to a command into v. If the runtime reports an error, answer
// returns it.
func answer(data []byte, v any) error {
	var head struct {
		OK    bool   `json:"ok"`
		Error string `json:"error"`
	}
	if err := json.Unmarshal(data, &head); err != nil {
		return fmt.Errorf("invalid response from the recorder: %w", err)
	}
	if !head.OK {
		if head.Error == "" {
			head.Error = "the recorder refused without a reason"
		}
		return errors.New(head.Error)
	}
	if v == nil {
		return nil
	}
	if err := json.Unmarshal(data, v); err != nil {
		return fmt.Errorf("invalid response from the recorder: %w", err)
	}
	return nil
}

// Held is a recording that ends when this process closes it or ends.
type Held struct {
	connection io.ReadCloser
	over       chan struct{}
}

func hold(connection io.ReadCloser) *Held {
	h := &Held{connection, make(chan struct{})}
	go func() {
		defer close(h.over)
		_, _ = connection.Read(make([]byte, 1)) // the runtime sends nothing more
	}()
	return h
}

// Over is closed when the recording has ended: because another client has ended it, because the process can
// no longer be controlled, has ended, or executes another program, or because Held was closed.
func (h *Held) Over() <-chan struct{} { return h.over }

// Close ends the recording.
func (h *Held) Close() error { return h.connection.Close() }

// maxData limits the data that a command makes the runtime write, such as a list of objects. The process may
// write anything.
const maxData = 256 << 20

// Data sends a command that makes the runtime write data, and returns the answer and the data.
func (p *Process) Data(ctx context.Context, command string) (answer, data []byte, err error) {
	file, err := os.CreateTemp("", "xray-*")
	if err != nil {
		return nil, nil, err
	}
	defer file.Close()
	defer os.Remove(file.Name())
	if answer, err = p.Do(ctx, nil, command, file); err != nil {
		return answer, nil, err
	}
	if data, err = io.ReadAll(io.NewSectionReader(file, 0, maxData+1)); err == nil && len(data) > maxData {
		err = fmt.Errorf("%s: the recorder wrote more than %d bytes", p, maxData)
	}
	return answer, data, err
}

// Objects returns the instrumented objects that are or were in the process, as its traces list
// them.
func (p *Process) Objects(ctx context.Context) ([]reader.Object, error) {
	_, data, err := p.Data(ctx, "objects")
	if err != nil {
		return nil, err
	}
	objects, err := parseObjects(data)
	if err != nil {
		return nil, fmt.Errorf("%s: invalid list of objects: %w", p, err)
	}
	return objects, nil
}

func parseObjects(data []byte) ([]reader.Object, error) {
	var list struct {
		Objects []reader.Object `json:"objects"`
	}
	err := json.Unmarshal(data, &list)
	return list.Objects, err
}

// Create creates a file that only the user may read, like the runtime's traces. It returns an error if
// a file or symbolic link of this name exists.
func Create(path string) (*os.File, error) {
	return os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL|os.O_APPEND, 0o600)
}

// LoadCalls loads the sets' objects into a running process whose runtime came by [Attach] or is linked in.
// In the next recording, calls from objects to these functions of libc are recorded, too. Functions that
// an object calls through a pointer are not, nor a function's calls before the loader has bound it, at its
// first call, and up to a tenth of a second afterwards.
func (p *Process) LoadCalls(ctx context.Context, l build.Library, sets []build.CallSet) error {
	var files []*os.File
	defer func() {
		for _, f := range files {
			_ = f.Close()
		}
	}()
	for _, path := range l.PreloadCalls(sets...) {
		f, err := os.Open(path)
		if err != nil {
			return err
		}
		files = append(files, f)
	}
	if _, err := p.Do(ctx, nil, "calls", files...); err != nil {
		return fmt.Errorf("cannot record calls of the C library: %w", err)
	}
	return nil
}
