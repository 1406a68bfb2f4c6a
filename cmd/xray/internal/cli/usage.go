package cli

import (
	"bytes"
	"io"
	"regexp"
	"strings"

	"github.com/spf13/cobra"
)

// ShortUsage makes the help texts of cmd and its subcommands show how flags are written. pflag
// shows --quiet[=true|false] for --quiet, and --sched LIST[="switches"] for a flag whose value is
// optional and must follow an equals sign.
func ShortUsage(cmd *cobra.Command) {
	usage := cmd.UsageFunc()
	cmd.SetUsageFunc(func(c *cobra.Command) error {
		out := c.OutOrStderr()
		var text bytes.Buffer
		c.SetOut(&text)
		err := usage(c)
		c.SetOut(out)
		if err != nil {
			return err
		}
		_, err = io.WriteString(out, shortenFlags(text.String()))
		return err
	})
}

// flagLine matches a line about a flag: the flag, spaces, and its meaning.
var flagLine = regexp.MustCompile(`^( +(?:-., )?--\S+(?: \S+)*?) {3,}(\S.*)$`)

// optionalValue matches a value that may be absent.
var optionalValue = regexp.MustCompile(` (\S+)\[=".*"\]$`)

// shortenFlags rewrites the flags of a help text, and aligns each list of them again.
func shortenFlags(text string) string {
	lines := strings.SplitAfter(text, "\n")
	for i := 0; i < len(lines); i++ {
		var flags, meanings []string
		width := 0
		for _, line := range lines[i:] {
			m := flagLine.FindStringSubmatch(strings.TrimSuffix(line, "\n"))
			if m == nil {
				break
			}
			flag := optionalValue.ReplaceAllString(strings.TrimSuffix(m[1], "[=true|false]"), "[=$1]")
			flags, meanings, width = append(flags, flag), append(meanings, m[2]), max(width, len(flag))
		}
		for j, flag := range flags {
			lines[i+j] = flag + strings.Repeat(" ", width-len(flag)+3) + meanings[j] + "\n"
		}
		i += len(flags)
	}
	return strings.Join(lines, "")
}
