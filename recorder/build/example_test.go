//go:build linux && amd64

package build_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"os/exec"

	"github.com/xray-tools/xray/recorder/build"
)

// Compile a program that links the recorder in.
func ExampleXRayFlags() {
	ctx := context.Background()
	library, err := build.Runtime(ctx, "clang")
	if err != nil {
		log.Fatal(err)
	}
	flags, err := build.XRayFlags(ctx, "clang", library)
	if err != nil {
		log.Fatal(err)
	}
	arguments := append(append(flags.Compile, "server.c", "-o", "server"), flags.Link...)
	if err := exec.Command("clang", arguments...).Run(); err != nil {
		log.Fatal(err)
	}
}

// Find out how a program can be recorded.
func ExampleInspect() {
	self, err := os.Executable()
	if err != nil {
		log.Fatal(err)
	}
	p, err := build.Inspect(self)
	if err != nil {
		log.Fatal(err)
	}
	switch {
	case p.Linked:
		fmt.Println("the recorder is part of it")
	case !p.Instrumented:
		fmt.Println("it has no sleds")
	case p.Interpreter == "":
		fmt.Println("it is static: link the recorder in")
	default:
		fmt.Println("preload the recorder")
	}
	// Output: it has no sleds
}
