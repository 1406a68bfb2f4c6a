package convert

import (
	"cmp"
	"errors"
	"slices"

	"github.com/xray-tools/xray/internal/tracewrite"
	"github.com/xray-tools/xray/reader"
)

// CutRecording returns the recording for a file with a part of the records of all traces, or nil if one
// of them is of another recorder. It lacks sums of calls and CPU times, because these cover the whole
// recording. processes says which processes the file will have.
func CutRecording(t *reader.Trace, processes *tracewrite.Processes) (*reader.Recording, error) {
	var all []*reader.Recording
	for i := range t.Files() {
		one := t.Recording(i)
		if one == nil {
			return nil, nil
		}
		all = append(all, one)
	}
	if len(all) == 0 {
		return nil, nil
	}
	r := *all[0]
	r.Counters, r.Profiles, r.Pruned = nil, nil, reader.Pruned{}
	r.Process.CPUNS, r.Process.CPUFrom, r.Process.CPUTo = 0, 0, 0
	if len(all) == 1 {
		return &r, nil
	}
	var err error
	if r.Objects, r.Addresses, err = t.Objects(); err != nil {
		return nil, err
	}
	r.Process.Watched = t.Watched()
	r.Threads, r.Losses, r.Refusals, r.Changes, r.Clock.Anchors = nil, nil, nil, nil, nil
	functions := make(map[reader.FuncID]bool)
	for _, f := range r.Functions {
		functions[f.ID] = true
	}
	lost := make(map[string]uint64)
	for i, one := range all {
		switch {
		case one.Budget.Limited():
			return nil, errors.New("one of the traces was recorded within a budget: slice the traces one by one")
		case len(one.Sched.Parts) > 0:
			return nil, errors.New("one of the traces has scheduler events: slice the traces one by one")
		case !slices.Equal(one.Windows, r.Windows):
			return nil, errors.New("the traces were recorded in different windows: slice the traces one by one")
		}
		for _, thread := range one.Threads {
			thread.PID = processes.Of(reader.Thread{File: int32(i), Process: thread.PID, Thread: thread.TID})
			r.Threads = append(r.Threads, thread)
		}
		for _, l := range one.Losses {
			lost[l.Cause] += l.Count
		}
		for _, l := range one.Refusals {
			if !slices.Contains(r.Refusals, l) {
				r.Refusals = append(r.Refusals, l)
			}
		}
		for _, f := range one.Functions {
			if !functions[f.ID] {
				functions[f.ID] = true
				r.Functions = append(r.Functions, f)
			}
		}
		r.Changes = append(r.Changes, one.Changes...)
		r.Clock.Anchors = append(r.Clock.Anchors, one.Clock.Anchors...)
		p, other := &r.Process, &one.Process
		p.ThresholdNS = max(p.ThresholdNS, other.ThresholdNS)
		if p.Depth == 0 || other.Depth > 0 && other.Depth < p.Depth {
			p.Depth = other.Depth
		}
		p.Complete = p.Complete && other.Complete
		if other.OffCPU == "" {
			p.OffCPU, p.NoOffCPU = "", cmp.Or(p.NoOffCPU, other.NoOffCPU)
		}
	}
	slices.SortStableFunc(r.Changes, func(a, b reader.Change) int { return cmp.Compare(a.TSC, b.TSC) })
	slices.SortFunc(r.Clock.Anchors, func(a, b reader.Anchor) int { return cmp.Compare(a.TSC, b.TSC) })
	r.Clock.Anchors = slices.CompactFunc(r.Clock.Anchors, func(a, b reader.Anchor) bool { return b.TSC == a.TSC || b.Raw <= a.Raw })
	for cause, n := range lost {
		r.Losses = append(r.Losses, reader.RecordedLoss{Cause: cause, Count: n})
	}
	slices.SortFunc(r.Losses, func(a, b reader.RecordedLoss) int { return cmp.Compare(a.Cause, b.Cause) })
	return &r, nil
}
