// Package symbolize translates the function IDs of a trace to names and source locations.
//
// The package maps IDs to functions. It reads instrumentation maps, finds the objects of a
// process, and reads names that are packed into a trace. Two packages do the rest: debuginfo
// reads symbols and debug information of ELF files by address, and demangle demangles names.
//
// [Open] finds the names for a trace, [Load] those of a file. Reports show functions with
// [Label] and [Location].
//
// [Load] reads the instrumentation map, which has the address of every function (elfmap.go).
// A YAML map can replace the binary (yamlmap.go). A map does not store IDs. IDs count
// functions from 1 in the order of the map: an ID is new when the function differs from that
// of the previous sled. Names are demangled and locations found on first use.
//
// A map is an array of sleds. On 64-bit machines a sled has this layout. On 32-bit machines
// it has half the size:
//
//	offset  size  field
//	0       8     address of the sled
//	8       8     address of the function
//	16      1     kind, as SledKind
//	17      1     1 if always instrumented
//	18      1     version
//	19      13    zero
//
// Versions 0 and 1 hold addresses. Since version 2, each of the two words holds the distance
// from itself to the address.
//
// Files may be damaged or hostile. The package checks every length against the file before it
// uses it, and returns errors.
package symbolize
