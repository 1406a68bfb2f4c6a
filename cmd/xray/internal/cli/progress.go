package cli

import (
	"fmt"
	"sync"
	"time"

	"github.com/xray-tools/xray/internal/texttab"
	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/report/label"
)

// Progress is an operation that takes time, such as a pass over a *[reader.Trace]. Total may be
// unknown, and then is not positive.
type Progress interface {
	Progress() (done, total int64)
}

var _ Progress = (*reader.Trace)(nil)

// Progress shows the progress of t on a terminal until the returned function is called. Short
// runs show nothing, nor do runs whose standard error is not a terminal.
func (s *Streams) Progress(what string, t Progress) (stop func()) {
	if !IsTerminal(s.Stderr.Raw) {
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
					fmt.Fprintf(s.Stderr.Raw, "\r%s: %d%% of %s\x1b[K", texttab.Printable(what), n*100/total, label.Bytes(uint64(total)))
					shown = true
				}
			case <-done:
				if shown {
					fmt.Fprint(s.Stderr.Raw, "\r\x1b[K")
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

// Downloads returns a function that shows the progress of downloads on a terminal, or nil if
// standard error is not one.
func (s *Streams) Downloads() func(url string, done, total int64) {
	if !IsTerminal(s.Stderr.Raw) {
		return nil
	}
	var mu sync.Mutex
	return func(url string, done, total int64) {
		mu.Lock()
		defer mu.Unlock()
		switch {
		case done == total:
			fmt.Fprint(s.Stderr.Raw, "\r\x1b[K")
		case total > 0:
			fmt.Fprintf(s.Stderr.Raw, "\r%s: %d%% of %s\x1b[K", texttab.Printable(url), done*100/total, label.Bytes(uint64(total)))
		default:
			fmt.Fprintf(s.Stderr.Raw, "\r%s: %s\x1b[K", texttab.Printable(url), label.Bytes(uint64(done)))
		}
	}
}
