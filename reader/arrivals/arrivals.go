// Package arrivals is for inputs that cannot be opened twice: standard input and URLs. Their first bytes must
// arrive before it is known who reads them.
package arrivals

import (
	"bufio"
	"context"
	"errors"
	"io"
	"os"

	"github.com/xray-tools/xray/internal/fileio"
	"github.com/xray-tools/xray/internal/remote"
	"github.com/xray-tools/xray/reader"
)

// Inputs tells inputs of two kinds apart: traces, and files that begin with Magic. It is not safe for
// concurrent use.
type Inputs struct {
	// Magic is how files begin that are kept whole until AtEnd's functions run. All others are streams.
	Magic string
	// Stdin is standard input. Inputs replaces it if bytes of it were read.
	Stdin *io.Reader
	// Progress shows how much of a file has been fetched until stop is called.
	Progress func(what string, of interface{ Progress() (done, size int64) }) (stop func())
	// AtEnd takes functions to call before the program ends.
	AtEnd func(func() error)

	seen    map[string]bool     // paths that were looked at: whether they begin with Magic
	waiting map[string]*fetched // that have begun to arrive, by URL, and wait to be read
	kept    map[string]*reader.Spooled
}

// fetched is a file from a URL. It shows its progress from show to Close.
type fetched struct {
	*remote.Stream
	head *bufio.Reader
	name string
	stop func() // nil before show
}

func fetch(path string) (*fetched, error) {
	s, err := remote.Open(context.Background(), path, remote.Options{})
	if err != nil {
		return nil, err
	}
	return &fetched{Stream: s, head: bufio.NewReader(s), name: remote.Name(path)}, nil
}

func (f *fetched) Read(b []byte) (int, error) { return f.head.Read(b) }

func (f *fetched) show(in *Inputs) { f.stop = in.Progress("fetching "+f.name, f.Stream) }

func (f *fetched) Close() error {
	if f.stop != nil {
		f.stop()
	}
	return f.Stream.Close()
}

// Begins reports whether an input begins with Magic. It reads standard input and URLs if they do. An input
// that is not readable does not.
func (in *Inputs) Begins(path string) (bool, error) {
	if path != "-" && !remote.Is(path) {
		f, _, err := fileio.OpenRegular(path)
		if err != nil {
			return false, nil // reading it as a trace will say why, or it is a pipe
		}
		defer f.Close()
		return in.begins(f), nil
	}
	if is, seen := in.seen[path]; seen {
		return is, nil
	}
	is, err := in.look(path)
	put(&in.seen, path, is)
	return is, err
}

// Any returns the first path that begins with Magic; "" if there is none.
func (in *Inputs) Any(paths []string) (string, error) {
	for _, path := range paths {
		if is, err := in.Begins(path); is || err != nil {
			return path, err
		}
	}
	return "", nil
}

func put[V any](m *map[string]V, key string, v V) {
	if *m == nil {
		*m = make(map[string]V)
	}
	(*m)[key] = v
}

// begins reports whether a regular file begins with Magic.
func (in *Inputs) begins(f *os.File) bool {
	st, err := f.Stat()
	if err != nil || !st.Mode().IsRegular() {
		return false
	}
	head := make([]byte, len(in.Magic))
	_, err = f.ReadAt(head, 0)
	return err == nil && string(head) == in.Magic
}

// look reads the beginning of an input, and the rest if it begins with Magic.
func (in *Inputs) look(path string) (bool, error) {
	if path != "-" {
		s, err := fetch(path)
		if err != nil {
			return false, err
		}
		if head, _ := s.head.Peek(len(in.Magic)); string(head) == in.Magic {
			s.show(in)
			err = in.keep(path, s)
			return true, errors.Join(err, s.Err(), s.Close())
		}
		if len(in.waiting) > 0 && (!s.Resumable() || len(in.waiting) >= maxWaiting) {
			return false, s.Close() // its connection may break while other traces come
		}
		put(&in.waiting, path, s)
		return false, nil
	}
	if f, ok := (*in.Stdin).(*os.File); ok {
		if st, err := f.Stat(); err == nil && st.Mode().IsRegular() && !in.begins(f) {
			return false, nil
		}
	}
	head := bufio.NewReader(*in.Stdin)
	*in.Stdin = head
	if magic, _ := head.Peek(len(in.Magic)); string(magic) != in.Magic {
		return false, nil
	}
	return true, in.keep(path, head)
}

// maxWaiting is the number of connections that wait while other traces come.
const maxWaiting = 64

// keep keeps an input until the program ends.
func (in *Inputs) keep(path string, r io.Reader) error {
	s, err := reader.Spool(remote.Name(path), r)
	if err != nil {
		return err
	}
	in.AtEnd(s.Close)
	put(&in.kept, path, s)
	return nil
}

// Open opens an input that begins with Magic, any number of times.
func (in *Inputs) Open(path string) (io.ReaderAt, int64, io.Closer, error) {
	if s := in.kept[path]; s != nil {
		return s, s.Size, io.NopCloser(nil), nil
	}
	f, size, err := fileio.OpenRegular(path)
	return f, size, f, err
}

// Fetch is [reader.Options].Fetch. It opens a URL unless the file has begun to arrive.
func (in *Inputs) Fetch(path string) (name string, stream reader.Stream, err error) {
	if !remote.Is(path) {
		return "", nil, nil
	}
	s := in.waiting[path]
	if delete(in.waiting, path); s == nil {
		if s, err = fetch(path); err != nil {
			return "", nil, err
		}
	}
	s.show(in)
	return s.name, s, nil
}
