// Package e2e has the tests that hold what the readers and the matching of calls
// say against what is true of a trace: the calls that recorded programs counted
// themselves, and the calls that the generator made.
package e2e
