// Package ring knows the memory of recorded processes: where the runtime keeps what, and how records in the
// threads' rings become blocks of a trace.
//
// [Image] is the memory of a process, live or in a core file. [Image.ParseRoot] finds what the runtime has
// there, and [Thread] is a thread's ring. [Arena] is the memory that an observer shares with processes.
// [BlockWriter] converts chunks of a ring to blocks. [OpenCalls] follows which calls are open at a record.
//
// A program may write anything into this memory. The package checks every address and size, and copies data
// before it reads them. Offsets and constants come from the headers in recorder/runtime; see layout.go.
package ring
