// Package live reads the rings of a running process from outside, through /proc/PID/mem.
//
// A [Reader] reports the calls of chosen functions as they end, and writes a trace of any part of the rings. A
// [Limiter] keeps the cost of a recording that the process writes itself below a share of its CPU time.
package live
