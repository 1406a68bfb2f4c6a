// Package cli connects subcommands with the outside world: standard streams, output files,
// terminals and pagers, values of flags, and usage errors.
//
// Text from traces and binaries cannot control a terminal: see [Text].
package cli

import (
	"errors"
	"fmt"
	"io"
)

// Streams are the standard streams. They are as safe for concurrent use as the underlying
// streams.
type Streams struct {
	Stdin          io.Reader
	Stdout, Stderr Text

	ends []func() error
}

// AtEnd makes [Streams.End] call a function.
func (s *Streams) AtEnd(f func() error) { s.ends = append(s.ends, f) }

// End calls the functions passed to AtEnd, and returns their errors.
func (s *Streams) End() error {
	var errs []error
	for _, f := range s.ends {
		errs = append(errs, f())
	}
	s.ends = nil
	return errors.Join(errs...)
}

// UsageError is an error of the command line that a subcommand detects.
type UsageError struct{ error }

// Usagef makes a [UsageError].
func Usagef(format string, args ...any) error { return UsageError{fmt.Errorf(format, args...)} }

// Usage makes err a [UsageError].
func Usage(err error) error { return UsageError{err} }

// Unwrap returns the wrapped error, which is not a usage error.
func (e UsageError) Unwrap() error { return e.error }

// ExitStatus is the exit status of a program that xray ran. xray exits with the same one.
type ExitStatus int

func (s ExitStatus) Error() string { return fmt.Sprintf("exit status %d", int(s)) }
