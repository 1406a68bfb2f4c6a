package session

import (
	"bufio"
	"errors"
	"io"
	"os"

	"github.com/xray-tools/xray/cmd/xray/internal/cli"
	"github.com/xray-tools/xray/internal/fileio"
	"github.com/xray-tools/xray/internal/remote"
	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/tables/summary"
)

// arrivals are inputs that are not files: standard input and URLs. The first bytes must arrive
// before it is known whether an input is a summary.
type arrivals struct {
	seen      map[string]bool            // paths that were looked at: whether they are summaries
	traces    map[string]*fetched        // that have begun to arrive, by URL, and wait to be read
	summaries map[string]*reader.Spooled // by path
}

// isSummary reports whether an input is a summary. It reads standard input and URLs if they
// are.
func (f *TraceFlags) isSummary(streams *cli.Streams, path string) (bool, error) {
	if path != "-" && !remote.Is(path) {
		return isSummaryFile(path), nil
	}
	if f.arrivals == nil {
		f.arrivals = &arrivals{}
	}
	a := f.arrivals
	if is, seen := a.seen[path]; seen {
		return is, nil
	}
	is, err := a.look(streams, path)
	if a.seen == nil {
		a.seen = make(map[string]bool)
	}
	a.seen[path] = is
	return is, err
}

// anySummary returns the first path of a summary; "" if there is none.
func (f *TraceFlags) anySummary(streams *cli.Streams, paths []string) (string, error) {
	for _, path := range paths {
		if is, err := f.isSummary(streams, path); is || err != nil {
			return path, err
		}
	}
	return "", nil
}

// isSummaryFile reports whether a file is a summary.
func isSummaryFile(path string) bool {
	f, _, err := fileio.OpenRegular(path)
	if err != nil {
		return false // reading it as a trace will say why, or it is a pipe
	}
	defer f.Close()
	return beginsWithMagic(f)
}

func beginsWithMagic(f *os.File) bool {
	var magic [len(summary.Magic)]byte
	st, err := f.Stat()
	if err != nil || !st.Mode().IsRegular() {
		return false
	}
	_, err = f.ReadAt(magic[:], 0)
	return err == nil && string(magic[:]) == summary.Magic
}

// look reads the beginning of an input, and the rest if it is a summary.
func (a *arrivals) look(streams *cli.Streams, path string) (bool, error) {
	if path != "-" {
		s, err := fetch(path)
		if err != nil {
			return false, err
		}
		if magic, _ := s.head.Peek(len(summary.Magic)); string(magic) == summary.Magic {
			s.show(streams)
			err = a.spool(streams, path, s)
			return true, errors.Join(err, s.Err(), s.Close())
		}
		if len(a.traces) > 0 && (!s.Resumable() || len(a.traces) >= maxWaiting) {
			return false, s.Close() // its connection may break while other traces come
		}
		if a.traces == nil {
			a.traces = make(map[string]*fetched)
		}
		a.traces[path] = s
		return false, nil
	}
	if f, ok := streams.Stdin.(*os.File); ok {
		if st, err := f.Stat(); err == nil && st.Mode().IsRegular() && !beginsWithMagic(f) {
			return false, nil
		}
	}
	head := bufio.NewReader(streams.Stdin)
	streams.Stdin = head
	if magic, _ := head.Peek(len(summary.Magic)); string(magic) != summary.Magic {
		return false, nil
	}
	return true, a.spool(streams, path, head)
}

// maxWaiting is the number of connections that wait while other traces come.
const maxWaiting = 64

// spool keeps a summary until the program ends.
func (a *arrivals) spool(streams *cli.Streams, path string, r io.Reader) error {
	s, err := reader.Spool(remote.Name(path), r)
	if err != nil {
		return err
	}
	streams.AtEnd(s.Close)
	if a.summaries == nil {
		a.summaries = make(map[string]*reader.Spooled)
	}
	a.summaries[path] = s
	return nil
}

// fetch returns the file at a URL, which it opens unless it has begun to arrive. For other paths it
// returns nil.
func (a *arrivals) fetch(streams *cli.Streams, path string) (string, reader.Stream, error) {
	if !remote.Is(path) {
		return "", nil, nil
	}
	var s *fetched
	if a != nil && a.traces[path] != nil {
		s = a.traces[path]
		delete(a.traces, path)
	} else {
		var err error
		if s, err = fetch(path); err != nil {
			return "", nil, err
		}
	}
	s.show(streams)
	return s.name, s, nil
}
