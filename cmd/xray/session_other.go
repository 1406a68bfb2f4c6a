//go:build !unix

package main

import "syscall"

// newSession keeps the signals of a terminal from a process.
func newSession() *syscall.SysProcAttr { return nil }
