// Xray records and analyzes function-call traces of LLVM's XRay instrumentation.
//
// Every subcommand has a file that declares its flags and connects the packages that do the
// work:
//
//	files -> reader.Open -> calls.Run with an analysis -> report -> renderer
//
// If its name begins with llvm-xray, the program takes the command lines of LLVM's llvm-xray and
// prints the same; see internal/llvmxray.
//
// The exit status is 0 for success, 1 for bad data, failed input or output, and losses with
// --strict, and 2 for wrong usage. xray record exits with the status of the program that it ran.
// xray diff --gate also uses 3, 4 and 5; see gateStatus. A reader of standard output that goes
// away is not a failure.
package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/xray-tools/xray/cmd/xray/internal/cli"
	"github.com/xray-tools/xray/cmd/xray/internal/launch"
	"github.com/xray-tools/xray/cmd/xray/internal/llvmxray"
	"github.com/xray-tools/xray/recorder/instrument"
)

func main() {
	if len(os.Args) > 1 && os.Args[1] == launch.CompileWord {
		err := instrument.Compile(os.Args[2:])
		fmt.Fprintf(os.Stderr, "xray: %v\n", err)
		os.Exit(exitFailed)
	}
	// Without this, a closed pipe on standard output would kill the program, and look like a
	// failure.
	signal.Ignore(syscall.SIGPIPE)
	cli.LimitMemory()
	os.Exit(run(os.Args, os.Stdin, os.Stdout, os.Stderr))
}

// Exit statuses.
const (
	exitOK     = 0
	exitFailed = 1
	exitUsage  = 2
)

// app is the state that all subcommands share: streams and global flags.
type app struct {
	cli.Streams

	profiles cli.Profiles
	// started is set once the command line has been parsed. Errors before that are usage
	// errors.
	started bool
}

func run(args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	a := &app{Streams: cli.Streams{Stdin: stdin, Stdout: cli.Text{Raw: stdout}, Stderr: cli.Text{Raw: stderr}}}
	if strings.HasPrefix(filepath.Base(args[0]), "llvm-xray") {
		return llvmxray.Run(&a.Streams, args, version())
	}
	if len(args) > 1 && args[1] == "llvm-xray" {
		return llvmxray.Run(&a.Streams, args[1:], version())
	}
	root := a.root()
	// Cobra ignores errors when it writes help.
	help := &firstFailure{w: a.Stdout}
	root.SetOut(help)
	root.SetArgs(cli.NormalizeArgs(root, args[1:]))
	err := root.Execute()
	if help.err != nil {
		a.started, err = true, help.err
	}
	return a.status(errors.Join(err, a.profiles.Stop(), a.End()))
}

// status prints err and returns its exit status.
func (a *app) status(err error) int {
	var theirs cli.ExitStatus
	switch {
	case errors.As(err, &theirs):
		return int(theirs)
	case err == nil, errors.Is(err, syscall.EPIPE):
		return exitOK
	case !a.started || errors.As(err, new(cli.UsageError)):
		fmt.Fprintf(a.Stderr, "xray: %v\n", err)
		return exitUsage
	default:
		fmt.Fprintf(a.Stderr, "xray: %v\n", err)
		return exitFailed
	}
}

func (a *app) root() *cobra.Command {
	root := &cobra.Command{
		Use:   "xray",
		Short: "Record and analyze function-call traces",
		Long: `xray records and analyzes function-call traces of programs compiled with
clang -fxray-instrument. To record a program, run "xray record PROGRAM".
To see what a trace contains, run "xray info TRACE".

xray reads basic and FDR logs of every version, profiles from LLVM's profiling mode, and
trace YAML, all of them plain or compressed with gzip or zstd. A trace can be a file, an
http or https URL, or "-" for standard input.`,
		Version:       version(),
		SilenceErrors: true,
		SilenceUsage:  true,
		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error {
			a.started = true
			if text := cli.AddressWarning(); text != "" && !cmd.Hidden {
				fmt.Fprintf(a.Stderr, "xray: %s\n", text)
			}
			return a.profiles.Start()
		},
	}
	root.SetIn(a.Stdin)
	root.SetErr(a.Stderr)
	cli.ShortUsage(root)
	root.SetVersionTemplate("{{.Name}} {{.Version}}\n")
	a.profiles.AddFlags(root.PersistentFlags())
	cobra.EnableCommandSorting = false
	for _, task := range a.tasks() {
		root.AddGroup(&cobra.Group{ID: task.title, Title: task.title + ":"})
		for _, cmd := range task.commands {
			cmd.GroupID = task.title
			root.AddCommand(cmd)
		}
	}
	root.AddCommand(a.observeCommand(), a.followCommand(), manCommand()) // hidden
	for _, cmd := range root.Commands() {
		cli.CompleteChoices(cmd)
		completeNames(cmd)
	}
	root.InitDefaultHelpCmd()
	for _, cmd := range root.Commands() {
		if cmd.Name() == "help" {
			cmd.Args = func(_ *cobra.Command, args []string) error {
				_, _, err := root.Find(args)
				return err
			}
		}
	}
	return root
}

// task is a group of commands in the help text.
type task struct {
	title    string
	commands []*cobra.Command
}

// tasks lists the commands in the order of the help text.
func (a *app) tasks() []task {
	return []task{
		{"Record", []*cobra.Command{a.doctorCommand(), a.buildCommand(), a.recordCommand(), a.watchCommand(), a.topCommand(), a.mergeSchedCommand(), a.ctlCommand(), a.excludeCommand(), a.coreCommand(), a.runtimeCommand()}},
		{"Analyze", []*cobra.Command{
			a.infoCommand(), a.accountCommand(), a.stackCommand(), a.graphCommand(), a.whyCommand(), a.slowestCommand(),
			a.shapesCommand(), a.requestsCommand(), a.locksCommand(), a.ioCommand(), a.allocCommand(), a.residencyCommand(), a.reportCommand(),
			a.sqlCommand(),
		}},
		{"Compare", []*cobra.Command{a.diffCommand(), a.graphDiffCommand()}},
		{"View", []*cobra.Command{a.viewCommand(), a.tuiCommand(), a.htmlCommand()}},
		{"Convert", []*cobra.Command{a.convertCommand(), a.summarizeCommand(), a.sliceCommand(), a.packCommand()}},
		{"Inspect", []*cobra.Command{a.extractCommand(), a.symbolizeCommand(), a.fdrDumpCommand()}},
	}
}

// manCommand makes the hidden command that packages use.
func manCommand() *cobra.Command {
	return &cobra.Command{
		Use:    "man DIRECTORY",
		Short:  "Write the manual pages",
		Hidden: true,
		Args:   cli.Operands("a DIRECTORY", 1, false),
		RunE:   func(cmd *cobra.Command, args []string) error { return cli.WriteManPages(args[0], cmd.Root()) },
	}
}

// firstFailure remembers the first error of w.
type firstFailure struct {
	w   io.Writer
	err error
}

func (f *firstFailure) Write(p []byte) (int, error) {
	n, err := f.w.Write(p)
	if f.err == nil {
		f.err = err
	}
	return n, err
}
