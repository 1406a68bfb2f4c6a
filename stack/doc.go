// Package stack shows time by call path: how often each path was called, how long that
// took, and how much of it was spent in its last function itself.
//
// The pipeline:
//
//  1. An [Analysis] takes batches of calls with their paths and adds them up per
//     path, for each thread or for all together. Shards are merged.
//  2. [Analysis.Report] orders the paths in the same way for all threads: callers
//     before callees, siblings by function ID.
//  3. [Report.Trees] yields a [Tree] for each thread, or one for all.
//  4. [Report.Body] describes the report: the heaviest stacks in text, and all
//     paths in CSV and JSON. [Report.WriteFolded] writes folded stacks,
//     [Report.WriteSVG] a flame graph, and [Report.WriteLLVM] the output of
//     llvm-xray stack.
//
// # What counts
//
// Calls that ended count with their duration, whatever ended them. Calls still open at the
// end of the trace count up to the last record of their thread. That time was spent, and
// without it a server's main loop would be missing. A [Frame] counts them separately,
// because the output of llvm-xray omits them.
//
// The self times of all paths of a tree add up to the durations of the outermost calls,
// unless calls were filtered out.
package stack
