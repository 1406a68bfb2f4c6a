// Package diff compares the runs of two sides, A and B, of a program: what got
// slower, by how much, where, and how sure that is.
//
// The steps:
//
//  1. An [Analysis] adds up a run by call path below root functions, or by function
//     where no root is given. It also does so by blocks of time, if it is to.
//  2. [Comparison.Add] gives paths their names, by which runs of different builds
//     are joined, and turns ticks into nanoseconds. The analysis is not needed after that.
//  3. [Comparison.Report] resamples and puts the results together.
//
// Memory grows with paths times runs (or blocks), not with the length of traces.
//
// # What is compared
//
// With a root, the unit is one of its invocations (see package internal/invocation):
// numbers are means over them. Without, the unit is a run, and functions are treated
// as if a run called each of them directly. A call then counts if it was entered, and
// the time of calls that are open at the end counts up to there.
//
// # Decomposition
//
// Let N(p), S(p) and T(p) be calls, self time and time with callees of path p per
// unit. The difference T(root) on B less that on A is the sum of
//
//	slower      S_B(p) - N_B(p) S_A(p)/N_A(p)
//	more calls  (N_B(p) - N_B(parent) N_A(p)/N_A(parent)) T_A(p)/N_A(p)    but for the root
//	new         T_B(p)    instead of both, with all below, where A does not have p
//
// as package why has it with usual invocations for A, since T_A(p)/N_A(p) is what a
// call costs there with all that it calls. Prices are those of A, so that with sides
// swapped only the sum changes its sign, not every part.
//
// # How sure
//
// What is drawn anew, 10,000 times, is whole runs of each side. Its scatter is the
// interval. Because few runs scatter less than many, and a normal distribution has no
// room for that, percentiles are moved outwards as Student's distribution asks for
// (T. Hesterberg, What Teachers Should Know About the Bootstrap, 2015), with as many
// degrees of freedom as the smaller side alone has. With less than 3 runs a side blocks
// of time are drawn instead.
//
// A gate fails only if, besides, a permutation test finds that runs which chance
// divides among the sides hardly ever differ as much.
package diff
