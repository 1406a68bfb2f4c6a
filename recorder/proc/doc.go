// Package proc reads what the kernel says about a process in /proc: its state, when it started, and its ID in
// its own PID namespace.
package proc
