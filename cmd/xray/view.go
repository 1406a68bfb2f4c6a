package main

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/xray-tools/xray/cmd/xray/internal/cli"
	"github.com/xray-tools/xray/cmd/xray/internal/session"
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
				return a.showInPerfetto(cmd.Context(), s, p.most)
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
			return a.showPage(cmd.Context(), data.Bytes())
		},
	})
	return cmd
}

// showPage serves a page, compressed with gzip, until the user ends it.
func (a *app) showPage(ctx context.Context, data []byte) error {
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt)
	defer stop()
	path := "/" + rand.Text() + "/"
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+path+"{$}", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		w.Header().Set("Content-Encoding", "gzip")
		_, _ = w.Write(data)
	})
	address := "http://" + listener.Addr().String() + path
	fmt.Fprintf(a.Stderr, "xray: showing %s until interrupted\n", address)
	return a.serve(ctx, listener, mux, address)
}

// perfettoAddress is the only address from which the Perfetto UI fetches traces.
const perfettoAddress, perfettoUI = "127.0.0.1:9001", "https://ui.perfetto.dev"

// showInPerfetto serves the longest calls of the trace to the Perfetto UI, once.
func (a *app) showInPerfetto(ctx context.Context, s *session.Session, most int) error {
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt)
	defer stop()
	listener, err := net.Listen("tcp", perfettoAddress)
	if err != nil {
		return fmt.Errorf("the Perfetto UI accepts traces only from %s, which another program may be using: "+
			"stop that program, or open a file from xray convert -f perfetto in the UI: %w", perfettoAddress, err)
	}
	defer listener.Close()
	var data bytes.Buffer
	c := conversion{format: "perfetto", spec: traceFormatNamed("perfetto"), most: most}
	opts, err := c.options(s)
	if err != nil {
		return err
	}
	z := gzip.NewWriter(&data)
	if err := errors.Join(c.write(s, opts, z), z.Close()); err != nil {
		return err
	}
	ctx, fetched := context.WithCancel(ctx)
	defer fetched()
	path := "/" + rand.Text() + "/" + url.PathEscape(filepath.Base(s.Trace.Files()[0])) + ".pftrace.gz"
	address := perfettoUI + "/#!/?url=" + url.QueryEscape("http://"+perfettoAddress+path)
	fmt.Fprintf(a.Stderr, "xray: passing the trace to %s\n", address)
	return a.serve(ctx, listener, handOver(path, data.Bytes(), fetched), address)
}

// handOver serves a trace at a path to the Perfetto UI, and calls fetched afterwards.
func handOver(path string, data []byte, fetched func()) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.EscapedPath() != path {
			http.NotFound(w, r)
			return
		}
		w.Header().Set("Access-Control-Allow-Origin", perfettoUI)
		w.Header().Set("Content-Type", "application/octet-stream")
		if _, err := w.Write(data); err == nil && r.Method == http.MethodGet {
			fetched()
		}
	})
}

// serve opens an address in the browser, and serves until the context is done.
func (a *app) serve(ctx context.Context, listener net.Listener, handler http.Handler, address string) error {
	server := &http.Server{Handler: handler, ReadHeaderTimeout: 10 * time.Second}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(listener) }()
	if err := openBrowser(address, a.Stderr.Raw); err != nil {
		fmt.Fprintf(a.Stderr, "xray: cannot open a browser: %v. Open the address yourself\n", err)
	}
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	}
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
	defer cancel()
	return server.Shutdown(last)
}

// openBrowser tells the desktop to open an address.
func openBrowser(address string, stderr io.Writer) error {
	command := []string{"xdg-open"}
	switch runtime.GOOS {
	case "darwin":
		command = []string{"open"}
	case "windows":
		command = []string{"rundll32", "url.dll,FileProtocolHandler"}
	}
	// The variable may list several browsers.
	if first, _, _ := strings.Cut(os.Getenv("BROWSER"), string(os.PathListSeparator)); first != "" {
		command = strings.Fields(first)
	}
	cmd := exec.Command(command[0], append(command[1:], address)...)
	cmd.Stderr = stderr
	if err := cmd.Start(); err != nil {
		return err
	}
	go func() { _ = cmd.Wait() }()
	return nil
}
