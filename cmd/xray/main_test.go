package main

import (
	"bytes"
	"cmp"
	"compress/flate"
	"encoding/base64"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/xray-tools/xray/internal/test/elftest"
	"github.com/xray-tools/xray/internal/tracetext"
)

var update = flag.Bool("update", false, "rewrite what the scripts expect")

// commands are programs for scripts.
var commands = map[string]func(){
	"xray":      main,
	"llvm-xray": main,
	// For TestLLVMSuite.
	"FileCheck":   fileCheck,
	"sorted-json": sortedJSON,
	// Writes half a file and is interrupted.
	"interrupted": interrupted,
}

func TestMain(m *testing.M) { testscript.Main(elftest.Tests{M: m}, commands) }

// TestScripts runs the transcripts in testdata/script. In addition to testscript's commands they
// have
//
//	mktrace FILE [NAME...]
//
// which assembles the text traces of FILE (see package tracetext) in place, or as NAME, and
//
//	exits STATUS PROGRAM [ARGUMENT...]
//
// which is exec with a required exit status. $TESTDATA is the folder of recorded traces. The
// condition [has:PROGRAM] holds if the program is installed. With CI=true it must be (see package
// testenv).
func TestScripts(t *testing.T) {
	t.Parallel()
	traces, err := filepath.Abs("../../testdata")
	if err != nil {
		t.Fatal(err)
	}
	userCache, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	home, err := os.UserHomeDir()
	if err != nil {
		t.Fatal(err)
	}
	cache := t.TempDir()
	if err := keepRecorder(userCache, cache); err != nil {
		t.Fatal(err)
	}
	// Without these, `go tool` would recompile its tools.
	goCache := cmp.Or(os.Getenv("GOCACHE"), filepath.Join(userCache, "go-build"))
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		UpdateScripts:       *update,
		RequireExplicitExec: true,
		Setup: func(e *testscript.Env) error {
			e.Setenv("TESTDATA", traces)
			e.Setenv("XDG_CACHE_HOME", cache)
			e.Setenv("GOCACHE", goCache)
			// rustup finds its compilers there, not in the script's HOME.
			e.Setenv("RUSTUP_HOME", cmp.Or(os.Getenv("RUSTUP_HOME"), filepath.Join(home, ".rustup")))
			return nil
		},
		Condition: holds,
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"mktrace": makeTrace,
			"exits":   exits,
			"about":   about,
		},
	})
}

// keepRecorder puts only the compiled recorder of the user's cache into a new cache directory.
func keepRecorder(userCache, cache string) error {
	recorders := filepath.Join(userCache, "xray")
	if err := os.MkdirAll(recorders, 0o700); err != nil {
		return err
	}
	return os.Symlink(recorders, filepath.Join(cache, "xray"))
}

// holds evaluates conditions of scripts: whether a program is installed, and whether the user is
// root.
func holds(condition string) (bool, error) {
	if condition == "root" {
		return os.Getuid() == 0, nil
	}
	program, ok := strings.CutPrefix(condition, "has:")
	if !ok {
		return false, fmt.Errorf("unknown condition %q", condition)
	}
	_, err := exec.LookPath(program)
	if err != nil && os.Getenv("CI") == "true" {
		return false, err
	}
	return err == nil, nil
}

func makeTrace(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 1 || len(args) > 2 {
		ts.Fatalf("usage: mktrace FILE [NAME]")
	}
	b, err := tracetext.Parse(ts.ReadFile(args[0]))
	ts.Check(err)
	ts.Check(os.WriteFile(ts.MkAbs(args[len(args)-1]), b, 0o666))
}

// about writes what a page says about its trace, without the calls, to a file.
func about(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: about PAGE FILE")
	}
	text, err := pageMeta(ts.ReadFile(args[0]))
	ts.Check(err)
	ts.Check(os.WriteFile(ts.MkAbs(args[1]), text, 0o666))
}

// pageMeta returns what a page says about its trace, without the calls.
func pageMeta(page string) ([]byte, error) {
	packed := regexp.MustCompile(`id="meta">([^<]*)</script>`).FindStringSubmatch(page)
	if packed == nil {
		return nil, errors.New("this is not a page")
	}
	return io.ReadAll(flate.NewReader(base64.NewDecoder(base64.StdEncoding, strings.NewReader(packed[1]))))
}

// textTrace writes the trace that a text describes to a file, and returns its path.
func textTrace(t *testing.T, text string) string {
	t.Helper()
	trace, err := tracetext.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "trace.xray")
	if err := os.WriteFile(path, trace, 0o666); err != nil {
		t.Fatal(err)
	}
	return path
}

func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits STATUS PROGRAM [ARGUMENT...]")
	}
	err := ts.Exec(args[1], args[2:]...)
	status := "0"
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		status = strconv.Itoa(exit.ExitCode())
	}
	if status != args[0] {
		ts.Fatalf("exit status %s: %v", status, err)
	}
}

// output is what a run of the program prints and its exit status.
type output struct {
	stdout, stderr string
	status         int
}

// runHere runs the program inside the test process.
func runHere(args ...string) output {
	var stdout, stderr bytes.Buffer
	status := run(args, strings.NewReader(""), &stdout, &stderr)
	return output{stdout.String(), stderr.String(), status}
}

func (o output) String() string {
	return fmt.Sprintf("%s--- standard error\n%s--- status %d\n", o.stdout, o.stderr, o.status)
}
