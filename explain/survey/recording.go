package survey

import (
	"cmp"
	"path/filepath"
	"slices"

	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/report/label"
)

// recorderLosses describe the losses that xray's own recorder counts: what was lost, in the
// singular and the plural, the text that follows, and the remedy.
var recorderLosses = map[string]struct{ one, many, text, remedy string }{
	"size-limit": {"record", "records", "did not fit into the file size limit",
		"Record with a larger --limit, with --prune, or with a filter."},
	"write-error": {"record", "records", "could not be written",
		"Check for a full or slow disk, or record into memory with --ring."},
	"no-memory": {"record", "records", "got no memory", "Record with a smaller --ring, with --prune, or with a filter."},
	"thread-without-memory": {"record", "records", "lost in threads without memory",
		"Record with a larger --memory if there is such a limit, else with a smaller --ring, or give the program more memory."},
	"ended-thread": {"record", "records", "were in rings of ended threads, which made room for others",
		"Record to a file, or less with --prune or with a filter. The rings of ended threads are kept up to 32 MB in all, or within --memory."},
	"interrupted": {"record", "records", "interrupted by a signal handler that filled the memory after them",
		"No action needed if this is rare. Otherwise, exclude the functions that signal handlers call."},
	"damaged-chunk": {"place", "places", "in the recorder's memory overwritten by the program",
		"Look for stray writes in the program with a sanitizer."},
	"torn-chunk": {"chunk", "chunks", "of 64 kB reused while being copied",
		"No action needed: they are the oldest of their threads. A larger --ring makes room."},
	"truncated-payload": {"event payload", "event payloads", "truncated or not readable", "The recorder keeps 4096 bytes of an event."},
	"sched-size-limit":  {"scheduler event", "scheduler events", "did not fit into the file size limit", "Record with a larger --limit."},
	"sched-write-error": {"scheduler event", "scheduler events", "could not be written", "Check for a full or slow disk."},
	"no-path": {"record", "records", "of calls for which the profile had no memory",
		"Give the program more memory, or count calls with --count."},
	"writer-ended": {"record", "records", "may be missing: xray record's writing process was killed while it wrote them",
		"They are at the end of the trace that this process wrote, or lost."},
	"not-waited-for":  {"record", "records", "dropped because threads did not wait for the trace to be written", "Record without --drop."},
	"damaged-profile": {"thread profile", "thread profiles", "overwritten by the program", "Look for stray writes in the program with a sanitizer."},
	"unlisted-thread": {"thread", "threads", "not in the trace's list of threads and their names", "No action needed: their records are in the trace."},
}

// Summed returns the number of calls that have only sums.
func Summed(recording *reader.Recording) uint64 {
	var n uint64
	for _, c := range recording.Counters {
		n += c.Calls
	}
	for i := range recording.Profiles {
		for j := range recording.Profiles[i].Paths {
			p := &recording.Profiles[i].Paths[j]
			n += p.Count + p.Open
		}
	}
	return n
}

// recordsLost is the number of records that are missing according to the recorder.
func recordsLost(r *reader.Recording) uint64 {
	var n uint64
	for _, l := range r.Losses {
		if recorderLosses[l.Cause].one == "record" {
			n += l.Count
		}
	}
	return n
}

// recordingFindings adds losses that the recorder reports.
func recordingFindings(r *reader.Recording, add addFinding) {
	if r.Process.Recorder != "" && !r.Process.Complete {
		add("incomplete", "If the program was killed, the last records of each thread are missing, at most a chunk of 64 kB each. "+
			"If xray record's writing process was killed, all later records are missing here: the program wrote them to a second file beside this one, unless it was killed too.",
			"The recording did not end normally: the program or the process that writes the trace was killed, or is still running.")
	}
	for _, l := range r.Losses {
		words, known := recorderLosses[l.Cause]
		if !known {
			add("recorder-losses", "Look for a newer release of xray, which may know this loss.",
				"The recorder lost something: %s, %s.", l.Cause, label.Count(l.Count, "time", "times"))
			continue
		}
		add("recorder-losses", words.remedy, "%s %s.", label.Count(l.Count, words.one, words.many), words.text)
	}
	var folded uint64
	for i := range r.Profiles {
		folded += r.Profiles[i].FoldedCalls()
	}
	if folded > 0 {
		add("folded-paths", "No action needed for functions: their counts and times are exact. To keep the paths, select functions with --func or --exclude.",
			"The program has more call paths than the recorder keeps. %s.", label.Count(folded, "call has a folded path", "calls have folded paths"))
	}
	if n := r.Sched.Lost(); n > 0 {
		add("lost-sched-events", "Where events are missing, xray does not say what ran instead of a thread, or what woke it.",
			"Up to %s.", label.Count(n, "scheduler event is missing", "scheduler events are missing"))
	}
	if why := r.Process.NoSched; why != "" {
		add("no-sched-events", "The calls are complete. What ran instead of the program's threads, and what woke them, is not known.",
			"The scheduler's events were not recorded: %s.", why)
	}
	for _, f := range r.Refusals {
		add("refused-object", "Its functions are not in the trace, but the functions that they call are.", "%s was not recorded: %s.", f.Path, f.Why)
	}
	if len(r.Clock.Anchors) > 0 && !r.Clock.Invariant {
		add("uneven-clock", "Durations are estimates. To get exact ones, record on a machine with an invariant TSC.",
			"The frequency of the processor's clock may change.")
	}
}

// maxLate limits the objects that are named.
const maxLate = 8

// lateFindings adds objects that the program opened during the recording, and whose first
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
	remedy := "Constructors run before dlopen returns and cannot be recorded. To record more, preload the recorder (xray record), which watches dlopen, or call xray_rescan."
	if r.Process.Session != 0 { // by xray record
		remedy = "Constructors run before dlopen returns and cannot be recorded. To record more, let the program call xray_rescan (xray/recorder.h) after dlopen."
	}
	for i, o := range late {
		if i == maxLate {
			add("late-object", remedy, "%s opened during the recording.", label.Count(uint64(len(late)-i), "more object was", "more objects were"))
			return
		}
		from := uint64(0)
		if o.Absent > first {
			from = o.Absent - first
		}
		name, span := filepath.Base(o.Path), clock.Format(o.Recorded-o.Absent)
		if o.Opened == 1 {
			add("late-object", remedy, "%s was opened %s after the start. Its calls within %s may be missing.", name, clock.Format(from), span)
		} else {
			add("late-object", remedy, "%s was opened %s. Its calls within %s after opening may be missing; the longest gap is %s after the start. All gaps take %s.",
				name, label.Count(o.Opened, "time", "times"), span, clock.Format(from), clock.Format(o.Missed))
		}
	}
}
