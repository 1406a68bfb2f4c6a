//go:build linux && amd64

package recorder_test

import (
	"bytes"
	"errors"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/xray-tools/xray/recorder"
	"github.com/xray-tools/xray/recorder/build"
	"github.com/xray-tools/xray/symbolize"
)

// What kept.c calls in its request, and the calls that are open before and after.
var inKeptRequest = map[string]uint64{"handle": 1, "step": 1000, "work": 3000, "brief": 500}

func checkKept(t *testing.T, program, path string) {
	t.Helper()
	verify(t, path)
	f := readTrace(t, path)
	table, got := namesOf(t, program), map[string]uint64{}
	for id, n := range f.calls {
		got[symbolize.Label(table, id)] += n
	}
	if !maps.Equal(got, inKeptRequest) || f.earlier != 2 || f.unmatched != 0 || f.orphan != 2 || f.backwards != 0 {
		t.Errorf("got calls %v, want %v; %d open at the start and %d at the end, want outer and idle; %d exits without entry, %d backward steps",
			got, inKeptRequest, f.earlier, f.orphan, f.unmatched, f.backwards)
	}
	if n := len(f.recording.Threads); n < 4 {
		t.Errorf("got %d threads, want 4 and later ones", n)
	}
	for _, l := range f.recording.Losses {
		t.Errorf("lost %d: %s", l.Count, l.Cause)
	}
}

func runKept(t *testing.T, l *build.Library, program, path, how string, env ...string) error {
	t.Helper()
	var stderr bytes.Buffer
	cmd := exec.Command(program, path, how)
	cmd.Stderr = &stderr
	cmd.Env = append(append(os.Environ(), recorder.EnvVar+"=start=0,budget=65536"), env...)
	if l != nil {
		cmd.Env = append(cmd.Env, "LD_PRELOAD="+l.Preload())
	}
	err := cmd.Run()
	if stderr.Len() > 0 {
		t.Error(&stderr)
	}
	return err
}

// A snapshot that is kept has what the rings held when its request ended, although they are overwritten before
// it is written.
func TestKeptSnapshot(t *testing.T) {
	t.Parallel()
	never := buildLinked(t, "clang-22", buildArchive(t, checkedLocks, edit{"later.c", "		xr_later_flush();\n	} while", "	} while"}), "kept.c", "-O1")
	for _, how := range []string{"stop", "exit", "fork", "pause"} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "slowest.xray")
			if err := runKept(t, nil, never, path, how); err != nil {
				t.Fatal(err)
			}
			checkKept(t, never, path)
			if files, _ := filepath.Glob(path + "*"); len(files) != 2 {
				t.Errorf("got files %v", files)
			}
		})
	}
}

// A snapshot that is kept is written soon, so that it survives the process.
func TestKeptSnapshotIsWrittenSoon(t *testing.T) {
	t.Parallel()
	l := library(t)
	for _, c := range []struct {
		name, program string
		l             *build.Library
		env           []string
	}{
		{"linked", buildLinked(t, "clang-22", l.Archive(), "kept.c", "-O1"), nil, nil},
		{"control", buildProgram(t, "clang-22", "kept.c", "-O1", "-I"+l.Include()), &l, []string{recorder.EnvVar + "=start=0,budget=65536,control=1"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "slowest.xray")
			var ended *exec.ExitError
			if err := runKept(t, c.l, c.program, path, "killed", c.env...); !errors.As(err, &ended) || ended.String() != "signal: killed" {
				t.Fatal(err)
			}
			checkKept(t, c.program, path)
		})
	}
}
