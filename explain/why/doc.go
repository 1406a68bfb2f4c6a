// Package why explains slow calls of a function: by how much and where they differ
// from its usual calls.
//
// [Explain] makes several passes over a trace:
//
//  1. Tail calls are looked for, so that what a function ends with is inside it, and
//     places where records are missing.
//  2. The durations of the calls of a function, the root, give two cohorts: the
//     slow calls and the usual ones.
//  3. For every call path below the root, calls and self time are added up over
//     the usual cohort and kept for every slow call.
//  4. Where time was lost between two events: who had the lock that was waited for,
//     or else what other threads did then and hardly ever at other times.
//  5. The calls that the report shows get the numbers that they have in the trace.
//
// # Decomposition
//
// Let N(p) be the mean number of calls of path p in a usual call of the root,
// and S(p) their self time. Then u(p) = S(p)/N(p) is the self time of one call,
// r(p) = N(p)/N(parent) how many there are in a call of the parent, and v(p) = u(p)
// + sum of r(c)v(c) over the children c what one costs with all that it calls. A
// slow call that makes n(p) calls with s(p) self time differs from the mean of the
// usual ones by the sum over all paths of
//
//	slower      s(p) - n(p)u(p)
//	more calls  (n(p) - n(parent)r(p))v(p)     but for the root
//
// exactly. Where usual calls hardly ever take a path, all in its subtree is one
// amount instead, the new path: sum of s - n(parent)r(p)v(p).
//
// Amounts are grouped into causes by kind and function. A cause is named only if
// neither chance nor the scheduler is likely to have made it.
//
// # Paths
//
// Recursion is folded: a function that is on the path already takes the call. Time
// in the functions that a lock function with logged arguments calls is time in that
// lock function, and the lock's address is part of the path.
package why
