// Package symbolize says which function an id of a trace stands for: its name
// and where its source is.
//
// It knows which id is what: instrumentation maps, the objects of a process, and names that
// are packed into a trace. Two packages know the rest: debuginfo reads symbols and debug
// information of ELF files by address, and demangle turns linkage names into those of the
// source.
//
// [Open] finds the names of a trace's functions, [Load] those of a file; [Label] and
// [Location] are how reports show them. Until then, functions are known by their ids.
//
// [Load] reads the instrumentation map for the address of every function (elfmap.go), or a
// YAML map stands in for it (yamlmap.go). Ids are not stored. They count functions from 1 in
// the order of the map, anew wherever the function differs from that of the sled before.
// Names are demangled and locations found when they are first asked for.
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
// Files may be damaged or hostile: every length is checked against the file
// before it is used, and what goes wrong is an error.
package symbolize
