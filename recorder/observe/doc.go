// Package observe writes the traces of recorded processes from a process of its own.
//
// An [Observer] shares memory with the processes, which fill chunks of it with records. It writes the chunks to
// files, so a trace has everything that was recorded, no matter how its process ended. It also answers their
// questions: a [Filter] says which functions to record. [AddSched] and [FollowSched] add scheduler events to the
// trace of a process that writes it itself.
package observe
