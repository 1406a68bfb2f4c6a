// Package reader turns the bytes of XRay traces into events.
//
// It reads basic logs of versions 1 to 3, FDR logs of versions 1 to 5, and trace
// YAML; plain, or compressed with gzip or zstd. It knows no names and no output.
// docs/format.md describes the formats.
//
// # Passes
//
// [Open] finds out what files are, and [Trace] goes over them as often as is wanted,
// in one of these ways:
//
//   - [Trace.Each] is for most: on several goroutines, each thread on one of them.
//     Package calls makes calls of what it passes on.
//   - [Trace.Blocks] is a loop on one goroutine, in an [Order] of choice.
//   - [Trace.EachByTime] puts all threads in the order of time, and has the work on
//     each window of it done on several goroutines.
//   - [Trace.Records] shows the records of a file as they are, damaged or not.
//
// Passes may follow each other, but not run at the same time. Everything that they
// pass on belongs to the trace, and is valid only until the function that got it
// returns, or until the next iteration. Memory grows with the number of threads and
// of an FDR log's blocks, not with the number of records.
//
// # Time
//
// Timestamps and durations are ticks of the recorder's clock, as integers. [Clock]
// turns them into time, exactly.
//
// # Errors
//
// Damage is data: what cannot be used is counted as a [Loss] with its offset and
// cause, and everything else is kept. [Trace.Losses] has the sums after a pass.
// Errors are for what is no trace at all, as a [FormatError] with file and offset,
// and for input that fails.
package reader
