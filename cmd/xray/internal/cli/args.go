package cli

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// Verbatim is the annotation of subcommands whose arguments hold another program's command
// line. [NormalizeArgs] leaves them as they are.
const Verbatim = "verbatim"

// NormalizeArgs accepts long options with a single dash (-instr_map=FILE), as llvm-xray
// does. pflag would take them for a group of one-letter options. An argument that could be
// either stays as it is, unless it is the full name of a long option of the subcommand.
func NormalizeArgs(root *cobra.Command, args []string) []string {
	cmd, _, err := root.Find(args)
	if err != nil || cmd == root || cmd.Annotations[Verbatim] != "" {
		return args
	}
	out := slices.Clone(args)
	for i, arg := range out {
		if arg == "--" {
			break
		}
		if len(arg) < 3 || arg[0] != '-' || arg[1] == '-' {
			continue
		}
		name, _, _ := strings.Cut(arg[1:], "=")
		if len(name) > 1 && cmd.Flags().Lookup(name) != nil {
			out[i] = "-" + arg
		}
	}
	return out
}

// spelled maps other names to flags that several subcommands have.
var spelled = map[string]string{"debug-dir": "symbols"}

// Spellings makes long options available under other names: with underscores instead of hyphens,
// and under the names that alias maps to flags.
func Spellings(flags *pflag.FlagSet, alias map[string]string) {
	flags.SetNormalizeFunc(func(_ *pflag.FlagSet, name string) pflag.NormalizedName {
		name = strings.ReplaceAll(name, "_", "-")
		for _, names := range []map[string]string{spelled, alias} {
			if to, ok := names[name]; ok {
				name = to
			}
		}
		return pflag.NormalizedName(name)
	})
}

// Operands checks the number of operands: exactly n, or at least n if more is set. The error
// quotes usage.
func Operands(usage string, n int, more bool) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		switch {
		case len(args) < n:
			return Usagef("give %s", usage)
		case len(args) > n && !more:
			return Usagef("unexpected argument %q: pass only %s", args[n], usage)
		case slices.Contains(args, ""):
			return Usagef("the file name is empty")
		}
		if i := slices.Index(args, "-"); i >= 0 && slices.Contains(args[i+1:], "-") {
			return Usagef("standard input (-) can be read only once")
		}
		return nil
	}
}
