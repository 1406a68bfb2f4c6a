package main

import (
	"context"
	"errors"
	"os"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/xray-tools/xray/cmd/xray/internal/cli"
	"github.com/xray-tools/xray/cmd/xray/internal/session"
	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/recorder"
)

// recordingFlags are the flags that tell a recorder what to record.
type recordingFlags struct {
	prune          time.Duration
	count, profile bool
	depth          int
	limit          int64
	window         cli.Window
	function       string
	exclude        string
	libcalls       callFlag
	noLibcalls     bool
	cc             string    // C compiler for the recorder
	within         cli.Share // budget of a running process's CPU time; the client that sets it decides which functions are recorded
	session.DebugFlags
}

func (r *recordingFlags) add(f *pflag.FlagSet) {
	cli.AddDuration(f, &r.prune, "prune", "drop calls shorter than `TIME` (for example 5us) unless they contain a longer call")
	f.BoolVar(&r.count, "count", false, "count calls per function instead of recording individual calls")
	f.BoolVar(&r.profile, "profile", false, "record a call-path profile instead of individual calls")
	cli.AddCount(f, &r.depth, "depth", "", 0, "record only calls at most `N` deep; 1 is the outermost, 0 is no limit")
	cli.AddSize(f, &r.limit, "limit", "stop writing after `SIZE` (for example 500M or 2G)")
	r.addWindow(f)
	r.addFilter(f)
}

func (r *recordingFlags) addWindow(f *pflag.FlagSet) {
	cli.AddWindow(f, &r.window, "window", "record in windows, `TIME/TIME`: 1s/60s records 1 second of every minute")
}

func (r *recordingFlags) addFilter(f *pflag.FlagSet) {
	f.StringVar(&r.function, "func", "", "record only functions that match `REGEXP`")
	f.StringVar(&r.exclude, "exclude", "", "do not record functions that match `REGEXP`")
	r.AddDirs(f)
}

func (r *recordingFlags) recording() (recorder.Recording, error) {
	what := recorder.Recording{Threshold: r.prune, Depth: r.depth, Limit: r.limit, Window: r.window.Length, Every: r.window.Every, Budget: float64(r.within)}
	var chosen []string
	choose := func(is bool, flag string, mode recorder.Mode) {
		if is {
			chosen = append(chosen, flag)
			what.Mode = mode
		}
	}
	choose(r.prune > 0, "--prune", recorder.Prune)
	choose(r.count, "--count", recorder.Count)
	choose(r.profile, "--profile", recorder.Profile)
	switch {
	case len(chosen) > 1:
		return what, cli.Usagef("choose one of %s", strings.Join(chosen, " and "))
	case r.depth > 0 && r.sums():
		return what, cli.Usagef("--depth cannot be used with %s, which records no individual calls", chosen[0])
	case what.Every > 0 && (r.depth > 0 || r.profile):
		return what, cli.Usagef("--window cannot be used with --depth or --profile: when a window begins, the recorder does not know which calls are open")
	}
	if err := what.CheckWindows(); err != nil {
		return what, cli.Usagef("--window: %w", err)
	}
	return what, nil
}

// sums reports whether to record sums instead of calls.
func (r *recordingFlags) sums() bool { return r.count || r.profile }

// selects reports whether flags select functions.
func (r *recordingFlags) selects() bool { return r.function != "" || r.exclude != "" }

func (r *recordingFlags) filter(a *app) (*recorder.Filter, error) {
	f := &recorder.Filter{Names: r.Options(&a.Streams)}
	for _, e := range []struct {
		flag, text string
		to         **regexp.Regexp
	}{{"func", r.function, &f.Func}, {"exclude", r.exclude, &f.Exclude}} {
		if e.text == "" {
			continue
		}
		re, err := regexp.Compile(e.text)
		if err != nil {
			return nil, cli.Usagef("--%s: %w", e.flag, err)
		}
		*e.to = re
	}
	return f, nil
}

// nothingSelected says that flags select no function of some objects, and which one has no sleds.
func nothingSelected(f *recorder.Filter, paths []string) string {
	text := "--func and --exclude select no instrumented function of " + strings.Join(paths[:min(len(paths), 5)], ", ")
	if f.Func != nil {
		text += session.Sledless(paths, f.Func)
	}
	return text
}

// objectPaths returns the paths of objects, sorted and without duplicates.
func objectPaths(objects []reader.Object) []string {
	var paths []string
	for _, o := range objects {
		paths = append(paths, o.Path)
	}
	slices.Sort(paths)
	return slices.Compact(paths)
}

// sendFilter tells a process to record the functions of the given objects that the filter keeps.
// It returns their number and the recorder's answer.
func sendFilter(ctx context.Context, p *recorder.Process, filter *recorder.Filter, objects []string) (data []byte, kept int, err error) {
	if filter.All() {
		data, err = p.Do(ctx, nil, "filter")
		return data, 0, err
	}
	path, kept, err := writeFilter(filter, objects)
	if err != nil {
		return nil, 0, err
	}
	defer os.Remove(path)
	file, err := os.Open(path)
	if err != nil {
		return nil, 0, err
	}
	defer file.Close()
	data, err = p.Do(ctx, nil, "filter", file)
	return data, kept, err
}

// writeFilter writes a filter to a temporary file.
func writeFilter(filter *recorder.Filter, objects []string) (path string, kept int, err error) {
	file, err := os.CreateTemp("", "xray-filter-*")
	if err != nil {
		return "", 0, err
	}
	kept, err = filter.Write(file, objects)
	if err = errors.Join(err, file.Close()); err != nil {
		os.Remove(file.Name())
	}
	return file.Name(), kept, err
}

// chooseIn tells a process to record the functions of the given objects that the filter keeps. It says so if
// there is none in the first objects of the program; before were known before.
func (a *app) chooseIn(ctx context.Context, p *recorder.Process, filter *recorder.Filter, before, objects []string) error {
	own := func(paths []string) []string {
		return slices.DeleteFunc(slices.Clone(paths), func(path string) bool { return slices.Contains(filter.Chosen, path) })
	}
	_, kept, err := sendFilter(ctx, p, filter, objects)
	if err == nil && kept == 0 && !filter.All() && len(own(before)) == 0 && len(own(objects)) > 0 {
		a.Say("%s", nothingSelected(filter, own(objects)))
	}
	return err
}

// followObjects extends the filter of a process to objects that it loads, until ctx is done. The
// filter covers known objects already.
func (a *app) followObjects(ctx context.Context, p *recorder.Process, filter *recorder.Filter, known []string) {
	// Until a new object is noticed, the default applies to it.
	const often = 200 * time.Millisecond
	seen := int64(-1)
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(often):
		}
		var status recorder.Status
		if _, err := p.Do(ctx, &status, "status"); err != nil || status.Objects == seen {
			continue // not yet started, or it is ending, or nothing is new
		}
		objects, err := p.Objects(ctx)
		if err != nil {
			continue
		}
		paths := objectPaths(objects)
		if slices.ContainsFunc(paths, func(path string) bool { return !slices.Contains(known, path) }) {
			if err := a.chooseIn(ctx, p, filter, known, paths); err != nil {
				continue
			}
		}
		seen, known = int64(len(objects)), paths
	}
}
