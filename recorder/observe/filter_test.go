package observe

import (
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/xray-tools/xray/symbolize"
)

const instrumented = "../../testdata/kvserver"

// chosen parses a filter file into the functions of each object.
func chosen(t *testing.T, text string) (objects map[string]map[int]bool, off bool) {
	t.Helper()
	objects = make(map[string]map[int]bool)
	var ids map[int]bool
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		if path, ok := strings.CutPrefix(line, "object "); ok {
			ids = make(map[int]bool)
			objects[path] = ids
			continue
		}
		if line == "default off" {
			off = true
			continue
		}
		first, last, isRange := strings.Cut(line, "-")
		if !isRange {
			last = first
		}
		from, err1 := strconv.Atoi(first)
		to, err2 := strconv.Atoi(last)
		if err1 != nil || err2 != nil || ids == nil || isRange && from >= to {
			t.Fatalf("invalid line %q", line)
		}
		for id := from; id <= to; id++ {
			ids[id] = true
		}
	}
	return objects, off
}

func TestFilterChoosesByName(t *testing.T) {
	table, err := symbolize.Load(instrumented, symbolize.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer table.Close()
	for _, f := range []*Filter{
		{Func: regexp.MustCompile(`^kv::`)},
		{Exclude: regexp.MustCompile(`checksum`)},
		{Func: regexp.MustCompile(`^kv::`), Exclude: regexp.MustCompile(`Queue`)},
		{Func: regexp.MustCompile(`nothing is called so`)},
	} {
		var out strings.Builder
		kept, err := f.Write(&out, []string{"/bin/sh", instrumented, instrumented, "/nowhere"})
		if err != nil {
			t.Fatal(err)
		}
		objects, off := chosen(t, out.String())
		ids := objects[RealPath(instrumented)]
		if off != (f.Func != nil) {
			t.Errorf("%v: got default off %v", f, off)
		}
		if len(objects) != 1 {
			t.Fatalf("%v: got objects %v", f, objects)
		}
		want := 0
		for _, fn := range table.Map().Functions {
			name := symbolize.Label(table, fn.ID)
			keep := (f.Func == nil || f.Func.MatchString(name)) && (f.Exclude == nil || !f.Exclude.MatchString(name))
			if keep {
				want++
			}
			if ids[int(fn.ID)] != keep {
				t.Errorf("%v: %s: got %v, want %v", f, name, !keep, keep)
			}
		}
		if kept != want || len(ids) != want {
			t.Errorf("%v: got %d functions kept and %d written, want %d", f, kept, len(ids), want)
		}
	}
}

// Expressions match the short names that reports show, too.
func TestFilterMatchesShortNames(t *testing.T) {
	for _, short := range []string{`^kv::reject$`, `^kv::reject\(int\)$`} {
		f := &Filter{Func: regexp.MustCompile(short)}
		if kept, err := f.Write(io.Discard, []string{instrumented}); err != nil || kept != 1 {
			t.Errorf("--func %s: got %d functions and error %v, want 1", short, kept, err)
		}
		f = &Filter{Exclude: f.Func}
		all, _ := (&Filter{}).Write(io.Discard, []string{instrumented})
		if kept, err := f.Write(io.Discard, []string{instrumented}); err != nil || kept != all-1 {
			t.Errorf("--exclude %s: got %d of %d functions and error %v", short, kept, all, err)
		}
	}
}

// The runtime knows objects by their files, not by symbolic links to them.
func TestFilterNamesFiles(t *testing.T) {
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(RealPath(instrumented), link); err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	f := &Filter{Func: regexp.MustCompile("kv")}
	if _, err := f.Write(&out, []string{link}); err != nil {
		t.Fatal(err)
	}
	if objects, _ := chosen(t, out.String()); len(objects) != 1 || len(objects[RealPath(instrumented)]) == 0 {
		t.Errorf("got objects %v", objects)
	}
}
