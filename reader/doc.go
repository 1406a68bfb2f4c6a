// Package reader decodes XRay traces to events.
//
// It reads basic logs of versions 1 to 3, FDR logs of versions 1 to 5, and trace YAML,
// uncompressed or compressed with gzip or zstd. It knows nothing about names or output.
// docs/dev/format.md describes the formats.
//
// # Passes
//
// [Open] detects the formats of files. A [Trace] is then read as often as needed, in one of
// these ways:
//
//   - [Trace.Each] is for most uses. It runs on several goroutines, each thread on one of
//     them. Package calls rebuilds calls from its blocks.
//   - [Trace.Blocks] is a loop on one goroutine, in an [Order] of choice.
//   - [Trace.EachByTime] merges all threads by time, and processes each window of the
//     merge on several goroutines.
//   - [Trace.EachAbreast] yields whole blocks, of the thread that is furthest behind.
//   - [Trace.Records] shows the records of a file as they are, damaged or not.
//
// Passes must not run at the same time. The trace owns everything that a pass yields. Use it only
// until the function that got it returns, or until the next iteration. Memory grows with the
// number of threads and of an FDR log's blocks, not with the number of records.
//
// # Time
//
// Timestamps and durations are ticks of the recorder's clock, as integers. [Clock] converts
// them exactly.
//
// # Errors
//
// Damage is not an error. A pass counts each unusable part as a [Loss] with its offset and cause,
// and keeps everything else. [Trace.Losses] has the sums after a pass. Errors are only for input
// that is not a trace, as a [FormatError] with file and offset, and for I/O errors.
package reader
