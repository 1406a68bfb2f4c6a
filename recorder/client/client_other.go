//go:build !linux

package client

import (
	"context"
	"os"

	"github.com/xray-tools/xray/recorder"
)

// Process is a process with the runtime.
type Process struct{ PID int }

// Dial finds the runtime of a process. There is none on this system.
func Dial(string) (*Process, error) { return nil, recorder.Supported() }

// Do lets the runtime run a command. There is none on this system.
func (p *Process) Do(context.Context, any, string, ...*os.File) ([]byte, error) {
	return nil, recorder.Supported()
}

// Hold starts a recording. There is no runtime on this system.
func (p *Process) Hold(context.Context, string, ...*os.File) ([]byte, *Held, error) {
	return nil, nil, recorder.Supported()
}

// Alive reports whether the process has not ended.
func (p *Process) Alive() bool { return false }

// IsStarting reports whether the process began a short time ago with the runtime.
func (p *Process) IsStarting() bool { return false }

// Target returns what to pass to [Dial] to reach the process again.
func (p *Process) Target() string { return "" }

// String names the process in messages.
func (p *Process) String() string { return "" }

// Listening is a process whose recorder listens.
type Listening struct {
	PID     int
	Parent  int
	Command string
	Status  *Status
	Err     error
}

// List finds the processes whose recorders listen. There are none on this system.
func List(context.Context) ([]Listening, error) { return nil, recorder.Supported() }

// FindProgram finds a process. It finds none on this system.
func FindProgram(string, func(int) bool) (int, error) { return 0, recorder.Supported() }
