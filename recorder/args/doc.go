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
// A wrong value is worse than none, so a parameter is read only from a place that is certain (places.go):
//
//   - A location in the debug information that holds at the entry is exact. It also has what optimizers did:
//     constants that replaced a parameter, and registers of functions that are called in a way of their own.
//   - Otherwise the debug information only says that a parameter exists, as without optimization, where it
//     describes the place to which the prologue copies the parameter. Then the calling convention says where
//     it is (classify.go), provided that the function is called as its declaration says. That is so if it can
//     be called from outside of what the compiler saw: its symbol is not local. The others are not if they
//     have DW_CC_nocall, or a name as f.isra.0, as clones of gcc have. clang sets DW_CC_nocall from version 17
//     on if it removes a parameter or the result, but not if it passes what a pointer points to instead of the
//     pointer. So a parameter that is missing or constant also shows it.
//   - A parameter without a location may be one that the function does not use. Its callers then pass
//     whatever is in the register, even if the function is external: clang replaces the argument by an
//     undefined value. But clang also omits locations of parameters that are used. So the code decides
//     (uses.go): what it reads before it writes it was passed.
//
// Debuggers also stop behind the prologue, where these questions do not arise; a recorder cannot.
//
// A result is read where the calling convention says, unless the function may have been changed to return
// nothing. Functions of Rust have no documented convention. What is known of the one of rustc 1.95 is in rust.go.
package args
