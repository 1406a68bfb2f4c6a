package main

import (
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// normalizeArgs lets habits of llvm-xray stand: long options with one dash
// (-instr_map=FILE), which pflag would take for a group of one-letter options.
// An argument that could be either is left alone, unless it names a long option
// of the subcommand in full. Command lines that hold another program's are not
// touched.
func normalizeArgs(root *cobra.Command, args []string) []string {
	cmd, _, err := root.Find(args)
	if err != nil || cmd == root || cmd.Annotations[verbatim] != "" {
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

// verbatim is the annotation of subcommands whose arguments are left as they are.
const verbatim = "verbatim"

// spellings makes long options known by other names too: with underscores for
// hyphens, and under the names of llvm-xray that alias maps to ours.
func spellings(flags *pflag.FlagSet, alias map[string]string) {
	flags.SetNormalizeFunc(func(_ *pflag.FlagSet, name string) pflag.NormalizedName {
		name = strings.ReplaceAll(name, "_", "-")
		if to, ok := alias[name]; ok {
			name = to
		}
		return pflag.NormalizedName(name)
	})
}

// choice is a flag that takes one of a few words.
type choice struct {
	value    *string
	allowed  []string
	synonyms map[string]string // what llvm-xray says, and what we say
}

// addChoice adds a flag that takes one of allowed; *p is its default.
func addChoice(flags *pflag.FlagSet, p *string, name, short, usage string, allowed ...string) *choice {
	c := &choice{value: p, allowed: allowed}
	flags.VarP(c, name, short, usage+": "+strings.Join(allowed, ", "))
	return c
}

func (c *choice) String() string { return *c.value }

func (c *choice) Type() string { return "word" }

func (c *choice) Set(s string) error {
	if to, ok := c.synonyms[s]; ok {
		s = to
	}
	if !slices.Contains(c.allowed, s) {
		return usagef("choose one of %s", strings.Join(c.allowed, ", "))
	}
	*c.value = s
	return nil
}

// count is a flag that takes a whole number, of which those below least make no
// sense.
type count struct {
	value *int
	least int
}

// addCount adds a flag that takes a number; *p is its default.
func addCount(flags *pflag.FlagSet, p *int, name, short string, least int, usage string) {
	flags.VarP(&count{p, least}, name, short, usage)
}

func (c *count) String() string { return strconv.Itoa(*c.value) }

func (c *count) Type() string { return "int" }

func (c *count) Set(s string) error {
	n, err := strconv.ParseInt(s, 10, 32)
	if err != nil || n < int64(c.least) {
		return usagef("give a whole number from %d on", c.least)
	}
	*c.value = int(n)
	return nil
}

// completeColumns lets shells complete a flag that takes a column, or with lists
// some with commas between.
func completeColumns(cmd *cobra.Command, flag string, columns []string, lists bool) {
	complete := func(_ *cobra.Command, _ []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
		before := ""
		if i := strings.LastIndexByte(typed, ','); lists {
			before = typed[:i+1]
		}
		var words []cobra.Completion
		for _, c := range columns {
			words = append(words, before+c)
		}
		return words, cobra.ShellCompDirectiveNoFileComp
	}
	// The only error is that the flag has a completion already.
	_ = cmd.RegisterFlagCompletionFunc(flag, complete)
}

// completeChoices lets shells complete the words that flags take.
func completeChoices(cmd *cobra.Command) {
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if c, ok := f.Value.(*choice); ok {
			// The only error is that the flag has a completion already.
			_ = cmd.RegisterFlagCompletionFunc(f.Name, cobra.FixedCompletions(c.allowed, cobra.ShellCompDirectiveNoFileComp))
		}
	})
}
