package launch

import (
	"context"
	"os"
	"os/signal"
	"slices"
	"syscall"
	"time"
)

// unignored drops the signals that xray's parent told it to ignore, for example nohup. The
// program should ignore them too.
func unignored(signals ...os.Signal) []os.Signal { return slices.DeleteFunc(signals, signal.Ignored) }

// UntilInterrupted returns a context that ends when a signal tells xray to end. NotifyContext
// without signals would wait for all of them.
func UntilInterrupted(ctx context.Context) (context.Context, context.CancelFunc) {
	signals := unignored(os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	if len(signals) == 0 {
		return context.WithCancel(ctx)
	}
	return signal.NotifyContext(ctx, signals...)
}

// Sleep waits until d has passed or ctx is done.
func Sleep(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}
