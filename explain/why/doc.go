// Package why explains slow calls of a function: by how much and where they differ from its
// usual calls.
//
// [Explain] makes several passes over a trace:
//
//  1. It finds the start of the trace, and places where records are missing.
//  2. The durations of the calls of a function, the root, define two cohorts: the
//     slow calls and the usual ones.
//  3. For every call path below the root, calls and self time are added up over
//     the usual cohort and kept for every slow call.
//  4. Where time was lost between two events, it finds who held the lock that was waited
//     for, or what other threads did then and hardly ever at other times.
//  5. The calls that the report shows get their numbers in the trace.
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
// exactly. If usual calls hardly ever take a path, everything in its subtree is one amount
// instead, the new path: sum of s - n(parent)r(p)v(p).
//
// If the trace has off-CPU times, s is without the time in the run
// queue and that in which threads waited for the recorder. Their differences are amounts of
// their own, preempted and recorder, and no function's. "Slower" is then divided into CPU
// time and blocked time, each with its own u(p).
//
// Amounts are grouped into causes by kind and function. A cause is named only if chance and
// the scheduler are unlikely explanations.
//
// # Paths
//
// Recursion is folded: a call belongs to a function that is already on the path. Time in
// the functions that a lock function with logged arguments calls is time of that lock
// function, and the lock's address is part of the path.
package why
