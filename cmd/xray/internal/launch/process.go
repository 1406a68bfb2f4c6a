package launch

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/xray-tools/xray/recorder"
	"github.com/xray-tools/xray/recorder/client"
	"github.com/xray-tools/xray/recorder/live"
	"github.com/xray-tools/xray/recorder/observe"
	"github.com/xray-tools/xray/recorder/ring"
	"github.com/xray-tools/xray/report/label"
)

// Process records a running process, until d has passed or the process or the user ends it. 0 is no limit.
func (plan *Plan) Process(ctx context.Context, target string, d time.Duration) error {
	// An interrupt ends the recording, but not before the recording has started.
	ctx, stop := UntilInterrupted(ctx)
	defer stop()
	p, status, err := plan.Reach(ctx, target)
	if err != nil {
		return err
	}
	if err := plan.CheckLimit(p, &status); err != nil {
		return err
	}
	if status.Mode != recorder.Off {
		return fmt.Errorf("%s is already being recorded: run xray ctl %s status for details, or xray ctl %[2]s stop to end it", p, p.Target())
	}
	filter, known, err := plan.applyFilter(ctx, p)
	if err != nil {
		return err
	}
	plan.WarnOfMarks(status.Exe)
	path := recorder.ExpandTemplate(plan.Output, status.PID, filepath.Base(status.Exe))
	// The recording ends with the process, however that ends.
	var held *client.Held
	executable := ExecutableOf(p.PID)
	_, file, err := plan.startStream(path, func(command string, file *os.File) (data []byte, err error) {
		data, held, err = p.Hold(ctx, command, file)
		return data, err
	})
	if err != nil {
		return err
	}
	defer held.Close()
	if err := plan.checkPatched(ctx, p); err != nil {
		_, _ = p.Do(context.WithoutCancel(ctx), nil, "stop")
		return errors.Join(err, file.Close(), os.Remove(path))
	}
	var limiter *live.Limiter
	if plan.Budget > 0 {
		observe.StepBack()
		if limiter, err = live.NewLimiter(ctx, p, plan.Budget); err != nil {
			_, _ = p.Do(context.WithoutCancel(ctx), nil, "stop")
			return errors.Join(err, file.Close(), os.Remove(path))
		}
	}
	var follower *schedFollower
	if plan.Sched {
		options := observe.SchedOptions{PID: status.PID, Trace: path, Interrupts: plan.Interrupts}
		if follower, err = plan.startFollower(options); err != nil {
			return err
		}
	}
	if !filter.All() {
		go plan.followObjects(ctx, p, filter, known)
	}
	if !plan.Quiet {
		fmt.Fprintf(plan.Stderr, "xray: recording process %d into %s; press Ctrl-C to stop\n", status.PID, path)
	}
	isOver := wait(ctx, p, held, limiter, d)
	if limiter != nil {
		limiter.Stop()
	}
	if isOver {
		if why := whyOver(p, executable); why != "" && !plan.Quiet {
			plan.Say("%s", why)
		}
	} else {
		// The context may be done. The recording must end anyway.
		_, err = p.Do(context.WithoutCancel(ctx), nil, "stop")
		if errors.Is(err, client.ErrNoRecorder) || limiter != nil && limiter.Over() {
			err = nil // it has ended
		}
	}
	if err = errors.Join(err, file.Close()); err != nil && p.Alive() {
		return errors.Join(err, follower.finish())
	}
	if err := follower.finish(); err != nil {
		return err
	}
	if limiter != nil {
		if err := limiter.Finish(path); err != nil {
			return err
		}
	}
	report, err := Read([]string{path})
	if err != nil {
		return err
	}
	if !plan.Quiet {
		fmt.Fprintf(plan.Stderr, "xray: %s\n", report.Summary(status.Functions > 0))
	}
	return nil
}

// checkPatched returns an error if the recorder had to refuse all objects of a process that has begun to
// record. It notes functions of libc that are not recorded everywhere.
func (plan *Plan) checkPatched(ctx context.Context, p *client.Process) error {
	var status client.Status
	_, err := p.Do(ctx, &status, "status")
	if err == nil && status.LibcallsLeft > 0 {
		plan.Say("%s: calls of %s of the C library are recorded only in part: some object also uses their addresses. To record all, start the program with xray record --libcalls",
			p, label.Count(uint64(status.LibcallsLeft), "function", "functions"))
	}
	if err != nil || len(status.Refused) == 0 || status.Patched > 0 || status.Windows != nil {
		return nil // a process that does not answer has ended
	}
	return fmt.Errorf("%s: no function can be recorded: %s: %s", p, status.Refused[0].Path, status.Refused[0].Why)
}

// Reach finds the recorder of a process, and loads it into a process that was not prepared, with
// rings and memory as planned, or of the default sizes for 0.
func (plan *Plan) Reach(ctx context.Context, target string) (p *client.Process, status client.Status, err error) {
	p, waited, err := plan.find(ctx, target, &status)
	if !errors.Is(err, client.ErrNoRecorder) || p == nil || p.PID == 0 {
		return p, status, err
	}
	if waited > 0 {
		return p, status, fmt.Errorf("%w after %v. The process began with the recorder, and may still load its objects: try again", err, waited.Round(time.Second))
	}
	library, err := Build(ctx, plan.Streams, plan.Compiler)
	if err == nil {
		p, err = client.Attach(ctx, target, library, plan.Ring, plan.Memory)
	}
	if err == nil {
		_, err = p.Do(ctx, &status, "status")
	}
	return p, status, err
}

// CheckLimit returns an error if a process has had a recorder already, with another limit of memory than planned.
func (plan *Plan) CheckLimit(p *client.Process, status *client.Status) error {
	if plan.Memory == 0 || status.Memory != nil && status.Memory.Limit/ring.ChunkSize == plan.Memory/ring.ChunkSize {
		return nil
	}
	return fmt.Errorf("%s already has a recorder: --memory must be given when the program starts", p)
}

// find finds the recorder of a process. If the process has just started with the recorder, find waits until
// that listens, for a few seconds. It returns how long it waited in vain, or 0.
func (plan *Plan) find(ctx context.Context, target string, status *client.Status) (*client.Process, time.Duration, error) {
	const patience, short, often = 5 * time.Second, 500 * time.Millisecond, 5 * time.Millisecond
	for began, told := time.Now(), false; ; Sleep(ctx, often) {
		p, err := client.Dial(target)
		if err != nil {
			return nil, 0, err
		}
		_, err = p.Do(ctx, status, "status")
		waited := time.Since(began)
		switch {
		case !errors.Is(err, client.ErrNoRecorder) || ctx.Err() != nil || !p.IsStarting():
			return p, 0, err
		case waited > patience:
			return p, waited, err
		case waited > short && !told:
			told = true
			plan.Say("waiting for %s to start", p)
		}
	}
}

// applyFilter tells a process to record the functions that the flags choose, in the objects that
// are loaded now.
func (plan *Plan) applyFilter(ctx context.Context, p *client.Process) (*observe.Filter, []string, error) {
	filter, err := plan.filter(plan.Streams)
	if err != nil {
		return nil, nil, err
	}
	if filter.Chosen, err = plan.loadCalls(ctx, p); err != nil {
		return nil, nil, err
	}
	objects, err := p.Objects(ctx)
	if err != nil {
		return nil, nil, err
	}
	known := ObjectPaths(objects)
	return filter, known, plan.chooseIn(ctx, p, filter, nil, known)
}

// loadCalls loads the objects that record functions of libc into a process, and returns their paths.
func (plan *Plan) loadCalls(ctx context.Context, p *client.Process) (paths []string, err error) {
	sets, err := plan.Libcalls.Sets()
	if err != nil || len(sets) == 0 {
		return nil, err
	}
	library, err := Build(ctx, plan.Streams, plan.Compiler)
	if err != nil {
		return nil, err
	}
	for _, path := range library.PreloadCalls(sets...) {
		paths = append(paths, observe.RealPath(path))
	}
	return paths, p.LoadCalls(ctx, library, sets)
}

// startStream tells a process to record into a new file. It returns the recorder's answer and the
// file. It replaces an existing file.
func (plan *Plan) startStream(path string, start func(command string, file *os.File) ([]byte, error)) ([]byte, *os.File, error) {
	if err := removeOld(recorder.EscapeTemplate(path)); err != nil {
		return nil, nil, err
	}
	file, err := client.Create(path)
	if err != nil {
		return nil, nil, err
	}
	data, err := start(plan.StartCommand(true), file)
	if err != nil {
		file.Close()
		os.Remove(path)
		return nil, nil, err
	}
	return data, file, nil
}

// StartFile tells a process to record into the planned file, until the process ends or is told to stop.
// It returns the recorder's answer.
func (plan *Plan) StartFile(ctx context.Context, p *client.Process) ([]byte, error) {
	data, file, err := plan.startStream(plan.Output, func(command string, file *os.File) ([]byte, error) {
		return p.Do(ctx, nil, command, file)
	})
	if err != nil {
		return nil, err
	}
	return data, file.Close()
}

// wait waits until ctx is done, the recording or the process is over, the duration has passed, or the
// limiter has nothing more to limit. A duration of 0 has no end. wait reports whether the process has
// ended the recording.
func wait(ctx context.Context, p *client.Process, held *client.Held, limiter *live.Limiter, d time.Duration) bool {
	var after <-chan time.Time
	if d > 0 {
		after = time.After(d)
	}
	poll := time.NewTicker(200 * time.Millisecond)
	defer poll.Stop()
	for {
		select {
		case <-ctx.Done():
			return false
		case <-after:
			return false
		case <-held.Over():
			return true
		case <-poll.C:
			if hasEnded(p) {
				return true
			}
			if limiter != nil && limiter.Over() {
				// The connection of a process that executes a program also ends, perhaps a moment later.
				select {
				case <-held.Over():
					return true
				case <-time.After(200 * time.Millisecond):
					return false
				}
			}
		}
	}
}

// hasEnded reports whether a process has ended. When a thread other than the first executes a program, the
// first thread ends before the others do, and the process looks dead for a moment.
func hasEnded(p *client.Process) bool {
	threads, _ := os.ReadDir(fmt.Sprintf("/proc/%d/task", p.PID))
	return len(threads) <= 1 && !p.Alive()
}

// whyOver says why a process has ended a recording that began when it executed a file. It waits until
// that is known, and returns "" if the process has ended.
func whyOver(p *client.Process, executable string) string {
	const patience = time.Second // the connection ends before the process does, and before it executes another file
	for began := time.Now(); time.Since(began) < patience; time.Sleep(5 * time.Millisecond) {
		if hasEnded(p) {
			return ""
		}
		if now := ExecutableOf(p.PID); now != executable && now != "" {
			return fmt.Sprintf("%s executes %s, so the recording has ended", p, now)
		}
	}
	return fmt.Sprintf("something else has ended the recording of %s, such as xray ctl, or the process executes its program again", p)
}

// NeedRings returns an error if a process records into a file.
func NeedRings(p *client.Process, status *client.Status) error {
	if status.Recording && (status.Stream != nil || status.ObservedStream) {
		return fmt.Errorf("%s is being recorded into a file, so it has no ring buffers to read. End that recording first. For details, run xray ctl %s status", p, p.Target())
	}
	return nil
}

// HoldRings has a process record into its rings. The recording ends when end is called, or when this
// process ends.
func (plan *Plan) HoldRings(ctx context.Context, p *client.Process) (end func(), err error) {
	filter, known, err := plan.applyFilter(ctx, p)
	if err != nil {
		return nil, err
	}
	_, held, err := p.Hold(ctx, plan.StartCommand(false))
	if err != nil {
		return nil, err
	}
	if err := plan.checkPatched(ctx, p); err != nil {
		_, _ = p.Do(context.WithoutCancel(ctx), nil, "stop")
		held.Close()
		return nil, err
	}
	following, unfollow := context.WithCancel(ctx)
	if !filter.All() {
		go plan.followObjects(following, p, filter, known)
	}
	return func() {
		unfollow()
		_, _ = p.Do(context.WithoutCancel(ctx), nil, "stop") // it may have ended
		held.Close()
	}, nil
}

// ExecutableOf returns the file that a process executes, or "" if that is unknown.
func ExecutableOf(pid int) string {
	path, _ := os.Readlink(fmt.Sprintf("/proc/%d/exe", pid))
	return path
}

// IsGone reports whether a process has ended, or is about to: then it has no memory, but still looks alive for
// a moment.
func IsGone(p *client.Process) bool { return !p.Alive() || p.PID != 0 && ExecutableOf(p.PID) == "" }
