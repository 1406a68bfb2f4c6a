// Package attach loads a shared object into a running process and calls one of its functions.
//
// It stops one thread of the process, with ptrace, while the others run. The thread either waits
// in a system call, outside of the allocator and the loader, or computes in the program or a library. It
// calls dlopen and the function on a separate stack. Then it continues where it was: a system call
// starts again, without an EINTR that the program could see.
//
// The process reads the object through a descriptor of its own memory, so it needs no access to a
// file of this process. The stack begins with a signal frame. If this process is killed in the
// meantime, the thread returns through the frame, and the program continues.
package attach
