// Package explain is the roof over the analyses that explain calls. It has no code.
//
// Each analysis is a package that takes the calls of reader/calls and describes what it
// found as a report:
//
//	why        why the slow calls of a function are slow: compares them with usual ones
//	slowest    the slowest calls of a function, with what they did
//	shapes     calls of a function by what they called; the rare ones stand out
//	requests   requests that go from thread to thread, and their critical paths
//	locks      who waited for which lock, and who held it
//	iocalls    which files and sockets calls of the C library were about, and how long they took
//	allocations  who allocates memory, and what is live at the end
//	residency  what each thread was doing over time
//	diff       what changed between runs, with confidence intervals
//
// They do not import each other. slowest, shapes, requests and why look at invocations:
// the outermost calls of a function that the user names. The packages account, graph and
// stack, beside this one, sum up all calls instead.
package explain
