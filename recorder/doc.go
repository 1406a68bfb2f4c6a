// Package recorder brings the recorder to programs and controls it there: the
// small runtime, in C and assembly, that writes traces of programs built with
// clang -fxray-instrument.
//
// The runtime's sources are part of the Go program. [Build] compiles them with
// the user's compiler, once for each compiler, into a library that is preloaded
// or linked in. [Options] is what the runtime is told in the environment of a
// program that is started; [Dial] reaches the runtime of a program that runs.
// [Inspect] says beforehand whether a program can be recorded, and [Filter] turns
// names of functions into the numbers that the runtime knows. [OpenCore] finds what
// the runtime had in memory when a program crashed.
//
// The runtime works on Linux on amd64. Elsewhere the package compiles, and
// [Supported] says so.
package recorder
