// Package attach loads a shared object into a process that runs, and calls a function of it.
//
// One thread of the process is stopped for that, with ptrace. The others go on. The thread is
// one that waits in a system call, outside of the allocator and the loader, or one that
// computes in the program itself. It gets a stack of its own, on which it calls dlopen and the
// function, and then it goes on where it was: a system call starts again, without an EINTR that
// the program could see.
//
// The object comes through a descriptor of the process's own memory, so the process needs no
// access to a file of ours. The stack begins with a signal frame. If this process is killed
// meanwhile, the thread returns through the frame, and the program runs on.
package attach
