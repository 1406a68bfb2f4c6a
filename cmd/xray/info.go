package main

import (
	"github.com/spf13/cobra"

	"github.com/xray-tools/xray/cmd/xray/internal/session"
	"github.com/xray-tools/xray/explain/survey"
	"github.com/xray-tools/xray/reader/calls"
	"github.com/xray-tools/xray/report"
)

func (a *app) infoCommand() *cobra.Command {
	var (
		inputs session.Inputs
		output session.Output
	)
	return a.overTraces(command{
		use:   "info TRACE...",
		short: "Describe a trace and warn about problems in it",
		long: `Show the format and contents of a trace and what was lost. Warn about anything that makes
results misleading, and say what to do about it. Start here with a new trace.`,
		example: "  xray info -m ./server trace.xray",
		inputs:  &inputs,
		output:  &output,
		run: func(s *session.Session) error {
			return s.Pass(func(func(*calls.Unmatched) error) error {
				found, err := survey.Run(s.Trace, calls.Options{Code: s.Code})
				if err != nil {
					return err
				}
				doc := s.Doc(s.ShownNames(&output), describe(s, found))
				doc.Start = found.Stats.First
				return session.WriteDoc(s.Streams, &output, doc)
			})
		},
	})
}

// describe returns the report of a survey.
func describe(s *session.Session, found *survey.Report) []report.Node {
	return found.Body(survey.View{Trace: s.Trace, Clock: s.Clock, Names: s.Names, Missing: s.Missing()})
}
