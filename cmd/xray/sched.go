package main

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/xray-tools/xray/recorder"
)

// followCommand is the process that reads the scheduler's events for record -p, in a session
// of its own, so that it ends what it began however record ends.
//
// Its standard input has its options, an object of JSON in a line. It answers with the line
// "following", and behind it why it cannot. When its input ends, it appends the events to the
// trace.
func (a *app) followCommand() *cobra.Command {
	return &cobra.Command{
		Use: "follow-sched", Hidden: true, Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			signal.Ignore(os.Interrupt, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGPIPE)
			in := bufio.NewScanner(a.Stdin)
			var options recorder.SchedOptions
			if !in.Scan() {
				return cmp.Or(in.Err(), io.ErrUnexpectedEOF)
			}
			if err := json.Unmarshal(in.Bytes(), &options); err != nil {
				return err
			}
			f, err := recorder.FollowSched(options)
			if err != nil {
				fmt.Fprintln(a.Stdout, "following "+strings.ReplaceAll(err.Error(), "\n", ": "))
				return nil
			}
			fmt.Fprintln(a.Stdout, "following")
			for in.Scan() {
			}
			return f.Finish(context.Background())
		},
	}
}

// schedFollower is the process that reads the scheduler's events for record -p.
type schedFollower struct {
	cmd *exec.Cmd
	in  io.Closer
}

// startFollower starts it, and waits until it reads. It says why if it cannot, and returns nil
// then.
func (a *app) startFollower(options recorder.SchedOptions) (*schedFollower, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(self, "follow-sched")
	cmd.Args[0] = os.Args[0]
	cmd.SysProcAttr = newSession()
	cmd.Stderr = a.Stderr.Raw
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	f := &schedFollower{cmd, in}
	line, err := json.Marshal(options)
	if err != nil {
		return nil, err
	}
	_, err = fmt.Fprintf(in, "%s\n", line)
	answer := ""
	if err == nil {
		answer, err = bufio.NewReader(out).ReadString('\n')
	}
	if err != nil {
		return nil, fmt.Errorf("the process that reads the scheduler's events does not start: %w", err)
	}
	if why := strings.TrimSpace(strings.TrimPrefix(answer, "following")); why != "" {
		a.warnOfSched(why)
		return nil, f.finish()
	}
	return f, nil
}

// finish waits until the events are in the trace. Without a process there are none.
func (f *schedFollower) finish() error {
	if f == nil {
		return nil
	}
	_ = f.in.Close()
	if err := f.cmd.Wait(); err != nil {
		return fmt.Errorf("the process that reads the scheduler's events: %w", err)
	}
	return nil
}
