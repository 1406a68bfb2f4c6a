// Package e2e has tests that compare the results of the readers and of the matching of calls with
// known counts: those that recorded programs made themselves, and those of the generator.
package e2e
