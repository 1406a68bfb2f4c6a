// Package recorder adds the recorder to programs and controls it there. The recorder is a small
// runtime in C and assembly that writes traces of programs built with clang -fxray-instrument.
//
// The runtime's sources are part of the Go program. [Build] compiles them with the user's compiler,
// once for each compiler, into a library to preload or link in. [Options] are passed to the runtime
// in the environment of a new program. [Dial] connects to the runtime of a running program. [Inspect]
// checks in advance whether a program can be recorded. [Filter] converts names of functions to the
// numbers that the runtime uses. Package ring knows the runtime's memory, which [Listen] and [OpenLive] read, and
// package core recovers the rings from a program's core dump. Package proc reads /proc.
//
// The runtime works on Linux on amd64. On other systems the package compiles, and [Supported]
// returns an error.
package recorder
