// Package build compiles the recorder's runtime, and says which programs it can record.
//
// [Runtime] compiles the sources with the user's compiler, once for each compiler, into a [Library] to preload or
// link in. [XRayFlags] and [GCCFlags] are the flags for programs that link it in. [Inspect] reads a program's file
// and says whether it has sleds, and whether the library can be preloaded. A [CallSet] is a library that records
// calls of functions of libc.
package build
