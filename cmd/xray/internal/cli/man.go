package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/xray-tools/xray/internal/fileio"
)

// WriteManPages writes the manual pages of cmd and all its subcommands into a directory, which it creates if
// necessary. The output is reproducible.
func WriteManPages(dir string, cmd *cobra.Command) error {
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return err
	}
	cmd.InitDefaultHelpFlag()
	name := strings.ReplaceAll(cmd.CommandPath(), " ", "-")
	err := fileio.Write(filepath.Join(dir, name+".1"), func(file *os.File) error {
		_, err := file.Write(manPage(cmd, name))
		return err
	})
	if err != nil {
		return err
	}
	for _, sub := range cmd.Commands() {
		if sub.IsAvailableCommand() {
			if err := WriteManPages(dir, sub); err != nil {
				return err
			}
		}
	}
	return nil
}

// manPage is the page of a command in the man macros of roff.
func manPage(cmd *cobra.Command, name string) []byte {
	var b []byte
	section := func(title string) { b = fmt.Appendf(b, ".SH %s\n", title) }
	b = fmt.Appendf(b, ".TH %s 1 \"\" xray \"\"\n", roff(strings.ToUpper(name)))
	section("NAME")
	b = fmt.Appendf(b, "%s \\- %s\n", roff(name), roff(cmd.Short))
	section("SYNOPSIS")
	b = fmt.Appendf(b, "\\fB%s\\fR\n", roff(cmd.UseLine()))
	section("DESCRIPTION")
	text := cmd.Long
	if text == "" {
		text = cmd.Short + "."
	}
	// Lists and paragraphs have the layout of the help text.
	b = fmt.Appendf(b, ".nf\n%s\n.fi\n", roff(text))
	for _, group := range []struct {
		title string
		flags *pflag.FlagSet
	}{{"OPTIONS", cmd.NonInheritedFlags()}, {"GLOBAL OPTIONS", cmd.InheritedFlags()}} {
		if !group.flags.HasAvailableFlags() {
			continue
		}
		section(group.title)
		group.flags.VisitAll(func(f *pflag.Flag) {
			if !f.Hidden {
				b = appendManFlag(b, f)
			}
		})
	}
	if cmd.Example != "" {
		section("EXAMPLES")
		b = fmt.Appendf(b, ".nf\n%s\n.fi\n", roff(cmd.Example))
	}
	section("EXIT STATUS")
	b = append(b, "0 for success, 1 for data that cannot be used and for failed input or output, 2 for a wrong command line.\n"...)
	section("SEE ALSO")
	return append(b, seeAlso(cmd)...)
}

func appendManFlag(b []byte, f *pflag.Flag) []byte {
	value, usage := pflag.UnquoteUsage(f)
	b = append(b, ".TP\n"...)
	if f.Shorthand != "" {
		b = fmt.Appendf(b, "\\fB\\-%s\\fR, ", f.Shorthand)
	}
	b = fmt.Appendf(b, "\\fB\\-\\-%s\\fR", roff(f.Name))
	if value != "" {
		b = fmt.Appendf(b, " \\fI%s\\fR", roff(value))
	}
	return fmt.Appendf(b, "\n%s\n", roff(usage))
}

func seeAlso(cmd *cobra.Command) string {
	var names []string
	if cmd.HasParent() {
		names = append(names, strings.ReplaceAll(cmd.Parent().CommandPath(), " ", "-"))
	}
	for _, sub := range cmd.Commands() {
		if sub.IsAvailableCommand() {
			names = append(names, strings.ReplaceAll(sub.CommandPath(), " ", "-"))
		}
	}
	for i, name := range names {
		names[i] = fmt.Sprintf("\\fB%s\\fR(1)", roff(name))
	}
	return strings.Join(names, ", ") + "\n"
}

// roff escapes text: dashes, so that users can copy them, and dots and quotes that would turn a
// line into a request.
func roff(s string) string {
	s = strings.NewReplacer(`\`, `\e`, "-", `\-`).Replace(s)
	lines := strings.Split(s, "\n")
	for i, line := range lines {
		if strings.HasPrefix(line, ".") || strings.HasPrefix(line, "'") {
			lines[i] = `\&` + line
		}
	}
	return strings.Join(lines, "\n")
}
