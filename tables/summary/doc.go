// Package summary adds up calls by call path, and keeps the sums in Parquet files that any
// engine can merge.
//
// An [Analysis] sums up the calls of a trace. Its [Analysis.Group] has a row for each call
// path, with the names and places of functions inside, and times in nanoseconds. A [Writer]
// writes groups to a file, [Open] reads them, and [Merge] adds up the groups of many files
// that have the same [Key]. A [Set] hands groups to analyses as calls.Sums.
//
// Rows have only sums, minima, maxima and counts of bins, so merging is commutative and
// associative. Files are deterministic: the same rows give the same bytes, whatever the
// order in which they were added up. docs/summaries.md describes the file.
package summary
