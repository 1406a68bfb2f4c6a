package outfile

import (
	"os"
	"os/signal"
	"slices"
	"syscall"
	"time"
)

// createGuarded creates a file. Until done is called, a signal that ends this process
// removes the file first. Signals that this process was told to ignore, as by nohup,
// stay ignored.
func createGuarded(path string, create func(path string) (*os.File, error)) (file *os.File, done func(), err error) {
	signals := make(chan os.Signal, 1)
	heeded := slices.DeleteFunc([]os.Signal{os.Interrupt, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT}, signal.Ignored)
	if len(heeded) > 0 {
		signal.Notify(signals, heeded...)
	}
	if file, err = create(path); err != nil {
		signal.Stop(signals)
		return nil, nil, err
	}
	over := make(chan struct{})
	go func() {
		select {
		case s := <-signals:
			os.Remove(path)
			endBySignal(signals, s)
		case <-over:
		}
	}()
	return file, func() {
		signal.Stop(signals)
		close(over)
	}, nil
}

// endBySignal ends the process as the signal would have, so that a shell knows why and
// ends its loops, too.
func endBySignal(signals chan<- os.Signal, s os.Signal) {
	signal.Stop(signals)
	if s == syscall.SIGQUIT {
		os.Exit(128 + int(syscall.SIGQUIT)) // Go's own way prints the stacks of all goroutines
	}
	if self, err := os.FindProcess(os.Getpid()); err == nil && self.Signal(s) == nil {
		time.Sleep(time.Second) // it comes to another thread, at any moment
	}
	// The kernel does not end process 1 of a container by a signal.
	status := 1
	if n, ok := s.(syscall.Signal); ok {
		status = 128 + int(n)
	}
	os.Exit(status)
}
