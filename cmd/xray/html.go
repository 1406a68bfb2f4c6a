package main

import (
	"errors"
	"io"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/xray-tools/xray/html"
	"github.com/xray-tools/xray/reader/calls"
)

func (a *app) htmlCommand() *cobra.Command {
	p := htmlFlags{most: 3_000_000}
	var output string
	cmd := &cobra.Command{
		Use:   "html TRACE...",
		Short: "Write a trace as one HTML file: calls, timeline, flame graph",
		Long: `html writes one file that shows a trace in a browser, without a network: a table of
all calls that sorts and filters at once, a timeline, a flame graph and a call tree
of any stretch of time, and each function's latencies and slowest calls.

A page has room for some millions of calls. Of a longer trace it holds the longest
calls, and says so; choose a part of the trace to see all of it.`,
		Example: `  xray html -m ./server -o trace.html trace.xray
  xray html -m ./server --around 'handle#1' --source -o slow.html trace.xray`,
		Args: operands("a TRACE", 1, true),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := errors.Join(a.refuseTerminal(output, "html"), p.sourceFlags.check()); err != nil {
				return err
			}
			s, err := a.open(cmd, &p.flags, args)
			if err != nil {
				return err
			}
			defer s.close()
			page, stats, err := p.record(s, args)
			if err != nil {
				return err
			}
			err = a.writeData(output, func(w io.Writer) error { return page.Write(w, s.names) })
			s.summary(stats)
			if p.sources != nil {
				p.sources.tell()
			}
			return err
		},
	}
	f := cmd.Flags()
	p.add(cmd)
	addOutput(f, &output)
	return cmd
}

// htmlFlags are the flags of commands that make a page.
type htmlFlags struct {
	flags traceFlags
	sourceFlags
	title   string
	most    int
	sources *sources // nil where none are wanted
}

func (p *htmlFlags) add(cmd *cobra.Command) {
	f := cmd.Flags()
	p.flags.add(f)
	f.StringVar(&p.title, "title", "", "title of the page")
	addCount(f, &p.most, "max-calls", "", 1, "show the `N` longest calls at most")
	p.sourceFlags.add(f, "show the source code of functions, where its files are on this machine")
	addKeepGoing(f)
}

// record makes a page of what the command line chose.
func (p *htmlFlags) record(s *session, args []string) (*html.Recording, *calls.Stats, error) {
	var err error
	opts := &html.Options{
		Title: p.title, Frequency: s.clock.Frequency,
		ThreadName: s.trace.ThreadName, ProcessName: s.trace.ProcessName,
	}
	if opts.Title == "" {
		names := make([]string, len(args))
		for i, arg := range args {
			names[i] = filepath.Base(arg)
		}
		opts.Title = strings.Join(names, ", ")
	}
	if p.source {
		if p.sources, err = s.sources(&p.sourceFlags); err != nil {
			return nil, nil, err
		}
		opts.Source = p.sources.text
	}
	if opts.Base, err = s.start(); err != nil {
		return nil, nil, err
	}
	if r := s.trace.Recording(0); r != nil {
		opts.Epoch, _ = r.Clock.Realtime(opts.Base)
	}
	note, err := s.keepLongest(p.most)
	if err != nil {
		return nil, nil, err
	}
	if note != "" {
		opts.Notes = append(opts.Notes, note)
	}
	if lost := s.trace.Losses().Records(); lost > 0 {
		opts.Notes = append(opts.Notes, plural(lost, "record", "records")+" lost")
	}
	// Entries are kept before it is known how long a call takes.
	opts.MinDuration, s.filter.MinDuration = s.filter.MinDuration, 0
	page, stats, err := analyse(s, calls.Options{Opens: true}, func() *html.Recording { return html.New(opts) })
	if err == nil {
		opts.Notes = append(s.caveats(stats), opts.Notes...)
	}
	return page, stats, err
}
