// Package instrument instruments a build from outside: it runs a build command, and adds to each
// call of a compiler below it the flags that instrument what is compiled, without a change of build
// files.
//
// A library that is preloaded into the build (preload/exec.c) sends each execution of a compiler to
// [Compile], which adds the flags and becomes the compiler. Build systems see and store the compiler
// that they would have seen. So their caches stay right: a later build without xray compiles with
// the same command lines. Cargo and compiler caches get the flags in their own command lines, because
// they must know them.
//
// Programs that are linked statically do not load the library. If such a program starts compilers,
// they are not seen; [Summary] has no compilation then.
package instrument
