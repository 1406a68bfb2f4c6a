// Package debuginfo says what ELF files and their debug information tell of addresses in
// code: names as they are linked, where functions are defined, which line the code at an
// address is of, which calls were inlined, and where calls are made.
//
// [NewELF] and [OpenELF] read the headers of a file. [NewBinary] finds the symbols of a list
// of functions: one pass over the symbol table (symtab.go). All else is read when it is first
// asked for, so that memory grows with the number of functions and not with the size of the
// file. For locations, the entries of functions in .debug_info say where these are defined
// (definitions.go). Line tables are run for what they do not say, and the rows at the
// addresses are kept (lines.go, lineprog.go). Both are read in parallel.
//
// Debug information may be elsewhere: in a separate debug file (debugfile.go), compressed
// within the file (minidebug.go), in .dwo files or a .dwp package, or in what dwz moved
// (split.go). Options say where these are looked for.
//
// ELF files of both classes and byte orders are read, linked or not. Relocatable files are
// laid out in memory as a linker would do it (elf.go), so that the rest of the package need
// not tell them apart.
//
// Files may be damaged or hostile: every length is checked against the file before it is
// used, and what goes wrong is an error.
package debuginfo
