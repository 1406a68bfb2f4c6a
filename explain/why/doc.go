// Package why explains slow calls of a function: by how much and where they differ from the
// usual calls.
//
// [Explain] makes several passes over a trace:
//
//  1. It finds the start of the trace, and places where records are missing.
//  2. The durations of the calls of a function, the root, define two cohorts: the
//     slow calls and the usual ones.
//  3. For every call path below the root, it adds up calls and self time over the usual
//     cohort, and keeps them for each slow call.
//  4. Where time was lost between two events, it finds the holder of the lock, or what other
//     threads did then but hardly ever at other times.
//  5. If there may be event loops, it finds which callback calls of the root wait for before they begin.
//  6. The calls that the report shows get their numbers in the trace.
//
// # Decomposition
//
// Let N(p) be the mean number of calls of path p in a usual call of the root, and S(p)
// their self time. Then u(p) = S(p)/N(p) is the self time of one call, r(p) =
// N(p)/N(parent) the number of calls per call of the parent, and v(p) = u(p) + sum of
// r(c)v(c) over the children c the cost of one call with all its callees. A slow call that
// makes n(p) calls with s(p) self time differs from the mean of the usual ones by the sum
// over all paths of
//
//	slower      s(p) - n(p)u(p)
//	more calls  (n(p) - n(parent)r(p))v(p)     except for the root
//
// exactly. If the calls of a path are more than n(parent)r(p), but cheaper than v(p), they
// cost what they cost here, and the parts of its subtree, "slower" and "more calls", count in
// the proportion of n(parent)r(p) to n(p). The sum stays the same. If usual calls hardly ever
// take a path, its whole subtree is a single amount instead, the new path: sum of
// s - n(parent)r(p)v(p).
//
// If the trace has off-CPU times, s excludes foreign time: time in the run queue, time
// waiting for the recorder, and time in which interrupts ran. The differences of these are
// separate amounts (preempted, recorder and interrupted) that belong to no function.
// "Slower" is then divided into CPU time and blocked time, each with its own u(p).
//
// Amounts are grouped into causes by kind and function. A cause is named only if chance and
// the scheduler are unlikely explanations. Shares are between 0 and 1, and all of them, with
// the rest, add up to 1: what slow calls gained in other places is taken from all losses in
// proportion.
//
// # Paths
//
// Recursion is folded: a recursive call belongs to the function's first occurrence on the
// path. If a lock function logs its arguments, the time of its callees is its own time, and
// the lock's address is part of the path.
package why
