package launch

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/xray-tools/xray/cmd/xray/internal/cli"
	"github.com/xray-tools/xray/recorder/observe"
)

// Observe is the [partner] that writes traces for record. It runs until the last recorded process
// has ended.
//
// It answers with the word "listening". If it cannot record scheduler events although it was
// asked to, the reason follows. Then it reads the lines "started PID", with the process of the
// program, and "settle". It answers the latter with a line of JSON, a [observe.Result].
func Observe(ctx context.Context, streams *cli.Streams) error {
	outliveRecord()
	out := streams.Stdout
	lines := bufio.NewScanner(streams.Stdin)
	var given observing
	if err := readOptions(lines, &given); err != nil {
		return err
	}
	options, err := given.recorder(streams)
	if err != nil {
		return err
	}
	if options.Budget > 0 {
		observe.StepBack()
	}
	observer, err := observe.Listen(options)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- observer.Run(ctx) }()
	ready(out, "listening", observer.NoSched())
	told := make(chan string)
	go func() {
		defer close(told)
		for lines.Scan() {
			told <- lines.Text()
		}
	}()
	terminated := make(chan os.Signal, 1)
	signal.Notify(terminated, syscall.SIGTERM)
	var patience <-chan time.Time
	var check <-chan time.Time // nil while the process that asks is there
	for told != nil || !observer.Idle() {
		select {
		case line, more := <-told:
			if !more {
				told = nil // the process that asks is gone
				ticker := time.NewTicker(100 * time.Millisecond)
				defer ticker.Stop()
				check = ticker.C
				continue
			}
			if err := tell(observer, out, line); err != nil {
				return err
			}
		case <-terminated:
			patience = time.After(terminationDelay)
		case <-patience:
			observer.HandOver()
			return cli.ExitStatus(128 + int(syscall.SIGTERM))
		case <-check:
		}
	}
	cancel()
	return <-ended
}

// observing is what the observer is told: its options, and the flags that select functions.
type observing struct {
	observe.Options
	Selection
	Libcalls []string // objects of --libcalls
}

func (o *observing) recorder(streams *cli.Streams) (observe.Options, error) {
	filter, err := o.filter(streams)
	if err == nil && !filter.All() {
		filter.Chosen = o.Libcalls
		o.Filter = filter
	}
	return o.Options, err
}

// terminationDelay is how long the observer continues after SIGTERM. The observed processes may end by the
// same signal.
const terminationDelay = 2 * time.Second

// tell does what a line says.
func tell(observer *observe.Observer, out io.Writer, line string) error {
	command, rest, _ := strings.Cut(line, " ")
	switch command {
	case "started":
		if pid, err := strconv.Atoi(rest); err == nil {
			observer.Started(pid)
		}
	case "settle":
		answer, err := json.Marshal(observer.Settle())
		if err != nil {
			return err
		}
		fmt.Fprintf(out, "%s\n", answer)
	}
	return nil
}

// observer is the process that writes the traces of a launch.
type observer struct {
	*partner
	failed chan string // receives its standard error when it has ended
	// noSched is why it records no scheduler events although it was asked to, or "".
	noSched string
}

// startObserver starts the process that writes the traces, and waits until programs can
// find it.
func startObserver(options observing) (*observer, error) {
	p, err := newPartner("observe")
	if err != nil {
		return nil, err
	}
	o := &observer{partner: p, failed: make(chan string, 1)}
	failed, err := o.cmd.StderrPipe()
	if err != nil {
		return nil, err
	}
	if err := o.cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		text, _ := io.ReadAll(io.LimitReader(failed, maxFailure))
		o.failed <- strings.TrimSpace(string(text))
		// The program considers the observer alive until somebody reaps it.
		_, _ = o.cmd.Process.Wait()
	}()
	if o.noSched, err = o.send(options, "listening"); err != nil {
		return nil, o.end("cannot start the process that writes the trace", err)
	}
	return o, nil
}

// maxFailure limits how much of the observer's error message is read.
const maxFailure = 64 << 10

// end returns why the observer has failed. A broken pipe to the observer must not look like a
// broken pipe of xray's output.
func (o *observer) end(what string, err error) error {
	_ = o.in.Close()
	if text := <-o.failed; text != "" {
		return fmt.Errorf("%s: %v\n%s", what, err, text)
	}
	return fmt.Errorf("%s: %v", what, err)
}

// started tells the observer the process of the program.
func (o *observer) started(pid int) { fmt.Fprintf(o.in, "started %d\n", pid) }

// settle returns what was written for the processes that have ended. The observer continues
// alone while others run.
func (o *observer) settle() (*observe.Result, error) {
	var observed observe.Result
	_, err := fmt.Fprintln(o.in, "settle")
	var line string
	if err == nil {
		line, err = o.out.ReadString('\n')
	}
	if err == nil {
		err = json.Unmarshal([]byte(line), &observed)
	}
	if err != nil {
		return nil, o.end("the process that writes the trace ended early; if the program exited on its own, its remaining records are in a second file", err)
	}
	return &observed, o.in.Close()
}
