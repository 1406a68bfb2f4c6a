package main

import (
	"errors"
	"io"
	"os"

	"golang.org/x/term"

	"github.com/xray-tools/xray/internal/outfile"
)

// writeOutput has f write text to the file path, or to standard output when that is
// "-" or "". What could steer a terminal comes out escaped, as [textOutput] has it: JSON
// keeps its meaning, and CSV its cells. A regular file appears only when f succeeds, so
// that a run that fails leaves the file that was there before, and never half a file.
func (a *app) writeOutput(path string, f func(io.Writer) error) error {
	return a.writeData(path, func(w io.Writer) error {
		text := &escaper{w: w}
		// What was written before f failed is of use to the reader of a pipe.
		return errors.Join(f(text), text.flush())
	})
}

// writeData is writeOutput for what is not shown as it is: traces, timelines, pages and
// compressed data.
func (a *app) writeData(path string, f func(io.Writer) error) error {
	if path == "" || path == "-" {
		return a.toStdout(f)
	}
	return outfile.Write(path, func(file *os.File) error { return flushed(file, f) })
}

// toStdout has f write to standard output, which must be there.
func (a *app) toStdout(f func(io.Writer) error) error {
	if err := a.stdout.check(); err != nil {
		return err
	}
	return flushed(a.stdout.raw, f)
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

// refuseTerminal is for formats that are no text.
func (a *app) refuseTerminal(path, format string) error {
	if (path == "" || path == "-") && isTerminal(a.stdout.raw) {
		return usagef("%s is no text: write it to a file with -o FILE, or to a pipe", format)
	}
	return nil
}

func isTerminal(w any) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}
