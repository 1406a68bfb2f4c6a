//go:build linux && amd64

package recorder_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/xray-tools/xray/internal/test/elftest"
	"github.com/xray-tools/xray/internal/test/testenv"
	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/recorder/build"
)

// notes returns the marks and other events of a trace, in order.
func notes(t *testing.T, path string) (marks []string, events []string) {
	t.Helper()
	trace, err := reader.Open(reader.Options{}, path)
	if err != nil {
		t.Fatal(err)
	}
	defer trace.Close()
	for b, err := range trace.Blocks(reader.ThreadOrder) {
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range b.Payloads {
			if m, ok := reader.ParseMark(p.Data); ok {
				marks = append(marks, m.String())
			} else if _, switched := reader.ParseSwitch(p.Data); !switched {
				events = append(events, string(p.Data))
			}
		}
	}
	return marks, events
}

// IDs of the functions in testdata/api.c, in the order of the source.
const (
	idStep   = 1
	idHandle = 2
)

func checkAPITraces(t *testing.T, dir string, pid int) {
	t.Helper()
	stream := filepath.Join(dir, fmt.Sprintf("stream.%d.xray", pid))
	verify(t, stream)
	got := readTrace(t, stream)
	if got.calls[idHandle] != 20 || got.calls[idStep] != 19*3+3000 || got.unmatched+got.orphan != 0 {
		t.Errorf("got calls %v, %d exits without entry, %d calls without exit", got.calls, got.unmatched, got.orphan)
	}
	if name := got.recording.Threads[0].Name; name != "the main one" {
		t.Errorf("wrong thread name %q", name)
	}
	wantMarks := []string{"before"}
	for i := 1; i <= 20; i++ {
		begin := fmt.Sprintf("request %d", i)
		if i == 15 {
			begin += ": the slow one"
		}
		wantMarks = append(wantMarks, begin, "request ends")
	}
	wantMarks = append(wantMarks, "request 31 is ready", "request 31 resumes", "request 32 resumes", "request 31 resumes", "request ends")
	marks, events := notes(t, stream)
	if diff := cmp.Diff(wantMarks, marks); diff != "" {
		t.Errorf("marks (-made +read):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"payload"}, events); diff != "" {
		t.Errorf("events (-made +read):\n%s", diff)
	}

	slowest := filepath.Join(dir, "slowest.xray")
	verify(t, slowest)
	got = readTrace(t, slowest)
	if got.calls[idHandle] != 1 || got.calls[idStep] != 3000 || got.unmatched+got.orphan != 0 {
		t.Errorf("the slowest request: got calls %v, %d exits without entry, %d calls without exit", got.calls, got.unmatched, got.orphan)
	}
	if all := readTrace(t, filepath.Join(dir, "all.xray")); all.calls[idHandle] != 20 {
		t.Errorf("the full snapshot: wrong calls %v", all.calls)
	}
	if left, _ := filepath.Glob(filepath.Join(dir, "*.part")); len(left) > 0 {
		t.Errorf("files left behind: %v", left)
	}
}

// Programs that use the recorder's header find the recorder however they were built, and work
// without it.
func TestAPI(t *testing.T) {
	t.Parallel()
	library, err := build.Runtime(context.Background(), "")
	if err != nil {
		t.Fatal(err)
	}
	source, err := os.ReadFile("testdata/api.c")
	if err != nil {
		t.Fatal(err)
	}
	archive := []string{"-Wl,--whole-archive", library.Archive(), "-Wl,--no-whole-archive", "-pthread", "-ldl"}
	for _, c := range []struct {
		name, cc        string
		flags           []string
		preload, linked bool
	}{
		{"none", "clang-14", nil, false, false},
		{"none C++", "clang++-22", []string{"-std=c++20", "-Wno-deprecated"}, false, false},
		{"none gcc C99", "gcc", []string{"-std=gnu99", "-Wpedantic"}, false, false},
		{"none non-PIE", "clang-22", []string{"-fno-pie", "-no-pie"}, false, false},
		{"none static", "clang-22", []string{"-static"}, false, false},
		{"preload", "clang-14", nil, true, false},
		{"preload C++", "clang++-22", []string{"-std=c++20", "-Wno-deprecated"}, true, false},
		{"preload non-PIE", "clang-14", []string{"-fno-pie", "-no-pie"}, true, false},
		{"preload non-PIE lld", "clang-22", []string{"-fno-pie", "-no-pie", "-fuse-ld=lld"}, true, false},
		{"archive", "clang-22", nil, false, true},
		{"archive static", "clang-22", []string{"-static"}, false, true},
		{"archive static-PIE", "clang-22", []string{"-static-pie", "-fPIE"}, false, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			testenv.Need(t, c.cc)
			flags := []string{"-O1", "-Wall", "-Wextra", "-Werror", "-I" + library.Include()}
			switch {
			case strings.HasSuffix(c.cc, "-14"):
				flags = append(flags, "-fnoxray-link-deps")
			case c.cc != "gcc":
				flags = append(flags, "-fno-xray-link-deps")
			}
			if c.cc != "gcc" {
				flags = append(flags, "-fxray-instrument", "-fxray-instruction-threshold=300")
			}
			// Instrument only step and handle, so that they get IDs in this order.
			text := strings.ReplaceAll(string(source), "__attribute__((noinline))", "__attribute__((noinline, xray_always_instrument))")
			if c.cc == "gcc" {
				text = string(source)
			}
			flags = append(flags, c.flags...)
			if c.linked {
				flags = append(flags, archive...)
			}
			dir := t.TempDir()
			program := elftest.CompileC(t, c.cc, text, flags...)
			cmd := exec.Command(program, dir)
			if c.preload {
				cmd.Env = append(os.Environ(), "LD_PRELOAD="+library.Preload())
			}
			var stderr bytes.Buffer
			cmd.Stderr = &stderr
			out, err := cmd.Output()
			if err != nil || stderr.Len() > 0 {
				t.Fatalf("%v\n%s", err, &stderr)
			}
			if !c.preload && !c.linked {
				if string(out) != "absent\n" {
					t.Errorf("the program printed %q", out)
				}
				if files, _ := os.ReadDir(dir); len(files) > 0 {
					t.Errorf("the program left files: %v", files)
				}
				return
			}
			var pid int
			if _, err := fmt.Sscanf(string(out), "present %d", &pid); err != nil {
				t.Fatalf("the program printed %q", out)
			}
			checkAPITraces(t, dir, pid)
		})
	}
}
