// Package args finds out how the recorder can read arguments and results of functions: it compiles
// expressions as "req->key.size()" to steps of a small machine in the recorder, by the debug information of
// the program. Package value describes what is recorded.
//
// [Parse] reads the expressions of --args and --results (grammar.go). [NewFunction] finds the parameters of a
// function, and [Function.Entry] and [Function.Exit] compile paths from them (compile.go, operand.go).
// library.go knows the strings, containers, optionals, pointers and durations of libstdc++, libc++ and Rust.
//
// # Where parameters are
//
// A wrong value is worse than none, so a parameter is read only from a place that is certain (places.go).
// These are the sources, and what makes each of them certain:
//
//   - A location in the debug information that holds at the entry, or a few instructions later if the code
//     in between keeps the register (uses.go). It is exact even if an optimizer changed how the function is
//     called. If the calling convention is known to hold, both must agree: a function that assigns one
//     parameter to another at once has the location of the other one. A constant is refused for the same
//     reason.
//   - A variable in the debug information to which the first instructions copy a register. That is how code
//     without optimization begins, in all languages.
//   - The calling convention (classify.go), if the debug information says that the parameter exists and the
//     function is called as its declaration says. That is so if it can be called from outside of what the
//     compiler saw: its symbol is not local. Local ones are not if they have DW_CC_nocall, or a name as
//     f.isra.0, as clones of gcc have. clang sets DW_CC_nocall from version 17 on if it removes a parameter
//     or the result, but not if it passes what a pointer points to instead of the pointer. So a parameter
//     that is missing or constant also shows it.
//   - The code, for a parameter without a location in a function that is called as its declaration says. It
//     may be one that the function does not use. Its callers then pass whatever is in the register, even if
//     the function is external: clang replaces the argument by an undefined value. But clang also omits
//     locations of parameters that are used. What the code reads before it writes it was passed (uses.go).
//
// Debuggers also stop behind the prologue, where these questions do not arise; a recorder cannot.
//
// A result is read where the calling convention says, unless the function may have been changed to return
// nothing. Functions of Rust have no documented convention. What is known of the one of rustc 1.95 is in rust.go.
package args
