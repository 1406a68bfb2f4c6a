package fileio

import (
	"os"
	"os/signal"
	"slices"
	"syscall"
	"time"
)

// createGuarded creates a file or directory. Until done is called, a fatal signal removes it
// before the process ends. Signals that the process ignores, for example because of nohup,
// stay ignored.
func createGuarded(path string, create func(path string) (*os.File, error)) (file *os.File, done func(), err error) {
	signals := make(chan os.Signal, 1)
	unignored := slices.DeleteFunc([]os.Signal{os.Interrupt, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT}, signal.Ignored)
	if len(unignored) > 0 {
		signal.Notify(signals, unignored...)
	}
	if file, err = create(path); err != nil {
		signal.Stop(signals)
		return nil, nil, err
	}
	over := make(chan struct{})
	go func() {
		select {
		case s := <-signals:
			os.RemoveAll(path)
			endBySignal(signals, s)
		case <-over:
		}
	}()
	return file, func() {
		signal.Stop(signals)
		close(over)
	}, nil
}

// endBySignal ends the process with the same signal, so that a shell sees the cause and
// ends its loops.
func endBySignal(signals chan<- os.Signal, s os.Signal) {
	signal.Stop(signals)
	if s == syscall.SIGQUIT {
		os.Exit(128 + int(syscall.SIGQUIT)) // the Go runtime would print the stacks of all goroutines
	}
	if self, err := os.FindProcess(os.Getpid()); err == nil && self.Signal(s) == nil {
		time.Sleep(time.Second) // another thread receives the signal at any moment
	}
	// The kernel does not deliver the signal if this is process 1 of a container.
	status := 1
	if n, ok := s.(syscall.Signal); ok {
		status = 128 + int(n)
	}
	os.Exit(status)
}
