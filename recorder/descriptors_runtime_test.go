//go:build linux && amd64

package recorder_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/xray-tools/xray/internal/test/testenv"
	"github.com/xray-tools/xray/recorder"
	"github.com/xray-tools/xray/recorder/build"
	"github.com/xray-tools/xray/recorder/client"
)

// kernels are commands that run a program as on this kernel, and as on one before 6.9, where
// pidfd_open does not work on threads.
func kernels(t *testing.T) map[string][]string {
	older := compileWith(t, "older", []string{"testdata/older.c"})
	return map[string][]string{
		"ThisKernel":  nil,
		"OlderKernel": {older, strconv.Itoa(unix.SYS_PIDFD_OPEN), "--"},
	}
}

// variant is a program for the preloaded recorder, or with the recorder linked in if library is
// nil.
type variant struct {
	program string
	library *build.Library
}

// variants builds a program both ways.
func variants(t *testing.T, source string) map[string]variant {
	l := library(t)
	linked := buildProgram(t, "clang-19", source, "-O2", "-Wl,--whole-archive", l.Archive(), "-Wl,--no-whole-archive")
	return map[string]variant{
		"Preloaded": {buildProgram(t, "clang-19", source, "-O2"), &l},
		"Linked":    {linked, nil},
	}
}

// If a program closes all descriptors or reuses their numbers, its files stay intact, and the
// recorder loses nothing and can still be controlled.
func TestClosedDescriptors(t *testing.T) {
	t.Parallel()
	kernels := kernels(t)
	for variant, f := range variants(t, "descriptors.c") {
		for kernel, command := range kernels {
			for what, want := range map[string]string{
				"close":   "numbers 3 4\nheader good, size 19\n",
				"range":   "numbers 3 4\nheader good, size 19\n",
				"replace": "header good, size 19\n",
			} {
				t.Run(variant+"/"+kernel+"/"+what, func(t *testing.T) {
					dir := t.TempDir()
					args := slices.Concat(command, []string{f.program, what})
					cmd := exec.Command(args[0], args[1:]...)
					cmd.Dir = dir
					cmd.Env = append(os.Environ(), recorder.EnvVar+"=control=1,output=trace")
					if f.library != nil {
						cmd.Env = append(cmd.Env, "LD_PRELOAD="+f.library.Preload())
					}
					var stderr bytes.Buffer
					cmd.Stderr = &stderr
					r := startPiped(t, cmd)
					said := ""
					for !strings.Contains(said, "header") {
						line, err := r.lines.ReadString('\n')
						if err != nil {
							t.Fatalf("the program printed %q, %v\n%s", said, err, &stderr)
						}
						said += line
					}
					if !strings.HasSuffix(said, want) {
						t.Errorf("the program printed %q, want %q", said, want)
					}
					reach(t, cmd.Process.Pid)
					if r.end(t); stderr.Len() > 0 {
						t.Errorf("the program printed %q", &stderr)
					}
					got := entries(t, f.program, []string{filepath.Join(dir, "trace")})
					if got["work"] != 30000 {
						t.Errorf("wrong calls: %v", got)
					}
					for _, file := range []string{"db.dat", "my.log"} {
						if data, err := os.ReadFile(filepath.Join(dir, file)); err != nil || len(data) > 19 {
							t.Errorf("%s: got %q, error %v", file, data, err)
						}
					}
				})
			}
		}
	}
}

// A program's own socket clients reach the program, whatever descriptor number its socket has.
func TestOwnClients(t *testing.T) {
	kernels := kernels(t)
	for variant, f := range variants(t, "descriptors.c") {
		for kernel, command := range kernels {
			for place := range 3 {
				t.Run(fmt.Sprintf("%s/%s/%d", variant, kernel, place), func(t *testing.T) {
					t.Parallel()
					args := slices.Concat(command, []string{f.program, "serve", strconv.Itoa(place)})
					out, _, traces := recordProgram(t, f.library, "control=1", args[0], args[1:]...)
					if out != "bad 0 of 200\n" {
						t.Errorf("the program printed %q", out)
					}
					// This is the process that ran older before exec.
					if got := entries(t, f.program, traces); got["work"] < 200 {
						t.Errorf("wrong calls: %v", got)
					}
				})
			}
		}
	}
}

// askAs sends a request as another user and returns the raw answer.
func askAs(pid, user int, line string) string {
	answers := make(chan string)
	go func() {
		// Change the user of this thread only. The thread ends with the goroutine.
		runtime.LockOSThread()
		if _, _, err := syscall.RawSyscall(syscall.SYS_SETRESUID, uintptr(user), uintptr(user), uintptr(user)); err != 0 {
			answers <- err.Error()
			return
		}
		p, err := client.Dial(strconv.Itoa(pid))
		if err != nil {
			answers <- err.Error()
			return
		}
		answer, err := p.Do(context.Background(), nil, line)
		if err != nil {
			answers <- err.Error()
			return
		}
		answers <- string(answer)
	}()
	return <-answers
}

// After a process drops privileges, its old and new users can control it and others cannot. Its
// open files stay open, and the recorder's thread has the credentials of the others.
func TestDroppedPrivileges(t *testing.T) {
	testenv.NeedOtherUsers(t)
	for variant, f := range variants(t, "privileges.c") {
		for _, what := range []string{"setuid", "seteuid", "groups", "threads"} {
			t.Run(variant+"/"+what, func(t *testing.T) {
				dir := t.TempDir()
				cmd := exec.Command(f.program, what)
				cmd.Env = append(os.Environ(), recorder.EnvVar+"=control=1,output="+dir+"/trace")
				if f.library != nil {
					cmd.Env = append(cmd.Env, "LD_PRELOAD="+f.library.Preload())
				}
				r := startPiped(t, cmd)
				if line := r.line(t); line != "ready" {
					t.Fatalf("the program printed %q", line)
				}
				pid := cmd.Process.Pid
				for user, want := range map[int]string{0: `"ok":true`, testenv.Nobody: `"ok":true`, 12345: "only the user of the process and root"} {
					if answer := askAs(pid, user, "status"); !strings.Contains(answer, want) {
						t.Errorf("user %d: wrong answer %s", user, answer)
					}
				}
				r.end(t)
				if got := entries(t, f.program, []string{dir + "/trace"}); got["work"] != 20000 {
					t.Errorf("wrong calls: %v", got)
				}
			})
		}
	}
}
