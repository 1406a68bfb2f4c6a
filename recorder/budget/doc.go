// Package budget keeps the cost of recording below a share of the CPU time of the recorded processes.
//
// A [Controller] decides in rounds which functions are recorded, from the calls that the runtime counts and the
// durations of those that it records. [New] creates the controller of the processes that share an observer's
// memory, and [Open] that of a running process. [Controller.Report] estimates the calls that were not recorded.
//
// The package works on Linux only.
package budget
