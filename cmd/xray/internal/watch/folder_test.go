package watch

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

var noon = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

// add adds a trace of 100 bytes of a call at a second after noon.
func add(t *testing.T, f *folder, slow bool, second int, duration time.Duration) {
	t.Helper()
	e := &Entry{Slow: slow, Time: noon.Add(time.Duration(second) * time.Second), DurationNS: uint64(duration)}
	path, err := f.Add(e, func(w io.Writer) error {
		_, err := io.WriteString(w, strings.Repeat("x", 100))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(path); path != "" && err != nil {
		t.Error(err)
	}
}

func open(t *testing.T, dir string, l Limits) *folder {
	t.Helper()
	f, err := openFolder(dir, l)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// names lists the traces of a folder. The index has a line for each of them.
func names(t *testing.T, dir string) (list []string) {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(dir, "*.xray"))
	if err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(filepath.Join(dir, "_index.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	listed := make(map[string]bool)
	for line := range strings.Lines(string(data)) {
		var e Entry
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			t.Error(err)
		}
		listed[e.File] = true
	}
	for _, path := range found {
		name := filepath.Base(path)
		if !listed[name] {
			t.Errorf("%s is not in the index", name)
		}
		_, kind, _ := strings.Cut(strings.TrimSuffix(name, ".xray"), "-")
		list = append(list, kind)
	}
	return list
}

func TestFolderLimits(t *testing.T) {
	for _, c := range []struct {
		name   string
		limits Limits
		want   []string
	}{
		{"all", Limits{Usual: 9}, []string{"slow-30ms", "usual-1us", "slow-1.23s", "slow-20ms", "usual-2us", "slow-25ms"}},
		{"slowest", Limits{Keep: 2, Usual: 9}, []string{"slow-30ms", "usual-1us", "slow-1.23s", "usual-2us"}},
		{"latest", Limits{Keep: 2, Latest: true, Usual: 1}, []string{"slow-20ms", "usual-2us", "slow-25ms"}},
		{"no usual ones", Limits{Keep: 1}, []string{"slow-1.23s"}},
		{"disk", Limits{Usual: 9, Disk: 399}, []string{"usual-1us", "slow-1.23s", "usual-2us"}},
		{"disk for one", Limits{Usual: 9, Disk: 100}, []string{"slow-1.23s"}},
		{"disk for none", Limits{Usual: 9, Disk: 99}, []string{"slow-1.23s"}},
		{"disk for none, latest", Limits{Latest: true, Usual: 9, Disk: 99}, []string{"slow-25ms"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			f := open(t, dir, c.limits)
			add(t, f, true, 1, 30*time.Millisecond)
			add(t, f, false, 2, time.Microsecond)
			add(t, f, true, 3, 1234*time.Millisecond)
			add(t, f, true, 4, 20*time.Millisecond)
			add(t, f, false, 5, 2*time.Microsecond)
			add(t, f, true, 6, 25*time.Millisecond)
			if diff := cmp.Diff(c.want, names(t, dir)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// Without a slow call, the only trace stays, even if it is too large. An earlier run's traces are no exception.
func TestFolderOnlyTrace(t *testing.T) {
	dir := t.TempDir()
	f := open(t, dir, Limits{Usual: 9})
	for i := range 3 {
		add(t, f, false, i, time.Duration(i)*time.Microsecond)
	}
	f = open(t, dir, Limits{Usual: 9, Disk: 1})
	if diff := cmp.Diff([]string{"usual-2us"}, names(t, dir)); diff != "" {
		t.Error(diff)
	}
	add(t, f, true, 4, time.Second)
	if diff := cmp.Diff([]string{"slow-1s"}, names(t, dir)); diff != "" {
		t.Error(diff)
	}
}

// A trace that would not be kept is not even written.
func TestFolderWants(t *testing.T) {
	f := open(t, t.TempDir(), Limits{Keep: 2})
	for i, c := range []struct {
		duration time.Duration
		want     bool
	}{{20, true}, {30, true}, {20, false}, {21, true}, {20, false}, {21, false}, {22, true}} {
		if got := f.Wants(uint64(c.duration)); got != c.want {
			t.Errorf("call %d of %d ns: wants it: %t", i, c.duration, got)
		} else if got {
			add(t, f, true, i, c.duration)
		}
	}
}

// A folder continues where an earlier run ended, whatever happened to its index and its traces,
// and the index does not grow without end.
func TestFolderContinues(t *testing.T) {
	dir := t.TempDir()
	limits := Limits{Keep: 3, Latest: true, Usual: 1}
	f := open(t, dir, limits)
	for i := range 3 {
		add(t, f, true, i, time.Second)
	}
	if err := os.Remove(filepath.Join(dir, f.entries[1].File)); err != nil {
		t.Fatal(err)
	}
	index, err := os.OpenFile(filepath.Join(dir, "_index.jsonl"), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	fmt.Fprint(index, `{"file":"../escape.xray","slow":true}`+"\n"+`{"file":"cut`)
	index.Close()
	outside := filepath.Join(filepath.Dir(dir), "escape.xray")
	if err := os.WriteFile(outside, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	f = open(t, dir, limits)
	if got := f.Count(true); got != 2 {
		t.Errorf("%d slow calls, want the 2 whose traces are there", got)
	}
	for i := range 100 {
		add(t, f, true, 10+i, time.Second)
	}
	if got := len(names(t, dir)); got != 3 {
		t.Errorf("%d traces, want 3", got)
	}
	if _, err := os.Stat(outside); err != nil {
		t.Errorf("a file outside the folder: %v", err)
	}
	data, err := os.ReadFile(filepath.Join(dir, "_index.jsonl"))
	if n := strings.Count(string(data), "\n"); err != nil || n > 40 {
		t.Errorf("the index has %d lines for 3 traces (%v)", n, err)
	}
}

// A trace that cannot be written leaves nothing behind.
func TestFolderFails(t *testing.T) {
	dir := t.TempDir()
	f := open(t, dir, Limits{})
	full := errors.New("no space left on device")
	_, err := f.Add(&Entry{Slow: true, Time: noon}, func(w io.Writer) error {
		_, _ = io.WriteString(w, "half")
		return full
	})
	if !errors.Is(err, full) {
		t.Error(err)
	}
	add(t, f, true, 1, time.Second)
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	got := slices.Collect(func(yield func(string) bool) {
		for _, e := range entries {
			if !yield(e.Name()) {
				return
			}
		}
	})
	if diff := cmp.Diff([]string{"20260102T120001.000000-slow-1s.xray", "_index.jsonl"}, got); diff != "" {
		t.Error(diff)
	}
}

// The index of an earlier run may be damaged. No other file is taken for a trace of watch.
func FuzzIndex(f *testing.F) {
	f.Add([]byte(`{"file":"a-slow-1ms.xray","time":"2026-11-23T07:24:44Z","slow":true,"function":"f","duration_ns":5,"bytes":7}` + "\n" + `{"file":"a-slow`))
	f.Add([]byte(`{"file":"../x"}` + "\n" + `{"file":"_index.jsonl"}` + "\n" + `{"file":"/"}` + "\n" + `{"file":""}` + "\n" + `{"file":"a","bytes":-1}` + "\n" + `{"file":"a","duration_ns":1e30}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		entries := parseIndex(data)
		var again bytes.Buffer
		names := make(map[string]bool)
		for i := range entries {
			e := &entries[i]
			if names[e.File] || e.File == indexName || filepath.Dir(filepath.Join("dir", e.File)) != "dir" {
				t.Errorf("the file %q is listed again, or is no trace", e.File)
			}
			names[e.File] = true
			if err := json.NewEncoder(&again).Encode(e); err != nil {
				t.Skip(err) // a time that has no year of four digits
			}
		}
		if got := parseIndex(again.Bytes()); len(got) != len(entries) {
			t.Errorf("got %d entries, then %d", len(entries), len(got))
		}
	})
}
