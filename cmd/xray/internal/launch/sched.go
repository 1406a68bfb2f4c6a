package launch

import (
	"bufio"
	"context"
	"fmt"

	"github.com/xray-tools/xray/cmd/xray/internal/cli"
	"github.com/xray-tools/xray/recorder/observe"
)

// FollowSched is the [partner] that reads the scheduler's events for record -p. It answers with the word
// "following". When its input ends, it appends the events to the trace.
func FollowSched(streams *cli.Streams) error {
	outliveRecord()
	in := bufio.NewScanner(streams.Stdin)
	var options observe.SchedOptions
	if err := readOptions(in, &options); err != nil {
		return err
	}
	f, err := observe.FollowSched(options)
	if err != nil {
		ready(streams.Stdout, "following", err.Error())
		return nil
	}
	ready(streams.Stdout, "following", "")
	for in.Scan() {
	}
	return f.Finish(context.Background())
}

// schedFollower is the process that reads the scheduler's events for record -p.
type schedFollower struct{ *partner }

// startFollower starts the process and waits until it reads events. If it cannot, it reports the
// reason and returns nil.
func (plan *Plan) startFollower(options observe.SchedOptions) (*schedFollower, error) {
	p, err := newPartner("follow-sched")
	if err != nil {
		return nil, err
	}
	p.cmd.Stderr = plan.Stderr.Raw
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	f := &schedFollower{p}
	why, err := p.send(options, "following")
	if err != nil {
		return nil, fmt.Errorf("cannot start the process that reads scheduler events: %w", err)
	}
	if why != "" {
		plan.warnOfSched(why)
		return nil, f.finish()
	}
	return f, nil
}

// finish waits until the events are in the trace. Without a process, it does nothing.
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
