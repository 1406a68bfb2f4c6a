package main

import (
	"slices"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/xray-tools/xray/cmd/xray/internal/cli"
	"github.com/xray-tools/xray/cmd/xray/internal/session"
	"github.com/xray-tools/xray/recorder/doctor"
	"github.com/xray-tools/xray/report"
)

func (a *app) doctorCommand() *cobra.Command {
	var output session.Output
	cmd := &cobra.Command{
		Use:   "doctor [PROGRAM|PID]",
		Short: "Check what can be recorded, and say what is missing",
		Long: `Check this machine, and a program or a running process: what can be recorded, and what
cannot. Each problem comes with a command or a setting that solves it. doctor changes
nothing.

The exit status is 0, also if something is missing.`,
		Example: `  xray doctor
  xray doctor ./server
  xray doctor 1234`,
		Args: cli.Operands("a PROGRAM or a PID", 0, true),
		RunE: func(cmd *cobra.Command, args []string) error {
			list := doctor.Machine(cmd.Context())
			for _, arg := range args {
				look := func() ([]doctor.Check, error) { return doctor.Program(cmd.Context(), arg) }
				if pid, err := strconv.Atoi(arg); err == nil {
					look = func() ([]doctor.Check, error) { return doctor.Process(cmd.Context(), pid) }
				}
				found, err := look()
				if err != nil {
					return err
				}
				list = slices.Concat(list, found)
			}
			return session.WriteDoc(&a.Streams, &output, &report.Doc{Kind: "doctor", Body: doctor.Body(list)})
		},
	}
	output.AddFlags(cmd.Flags())
	return cmd
}
