// Package graph is the call graph of a trace: which function called which, how
// often, and what that cost; and what changed between the graphs of two traces.
//
// The pipeline:
//
//  1. An [Analysis] takes batches of calls and keeps one [Stats] per edge from
//     caller to callee. Shards are merged.
//  2. [Analysis.Report] sums the edges up to functions and sorts all by id.
//  3. [Report.Trim] leaves out what is too small to be worth drawing.
//  4. A renderer writes the report: [Report.WriteSVG], [Report.WriteDOT], [Report.WriteJSON],
//     [Report.WriteCSV], or [Report.WriteLLVM] in the shape of llvm-xray graph.
//
// For two traces, [Compare] joins two analyses by the names of functions to a
// [Diff], which is trimmed and rendered alike.
//
// # What counts
//
// Calls without an exit of their own count up to the exit that ended them, and
// [Stats.Inferred] says how many they are. Calls that are still open when the
// trace ends have no duration: they are in [Stats.Open], and only the time that
// they spent so far in themselves counts, in [Stats.Self], so that self times add
// up to the time of the trace. A function's sum is that of its incoming edges, so that a call inside a call of
// the same function counts in both; self time counts once.
package graph
