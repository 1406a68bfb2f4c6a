// Package graph shows the call graph of a trace: which function called which, how often, and
// at what cost. It also compares the graphs of two traces.
//
// The pipeline:
//
//  1. An [Analysis] takes batches of calls and keeps one [Stats] per edge from
//     caller to callee. Shards are merged.
//  2. [Analysis.Report] adds up the edges of each function and sorts all by ID.
//  3. [Report.Trim] omits functions and edges that are too small to draw.
//  4. [Report.Body] describes the report for output. [Report.WriteSVG] and
//     [Report.WriteDOT] write pictures, and [Report.WriteLLVM] the output of
//     llvm-xray graph.
//
// To compare two traces, [Compare] joins two analyses by function name to a [Diff], which
// is trimmed and written in the same way.
//
// # What counts
//
// Calls without an exit record last until the exit that ended them, and [Stats.Inferred]
// counts them. Calls that are still open at the end of the trace have no duration:
// [Stats.Open] counts them, and only their self time so far counts, in [Stats.Self], so
// that self times add up to the time of the trace. A function's sum is that of its incoming
// edges. So a call inside a call of the same function counts twice there; self time counts
// once.
package graph
