package main

import (
	"github.com/spf13/cobra"

	"github.com/xray-tools/xray/cmd/xray/internal/cli"
	"github.com/xray-tools/xray/cmd/xray/internal/launch"
	"github.com/xray-tools/xray/recorder"
	"github.com/xray-tools/xray/recorder/instrument"
)

func (a *app) buildCommand() *cobra.Command {
	o := instrument.Options{Threshold: 1}
	cmd := &cobra.Command{
		Use:   "build [flags] [--] COMMAND [ARGUMENT...]",
		Short: "Run a build and instrument what it compiles",
		Long: `Run a build, and add the flags that instrument to each call of clang, GCC, rustc and
Cargo below it. Build files need no change. Add debug information where there is none.

A build compiles only what is not built already. Clean it first, or use another
build directory.

At the end, print what is instrumented, what is not and why, and how to record it.
The exit status is that of the build.`,
		Example: `  xray build make -j8
  xray build sh -c 'cmake -S . -B build-xray && cmake --build build-xray'
  xray build cargo build --release`,
		Annotations: map[string]string{cli.Verbatim: "true"},
		Args:        cli.Operands("a COMMAND", 1, true),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := recorder.Supported(); err != nil {
				return err
			}
			return launch.Instrument(cmd.Context(), &a.Streams, args, o)
		},
	}
	f := cmd.Flags()
	f.SetInterspersed(false) // arguments after the command's name belong to the command
	f.IntVar(&o.Threshold, "threshold", o.Threshold, "instrument functions of at least `N` instructions and those with loops; not for GCC")
	f.StringVar(&o.Exclude, "exclude-list", "", "exclude the functions in `FILE`, written by xray exclude --write attr-list; only for clang")
	return cmd
}
