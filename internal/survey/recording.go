package survey

import (
	"cmp"
	"path/filepath"
	"slices"

	"github.com/xray-tools/xray/reader"
)

// recorderLosses say in words what the recorder of this project counts as lost.
var recorderLosses = map[string]struct{ one, many, text, remedy string }{
	"size-limit": {"record", "records", "did not fit into the limit of the file's size",
		"record with a larger --limit, with --prune, or with a filter"},
	"write-error": {"record", "records", "could not be written",
		"look for a full or slow disk; or record into memory with --ring"},
	"no-memory": {"record", "records", "found no memory", "record with a smaller --ring, or with --prune or a filter"},
	"thread-without-memory": {"record", "records", "are of threads that got no memory",
		"record with a smaller --ring, or give the program more memory"},
	"interrupted": {"record", "records", "were overtaken by a signal handler that filled the memory behind them",
		"none needed where it is rare; else leave out what signal handlers call, with a filter"},
	"damaged-chunk": {"place", "places", "in the recorder's memory were overwritten by the program",
		"look for stray writes in the program, with a sanitizer"},
	"torn-chunk": {"chunk", "chunks", "of 64 kB went on to be used while it was copied",
		"none needed: they are the oldest of their threads; a larger --ring makes room"},
	"truncated-payload": {"payload", "payloads", "of events are cut off or were not readable", "the recorder keeps 4096 bytes of an event"},
	"no-path": {"record", "records", "are of calls for whose call path the profile had no room",
		"choose functions with --func or --exclude, or count calls with --count"},
	"not-waited-for":  {"record", "records", "were dropped since threads did not wait for the trace to be written", "record without --drop"},
	"damaged-profile": {"profile", "profiles", "of a thread was overwritten by the program", "look for stray writes in the program, with a sanitizer"},
	"unlisted-thread": {"thread", "threads", "left no name", "none needed: their records are there"},
}

// RecordsLost is how many records the recorder says to be missing.
func RecordsLost(r *reader.Recording) uint64 {
	var n uint64
	for _, l := range r.Losses {
		if recorderLosses[l.Cause].one == "record" {
			n += l.Count
		}
	}
	return n
}

// recordingFindings tell what the recorder itself says to be missing.
func recordingFindings(r *reader.Recording, add addFinding) {
	if r.Process.Recorder != "" && !r.Process.Complete {
		add("incomplete", "the last records of each thread are missing, at most a chunk of 64 kB each; what is there is right",
			"the recording did not end by itself: the program was killed, or still runs")
	}
	for _, l := range r.Losses {
		words, known := recorderLosses[l.Cause]
		if !known {
			add("recorder-losses", "look for a newer release of this program, which may know what that is",
				"the recorder lost something: %s, %s", l.Cause, times(l.Count))
			continue
		}
		add("recorder-losses", words.remedy, "%d %s %s", l.Count, plural(l.Count, words.one, words.many), words.text)
	}
	for _, f := range r.Refusals {
		add("refused-object", "its functions are not in the trace, but those that they call are", "%s was not recorded: %s", f.Path, f.Why)
	}
	if len(r.Clock.Anchors) > 0 && !r.Clock.Invariant {
		add("uneven-clock", "take durations for estimates; or record on a machine whose TSC is invariant",
			"the processor's clock may change its speed")
	}
}

// maxLate bounds the objects that are named.
const maxLate = 8

// lateFindings name objects that the program opened while it was recorded, and whose first
// calls may be missing, those with the longest gaps first.
func lateFindings(r *reader.Recording, clock reader.Clock, first uint64, add addFinding) {
	var late []reader.Object
	for _, o := range r.Objects {
		if o.Opened > 0 && o.Recorded > o.Absent {
			late = append(late, o)
		}
	}
	slices.SortStableFunc(late, func(a, b reader.Object) int {
		return cmp.Compare(b.Recorded-b.Absent, a.Recorded-a.Absent)
	})
	const remedy = "its constructors run before dlopen returns, and cannot be recorded; for more, preload the recorder (xray record), which watches dlopen, or call xray_rescan"
	for i, o := range late {
		if i == maxLate {
			add("late-object", remedy, "%d more objects were opened while the program was recorded", len(late)-i)
			return
		}
		from := uint64(0)
		if o.Absent > first {
			from = o.Absent - first
		}
		name, span := filepath.Base(o.Path), clock.Format(o.Recorded-o.Absent)
		if o.Opened == 1 {
			add("late-object", remedy, "%s was opened %s after the start: its calls within %s may be missing", name, clock.Format(from), span)
		} else {
			add("late-object", remedy, "%s was opened %d times: its calls within %s of opening may be missing, longest %s after the start; %s in all",
				name, o.Opened, span, clock.Format(from), clock.Format(o.Missed))
		}
	}
}
