// Package debuginfo looks up code addresses in ELF files and their debug information: linkage
// names, the definitions of functions, the lines of code, inlined calls, and call sites.
//
// [NewELF] and [OpenELF] read the headers of a file. [NewBinary] finds the symbols of a list of
// functions in one pass over the symbol table (symtab.go). It reads everything else on first
// use, so memory grows with the number of functions, not with the size of the file. For
// locations it reads the entries of functions in .debug_info, which have the definitions
// (definitions.go). For functions without a definition it runs the line tables, and keeps the rows
// at their addresses (lines.go, lineprog.go). It reads both in parallel.
//
// [Binary.FunctionAt] reads the parameters of a function and where they are at its entry
// (parameters.go), and their types (types.go) with all attributes of their entries (nodes.go,
// typeunits.go).
//
// Debug information may be elsewhere: in a separate debug file (debugfile.go), in .dwo files or a
// .dwp package, or in a file of dwz (split.go).
// [Options] configure the search.
//
// The package reads ELF files of both classes and byte orders, linked or not. It lays out
// relocatable files in memory as a linker would (elf.go), so the rest of the package need not
// distinguish them.
//
// Files may be damaged or hostile. The package checks every length against the file before it
// uses it, and returns errors.
package debuginfo
