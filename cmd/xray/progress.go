package main

import (
	"fmt"
	"time"

	"github.com/xray-tools/xray/internal/label"
	"github.com/xray-tools/xray/reader"
)

// progress shows on a terminal how far the passes over the trace are, until the
// function that it returns is called. Runs that take less than a moment, and
// those that nobody watches, show nothing.
func (a *app) progress(what string, t *reader.Trace) (stop func()) {
	if !isTerminal(a.stderr.raw) {
		return func() {}
	}
	done, finished := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(finished)
		tick := time.NewTicker(250 * time.Millisecond)
		defer tick.Stop()
		shown := false
		for {
			select {
			case <-tick.C:
				if n, total := t.Progress(); total > 0 {
					fmt.Fprintf(a.stderr.raw, "\r%s: %d%% of %s\x1b[K", what, n*100/total, formatBytes(total))
					shown = true
				}
			case <-done:
				if shown {
					fmt.Fprint(a.stderr.raw, "\r\x1b[K")
				}
				return
			}
		}
	}()
	return func() {
		close(done)
		<-finished
	}
}

// formatBytes gives a size with a decimal unit that suits it.
func formatBytes(n int64) string {
	if n < 1000 {
		return fmt.Sprintf("%d bytes", n)
	}
	return label.Bytes(uint64(n))
}
