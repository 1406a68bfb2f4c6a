package main

import (
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/xray-tools/xray/cmd/xray/internal/cli"
	"github.com/xray-tools/xray/recorder"
)

// coreFlags are the flags of core.
type coreFlags struct {
	last   time.Duration
	exe    string
	output string
}

func (a *app) coreCommand() *cobra.Command {
	var c coreFlags
	cmd := &cobra.Command{
		Use:   "core CORE",
		Short: "Recover recent calls from a core dump",
		Long: `Write a trace of what the recorder had in memory when a program crashed, or when gcore
made a core file of it: the last calls of each thread. Core files may be compressed with
gzip or zstd, as systemd-coredump keeps them.

core also reads the ring files that a program with the option shm= leaves behind when it
is killed. Traces of xray record are complete without core.`,
		Example: `  xray core core.1234 -o last.xray
  xray core --last 50ms /var/lib/systemd/coredump/core.server.1234.zst
  xray core /dev/shm/xray-server.1234.ring`,
		Args: cli.Operands("one CORE", 1, false),
		RunE: func(_ *cobra.Command, args []string) error {
			if c.output == "" {
				c.output = filepath.Base(args[0]) + ".xray"
				if args[0] == "-" {
					c.output = "core.xray"
				}
			}
			return a.core(&c, args[0])
		},
	}
	f := cmd.Flags()
	f.StringVarP(&c.output, "output", "o", "", "write to `FILE` (default CORE.xray in the working directory)")
	cli.AddDuration(f, &c.last, "last", "only the last `TIME` before the latest record, such as 50ms")
	f.StringVar(&c.exe, "exe", "", "take names from `PROGRAM`, if the program has moved")
	cli.Spellings(f, nil)
	return cmd
}

func (a *app) core(flags *coreFlags, path string) (err error) {
	if err := a.RefuseTerminal(flags.output, "a trace"); err != nil {
		return err
	}
	core, err := recorder.OpenCore(path, a.Stdin)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, core.Close()) }()
	if core.Cut() {
		a.Say("%s: the core file is truncated; xray uses what there is", path)
	}
	var paths []string
	for i, rings := range core.Rings() {
		if flags.exe != "" {
			exe, err := filepath.Abs(flags.exe)
			if err != nil {
				return err
			}
			rings.SetProgram(exe)
		}
		output := numbered(flags.output, i)
		if err := a.WriteData(output, func(w io.Writer) error { return rings.WriteTrace(w, flags.last) }); err != nil {
			return err
		}
		paths = append(paths, output)
	}
	return a.reportCore(core, paths)
}

// numbered returns the path of trace i of a core dump. Usually there is only one.
func numbered(path string, i int) string {
	if i == 0 || path == "-" {
		return path
	}
	ext := filepath.Ext(path)
	return fmt.Sprintf("%s.%d%s", strings.TrimSuffix(path, ext), i+1, ext)
}

// reportCore reports what was written.
func (a *app) reportCore(core *recorder.Core, paths []string) error {
	if paths[0] == "-" {
		return nil
	}
	report, err := readRecorded(paths)
	if err != nil {
		return err
	}
	ending := core.Ending()
	if ending != "" {
		ending = "ended by " + ending + ": "
	}
	a.Say("%s%s", ending, report.summary(true))
	return nil
}
