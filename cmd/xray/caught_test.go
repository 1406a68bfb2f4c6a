//go:build linux && amd64

package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// LLVM's runtimes do not record which calls an exception leaves. The binary shows it, also if the
// caller of all of them began before the recording. Otherwise, commands that rebuild calls warn
// about such calls, and only if there are any.
func TestCaughtExceptionsOfLLVM(t *testing.T) {
	dir, program := t.TempDir(), buildInstrumented(t, "clang++-22", "caught.cc")
	names := filepath.Join(dir, "names.yaml")
	if o := runHere("xray", "extract", "--symbolize", "-o", names, program); o.status != exitOK {
		t.Fatal(o)
	}
	for _, test := range []struct {
		name, mode, binary string
		args               []string
		left               bool   // the calls that exceptions left are known
		says               string // what the warning says about a function
	}{
		// main is in the trace. The binary says that nothing else calls serve.
		{"basic", "patch_premain=true xray_mode=xray-basic", program, []string{"20"}, true, ""},
		{"basic-calm", "patch_premain=true xray_mode=xray-basic", program, []string{"0"}, false, ""},
		// main began before.
		{"fdr", "patch_premain=false", program, []string{"fdr", "20"}, true, ""},
		{"fdr-calm", "patch_premain=false", program, []string{"fdr", "0"}, false, ""},
		{"fdr-without-code", "patch_premain=false", names, []string{"fdr", "20"}, false, "each inside the previous one, are open when their thread ends"},
	} {
		t.Run(test.name, func(t *testing.T) {
			log := filepath.Join(dir, test.name+".")
			cmd := exec.Command(program, test.args...)
			cmd.Env = append(os.Environ(), "XRAY_OPTIONS="+test.mode+" verbosity=0 xray_logfile_base="+log,
				"XRAY_BASIC_OPTIONS=func_duration_threshold_us=0 max_stack_depth=1000")
			if said, err := cmd.CombinedOutput(); err != nil {
				t.Fatalf("%v\n%s", err, said)
			}
			traces, _ := filepath.Glob(log + "*")
			if len(traces) != 1 {
				t.Fatalf("got traces %q, want one", traces)
			}
			for _, args := range [][]string{{"account"}, {"why", "--root", "^serve"}, {"stack"}, {"info"}, {"residency"}} {
				var stdout, stderr bytes.Buffer
				args = append(args, "-m", test.binary, traces[0])
				status := run(append([]string{"xray"}, args...), strings.NewReader(""), &stdout, &stderr)
				text := stdout.String()
				switch {
				case args[0] == "why" && test.says != "":
					// The first call of serve is the first that an exception
					// leaves. No later call of serve is rebuilt as ended.
					if text = stderr.String(); status != 1 || !strings.Contains(text, "no call of the root ended") {
						t.Errorf("%s: status %d: %s", args, status, text)
					}
				case status != exitOK:
					t.Fatalf("%s: status %d: %s", args, status, stderr.String())
				case args[0] != "info":
					text, _, _ = strings.Cut(text, "\n\n")
				}
				text = strings.Join(strings.Fields(text), " ") // ignore line breaks
				if left := "200 ended by an exception or longjmp"; args[0] == "info" && strings.Contains(text, left) != test.left {
					t.Errorf("%s: %q has to be there for calls that are known to be left:\n%s", args, left, text)
				}
				if test.says == "" {
					if strings.Contains(text, "each inside the previous one") {
						t.Errorf("%s:\n%s", args, text)
					}
					continue
				}
				text = strings.Join(strings.Fields(text), " ")
				// Both functions have as many calls without exits. The report names
				// the one with the lower ID.
				if !strings.Contains(text, "100 calls of read_header, "+test.says) && !strings.Contains(text, "100 calls of serve, "+test.says) ||
					!strings.Contains(text, "Unless the function is recursive, exceptions or longjmp left these calls, and traces of LLVM's recorders do not show it.") {
					t.Errorf("%s:\n%s", args, text)
				}
			}
		})
	}
}
