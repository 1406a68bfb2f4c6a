package main

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/xray-tools/xray/internal/test/testenv"
	"github.com/xray-tools/xray/symbolize"
)

// Missing debug information is fetched from a debuginfod server if the environment names one.
func TestDebuginfod(t *testing.T) {
	testenv.Need(t, "strip")
	whole := filepath.Join("..", "..", "testdata", "kvserver")
	stripped := filepath.Join(t.TempDir(), "kvserver")
	if out, err := exec.Command("strip", "-s", "-o", stripped, whole).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	table, err := symbolize.Load(whole, symbolize.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer table.Close()
	id := table.Object().BuildID
	asked := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked++
		if r.URL.Path != "/buildid/"+id+"/debuginfo" {
			http.NotFound(w, r)
			return
		}
		http.ServeFile(w, r, whole)
	}))
	defer server.Close()
	ask := func() string {
		t.Helper()
		var stdout, stderr bytes.Buffer
		if status := run([]string{"xray", "symbolize", "-m", stripped, "1"}, strings.NewReader(""), &stdout, &stderr); status != 0 || stderr.Len() > 0 {
			t.Fatalf("status %d: %s", status, stderr.String())
		}
		return stdout.String()
	}
	cache := t.TempDir()
	t.Setenv("DEBUGINFOD_CACHE_PATH", cache)
	t.Setenv("DEBUGINFOD_URLS", "")
	if got := ask(); got != "@(11c20)\n" || asked != 0 {
		t.Errorf("without a server: got %q after %d requests", got, asked)
	}
	t.Setenv("DEBUGINFOD_URLS", server.URL)
	for range 2 {
		if got, want := ask(), "kv::reject(int) at ./src/kvserver.cc:91:0\n"; got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	if asked != 1 {
		t.Errorf("got %d requests to the server, want 1", asked)
	}
	if _, err := os.Stat(filepath.Join(cache, id, "debuginfo")); err != nil {
		t.Error(err)
	}
}

// --object auto numbers the program's shared objects, and refuses a file that has too few functions
// for the trace.
func TestObjectAuto(t *testing.T) {
	t.Parallel()
	testenv.Need(t, "clang++-22")
	dir := t.TempDir()
	shell := func(command string) {
		t.Helper()
		cmd := exec.Command("sh", "-ec", command)
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", command, err, out)
		}
	}
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	const attributes = "[[clang::xray_always_instrument, gnu::noinline]] "
	write("two.cc", attributes+"int one(int n) { return n + 1; }\n"+attributes+"int two(int n) { return n + 2; }\n")
	write("one.cc", attributes+"int one(int n) { return n + 1; }\nint two(int n) { return n + 2; }\n")
	write("main.cc", "int one(int), two(int);\n"+attributes+"int main() { return one(1) + two(2) - 6; }\n")
	const clang = "clang++-22 -O1 -fxray-instrument -fxray-shared -fPIC "
	shell(clang + "-shared two.cc -o libtwo.so")
	shell(clang + "main.cc -o prog -L. -l:libtwo.so '-Wl,-rpath,$ORIGIN'")
	shell("XRAY_OPTIONS='patch_premain=true xray_mode=xray-basic xray_logfile_base=trace.' " +
		"XRAY_BASIC_OPTIONS=func_duration_threshold_us=0 ./prog")
	traces, err := filepath.Glob(filepath.Join(dir, "trace.*"))
	if err != nil || len(traces) != 1 {
		t.Fatalf("traces: %v, %v", traces, err)
	}
	account := func(program, want, wantErr string, status int) {
		t.Helper()
		var stdout, stderr bytes.Buffer
		args := []string{"xray", "account", "--format", "csv", "-m", filepath.Join(dir, program), "--object", "auto", traces[0]}
		if got := run(args, strings.NewReader(""), &stdout, &stderr); got != status {
			t.Errorf("got status %d, want %d", got, status)
		}
		if !strings.Contains(stdout.String(), want) || !strings.Contains(stderr.String(), wantErr) {
			t.Errorf("%s%s; want %q and %q", stdout.String(), stderr.String(), want, wantErr)
		}
	}
	account("prog", ",two(int),", "by the order of their constructors, object 1 is libtwo.so\n", exitOK)
	account("libtwo.so", "", "this is a shared object, but -m takes the program", exitUsage)
	shell(clang + "-shared one.cc -o libtwo.so")
	account("prog", "", "the trace has its function 2, but the file has only 1 function.", exitFailed)
	shell(clang + "main.cc two.cc -o prog")
	account("prog", "", "the trace has functions of object 1, but the program is linked with fewer objects", exitFailed)
}
