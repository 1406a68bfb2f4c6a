package main

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/xray-tools/xray/recorder"
)

// observeCommand is the process that writes traces for record. It is one of its own,
// in a session of its own, so that whatever ends record does not end the recording: not
// Ctrl-C, not a closed terminal, not a kill. It runs until the last recorded process
// has ended.
//
// Its standard input has its options, an object of JSON in a line; when it listens, it
// writes a line. Then come lines "started PID", for the program, and "settle", which it
// answers with a line of JSON, a [recorder.Observed].
func (a *app) observeCommand() *cobra.Command {
	return &cobra.Command{
		Use: "observe", Hidden: true, Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			signal.Ignore(os.Interrupt, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGPIPE)
			return observe(cmd.Context(), a.stdin, a.stdout)
		},
	}
}

func observe(ctx context.Context, in io.Reader, out io.Writer) error {
	lines := bufio.NewScanner(in)
	var options recorder.ObserverOptions
	if !lines.Scan() {
		return cmp.Or(lines.Err(), io.ErrUnexpectedEOF)
	}
	if err := json.Unmarshal(lines.Bytes(), &options); err != nil {
		return err
	}
	observer, err := recorder.Listen(options)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- observer.Run(ctx) }()
	fmt.Fprintln(out, "listening")
	program := &recorder.Process{}
	for lines.Scan() {
		command, rest, _ := strings.Cut(lines.Text(), " ")
		switch command {
		case "started":
			if pid, err := strconv.Atoi(rest); err == nil {
				program.PID = pid
			}
		case "settle":
			answer, err := json.Marshal(observer.Settle())
			if err != nil {
				return err
			}
			fmt.Fprintf(out, "%s\n", answer)
			program.PID = 0
		}
	}
	// Whoever asked is gone.
	for program.PID != 0 && program.Alive() || !observer.Idle() {
		time.Sleep(100 * time.Millisecond)
	}
	cancel()
	return <-ended
}

// observer is the process that writes the traces of a launch.
type observer struct {
	cmd    *exec.Cmd
	in     io.WriteCloser
	out    *bufio.Reader
	failed strings.Builder // its standard error
}

// startObserver starts the process that writes the traces, and waits until programs can
// find it.
func (a *app) startObserver(options recorder.ObserverOptions) (*observer, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	o := &observer{cmd: exec.Command(self, "observe")}
	o.cmd.Args[0] = os.Args[0]
	o.cmd.SysProcAttr = newSession()
	o.cmd.Stderr = &o.failed
	if o.in, err = o.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := o.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	o.out = bufio.NewReader(out)
	if err := o.cmd.Start(); err != nil {
		return nil, err
	}
	line, err := json.Marshal(options)
	if err != nil {
		return nil, err
	}
	if _, err = fmt.Fprintf(o.in, "%s\n", line); err == nil {
		_, err = o.out.ReadString('\n')
	}
	if err != nil {
		return nil, o.end(fmt.Errorf("the process that writes the trace does not start: %w", err))
	}
	return o, nil
}

// end waits for the observer, which has failed, and says why it did.
func (o *observer) end(err error) error {
	_ = o.in.Close()
	waitErr := o.cmd.Wait()
	if text := strings.TrimSpace(o.failed.String()); text != "" {
		return errors.Join(err, errors.New(text))
	}
	return errors.Join(err, waitErr)
}

// started tells which process the program is.
func (o *observer) started(pid int) { fmt.Fprintf(o.in, "started %d\n", pid) }

// settle returns what was written of the processes that have ended. The observer goes on
// alone while others run.
func (o *observer) settle() (*recorder.Observed, error) {
	var observed recorder.Observed
	_, err := fmt.Fprintln(o.in, "settle")
	var line string
	if err == nil {
		line, err = o.out.ReadString('\n')
	}
	if err == nil {
		err = json.Unmarshal([]byte(line), &observed)
	}
	if err != nil {
		return nil, o.end(fmt.Errorf("the process that writes the trace has failed: %w", err))
	}
	return &observed, o.in.Close()
}
