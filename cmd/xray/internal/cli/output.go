package cli

import (
	"errors"
	"io"
	"os"

	"golang.org/x/term"

	"github.com/xray-tools/xray/internal/outfile"
)

// WriteText has f write text to the file path, or to standard output if path is "-" or "".
// What could steer a terminal comes out escaped, as by [Text]: JSON keeps its meaning, and
// CSV its cells. A regular file appears only when f succeeds. A run that fails leaves the
// file that was there before, and never half a file.
func (s *Streams) WriteText(path string, f func(io.Writer) error) error {
	return s.WriteData(path, func(w io.Writer) error {
		text := &escaper{w: w}
		// What was written before f failed is of use to the reader of a pipe.
		return errors.Join(f(text), text.flush())
	})
}

// WriteData is WriteText without escapes, for what is not shown as it is: traces, timelines,
// pages and compressed data.
func (s *Streams) WriteData(path string, f func(io.Writer) error) error {
	if path == "" || path == "-" {
		return s.toStdout(f)
	}
	return outfile.Write(path, func(file *os.File) error { return flushed(file, f) })
}

// toStdout has f write to standard output, which must be there.
func (s *Streams) toStdout(f func(io.Writer) error) error {
	if err := s.Stdout.check(); err != nil {
		return err
	}
	return flushed(s.Stdout.Raw, f)
}

func flushed(w io.Writer, f func(io.Writer) error) error {
	b := newBehind(w)
	// What was written before f failed is of use to the reader of a pipe.
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
