// Package explain documents the analyses below it, which explain calls. It has no code.
//
// Each analysis is a package that reads calls from reader/calls and reports its findings:
//
//	why          why the slow calls of a function are slow: compares them with usual ones
//	slowest      the slowest calls of a function, and what they did
//	shapes       calls of a function grouped by their call tree, to show rare ones
//	requests     requests that go from thread to thread, and their critical paths
//	locks        which threads waited for which lock, and which held it
//	iocalls      I/O calls of the C library by file, socket and call path
//	allocations  which call paths allocate memory, and what is live at the end
//	residency    what each thread was doing over time
//	diff         what changed between runs, with confidence intervals
//
// Three packages have what several of them need:
//
//	survey       what a trace has and lacks: its records, threads, recording and caveats
//	invocation   calls of the root, and what the calls inside them have
//	machines     traces of several machines as one trace
//
// The analyses do not import each other, but why takes the names of lock functions from locks. slowest, shapes, requests and why look at invocations:
// the outermost calls of a function that the user names. The packages account, graph and
// stack, beside this one, sum up all calls instead.
package explain
