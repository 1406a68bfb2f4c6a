//go:build linux && amd64

package build

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/xray-tools/xray/internal/test/elftest"
	"github.com/xray-tools/xray/internal/test/testenv"
	"github.com/xray-tools/xray/recorder/ring"
)

const emptyMain = "int main(void) { return 0; }\n"

func inspect(t *testing.T, path string) *Program {
	t.Helper()
	p, err := Inspect(path)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestInspect(t *testing.T) {
	plain := inspect(t, elftest.CompileC(t, "cc", emptyMain))
	if !plain.ELF || plain.Interpreter == "" || plain.Linked || plain.Instrumented || plain.CheckPreload() != nil {
		t.Errorf("plain program: got %+v", plain)
	}
	static := inspect(t, elftest.CompileC(t, "cc", emptyMain, "-static"))
	if static.Interpreter != "" {
		t.Errorf("static program: got %+v", static)
	}
	if err := static.CheckPreload(); err == nil || !strings.Contains(err.Error(), "linked statically") {
		t.Errorf("static program: got error %v", err)
	}
	static.Linked = true
	if err := static.CheckPreload(); err == nil || !strings.Contains(err.Error(), "what records calls of the C library cannot be preloaded") {
		t.Errorf("static program with the recorder: got error %v", err)
	}
	linked := inspect(t, elftest.CompileC(t, "cc", `char root[4096] = "XRAY-RECORDER-1";`+emptyMain))
	if !linked.Linked {
		t.Errorf("program with the recorder: got %+v", linked)
	}
	if p := inspect(t, "../../testdata/kvserver"); !p.Instrumented {
		t.Errorf("instrumented program: got %+v", p)
	}
	script := filepath.Join(t.TempDir(), "script")
	if err := os.WriteFile(script, []byte("#!/bin/sh\n"), 0o777); err != nil {
		t.Fatal(err)
	}
	if p := inspect(t, script); p.ELF || p.CheckPreload() != nil {
		t.Errorf("script: got %+v", p)
	}
}

func TestInspectRefusesOtherMachines(t *testing.T) {
	data, err := os.ReadFile("../../testdata/kvserver")
	if err != nil {
		t.Fatal(err)
	}
	data[18] = 183 // e_machine of arm64
	path := filepath.Join(t.TempDir(), "arm")
	if err := os.WriteFile(path, data, 0o777); err != nil {
		t.Fatal(err)
	}
	if _, err := Inspect(path); err == nil || !strings.Contains(err.Error(), "is a program for aarch64: ") {
		t.Errorf("got error %v", err)
	}
	if err := os.WriteFile(path, data[:100], 0o777); err != nil {
		t.Fatal(err)
	}
	if _, err := Inspect(path); err == nil {
		t.Error("a truncated program was accepted")
	}
}

func TestSetUserIDCannotBePreloaded(t *testing.T) {
	testenv.NeedOtherUsers(t)
	path := elftest.CompileC(t, "cc", emptyMain)
	if err := os.Chown(path, testenv.Nobody, 0); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, os.ModeSetuid|0o755); err != nil {
		t.Fatal(err)
	}
	if err := inspect(t, path).CheckPreload(); err == nil || !strings.Contains(err.Error(), "set-user-id") {
		t.Errorf("got error %v", err)
	}
}

func TestObjectsAreThoseOfTheLoader(t *testing.T) {
	lib := elftest.CompileC(t, "cc", "int f(void) { return 1; }\n", "-shared", "-fPIC")
	path := elftest.CompileC(t, "cc", "int f(void); int main(void) { return f(); }\n", lib)
	objects, err := inspect(t, path).Objects(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	all := strings.Join(objects, "\n")
	if !strings.Contains(all, lib) || !strings.Contains(all, "libc.so") || strings.Contains(all, "vdso") {
		t.Errorf("got objects %q", objects)
	}
}

func TestContainsAcrossReads(t *testing.T) {
	for _, before := range []int{0, 1, 64<<10 - 8, 64 << 10, 128<<10 - 3} {
		data := append(bytes.Repeat([]byte{'X'}, before), ring.RootMagic...)
		if ok, err := contains(bytes.NewReader(data), []byte(ring.RootMagic)); !ok || err != nil {
			t.Errorf("%d bytes before: got %v, error %v", before, ok, err)
		}
		if ok, _ := contains(bytes.NewReader(data[:len(data)-1]), []byte(ring.RootMagic)); ok {
			t.Errorf("%d bytes before: found a truncated entry", before)
		}
	}
}

func TestPreloadEnvironment(t *testing.T) {
	for already, want := range map[string]string{
		"":                                 "/c/lib/libxray-libcalls-alloc.so:/c/lib/libxray-recorder.so",
		"/a.so":                            "/c/lib/libxray-libcalls-alloc.so:/a.so:/c/lib/libxray-recorder.so",
		"libjemalloc.so.2 /x/libasan.so.8": "/x/libasan.so.8:/c/lib/libxray-libcalls-alloc.so:libjemalloc.so.2:/c/lib/libxray-recorder.so",
	} {
		entry, added, err := PreloadEnvironment(Library{"/c"}, already, "alloc")
		if entry != "LD_PRELOAD="+want || len(added) != 2 || err != nil {
			t.Errorf("%q: got %q, %q, error %v", already, entry, added, err)
		}
	}
	if _, _, err := PreloadEnvironment(Library{"/my cache"}, ""); err == nil {
		t.Error("a path with a space was accepted")
	}
}
