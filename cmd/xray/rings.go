package main

import (
	"fmt"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/xray-tools/xray/recorder"
)

// leftRings lists the files of rings that processes of this run left behind.
func (l *launch) leftRings() []string {
	if l.shm == "" {
		return nil
	}
	files, err := filepath.Glob(filepath.Join(escapeGlob(l.shm), "xray-*.ring"))
	if err != nil {
		return nil
	}
	var left []string
	for _, path := range files {
		if l.left(path) {
			left = append(left, path)
		}
	}
	sortPaths(left)
	return left
}

// left tells whether a file of rings is of a process of this run that is gone.
func (l *launch) left(path string) bool {
	core, err := recorder.OpenCore(path, nil)
	if err != nil {
		return false
	}
	defer core.Close()
	for _, rings := range core.Rings() {
		pid, session := rings.Process()
		if session != l.session {
			return false
		}
		if p, err := recorder.Dial(strconv.Itoa(pid)); err == nil && p.Alive() {
			return false
		}
	}
	return true
}

// escapeGlob makes a pattern that matches the path itself.
func escapeGlob(path string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(path)
}

// describeRings says what to do with files of rings.
func describeRings(paths []string) string {
	names := nearNames(paths)
	what := "the last calls of a process that was killed are in " + names[0]
	if n := len(paths); n > 1 {
		what = fmt.Sprintf("the last calls of %d processes that were killed are in %s", n, strings.Join(names[:min(n, maxListed)], " "))
		if n > maxListed {
			what += " ..."
		}
	}
	return fmt.Sprintf("%s; next: xray core %s, and remove what you need no more", what, names[0])
}
