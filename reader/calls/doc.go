// Package calls rebuilds function calls from the events of a trace.
//
// A program that analyzes a trace has these steps:
//
//  1. reader.Open detects the format of the file and finds its threads.
//  2. [Run] decodes the threads, each on one goroutine, and keeps a shadow stack
//     for each thread: entries push, exits pop, and each pop makes a [Call].
//  3. Batches of calls go to a [Sink]. An [Analysis] is a sink that can be
//     merged, so each goroutine has its own and needs no lock.
//  4. The merged analysis makes a report. Names are added when it is printed.
//
// docs/dev/analysers.md shows such a program. Times are ticks of the trace's clock, which
// [reader.Clock] converts to time.
//
// # Matching
//
// All analyses use the same policy. Per thread, an entry opens a call. An exit or a tail
// exit ends the innermost open call of its function. Calls opened inside that call end at the
// same moment and are [Inferred]. The cause is a sibling call that the compiler turned into a
// jump, an exception, a longjmp, or lost records. If a function has a tail exit and may tail-call
// the function that is entered next (see [Options].Continue), its call goes on and is
// [Continued]. An exit of a function without an open call is unmatched: it is counted and
// changes nothing. Calls that an exception or a longjmp left end as [Left], if the recorder noted
// it or [Options].CanCall shows it. Calls that are open at the end of a thread's records, or of a
// window of the recording, are [Truncated]. So every call ends exactly once.
//
// Threads are identified by process and thread ID, so a process and its forked children
// that share a log are kept apart. Time within a thread does not run backwards; see [Call].
package calls
