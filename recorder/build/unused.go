package build

import (
	"cmp"
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// A cache keeps the recorders that were used in the last days, and the newest few of the others.
const (
	unusedAfter = 30 * 24 * time.Hour
	keptAlways  = 3
	// noteAfter is the time after which the use of a recorder is noted again.
	noteAfter = 24 * time.Hour
)

// noteUse notes in the time of its folder that a compiled recorder is used, before that is checked. Whoever
// removes it has the lock meanwhile, so it is either noted, or no longer there.
func noteUse(ctx context.Context, dir string) {
	info, err := os.Lstat(dir)
	if err != nil || !info.IsDir() || time.Since(info.ModTime()) < noteAfter {
		return
	}
	if unlock, err := lockFolder(ctx, dir); err == nil {
		defer unlock()
		now := time.Now()
		_ = os.Chtimes(dir, now, now) // a cache that cannot be written is not cleaned either
	}
}

// removeUnused removes what nobody has used for long from a cache: compiled recorders, links to removed ones,
// and what builds have left that were killed. An error is no reason to fail: the cache is only larger.
func removeUnused(ctx context.Context, parent string) {
	type folder struct {
		path string
		used time.Time
	}
	var built []folder
	entries, _ := os.ReadDir(parent)
	for _, e := range entries {
		path := filepath.Join(parent, e.Name())
		info, err := e.Info()
		isBuilt := strings.HasPrefix(e.Name(), "recorder-")
		switch {
		case err != nil || !isBuilt && !strings.HasPrefix(e.Name(), "build-"):
		case info.Mode()&os.ModeSymlink != 0:
			if _, err := os.Stat(path); os.IsNotExist(err) {
				_ = os.Remove(path)
			}
		case !info.IsDir():
		case isBuilt:
			built = append(built, folder{path, info.ModTime()})
		case time.Since(info.ModTime()) > unusedAfter:
			_ = os.RemoveAll(path)
		}
	}
	slices.SortFunc(built, func(a, b folder) int { return cmp.Or(b.used.Compare(a.used), cmp.Compare(a.path, b.path)) })
	for _, f := range built[min(keptAlways, len(built)):] {
		if time.Since(f.used) > unusedAfter {
			removeBuilt(ctx, parent, f.path)
		}
	}
}

// removeBuilt removes a compiled recorder, unless it is used. Programs that are recorded have it mapped, however
// long ago they began, and their children load it again.
func removeBuilt(ctx context.Context, parent, dir string) {
	unlock, err := lockFolder(ctx, dir)
	if err != nil {
		return
	}
	defer unlock()
	if info, err := os.Lstat(dir); err != nil || time.Since(info.ModTime()) < unusedAfter {
		return
	}
	lib := filepath.Join(dir, "lib")
	entries, _ := os.ReadDir(lib)
	for _, e := range entries {
		release, err := ownAlone(filepath.Join(lib, e.Name()))
		if err != nil {
			return
		}
		defer release()
	}
	temp, err := os.MkdirTemp(parent, "build-*")
	if err != nil {
		return
	}
	defer os.RemoveAll(temp)
	_ = os.Rename(dir, filepath.Join(temp, "unused")) // in one step, so nobody finds a part of it
}
