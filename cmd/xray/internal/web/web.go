// Package web shows pages and traces in the user's browser, which it serves to this machine only, at addresses that
// nobody can guess.
package web

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
	"runtime"
	"strings"
	"time"

	"github.com/xray-tools/xray/cmd/xray/internal/cli"
)

// ShowPage serves a page, compressed with gzip, until the user interrupts the program or ctx is done.
func ShowPage(ctx context.Context, streams *cli.Streams, data []byte) error {
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
	fmt.Fprintf(streams.Stderr, "xray: showing %s until interrupted\n", address)
	return serve(ctx, streams, listener, mux, address)
}

// PerfettoAddress is the only address from which the Perfetto UI fetches traces.
const PerfettoAddress, perfettoUI = "127.0.0.1:9001", "https://ui.perfetto.dev"

// ShowInPerfetto serves a trace to the Perfetto UI, once. name is shown there. It calls write only if the UI's port is
// free, and compresses what that writes.
func ShowInPerfetto(ctx context.Context, streams *cli.Streams, name string, write func(io.Writer) error) error {
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt)
	defer stop()
	listener, err := net.Listen("tcp", PerfettoAddress)
	if err != nil {
		return fmt.Errorf("the Perfetto UI accepts traces only from %s, which another program may be using: "+
			"stop that program, or open a file from xray convert -f perfetto in the UI: %w", PerfettoAddress, err)
	}
	defer listener.Close()
	var data bytes.Buffer
	z := gzip.NewWriter(&data)
	if err := errors.Join(write(z), z.Close()); err != nil {
		return err
	}
	ctx, fetched := context.WithCancel(ctx)
	defer fetched()
	path := "/" + rand.Text() + "/" + url.PathEscape(name) + ".pftrace.gz"
	address := perfettoUI + "/#!/?url=" + url.QueryEscape("http://"+PerfettoAddress+path)
	fmt.Fprintf(streams.Stderr, "xray: passing the trace to %s\n", address)
	return serve(ctx, streams, listener, handOver(path, data.Bytes(), fetched), address)
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
func serve(ctx context.Context, streams *cli.Streams, listener net.Listener, handler http.Handler, address string) error {
	server := &http.Server{Handler: handler, ReadHeaderTimeout: 10 * time.Second}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(listener) }()
	if err := openBrowser(address, streams.Stderr.Raw); err != nil {
		fmt.Fprintf(streams.Stderr, "xray: cannot open a browser: %v. Open the address yourself\n", err)
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
