package session

import (
	"fmt"
	"slices"

	"github.com/xray-tools/xray/cmd/xray/internal/cli"
)

// Again opens the traces of a session once more, for a concurrent pass. The new session shares
// everything else with s. The caller closes it before s.
func (s *Session) Again() (*Session, error) {
	files := s.Trace.Files()
	if slices.Contains(files, "-") {
		return nil, cli.Usagef("standard input can be read only once, but this command reads the trace twice: save it to a file first")
	}
	t, err := s.OpenTrace(files...)
	if err != nil {
		return nil, fmt.Errorf("reading the trace again: %w", err)
	}
	c := *s
	c.Trace, c.closers, c.notes, c.quiet = t, nil, nil, true
	return &c, nil
}
