// Package recorder has what the parts of the recorder share: what to record, the options that a new program gets
// in its environment, and the sources of the runtime. The runtime is a small library in C and assembly that
// writes traces of programs built with clang -fxray-instrument.
//
// Package build compiles the runtime for programs to load or link, and checks in advance whether a program can be
// recorded. Package client controls the runtime of a running process, and loads it into one that has none. Package
// observe writes the traces of the processes of a recording. Package live reads the rings of a running process from
// outside. Package budget decides, for both, which functions to record within a share of the CPU time. Package core
// recovers the rings from a program's core dump. Package ring knows the runtime's memory, package attach stops a
// process to load a library, and package proc reads /proc.
//
// The runtime works on Linux on amd64. On other systems the packages compile, and [Supported] returns an error.
package recorder
