package main

import (
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/xray-tools/xray/cmd/xray/internal/cli"
	"github.com/xray-tools/xray/cmd/xray/internal/session"
)

// command is a subcommand over traces: its help, its flags and its run. What all such
// commands share, as how inputs and names are given and how reports are written, is
// declared by inputs and output.
type command struct {
	use, short, long, example string

	args   cobra.PositionalArgs // one trace or more, unless set
	inputs *session.Inputs
	output *session.Output // nil for commands that write no report
	// formats are those that output has beside those of all reports, and synonyms other
	// words for them.
	formats  []string
	synonyms map[string]string
	alias    map[string]string // other names of flags
	flags    func(*pflag.FlagSet)
	check    func() error // refuses flags before any work is done; may be nil
	// apart reports that run is for one trace at a time; nil if it always is for all.
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
			if c.apart == nil || !c.apart() {
				return c.over(a, cmd.Name(), args...)
			}
			for _, arg := range args {
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
