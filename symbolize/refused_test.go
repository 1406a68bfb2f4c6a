package symbolize

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/xray-tools/xray/internal/test/elftest"
	"github.com/xray-tools/xray/internal/test/testenv"
	"github.com/xray-tools/xray/symbolize/debuginfo"
)

// Files of another build are refused with the file's name and the reason.
func TestRefused(t *testing.T) {
	testenv.Need(t, "objcopy", "strip", "clang++-22")
	m := newMatrixObject(t, "clang++-22", "server")
	m.path = m.build(t, "plain", "-g")
	other := newMatrixObject(t, "clang++-22", "codec")
	other.path = other.build(t, "plain", "-g")
	id := load(t, m.path).Object().BuildID
	refused := func(path string, opts Options, want string) {
		t.Helper()
		table, err := Load(path, opts)
		if err != nil {
			t.Fatal(err)
		}
		defer table.Close()
		if s, _ := table.Func(1); s.Name != "" || s.File != "" {
			t.Errorf("function 1: got %+v", s)
		}
		if got := fmt.Sprint(table.Refused()); !strings.Contains(got, want) {
			t.Errorf("got refusal %s, want %q", got, want)
		}
	}
	stripped := m.copy(t, "stripped")
	elftest.Run(t, "strip", "-s", stripped)
	dir := t.TempDir()
	copyFile(t, other.path, filepath.Join(dir, ".build-id", id[:2], id[2:]+".debug"))
	refused(stripped, Options{Options: debuginfo.Options{DebugDirs: []string{dir}}}, "its build ID is "+load(t, other.path).Object().BuildID+" instead of "+id)
	refused(stripped, Options{Options: debuginfo.Options{Fetch: func(string, debuginfo.FileKind) (string, error) { return other.path, nil }}}, "the server sent a file with build ID")

	// Without build IDs, the checksum of the debug link decides.
	linked := m.copy(t, "linked")
	elftest.Run(t, "objcopy", "--remove-section=.note.gnu.build-id", linked)
	debug := linked + ".debug"
	elftest.Run(t, "objcopy", "--only-keep-debug", linked, debug)
	elftest.Run(t, "strip", "-s", linked)
	elftest.Run(t, "objcopy", "--add-gnu-debuglink="+debug, linked)
	f, err := os.OpenFile(debug, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	f.Write([]byte{1})
	f.Close()
	refused(linked, Options{}, "its checksum is ")

	// A .dwo file of another build.
	split := m.build(t, "split", "-g", "-gsplit-dwarf")
	dwos, _ := filepath.Glob(filepath.Join(m.dir, "split", "*.dwo"))
	source := filepath.Join(m.dir, "server.cc")
	text, _ := os.ReadFile(source)
	os.WriteFile(source, append(text, "int more; int *f() { return &more; }\n"...), 0o666)
	old := dwos[0] + ".old"
	os.Rename(dwos[0], old)
	m.build(t, "split", "-g", "-gsplit-dwarf", "-DX", "-o", filepath.Join(m.dir, "split", "server"))
	table := load(t, split)
	if len(table.Inlined(1)) == 0 {
		t.Error("the present build has no inlined functions")
	}
	os.Rename(old, dwos[0])
	table = load(t, split)
	if got := table.Inlined(1); len(got) != 0 {
		t.Errorf("got inlined calls from a .dwo file of another build: %v", got)
	}
	if got := fmt.Sprint(table.Refused()); !strings.Contains(got, "it may be of another build") {
		t.Errorf("wrong refusal: %s", got)
	}
}
