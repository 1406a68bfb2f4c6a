package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/xray-tools/xray/cmd/xray/internal/cli"
	"github.com/xray-tools/xray/cmd/xray/internal/launch"
	"github.com/xray-tools/xray/internal/texttab"
	"github.com/xray-tools/xray/recorder/core"
	"github.com/xray-tools/xray/report/label"
)

// coreFlags are the flags of core.
type coreFlags struct {
	last   time.Duration
	exe    string
	pid    string
	output string
}

func (a *app) coreCommand() *cobra.Command {
	var c coreFlags
	cmd := &cobra.Command{
		Use:   "core CORE | core -p PID",
		Short: "Recover recent calls from a core dump",
		Long: `Write a trace of the last calls of each thread from a core dump: the records that were in
the recorder's memory when the program crashed or when gcore dumped it. The core dump can
be compressed with gzip or zstd, as systemd-coredump stores it.

core also reads the ring file that a program with the recorder option shm= leaves behind
when it is killed. Traces from xray record are complete and do not need core.

LLVM's own XRay runtime loses records that it has not flushed to a file. core recovers
them from a core dump or, with -p, from a running process. It writes them in that
runtime's format, so pass the program to other commands with -m.`,
		Example: `  xray core core.1234 -o last.xray
  xray core --last 50ms /var/lib/systemd/coredump/core.server.1234.zst
  xray core /dev/shm/xray-server.1234.ring
  xray core -p 1234 -o now.xray`,
		Args: func(cmd *cobra.Command, args []string) error {
			switch {
			case c.pid == "":
				return cli.Operands("one CORE, or -p and the ID of a process", 1, false)(cmd, args)
			case len(args) > 0:
				return cli.Usagef("unexpected argument %q: -p reads a running process", args[0])
			case !isPID(c.pid):
				return cli.Usagef("-p takes the ID of a process, not %q", c.pid)
			}
			return nil
		},
		RunE: func(_ *cobra.Command, args []string) error { return a.core(&c, args) },
	}
	f := cmd.Flags()
	f.StringVarP(&c.output, "output", "o", "", "write to `FILE` (default CORE.xray in the working directory)")
	cli.AddDuration(f, &c.last, "last", "write only the last `TIME` before the latest record (for example 50ms)")
	f.StringVar(&c.exe, "exe", "", "read names from `PROGRAM`, if the program has moved")
	f.StringVarP(&c.pid, "pid", "p", "", "read the memory of the running process `PID`, which has LLVM's runtime")
	cli.Spellings(f, nil)
	return cmd
}

func isPID(text string) bool {
	n, err := strconv.Atoi(text)
	return err == nil && n > 0
}

// open opens the core file or the process, and chooses the name of the output.
func (c *coreFlags) open(stdin io.Reader, args []string) (*core.Core, error) {
	if c.pid != "" {
		c.output = cmp.Or(c.output, "core."+c.pid+".xray")
		pid, _ := strconv.Atoi(c.pid)
		return core.OpenProcess(pid)
	}
	name := filepath.Base(args[0])
	if args[0] == "-" {
		name = "core"
	}
	c.output = cmp.Or(c.output, name+".xray")
	return core.Open(args[0], stdin)
}

func (a *app) core(flags *coreFlags, args []string) (err error) {
	if flags.output != "" {
		if err := a.RefuseTerminal(flags.output, "a trace"); err != nil {
			return err
		}
	}
	dump, err := flags.open(a.Stdin, args)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, dump.Close()) }()
	if dump.Cut() {
		a.Say("%s: the core file is truncated; xray recovers what it can", args[0])
	}
	if flags.exe != "" {
		exe, err := filepath.Abs(flags.exe)
		if err != nil {
			return err
		}
		dump.SetProgram(exe)
	}
	if flags.last != 0 && len(dump.Logs()) > 0 {
		return cli.Usagef("--last does not apply to records of LLVM's runtime: select part of the trace with `xray slice --last`")
	}
	var paths []string
	write := func(trace func(io.Writer) error) error {
		paths = append(paths, numbered(flags.output, len(paths)))
		return a.WriteData(paths[len(paths)-1], trace)
	}
	for _, rings := range dump.Rings() {
		if err := write(func(w io.Writer) error { return rings.WriteTrace(w, flags.last) }); err != nil {
			return err
		}
	}
	for _, log := range dump.Logs() {
		if err := write(log.WriteTrace); err != nil {
			return err
		}
	}
	return a.reportCore(dump, paths)
}

// numbered returns the path of trace i of a core dump. Usually there is only one.
func numbered(path string, i int) string {
	if i == 0 || path == "-" {
		return path
	}
	ext := filepath.Ext(path)
	return fmt.Sprintf("%s.%d%s", strings.TrimSuffix(path, ext), i+1, ext)
}

// reportCore reports what was written: the traces of the recorder, then those of LLVM's runtime.
func (a *app) reportCore(dump *core.Core, paths []string) error {
	ending := dump.Ending()
	if ending != "" {
		ending = "ended by " + ending + ": "
	}
	if rings := paths[:len(dump.Rings())]; len(rings) > 0 && rings[0] != "-" {
		report, err := launch.Read(rings)
		if err != nil {
			return err
		}
		a.Say("%s%s", ending, report.Summary(true))
	}
	for i, log := range dump.Logs() {
		path := paths[len(dump.Rings())+i]
		text := fmt.Sprintf("records of LLVM's %s mode", log.Mode())
		if path != "-" {
			report, err := launch.Count(path)
			if err != nil {
				return err
			}
			text = fmt.Sprintf("%s, recorded by LLVM's %s mode, %s in %s", report.What(), log.Mode(), label.Bytes(uint64(report.Bytes)), launch.NearNames([]string{path})[0])
		}
		for _, note := range log.Notes() {
			text += "; " + note
		}
		if path != "-" {
			text += fmt.Sprintf("; next: xray account -m %s %s", texttab.Printable(cmp.Or(dump.Program(), "PROGRAM")), launch.NearNames([]string{path})[0])
		}
		a.Say("%s%s", ending, text)
	}
	return nil
}
