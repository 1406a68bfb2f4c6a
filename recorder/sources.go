package recorder

import (
	"embed"
	"fmt"
	"io/fs"
	"runtime"
	"slices"
)

//go:embed runtime
var embedded embed.FS

// Sources are the runtime's C and assembly files and headers.
func Sources() fs.FS {
	sub, err := fs.Sub(embedded, "runtime")
	if err != nil {
		panic(err) // only an invalid name can fail
	}
	return sub
}

// compileFlags are for all files of the runtime. Some of its code runs inside arbitrary functions of
// the program without saving vector registers.
var compileFlags = []string{
	"-std=gnu11", "-O2", "-Wall", "-Wextra", "-Werror=implicit",
	"-fPIC", "-fvisibility=hidden", "-fno-strict-aliasing",
	"-mgeneral-regs-only", "-fno-builtin", "-fno-stack-protector",
}

// gccFlags are flags that only GCC has or needs.
var gccFlags = []string{"-fno-tree-loop-distribute-patterns"}

// CompileFlags returns the flags to compile the runtime's files, with GCC or with clang.
func CompileFlags(gcc bool) []string {
	if gcc {
		return slices.Concat(compileFlags, gccFlags)
	}
	return slices.Clone(compileFlags)
}

// Supported returns an error with the reason if the recorder does not work on this system.
func Supported() error {
	if runtime.GOOS != "linux" || runtime.GOARCH != "amd64" {
		return fmt.Errorf("the recorder requires Linux on amd64; this is %s on %s", runtime.GOOS, runtime.GOARCH)
	}
	return nil
}
