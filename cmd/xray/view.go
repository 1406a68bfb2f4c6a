package main

import (
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"path/filepath"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/xray-tools/xray/cmd/xray/internal/cli"
	"github.com/xray-tools/xray/cmd/xray/internal/session"
	"github.com/xray-tools/xray/cmd/xray/internal/web"
	"github.com/xray-tools/xray/symbolize"
)

func (a *app) viewCommand() *cobra.Command {
	p, perfetto := newPage(), false
	var cmd *cobra.Command
	cmd = a.overTraces(command{
		use:   "view TRACE...",
		short: "Open a trace in the browser",
		long: `Open the page that xray html writes in a browser. xray serves it until you press Ctrl-C,
to this machine only and at an unguessable address. To choose the browser, set $BROWSER.

With --perfetto, open the trace in the Perfetto UI, which the browser loads from
https://ui.perfetto.dev. The trace stays on this machine. If the browser asks whether the
site may access this device, allow it.`,
		example: `  xray view -m ./server trace.xray
  xray view --perfetto trace.xray`,
		inputs: &p.inputs,
		flags: func(f *pflag.FlagSet) {
			p.add(f)
			f.BoolVar(&perfetto, "perfetto", false, "open the trace in the Perfetto UI")
		},
		check: func() error {
			if perfetto && (p.title != "" || p.source.Source) {
				return cli.Usagef("--title and --source cannot be used with --perfetto")
			}
			return p.source.Check()
		},
		run: func(s *session.Session) error {
			if perfetto {
				return web.ShowInPerfetto(cmd.Context(), &a.Streams, filepath.Base(s.Trace.Files()[0]), func(w io.Writer) error {
					c := conversion{format: "perfetto", spec: traceFormatNamed("perfetto"), most: p.most}
					opts, err := c.options(s)
					if err != nil {
						return err
					}
					return c.write(s, opts, w)
				})
			}
			page, run, err := p.record(s)
			if err != nil {
				return err
			}
			s.Summary(run.Stats)
			var data bytes.Buffer
			z := gzip.NewWriter(&data)
			if err := errors.Join(page.Write(z, symbolize.WithOthers(s.FullNames())), z.Close()); err != nil {
				return err
			}
			p.sources.Tell()
			return web.ShowPage(cmd.Context(), &a.Streams, data.Bytes())
		},
	})
	return cmd
}
