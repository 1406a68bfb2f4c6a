package launch

import (
	"context"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strings"

	"github.com/xray-tools/xray/cmd/xray/internal/cli"
	"github.com/xray-tools/xray/recorder/instrument"
	"github.com/xray-tools/xray/report/label"
)

// CompileWord is the first argument with which a build below [Instrument] calls xray instead of a compiler.
const CompileWord = "compile-below-build"

// Instrument runs a build that instruments what it compiles, and says what that is. It returns the build's exit
// status.
func Instrument(ctx context.Context, streams *cli.Streams, args []string, o instrument.Options) error {
	plan := Plan{Streams: streams}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	path, err := exec.LookPath(args[0])
	if err != nil {
		return plan.cannotRun(err)
	}
	b, env, err := instrument.New(ctx, self, os.Args[0], CompileWord, o)
	if err != nil {
		return err
	}
	defer b.Close()
	l := plan.command(path, args, streams.Stdout.Raw)
	l.cmd.Env = append(os.Environ(), env...)
	l.onStart = func(int) {}
	status, err := l.run(ctx)
	if err != nil {
		return plan.cannotRun(err)
	}
	s, err := b.Summary()
	if err != nil {
		return err
	}
	describe(streams, s)
	if status != 0 {
		return cli.ExitStatus(status)
	}
	return nil
}

// named is how many files are named after their number.
const named = 8

// describe says what a build instrumented, and how to record it.
func describe(streams *cli.Streams, s *instrument.Summary) {
	say := func(format string, args ...any) { fmt.Fprintf(streams.Stderr, "xray: "+format+"\n", args...) }
	sources := func(list []string) string { return label.Count(uint64(len(list)), "source file", "source files") }
	if len(s.Instrumented)+len(s.Left) == 0 {
		say("nothing was compiled. If all was built before without xray, clean the build first.")
		return
	}
	say("instrumented %s", sources(s.Instrumented))
	for _, why := range slices.Sorted(maps.Keys(s.Left)) {
		list := s.Left[why]
		more := ""
		if len(list) > named {
			more = ", ..."
		}
		say("not instrumented: %s (%s): %s%s", sources(list), why, strings.Join(list[:min(len(list), named)], ", "), more)
	}
	program := ""
	for i, o := range s.Outputs {
		what := "no functions"
		switch {
		case o.Functions > 0:
			what = label.Count(uint64(o.Functions), "function", "functions")
		case o.Hooks:
			what = "GCC's hooks"
		}
		if program == "" && !o.Shared && (o.Functions > 0 || o.Hooks) {
			program = o.Path
		}
		if i < named {
			say("%s: %s", o.Path, what)
		}
	}
	if n := len(s.Outputs) - named; n > 0 {
		say("and %s more", label.Count(uint64(n), "program or shared object", "programs and shared objects"))
	}
	if program != "" {
		if !strings.Contains(program, "/") {
			program = "./" + program
		}
		say("next: xray record %s", program)
	}
}
