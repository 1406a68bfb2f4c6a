// Package cli is what all subcommands have to do with the world: standard streams, output
// files, terminals and pagers, the values of flags, and errors of the command line.
//
// What could steer a terminal never reaches one: see [Text].
package cli

import (
	"errors"
	"fmt"
	"io"
)

// Streams are the standard streams. They may be used concurrently where the streams
// themselves may.
type Streams struct {
	Stdin          io.Reader
	Stdout, Stderr Text

	ends []func() error
}

// AtEnd has [Streams.End] call a function.
func (s *Streams) AtEnd(f func() error) { s.ends = append(s.ends, f) }

// End frees what lasts until the command is done.
func (s *Streams) End() error {
	var errs []error
	for _, f := range s.ends {
		errs = append(errs, f())
	}
	s.ends = nil
	return errors.Join(errs...)
}

// UsageError is an error of the command line that only a subcommand can see.
type UsageError struct{ error }

// Usagef makes a [UsageError].
func Usagef(format string, args ...any) error { return UsageError{fmt.Errorf(format, args...)} }

// Usage makes err a [UsageError].
func Usage(err error) error { return UsageError{err} }

// Unwrap returns the error without its being one of usage.
func (e UsageError) Unwrap() error { return e.error }
