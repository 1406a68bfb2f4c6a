package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/xray-tools/xray/recorder"
	"github.com/xray-tools/xray/report/label"
)

// recordProcess records a running process.
func (a *app) recordProcess(ctx context.Context, r *recordFlags) error {
	// An interrupt ends the recording, but not before the recording has started.
	ctx, stop := untilInterrupted(ctx)
	defer stop()
	p, status, err := a.reach(ctx, r.pid, r.cc, 0, 0)
	if err != nil {
		return err
	}
	if status.Mode != recorder.Off {
		return fmt.Errorf("%s is already being recorded: run xray ctl %s status for details, or xray ctl %[2]s stop to end it", p, p.Target())
	}
	filter, known, err := r.applyFilter(ctx, a, p)
	if err != nil {
		return err
	}
	if !r.quiet {
		a.warnOfMarks(r.prune, r.within, status.Exe)
	}
	path := recorder.ExpandTemplate(r.output, status.PID, filepath.Base(status.Exe))
	// The recording ends with the process, however that ends.
	var held *recorder.Held
	image := imageOf(p.PID)
	_, file, err := startStream(&r.recordingFlags, path, func(command string, file *os.File) (data []byte, err error) {
		data, held, err = p.Hold(ctx, command, file)
		return data, err
	})
	if err != nil {
		return err
	}
	defer held.Close()
	if err := r.checkPatched(ctx, a, p); err != nil {
		_, _ = p.Do(context.WithoutCancel(ctx), nil, "stop")
		return errors.Join(err, file.Close(), os.Remove(path))
	}
	var limiter *recorder.Limiter
	if r.within > 0 {
		recorder.StepBack()
		if limiter, err = recorder.NewLimiter(ctx, p, float64(r.within)); err != nil {
			_, _ = p.Do(context.WithoutCancel(ctx), nil, "stop")
			return errors.Join(err, file.Close(), os.Remove(path))
		}
	}
	var follower *schedFollower
	if r.sched != "" {
		options := recorder.SchedOptions{PID: status.PID, Trace: path}
		if options.Interrupts, err = r.sched.interrupts(); err == nil {
			follower, err = a.startFollower(options)
		}
		if err != nil {
			return err
		}
	}
	if !filter.All() {
		go a.followObjects(ctx, p, filter, known)
	}
	if !r.quiet {
		fmt.Fprintf(a.Stderr, "xray: recording process %d into %s; press Ctrl-C to stop\n", status.PID, path)
	}
	isOver := wait(ctx, p, held, limiter, r.duration)
	if limiter != nil {
		limiter.Stop()
	}
	if isOver {
		if why := whyOver(p, image); why != "" && !r.quiet {
			a.Say("%s", why)
		}
	} else {
		// The context may be done. The recording must end anyway.
		_, err = p.Do(context.WithoutCancel(ctx), nil, "stop")
		if errors.Is(err, recorder.ErrNoRecorder) || limiter != nil && limiter.Over() {
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
	report, err := readRecorded([]string{path})
	if err != nil {
		return err
	}
	if !r.quiet {
		fmt.Fprintf(a.Stderr, "xray: %s\n", report.summary(status.Functions > 0))
	}
	return nil
}

// checkPatched returns an error if the recorder had to refuse all objects of a process that has begun to
// record. It notes functions of libc that are not recorded everywhere.
func (r *recordingFlags) checkPatched(ctx context.Context, a *app, p *recorder.Process) error {
	var status recorder.Status
	_, err := p.Do(ctx, &status, "status")
	if err == nil && status.LibcallsLeft > 0 {
		a.Say("%s: calls of %s of the C library are recorded only in part: some object also uses their addresses. To record all, start the program with xray record --libcalls",
			p, label.Count(uint64(status.LibcallsLeft), "function", "functions"))
	}
	if err != nil || len(status.Refused) == 0 || status.Patched > 0 || status.Windows != nil {
		return nil // a process that does not answer has ended
	}
	return fmt.Errorf("%s: no function can be recorded: %s: %s", p, status.Refused[0].Path, status.Refused[0].Why)
}

// reach finds the recorder of a process, and loads it into a process that was not prepared, with
// rings of this size, or of the default size for 0.
func (a *app) reach(ctx context.Context, target, cc string, ring, memory int64) (p *recorder.Process, status recorder.Status, err error) {
	p, waited, err := a.find(ctx, target, &status)
	if !errors.Is(err, recorder.ErrNoRecorder) || p == nil || p.PID == 0 {
		return p, status, err
	}
	if waited > 0 {
		return p, status, fmt.Errorf("%w after %v. The process began with the recorder, and may still load its objects: try again", err, waited.Round(time.Second))
	}
	if p, err = a.attach(ctx, target, cc, ring, memory); err == nil {
		_, err = p.Do(ctx, &status, "status")
	}
	return p, status, err
}

// find finds the recorder of a process. If the process has just started with the recorder, find waits until
// that listens, for a few seconds. It returns how long it waited in vain, or 0.
func (a *app) find(ctx context.Context, target string, status *recorder.Status) (*recorder.Process, time.Duration, error) {
	const patience, short, often = 5 * time.Second, 500 * time.Millisecond, 5 * time.Millisecond
	for began, told := time.Now(), false; ; sleep(ctx, often) {
		p, err := recorder.Dial(target)
		if err != nil {
			return nil, 0, err
		}
		_, err = p.Do(ctx, status, "status")
		waited := time.Since(began)
		switch {
		case !errors.Is(err, recorder.ErrNoRecorder) || ctx.Err() != nil || !p.IsStarting():
			return p, 0, err
		case waited > patience:
			return p, waited, err
		case waited > short && !told:
			told = true
			a.Say("waiting for %s to start", p)
		}
	}
}

// attach loads the recorder into a process without one.
func (a *app) attach(ctx context.Context, target, cc string, ring, memory int64) (*recorder.Process, error) {
	library, err := a.buildRecorder(ctx, cc)
	if err != nil {
		return nil, err
	}
	return recorder.Attach(ctx, target, library, ring, memory)
}

// applyFilter tells a process to record the functions that the flags choose, in the objects that
// are loaded now.
func (r *recordingFlags) applyFilter(ctx context.Context, a *app, p *recorder.Process) (*recorder.Filter, []string, error) {
	filter, err := r.filter(a)
	if err != nil {
		return nil, nil, err
	}
	if filter.Chosen, err = r.loadCalls(ctx, a, p); err != nil {
		return nil, nil, err
	}
	objects, err := p.Objects(ctx)
	if err != nil {
		return nil, nil, err
	}
	known := objectPaths(objects)
	return filter, known, a.chooseIn(ctx, p, filter, nil, known)
}

// loadCalls loads the objects that record functions of libc into a process, and returns their paths.
func (r *recordingFlags) loadCalls(ctx context.Context, a *app, p *recorder.Process) (paths []string, err error) {
	sets, err := r.callSets()
	if err != nil || len(sets) == 0 {
		return nil, err
	}
	library, err := a.buildRecorder(ctx, r.cc)
	if err != nil {
		return nil, err
	}
	for _, path := range library.PreloadCalls(sets...) {
		paths = append(paths, recorder.RealPath(path))
	}
	return paths, p.LoadCalls(ctx, library, sets)
}

// startStream tells a process to record into a new file. It returns the recorder's answer and the
// file. It replaces an existing file.
func startStream(r *recordingFlags, path string, start func(command string, file *os.File) ([]byte, error)) ([]byte, *os.File, error) {
	what, err := r.recording()
	if err != nil {
		return nil, nil, err
	}
	if err := removeOld(recorder.EscapeTemplate(path)); err != nil {
		return nil, nil, err
	}
	file, err := recorder.Create(path)
	if err != nil {
		return nil, nil, err
	}
	data, err := start(what.StartCommand(true), file)
	if err != nil {
		file.Close()
		os.Remove(path)
		return nil, nil, err
	}
	return data, file, nil
}

// wait waits until ctx is done, the recording or the process is over, the duration has passed, or the
// limiter has nothing more to limit. A duration of 0 has no end. wait reports whether the process has
// ended the recording.
func wait(ctx context.Context, p *recorder.Process, held *recorder.Held, limiter *recorder.Limiter, d time.Duration) bool {
	var after <-chan time.Time
	if d > 0 {
		after = time.After(d)
	}
	look := time.NewTicker(200 * time.Millisecond)
	defer look.Stop()
	for {
		select {
		case <-ctx.Done():
			return false
		case <-after:
			return false
		case <-held.Over():
			return true
		case <-look.C:
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
func hasEnded(p *recorder.Process) bool {
	threads, _ := os.ReadDir(fmt.Sprintf("/proc/%d/task", p.PID))
	return len(threads) <= 1 && !p.Alive()
}

// whyOver says why a process has ended a recording that began when it executed the file image. It waits until
// that is known, and returns "" if the process has ended.
func whyOver(p *recorder.Process, image string) string {
	const patience = time.Second // the connection ends before the process does, and before it has another image
	for began := time.Now(); time.Since(began) < patience; time.Sleep(5 * time.Millisecond) {
		if hasEnded(p) {
			return ""
		}
		if now := imageOf(p.PID); now != image && now != "" {
			return fmt.Sprintf("%s executes %s, so the recording has ended", p, now)
		}
	}
	return fmt.Sprintf("something else has ended the recording of %s, such as xray ctl, or the process executes its program again", p)
}

// needRings returns an error if a process records into a file.
func needRings(p *recorder.Process, status *recorder.Status) error {
	if status.Recording && (status.Stream != nil || status.ObservedStream) {
		return fmt.Errorf("%s is being recorded into a file, so it has no ring buffers to read. End that recording first. For details, run xray ctl %s status", p, p.Target())
	}
	return nil
}

// holdRings has a process record into its rings. The recording ends when end is called, or when this
// process ends.
func (r *recordingFlags) holdRings(ctx context.Context, a *app, p *recorder.Process) (end func(), err error) {
	filter, known, err := r.applyFilter(ctx, a, p)
	if err != nil {
		return nil, err
	}
	what, err := r.recording()
	if err != nil {
		return nil, err
	}
	_, held, err := p.Hold(ctx, what.StartCommand(false))
	if err != nil {
		return nil, err
	}
	if err := r.checkPatched(ctx, a, p); err != nil {
		_, _ = p.Do(context.WithoutCancel(ctx), nil, "stop")
		held.Close()
		return nil, err
	}
	following, unfollow := context.WithCancel(ctx)
	if !filter.All() {
		go a.followObjects(following, p, filter, known)
	}
	return func() {
		unfollow()
		_, _ = p.Do(context.WithoutCancel(ctx), nil, "stop") // it may have ended
		held.Close()
	}, nil
}
