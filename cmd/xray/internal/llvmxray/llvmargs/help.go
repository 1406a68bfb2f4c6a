package llvmargs

import (
	"fmt"
	"io"
	"slices"
	"strings"
)

// help prints the help of a subcommand, or of the tool when cmd is nil.
func (t *Tool) help(w io.Writer, cmd *Command) {
	fmt.Fprintf(w, "OVERVIEW: %s\n\n", t.Overview)
	generic := []*option{
		{name: "help", help: "Display available options (--help-hidden for more)"},
		{name: "help-list", help: "Display list of available options (--help-list-hidden for more)"},
	}
	var general []*option
	if cmd != nil {
		fmt.Fprintf(w, "SUBCOMMAND '%s': %s\n\n", cmd.Name, cmd.Short)
		fmt.Fprintf(w, "USAGE: %s %s [options] %s\n\n", t.Program, cmd.Name, cmd.Operands)
		general = slices.Clone(cmd.options)
	} else {
		generic = append(generic, &option{name: "version", help: "Display the version of this program"})
		fmt.Fprintf(w, "USAGE: %s [subcommand] [options]\n\nSUBCOMMANDS:\n\n", t.Program)
		width := 0
		for _, c := range t.Commands {
			width = max(width, len(c.Name))
		}
		for _, c := range t.Commands {
			fmt.Fprintf(w, "  %-*s - %s\n", width, c.Name, c.Short)
		}
		fmt.Fprintf(w, "\n  Type \"%s <subcommand> --help\" to get more help on a specific subcommand\n\n", t.Program)
	}
	width := 0
	for _, o := range slices.Concat(general, generic) {
		width = max(width, len(o.title()))
		for _, c := range o.choices {
			width = max(width, len(c.Name)+len("  ="))
		}
	}
	fmt.Fprintf(w, "OPTIONS:\n\n")
	if len(general) > 0 {
		fmt.Fprintf(w, "General options:\n\n")
		printOptions(w, general, width)
		fmt.Fprintln(w)
	}
	fmt.Fprintf(w, "Generic Options:\n\n")
	printOptions(w, generic, width)
}

func (o *option) title() string {
	if o.value == "" {
		return "--" + o.name
	}
	return "--" + o.name + "=<" + o.value + ">"
}

func printOptions(w io.Writer, options []*option, width int) {
	slices.SortFunc(options, func(a, b *option) int { return strings.Compare(a.name, b.name) })
	for _, o := range options {
		fmt.Fprintf(w, "  %-*s - %s\n", width, o.title(), o.help)
		for _, c := range o.choices {
			fmt.Fprintf(w, "    %-*s -   %s\n", width-2, "="+c.Name, c.Help)
		}
	}
}
