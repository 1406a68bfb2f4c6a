package launch

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/xray-tools/xray/recorder"
)

// Piped records a program and writes its trace to standard output when it has ended. What the
// program writes there goes to standard error, as with perf record -o -.
func (plan *Plan) Piped(ctx context.Context, args []string) (err error) {
	if err := plan.RefuseTerminal("-", "a trace"); err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "xray-record-")
	if err != nil {
		return err
	}
	plan.Output = filepath.Join(recorder.EscapeTemplate(dir), "%e.%p.xray")
	plan.Quiet = true // the summary would name a temporary file
	running, status := plan.program(ctx, args, plan.Stderr.Raw)
	kept, err := passOn(plan.Stdout.Raw, dir, running)
	if !kept {
		err = errors.Join(err, os.RemoveAll(dir))
	}
	if err != nil {
		return err
	}
	return status
}

// passOn writes the only trace of a folder to out. It reports whether there are traces that it could
// not write.
func passOn(out io.Writer, dir string, running bool) (kept bool, err error) {
	traces, err := filepath.Glob(filepath.Join(dir, "*"))
	switch {
	case err != nil || len(traces) == 0:
		return false, err
	case running:
		return true, fmt.Errorf("a process of the program is still running, so its trace is incomplete: it is in %s", dir)
	case len(traces) > 1:
		return true, fmt.Errorf("standard output can hold only one trace, but %d processes were recorded: their traces are in %s", len(traces), dir)
	}
	f, err := os.Open(traces[0])
	if err != nil {
		return true, err
	}
	defer f.Close()
	if _, err := io.Copy(out, f); err != nil {
		return true, fmt.Errorf("%w: the trace is in %s", err, traces[0])
	}
	return false, nil
}
