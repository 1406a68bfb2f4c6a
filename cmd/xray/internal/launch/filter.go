package launch

import (
	"context"
	"errors"
	"io"
	"os"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/recorder/client"
	"github.com/xray-tools/xray/recorder/exclude"
	"github.com/xray-tools/xray/recorder/observe"
	"github.com/xray-tools/xray/report/label"
	"github.com/xray-tools/xray/symbolize"
)

// nothingSelected says that flags select no function of some objects, and which one has no sleds.
func nothingSelected(f *observe.Filter, paths []string) string {
	text := "--func and --exclude select no instrumented function of " + strings.Join(paths[:min(len(paths), 5)], ", ")
	if f.Func != nil {
		text += symbolize.Sledless(paths, f.Func)
	}
	return text
}

// ObjectPaths returns the paths of objects, sorted and without duplicates.
func ObjectPaths(objects []reader.Object) []string {
	var paths []string
	for _, o := range objects {
		paths = append(paths, o.Path)
	}
	slices.Sort(paths)
	return slices.Compact(paths)
}

// WriteExclusions writes the filter that xray record --exclude would write for a plan. It identifies functions by
// number if the trace says which objects they belong to, and by name otherwise. It returns the functions that the
// filter does not exclude.
func WriteExclusions(w io.Writer, plan *exclude.Plan, t *reader.Trace, names symbolize.Names) (skipped []exclude.Skipped, err error) {
	objects, addresses, err := t.Objects()
	if err != nil {
		return nil, err
	}
	paths := ObjectPaths(objects)
	filter := &observe.Filter{}
	if len(paths) > 0 && len(addresses) == 0 {
		filter.Except = make(map[string]map[reader.FuncID]bool)
		for _, f := range plan.Functions {
			for _, o := range objects {
				if !o.Holds(f.ID) {
					continue
				}
				if filter.Except[o.Path] == nil {
					filter.Except[o.Path] = make(map[reader.FuncID]bool)
				}
				filter.Except[o.Path][f.ID-o.First+1] = true
			}
		}
		_, err = filter.Write(w, paths)
		return nil, err
	}
	if table := symbolize.TableOf(names, 1); len(paths) == 0 && table != nil {
		paths = append(paths, table.Object().Path)
	}
	var expression strings.Builder
	if skipped, err = plan.WriteList(&expression, exclude.Regexp, names); err != nil {
		return nil, err
	}
	if text := strings.TrimSpace(expression.String()); text != "" {
		if filter.Exclude, err = regexp.Compile(text); err != nil {
			return nil, err
		}
	}
	_, err = filter.Write(w, paths)
	return skipped, err
}

// sendFilter tells a process to record the functions of the given objects that the filter keeps.
// It returns their number and the recorder's answer.
func sendFilter(ctx context.Context, p *client.Process, filter *observe.Filter, objects []string) (data []byte, kept int, err error) {
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

// Choose tells a process to record the selected functions. It returns the recorder's answer, and the same
// in words.
func (plan *Plan) Choose(ctx context.Context, p *client.Process) (data []byte, text string, err error) {
	filter, err := plan.filter(plan.Streams)
	if err != nil {
		return nil, "", err
	}
	objects, err := p.Objects(ctx)
	if err != nil {
		return nil, "", err
	}
	paths := ObjectPaths(objects)
	data, kept, err := sendFilter(ctx, p, filter, paths)
	if err != nil {
		return nil, "", err
	}
	text = "all functions are recorded"
	if !filter.All() {
		text = label.Count(uint64(kept), "function is", "functions are") + " recorded"
	}
	if kept == 0 && filter.Func != nil {
		text += symbolize.Sledless(paths, filter.Func)
	}
	plan.sayUnused(filter.Unused())
	return data, text, nil
}

// writeFilter writes a filter to a temporary file.
func writeFilter(filter *observe.Filter, objects []string) (path string, kept int, err error) {
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
func (plan *Plan) chooseIn(ctx context.Context, p *client.Process, filter *observe.Filter, before, objects []string) error {
	own := func(paths []string) []string {
		return slices.DeleteFunc(slices.Clone(paths), func(path string) bool { return slices.Contains(filter.Chosen, path) })
	}
	_, kept, err := sendFilter(ctx, p, filter, objects)
	if err == nil && kept == 0 && !filter.All() && len(own(before)) == 0 && len(own(objects)) > 0 {
		plan.Say("%s", nothingSelected(filter, own(objects)))
	}
	if err == nil && len(own(before)) == 0 && len(own(objects)) > 0 {
		plan.sayUnused(filter.Unused())
	}
	return err
}

func (plan *Plan) sayUnused(patterns []string) {
	for _, pattern := range patterns {
		plan.Say("warning: no recorded function matches %q of --args, --results or --when", pattern)
	}
}

// followObjects extends the filter of a process to objects that it loads, until ctx is done. The
// filter covers known objects already.
func (plan *Plan) followObjects(ctx context.Context, p *client.Process, filter *observe.Filter, known []string) {
	// Until a new object is noticed, the default applies to it.
	const often = 200 * time.Millisecond
	seen := int64(-1)
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(often):
		}
		var status client.Status
		if _, err := p.Do(ctx, &status, "status"); err != nil || status.Objects == seen {
			continue // not yet started, or it is ending, or nothing is new
		}
		objects, err := p.Objects(ctx)
		if err != nil {
			continue
		}
		paths := ObjectPaths(objects)
		if slices.ContainsFunc(paths, func(path string) bool { return !slices.Contains(known, path) }) {
			if err := plan.chooseIn(ctx, p, filter, known, paths); err != nil {
				continue
			}
		}
		seen, known = int64(len(objects)), paths
	}
}
