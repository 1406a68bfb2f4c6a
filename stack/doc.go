// Package stack tells where time went by call path: how often each path was
// called, how long that took, and how much of it was spent in its last function
// itself.
//
// The pipeline:
//
//  1. An [Analysis] takes batches of calls with their paths and adds them up per
//     path, for each thread or for all together. Shards are merged.
//  2. [Analysis.Report] puts the paths into one order for all threads: callers
//     before callees, siblings by function id.
//  3. [Report.Trees] yields a [Tree] for each thread, or the one of all.
//  4. [Report.Body] describes the report: the heaviest stacks for people, and all
//     paths for programs. [Report.WriteFolded] writes folded stacks,
//     [Report.WriteSVG] a flame graph, and [Report.WriteLLVM] what llvm-xray stack
//     writes.
//
// # What counts
//
// Calls that ended count with their duration, whatever ended them. Calls still
// open when the trace ends count up to the last record of their thread: that
// time was spent, and without it a server's main loop would be missing. They are
// kept apart in a [Frame], because llvm-xray's shapes leave them out.
//
// The self times of all paths of a tree add up to the durations of the outermost
// calls, unless calls were filtered out.
package stack
