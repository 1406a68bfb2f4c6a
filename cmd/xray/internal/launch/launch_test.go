package launch

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"github.com/xray-tools/xray/cmd/xray/internal/cli"
	"github.com/xray-tools/xray/recorder"
)

// planned returns the plan of a command line.
func planned(t *testing.T, line string) *Plan {
	t.Helper()
	plan := &Plan{Streams: &cli.Streams{}}
	flags := pflag.NewFlagSet("record", pflag.ContinueOnError)
	plan.AddFlags(flags)
	plan.AddLibcalls(flags)
	if err := flags.Parse(strings.Fields(line)); err != nil {
		t.Fatal(err)
	}
	return plan
}

// Each mode is chosen by its flag alone, and no two of them together.
func TestModes(t *testing.T) {
	modes := map[string]recorder.Mode{"--prune=5us": recorder.Prune, "--count": recorder.Count, "--profile": recorder.Profile}
	for flag, mode := range modes {
		plan := planned(t, flag)
		if err := plan.Check(); err != nil || plan.Mode != mode {
			t.Errorf("%s: got mode %q and error %v", flag, plan.Mode, err)
		}
		if sums := mode != recorder.Prune; plan.Sums() != sums {
			t.Errorf("%s: Sums is %v", flag, !sums)
		}
		for other := range modes {
			if err := planned(t, flag+" "+other).Check(); other != flag && (err == nil || !strings.HasPrefix(err.Error(), "choose one of --")) {
				t.Errorf("%s %s: got error %v", flag, other, err)
			}
		}
	}
}

func TestDefaults(t *testing.T) {
	plan := planned(t, "")
	if err := plan.Check(); err != nil {
		t.Fatal(err)
	}
	if got, want := plan.StartCommand(true), "start mode=record stream=1"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if sets, err := plan.Libcalls.Sets(); len(sets) > 0 || err != nil || plan.selects() {
		t.Errorf("got sets %v, error %v, selects %v", sets, err, plan.selects())
	}
	if filter, err := plan.filter(plan.Streams); err != nil || !filter.All() {
		t.Errorf("got a filter, error %v", err)
	}
}

func TestConflicts(t *testing.T) {
	for line, want := range map[string]string{
		"--depth=2 --count":               "--depth cannot be used with --count",
		"--depth=2 --profile":             "--depth cannot be used with --profile",
		"--depth=2 --window=1s/60s":       "--window cannot be used with --depth or --profile",
		"--profile --window=1s/60s":       "--window cannot be used with --depth or --profile",
		"--libcalls --no-libcalls":        "--libcalls cannot be used with --no-libcalls",
		"--libcalls=lock":                 "--libcalls: ",
		"--window=1s/60s --prune=59s":     "--window: ",
		"--func=(":                        "--func: ",
		"--exclude=(":                     "--exclude: ",
		"--depth=2 --prune=5us":           "",
		"--count --window=1s/60s":         "",
		"--libcalls=io,locks --func=^db:": "",
	} {
		var usage cli.UsageError
		switch err := planned(t, line).Check(); {
		case want == "" && err != nil:
			t.Errorf("%s: %v", line, err)
		case want != "" && (!errors.As(err, &usage) || !strings.HasPrefix(err.Error(), want)):
			t.Errorf("%s: got error %v, want a usage error %q", line, err, want)
		}
	}
}

func TestCheckSizes(t *testing.T) {
	for _, sizes := range [][2]int64{{0, 0}, {leastRing, 0}, {0, recorder.LeastMemory}} {
		if err := CheckSizes(sizes[0], sizes[1]); err != nil {
			t.Errorf("%v: %v", sizes, err)
		}
	}
	for _, sizes := range [][2]int64{{leastRing - 1, 0}, {1, recorder.LeastMemory}, {0, recorder.LeastMemory - 1}} {
		if CheckSizes(sizes[0], sizes[1]) == nil {
			t.Errorf("%v was accepted", sizes)
		}
	}
}

// A program that cannot be recorded costs no trace of an earlier run.
func TestRefusedBeforeRemoval(t *testing.T) {
	dir := t.TempDir()
	plain, damaged, old := filepath.Join(dir, "plain"), filepath.Join(dir, "damaged"), filepath.Join(dir, "old.xray")
	write := func(path, text string, mode os.FileMode) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
	}
	write(plain, "text", 0o666)
	write(damaged, "\x7fELF", 0o777)
	write(old, "trace", 0o666)
	for program, want := range map[string]cli.ExitStatus{filepath.Join(dir, "missing"): 127, plain: 126, damaged: 0} {
		var said bytes.Buffer
		plan := &Plan{Streams: &cli.Streams{Stderr: cli.Text{Raw: &said}}, Options: recorder.Options{Output: old}}
		err := plan.Program(context.Background(), []string{program})
		var status cli.ExitStatus
		if err == nil || want != 0 && (!errors.As(err, &status) || status != want || !strings.Contains(said.String(), program)) {
			t.Errorf("%s: got error %v and %q, want exit status %d", program, err, &said, want)
		}
		if text, err := os.ReadFile(old); err != nil || string(text) != "trace" {
			t.Errorf("%s: the old trace is now %q, error %v", program, text, err)
		}
	}
}

// Only a file whose name the template fixes is replaced.
func TestRemoveOld(t *testing.T) {
	for name, c := range map[string]struct {
		template      string
		gone, refused bool
	}{
		"a.xray":    {template: "a.xray", gone: true},
		"100%.xray": {template: "100%%.xray", gone: true},
		"b.1.xray":  {template: "b.%p.xray"},
		"%p":        {template: "%p"},
		"folder/x":  {template: "folder", refused: true},
		"kept":      {template: "absent"},
	} {
		dir := t.TempDir()
		path := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o777), os.WriteFile(path, nil, 0o666)); err != nil {
			t.Fatal(err)
		}
		err := removeOld(filepath.Join(recorder.EscapeTemplate(dir), c.template))
		if _, missing := os.Stat(path); (missing != nil) != c.gone || (err != nil) != c.refused {
			t.Errorf("%s: got error %v, file is gone: %v", c.template, err, missing != nil)
		}
	}
}

// Standard output takes the only trace of a recording that is over. Others stay where they are.
func TestPassOn(t *testing.T) {
	for _, c := range []struct {
		traces, out string
		running     bool
		kept        bool
	}{
		{traces: ""},
		{traces: "a", out: "a"},
		{traces: "a b", kept: true},
		{traces: "a", running: true, kept: true},
	} {
		dir := t.TempDir()
		for _, trace := range strings.Fields(c.traces) {
			if err := os.WriteFile(filepath.Join(dir, trace), []byte(trace), 0o666); err != nil {
				t.Fatal(err)
			}
		}
		var out bytes.Buffer
		kept, err := passOn(&out, dir, c.running)
		if kept != c.kept || (err != nil) != c.kept || out.String() != c.out {
			t.Errorf("%q, running %v: got %q, kept %v, error %v", c.traces, c.running, &out, kept, err)
		}
	}
}

func TestSortPaths(t *testing.T) {
	paths := []string{"x.10.xray", "x.9.xray", "x.8.xray"}
	if sortPaths(paths); !slices.Equal(paths, []string{"x.8.xray", "x.9.xray", "x.10.xray"}) {
		t.Errorf("got %v", paths)
	}
}
