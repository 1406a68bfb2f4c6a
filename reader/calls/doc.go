// Package calls rebuilds function calls from the events of a trace.
//
// The steps of a program that analyses a trace:
//
//  1. reader.Open finds out what the file is, and where its threads are.
//  2. [Run] decodes the threads, each on one goroutine, and keeps a shadow stack
//     for each: entries push, exits pop, and what is popped is a [Call].
//  3. Batches of calls go to a [Sink]. An [Analysis] is a sink that can be
//     merged, so that every goroutine has its own and none waits.
//  4. The merged analysis makes a report; names join when it is printed.
//
// docs/analysers.md writes such a program. Times are ticks of the trace's clock, which
// [reader.Clock] turns into time.
//
// # Matching
//
// There is one policy for all analyses. Per thread, an entry opens a call. An
// exit or a tail exit ends the innermost open call of its function; calls opened
// inside that one end at the same moment and are [Inferred]: a sibling call that
// the compiler turned into a jump, an exception, a longjmp, or records that were
// lost. An exit of a function that has no open call is unmatched: it is counted
// and changes nothing. Where the recorder noted that an exception or a longjmp left
// calls, these end there as [Left]. Calls that are open at the end of a thread's records are
// [Truncated]. So every call that was opened ends exactly once.
//
// Threads are told apart by process and thread id, so that a log shared by a
// process and its forked children keeps them apart. Time within a thread does
// not run backwards; see [Call].
package calls
