//go:build !linux

package recorder

import "context"

// Observer writes the traces of processes that have the runtime in them; there are none
// on this system.
type Observer struct{}

// Listen begins to listen for programs; there are none on this system.
func Listen(ObserverOptions) (*Observer, error) { return nil, Supported() }

// Run serves programs; there are none on this system.
func (ob *Observer) Run(context.Context) error { return Supported() }

// Settle returns what was written.
func (ob *Observer) Settle() *Observed { return &Observed{} }

// Idle reports whether no process is observed.
func (ob *Observer) Idle() bool { return true }
