// Package client controls the recorder's runtime in a running process.
//
// [Dial] finds the runtime of a process. [Process.Do] sends it a command, and [Process.Hold] starts a recording
// that ends with this process. [Attach] loads the runtime into a process that has none. [List] finds all
// processes whose runtimes listen. [FindRoot] finds the runtime's data in the memory of a process.
package client
