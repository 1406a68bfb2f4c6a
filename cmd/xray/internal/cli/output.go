package cli

import (
	"errors"
	"io"
	"os"

	"golang.org/x/term"

	"github.com/xray-tools/xray/internal/fileio"
)

// WriteText calls f to write text to the file path, or to standard output if path is "-" or "".
// It escapes terminal control sequences, as [Text] does. JSON keeps its meaning, and CSV its
// cells. A regular file appears only if f succeeds. A run that fails leaves the old file, never
// half of a new one.
func (s *Streams) WriteText(path string, f func(io.Writer) error) error {
	return s.WriteData(path, func(w io.Writer) error {
		text := &escaper{w: w}
		// The reader of a pipe can use what was written before f failed.
		return errors.Join(f(text), text.flush())
	})
}

// WriteData is WriteText without escapes, unless it writes to a terminal, for data: traces,
// timelines, pages and compressed data.
func (s *Streams) WriteData(path string, f func(io.Writer) error) error {
	switch {
	case s.ToTerminal(path):
		return s.toStdout(func(w io.Writer) error {
			text := &escaper{w: w}
			return errors.Join(f(text), text.flush())
		})
	case path == "" || path == "-":
		return s.toStdout(f)
	}
	return fileio.Write(path, func(file *os.File) error { return flushed(file, f) })
}

// toStdout calls f to write to standard output, which must not be closed.
func (s *Streams) toStdout(f func(io.Writer) error) error {
	if err := s.Stdout.check(); err != nil {
		return err
	}
	return flushed(s.Stdout.Raw, f)
}

func flushed(w io.Writer, f func(io.Writer) error) error {
	b := newBehind(w)
	// The reader of a pipe can use what was written before f failed.
	err := f(b)
	if closeErr := b.Close(); err == nil {
		err = closeErr
	}
	return err
}

// RefuseTerminal returns an error if path is a terminal, for formats that are not text.
func (s *Streams) RefuseTerminal(path, format string) error {
	if s.ToTerminal(path) {
		return Usagef("%s is not text: write it to a file with -o FILE, or to a pipe", format)
	}
	return nil
}

// IsTerminal reports whether a stream is a terminal.
func IsTerminal(w any) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}
