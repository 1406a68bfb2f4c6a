// Package symbolize says which function an id of a trace stands for: its name
// and where its source is.
//
// [Open] finds the names of a trace's functions, [Load] those of a file; [Label] and
// [Location] are how reports show them. Until then, functions are known by their ids.
//
// [Load] works in three steps, each of which reads only what it needs, so that
// memory grows with the number of instrumented functions and not with the size
// of the file:
//
//  1. The instrumentation map gives the address of every function (elfmap.go,
//     relocate.go), or a YAML map stands in for it (yamlmap.go). Ids are not
//     stored. They count functions from 1 in the order of the map, anew wherever
//     the function differs from that of the sled before.
//
//  2. One pass over the symbol table finds the symbols at these addresses
//     (symtab.go); their names are demangled (package demangle) when they are first
//     asked for.
//
//  3. When a source location is first asked for, the entries of functions in the debug
//     information say where these are defined (definitions.go). Line tables are run for
//     what they do not say, and the rows at the addresses are kept (lines.go, lineprog.go).
//     Both are read in parallel.
//
// A map is an array of sleds. On 64-bit machines, and with half the size on
// others, a sled is:
//
//	offset  size  field
//	0       8     address of the sled
//	8       8     address of the function
//	16      1     kind, as SledKind
//	17      1     1 if always instrumented
//	18      1     version
//	19      13    zero
//
// Versions 0 and 1 hold addresses. From version 2 on, each of the two words
// holds the distance to the address from where the word itself is.
//
// ELF files of both classes and byte orders are read, linked or not. Object
// files are laid out in memory as a linker would do it (object.go), so that the
// rest of the package need not tell them apart.
//
// Files may be damaged or hostile: every length is checked against the file
// before it is used, and what goes wrong is an error.
package symbolize
