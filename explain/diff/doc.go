// Package diff compares two groups of runs of a program, A and B: what got slower, by how
// much, where, and how certain that is.
//
// The steps:
//
//  1. An [Analysis] adds up a run by call path below root functions, or by function
//     without a root. Optionally, it also does so by blocks of time.
//  2. [Comparison.Add] joins runs of different builds by the names on their paths, and
//     converts ticks to nanoseconds. The analysis is not needed after that.
//  3. [Comparison.Report] resamples the runs and makes the report.
//
// Memory grows with paths times runs (or blocks), not with the length of traces.
//
// # What is compared
//
// With a root, the unit is an invocation of the root (see package invocation), and
// numbers are means over invocations. Without a root, the unit is a run, and functions are
// treated as if a run called each of them directly. Then every call that was entered counts,
// and a call that is open at the end counts up to the end.
//
// # Decomposition
//
// Let N(p), S(p) and T(p) be calls, self time and total time of path p per unit. The
// difference of T(root), B minus A, is the sum of
//
//	slower      S_B(p) - N_B(p) S_A(p)/N_A(p)
//	more calls  (N_B(p) - N_B(parent) N_A(p)/N_A(parent)) T_A(p)/N_A(p)    except for the root
//	new         T_B(p)    instead of both, with all paths below, if A does not have p
//
// as in package why, with A in place of the usual invocations. T_A(p)/N_A(p) is the cost of a
// call in A with its callees. Costs are those of A, so swapping the sides negates only the
// sum, not each part.
//
// # Significance
//
// The runs of each side are resampled 10,000 times. The percentiles of the results are the
// interval. Resamples of few runs scatter too little, so the percentiles are moved
// outwards according to Student's distribution (T. Hesterberg, What Teachers Should Know
// About the Bootstrap, 2015), with as many degrees of freedom as the smaller side alone
// has. With fewer than 3 runs on a side, blocks of time are resampled instead.
//
// In addition, a gate fails only if a permutation test finds that randomly divided runs
// hardly ever differ as much.
//
// # Values
//
// With [Options.Values], calls of a function are also compared by the values of each of its
// expressions: their mean self time, mean total time and median. Holm's method corrects the
// probabilities for all values of all expressions. A [Split] needs one below 1%, and a change of 5%. A
// value counts as unchanged only if its interval excludes what others changed by: a change that is
// not significant may still exist.
package diff
