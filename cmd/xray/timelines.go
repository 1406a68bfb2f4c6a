package main

import (
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/xray-tools/xray/internal/durations"
	"github.com/xray-tools/xray/reader/calls"
)

// keepLongest makes the session's filter leave out the shortest calls, so that at most
// so many are left. What it leaves out it says on standard error, and in note.
func (s *session) keepLongest(most int) (note string, err error) {
	counts, _, err := analyse(s, calls.Options{}, func() *durations.Counts { return &durations.Counts{} })
	if err != nil {
		return "", err
	}
	shortest, left := counts.Longest(uint64(most))
	if left == 0 {
		return "", nil
	}
	s.filter.MinDuration = max(s.filter.MinDuration, shortest)
	note = fmt.Sprintf("%s shorter than %s left out", plural(int64(left), "call", "calls"), s.clock.Format(shortest))
	fmt.Fprintf(s.app.stderr, "xray: %s: choose a part of the trace, or a larger --max-calls, to see them\n", note)
	return note, nil
}

// maxSourceFile is more than any file of source code has.
const maxSourceFile = 16 << 20

// readSource returns a file of source code: from the trace, if source code was packed
// into it and names are from there. What was left out then may have changed since.
func (s *session) readSource(path string) ([]byte, error) {
	text, packed := s.trace.Source(path)
	if !s.packed || !packed {
		return readSource(path)
	}
	if text == nil {
		return nil, errors.New("no source of " + path + " was packed")
	}
	return text, nil
}

// readSource returns a file of source code. Its path is what a trace's debug information
// says, which may be anything.
func readSource(path string) ([]byte, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() || info.Size() > maxSourceFile {
		return nil, errors.New(path + " is no file of source code")
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, maxSourceFile))
}
