package observe

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/xray-tools/xray/internal/fileio"
	"github.com/xray-tools/xray/recorder"
	"github.com/xray-tools/xray/recorder/client"
	"github.com/xray-tools/xray/recorder/proc"
)

// SchedFollower reads the scheduler events of a process that writes its trace itself. It keeps them in
// an unnamed file, and appends them to the trace when the process has finished the trace.
type SchedFollower struct {
	tasks   int // number of tasks in the spool
	options SchedOptions
	reader  *schedReader
	trace   *os.File
	spool   *os.File
	first   uint64
	cancel  context.CancelFunc
	done    chan error
}

// FollowSched begins to read scheduler events. An error is one line long.
func FollowSched(o SchedOptions) (*SchedFollower, error) {
	if fields, err := proc.StatusFields(o.PID); err == nil && len(fields["NSpid"]) > 1 {
		return nil, errors.New("the process runs in another PID namespace, so the kernel's events use different IDs")
	}
	f := &SchedFollower{options: o, done: make(chan error, 1)}
	var err error
	if f.trace, err = fileio.Append(o.Trace, false); err != nil {
		return nil, err
	}
	if f.spool, err = unnamed(filepath.Dir(o.Trace)); err != nil {
		return nil, err
	}
	if f.reader, err = newSchedReader(o.Interrupts); err != nil {
		return nil, err
	}
	f.first = f.reader.since
	tids, err := threadsOf(o.PID)
	if err != nil {
		return nil, errors.Join(err, f.reader.close())
	}
	f.reader.begin(o.PID, tids, schedEvents(&Options{}))
	ctx, cancel := context.WithCancel(context.Background())
	f.cancel = cancel
	go f.run(ctx)
	return f, nil
}

// unnamed creates a file without a name.
func unnamed(dir string) (*os.File, error) {
	f, err := os.CreateTemp(dir, ".xray-sched-")
	if err != nil {
		return nil, err
	}
	return f, os.Remove(f.Name())
}

func threadsOf(pid int) ([]int, error) {
	names, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid))
	if err != nil {
		return nil, err
	}
	var tids []int
	for _, n := range names {
		if tid, err := strconv.Atoi(n.Name()); err == nil {
			tids = append(tids, tid)
		}
	}
	return tids, nil
}

func (f *SchedFollower) run(ctx context.Context) {
	tick := time.NewTicker(schedInterval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			f.done <- nil
			return
		case <-tick.C:
		}
		if err := f.take(1); err != nil {
			f.done <- err
			return
		}
	}
}

func (f *SchedFollower) take(least int) error {
	f.reader.claim(f.options.PID)
	block, _ := f.reader.take(f.options.PID, least, f.first, &f.tasks)
	_, err := f.spool.Write(block)
	return err
}

// Finish reads the remaining events, removes what FollowSched set up, and appends the events to the
// trace when the process has finished it.
func (f *SchedFollower) Finish(ctx context.Context) error {
	f.cancel()
	err := <-f.done
	f.reader.catchUp()
	if err == nil {
		err = f.take(0)
	}
	err = errors.Join(err, f.reader.close(), f.finished(ctx))
	if _, seek := f.spool.Seek(0, io.SeekStart); err == nil && seek == nil {
		_, err = io.Copy(f.trace, f.spool)
	}
	return errors.Join(err, f.spool.Close(), f.trace.Close())
}

// finished waits until the process no longer writes to the trace.
func (f *SchedFollower) finished(ctx context.Context) error {
	for tries := range 100 {
		p, err := client.Dial(strconv.Itoa(f.options.PID))
		if err != nil {
			return nil // the process has ended
		}
		var status client.Status
		if _, err := p.Do(ctx, &status, "status"); err != nil {
			if !p.Alive() {
				return nil
			}
		} else if status.Mode == recorder.Off {
			return nil
		}
		time.Sleep(time.Duration(tries+1) * time.Millisecond)
	}
	return fmt.Errorf("process %d is still writing %s: cannot add scheduler events", f.options.PID, f.options.Trace)
}
