package main

import (
	"slices"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/xray-tools/xray/cmd/xray/internal/cli"
	"github.com/xray-tools/xray/cmd/xray/internal/session"
)

// command is a subcommand that reads traces: its help, its flags and its run. inputs and output
// declare what all such commands share: how to pass inputs and names, and how to write reports.
type command struct {
	use, short, long, example string

	args cobra.PositionalArgs // one trace or more, unless set
	// traces removes the operands that are not traces, and returns the others. It may be nil.
	traces func(operands []string) []string
	inputs *session.Inputs
	output *session.Output // nil for commands that write no report
	// formats are the formats of the command besides those of all reports. synonyms maps other
	// words to formats.
	formats  []string
	synonyms map[string]string
	alias    map[string]string // other names of flags
	flags    func(*pflag.FlagSet)
	check    func() error // refuses flags before any work is done; may be nil
	// apart reports whether run handles one trace at a time. nil means that it handles all at once.
	apart func() bool
	run   func(*session.Session) error
}

// overTraces makes a subcommand.
func (a *app) overTraces(c command) *cobra.Command {
	if c.args == nil {
		c.args = cli.Operands("a TRACE", 1, true)
	}
	cmd := &cobra.Command{
		Use: c.use, Short: c.short, Long: c.long, Example: c.example, Args: c.args,
		RunE: func(cmd *cobra.Command, args []string) error {
			if c.check != nil {
				if err := c.check(); err != nil {
					return err
				}
			}
			if c.traces != nil {
				args = c.traces(args)
			}
			files, err := cli.FilesBelow(args)
			if err != nil {
				return err
			}
			if c.apart == nil || !c.apart() {
				if !slices.Equal(args, files) {
					c.inputs.Named = args
				}
				return c.over(a, cmd.Name(), files...)
			}
			for _, arg := range files {
				if err := c.over(a, cmd.Name(), arg); err != nil {
					return err
				}
			}
			return nil
		},
	}
	f := cmd.Flags()
	c.inputs.AddFlags(f)
	if c.flags != nil {
		c.flags(f)
	}
	if c.output != nil {
		c.output.AddFlags(f, c.formats...).Synonyms = c.synonyms
	}
	cli.AddKeepGoing(f)
	cli.Spellings(f, c.alias)
	return cmd
}

// over runs the subcommand over traces that are read together.
func (c *command) over(a *app, name string, paths ...string) error {
	s, err := c.inputs.Open(&a.Streams, name, paths...)
	if err != nil {
		return err
	}
	defer s.Close()
	return c.run(s)
}
