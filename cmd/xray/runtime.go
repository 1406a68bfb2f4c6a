package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/xray-tools/xray/cmd/xray/internal/cli"
	"github.com/xray-tools/xray/cmd/xray/internal/launch"
	"github.com/xray-tools/xray/recorder/build"
)

func (a *app) runtimeCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "runtime",
		Short: "Build the recorder into your own programs",
		Long: `Link the recorder into a program. Programs that you run with xray record need this only
if they are linked statically. For all others, xray record preloads the recorder.`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				return cli.Usagef("unknown command %q: use install or flags", args[0])
			}
			return cli.Usagef("use install or flags")
		},
		RunE: func(*cobra.Command, []string) error { return nil },
	}
	cmd.AddCommand(a.runtimeInstallCommand(), a.runtimeFlagsCommand())
	return cmd
}

func (a *app) runtimeInstallCommand() *cobra.Command {
	var cc string
	cmd := &cobra.Command{
		Use:   "install DIRECTORY",
		Short: "Write the recorder's libraries, header and pkg-config file",
		Long: `Compile the recorder and write it to a directory:

  lib/libxray-recorder.a             static library; link it with --whole-archive
  lib/libxray-recorder.so            shared library to preload
  include/xray/recorder.h            API for programs that control their own recording
  lib/pkgconfig/xray-recorder.pc     compiler and linker flags`,
		Example: "  xray runtime install /opt/xray",
		Args:    cli.Operands("one DIRECTORY", 1, false),
		RunE: func(cmd *cobra.Command, args []string) error {
			l, err := launch.Build(cmd.Context(), &a.Streams, cc)
			if err != nil {
				return err
			}
			return l.Install(args[0])
		},
	}
	launch.AddCompiler(cmd.Flags(), &cc)
	return cmd
}

func (a *app) runtimeFlagsCommand() *cobra.Command {
	var (
		cc, prefix            string
		gcc                   bool
		onlyCompile, onlyLink bool
		libcalls              launch.Libcalls
	)
	cmd := &cobra.Command{
		Use:   "flags",
		Short: "Print compiler and linker flags for a program with the recorder in it",
		Long: `Print the compiler and linker flags that instrument a program and link the recorder into
it. The flags depend on the version of clang: pass your compiler with --cc. With --gcc,
print flags for GCC, which uses a different kind of instrumentation.`,
		Example: `  clang-19 -O2 -g $(xray runtime flags --cc clang-19) prog.c -o prog
  xray runtime flags --gcc --compile`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if onlyCompile && onlyLink {
				return cli.Usagef("use only one of --compile and --link, or neither for both")
			}
			var l build.Library
			var err error
			if prefix != "" {
				l, err = build.Installed(prefix)
			} else {
				// The recorder may be compiled by another compiler.
				l, err = launch.Build(cmd.Context(), &a.Streams, "")
			}
			if err != nil {
				return err
			}
			flags := build.GCCFlags(l)
			if !gcc {
				if flags, err = build.XRayFlags(cmd.Context(), cc, l); err != nil {
					return err
				}
			}
			sets, err := libcalls.Sets()
			if err != nil {
				return err
			}
			flags.Link = append(flags.Link, l.LinkCalls(sets...)...)
			words := append(flags.Compile, flags.Link...)
			switch {
			case onlyCompile:
				words = flags.Compile
			case onlyLink:
				words = flags.Link
			}
			return a.WriteText("", func(w io.Writer) error {
				_, err := fmt.Fprintln(w, strings.Join(words, " "))
				return err
			})
		},
	}
	launch.AddCompiler(cmd.Flags(), &cc)
	f := cmd.Flags()
	f.BoolVar(&gcc, "gcc", false, "print flags for GCC")
	f.BoolVar(&onlyCompile, "compile", false, "print only compiler flags")
	f.BoolVar(&onlyLink, "link", false, "print only linker flags")
	libcalls.AddFlag(f)
	f.StringVar(&prefix, "prefix", "", "use the recorder installed in `DIRECTORY`")
	return cmd
}
