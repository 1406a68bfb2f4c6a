package watch

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/xray-tools/xray/internal/fileio"
)

// Limits say which traces a folder keeps.
type Limits struct {
	Keep   int   // traces of slow calls; 0 means no limit
	Latest bool  // keep the latest slow calls instead of the slowest
	Usual  int   // traces of usual calls
	Disk   int64 // bytes of all traces; 0 means no limit. The last trace of a slow call stays even if it is larger
}

// Entry is a trace in a folder, and a line of its index.
type Entry struct {
	File       string    `json:"file"`
	Time       time.Time `json:"time"` // of the start of the call
	Slow       bool      `json:"slow"`
	Function   string    `json:"function"`
	DurationNS uint64    `json:"duration_ns"` // of the longest call
	Process    int       `json:"process"`
	Thread     int32     `json:"thread"`
	// Calls is the number of slow calls in the trace.
	Calls int `json:"calls"`
	// FromNS and ToNS are the start and the end of the trace relative to the start of the call.
	FromNS int64 `json:"from_ns"`
	ToNS   int64 `json:"to_ns"`
	Bytes  int64 `json:"bytes"`
}

// indexName is the name of a folder's index. Commands that read all traces of a folder skip files
// whose names begin with an underscore.
const indexName = "_index.jsonl"

// folder is a folder of traces with an index, within limits. It is safe for concurrent use.
type folder struct {
	path   string
	limits Limits

	mu      sync.Mutex
	entries []Entry // in the order of the index
	stale   int     // lines of the index whose traces were removed
}

// openFolder opens a folder, and creates it if necessary. It continues with the traces of an
// earlier run, as listed in the index.
func openFolder(path string, limits Limits) (*folder, error) {
	if err := os.MkdirAll(path, 0o777); err != nil {
		return nil, err
	}
	f := &folder{path: path, limits: limits}
	data, err := readOwn(f.index())
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	for _, e := range parseIndex(data) {
		info, err := os.Lstat(filepath.Join(path, e.File))
		if err != nil || !info.Mode().IsRegular() {
			f.stale++
			continue
		}
		e.Bytes = info.Size()
		f.entries = append(f.entries, e)
	}
	return f, f.fit()
}

// parseIndex returns the entries of an index, the last one of each file. It skips damaged lines, such as one
// that a full disk cut off, and names that are not those of traces.
func parseIndex(data []byte) (entries []Entry) {
	at := make(map[string]int)
	for line := range bytes.Lines(data) {
		var e Entry
		if json.Unmarshal(line, &e) != nil || filepath.Base(e.File) != e.File || strings.Trim(e.File[:1], "._/") == "" {
			continue
		}
		if i, known := at[e.File]; known {
			entries[i] = e
			continue
		}
		at[e.File] = len(entries)
		entries = append(entries, e)
	}
	return entries
}

func (f *folder) index() string { return filepath.Join(f.path, indexName) }

// Wants reports whether a trace of a slow call of this duration would be kept.
func (f *folder) Wants(duration uint64) bool {
	if f.limits.Keep == 0 || f.limits.Latest {
		return true
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	kept, longer := 0, 0
	for _, e := range f.entries {
		if e.Slow {
			kept++
		}
		if e.Slow && e.DurationNS >= duration {
			longer++
		}
	}
	return kept < f.limits.Keep || longer < f.limits.Keep
}

// Count returns how many traces of slow, or of usual calls are in the folder.
func (f *folder) Count(slow bool) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.count(slow)
}

func (f *folder) count(slow bool) (n int) {
	for _, e := range f.entries {
		if e.Slow == slow {
			n++
		}
	}
	return n
}

// Add writes a trace and removes others if a limit requires it. It completes the entry, and returns
// the path of the trace, or "" if the limits do not allow this one.
func (f *folder) Add(e *Entry, write func(io.Writer) error) (string, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	e.File = f.name(e)
	path := filepath.Join(f.path, e.File)
	err := fileio.Replace(path, fileio.Mode(0o600), func(file *os.File) error {
		if err := write(file); err != nil {
			return err
		}
		info, err := file.Stat()
		if err == nil {
			e.Bytes = info.Size()
		}
		return err
	})
	if err != nil {
		return "", err
	}
	line, err := json.Marshal(e)
	if err != nil {
		return "", err
	}
	if err := f.append(append(line, '\n')); err != nil {
		return "", errors.Join(err, os.Remove(path))
	}
	f.entries = append(f.entries, *e)
	err = f.fit()
	if !slices.ContainsFunc(f.entries, func(other Entry) bool { return other.File == e.File }) {
		path = ""
	}
	return path, err
}

// name returns a file name with the time, slow or usual, and the duration. Names sort by time.
func (f *folder) name(e *Entry) string {
	kind := "slow"
	if !e.Slow {
		kind = "usual"
	}
	stem := fmt.Sprintf("%s-%s-%s", e.Time.UTC().Format("20060102T150405.000000"), kind, shortDuration(e.DurationNS))
	name := stem + ".xray"
	for i := 2; ; i++ {
		if _, err := os.Lstat(filepath.Join(f.path, name)); errors.Is(err, fs.ErrNotExist) {
			return name
		}
		name = fmt.Sprintf("%s-%d.xray", stem, i)
	}
}

// shortDuration rounds to three digits.
func shortDuration(ns uint64) string {
	d, unit := time.Duration(min(ns, math.MaxInt64)), time.Nanosecond
	for d/unit >= 1000 {
		unit *= 10
	}
	return strings.Replace(d.Round(unit).String(), "µ", "u", 1)
}

// readOwn reads a file that this user or root has written.
func readOwn(path string) ([]byte, error) {
	file, err := fileio.Own(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	return io.ReadAll(file)
}

// append adds a line to the index, or leaves it as it was.
func (f *folder) append(line []byte) error {
	file, err := fileio.Append(f.index(), true)
	if err != nil {
		return err
	}
	info, err := file.Stat()
	if err == nil {
		if _, err = file.Write(line); err != nil {
			_ = file.Truncate(info.Size())
		}
	}
	return errors.Join(err, file.Close())
}

// fit removes traces until the limits hold. It rewrites the index when many of its lines are
// stale.
func (f *folder) fit() error {
	var errs []error
	for {
		i := f.surplus()
		if i < 0 {
			break
		}
		if err := os.Remove(filepath.Join(f.path, f.entries[i].File)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, err)
		}
		f.entries = slices.Delete(f.entries, i, i+1)
		f.stale++
	}
	if f.stale > len(f.entries)+16 {
		errs = append(errs, f.rewrite())
	}
	return errors.Join(errs...)
}

// surplus returns the index of an entry to remove, or -1.
func (f *folder) surplus() int {
	size := int64(0)
	for _, e := range f.entries {
		size += e.Bytes
	}
	full := f.limits.Disk > 0 && size > f.limits.Disk
	slow, usual := f.count(true), f.count(false)
	switch {
	case usual > f.limits.Usual:
		return f.least(false, byTime)
	case f.limits.Keep > 0 && slow > f.limits.Keep, full && slow > 1 && slow >= usual:
		order := byDuration
		if f.limits.Latest {
			order = byTime
		}
		return f.least(true, order)
	case full && usual > 0 && slow+usual > 1:
		return f.least(false, byTime)
	}
	return -1
}

func byTime(a, b *Entry) int { return a.Time.Compare(b.Time) }

func byDuration(a, b *Entry) int {
	return cmp.Or(cmp.Compare(a.DurationNS, b.DurationNS), byTime(a, b))
}

// least returns the index of the first entry in this order, or -1 if there is none.
func (f *folder) least(slow bool, order func(a, b *Entry) int) int {
	found := -1
	for i := range f.entries {
		e := &f.entries[i]
		if e.Slow == slow && (found < 0 || order(e, &f.entries[found]) < 0) {
			found = i
		}
	}
	return found
}

// rewrite writes the index with the traces that are there.
func (f *folder) rewrite() error {
	err := fileio.Replace(f.index(), fileio.Mode(0o600), func(file *os.File) error {
		e := json.NewEncoder(file)
		for i := range f.entries {
			if err := e.Encode(&f.entries[i]); err != nil {
				return err
			}
		}
		return nil
	})
	if err == nil {
		f.stale = 0
	}
	return err
}
