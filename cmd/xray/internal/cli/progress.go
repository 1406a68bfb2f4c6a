package cli

import (
	"fmt"
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
