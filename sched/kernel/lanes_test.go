package kernel_test

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/sched"
	"github.com/xray-tools/xray/sched/kernel"
)

// If the kernel does not report the switch from another task to a thread, the trace has the switch to that
// task, if the thread waited then, and the turn of the thread has its end.
func TestUnreportedSwitchesAfterOthers(t *testing.T) {
	tr := kernel.NewTestTracker()
	tr.Follow(7, 7)
	tr.Follow(7, 8)
	kernel.Script(t, tr, `10 1 switch 7 prog R 20 hog
		20 1 switch 20 hog S 30 cat
		30 1 switch 7 prog R 20 hog
		35 0 wake 20 8 prog
		40 1 switch 20 hog S 30 cat
		50 1 switch 7 prog S 8 prog
		60 1 switch 8 prog S 20 hog`)
	part := tr.Take(7, 70, 0)
	log := sched.New(&reader.Recording{Process: reader.Process{PID: 7}, Sched: reader.Sched{Parts: []reader.SchedPart{part.Part}, Tasks: part.Tasks}})
	var got []string
	for _, turn := range log.Lanes().Turns(1) {
		got = append(got, fmt.Sprintf("%s/%d %d-%d", turn.Task.Name, turn.Task.TID, turn.From, turn.To))
	}
	if diff := cmp.Diff([]string{"prog/7 1-10", "hog/20 10-20", "cat/30 20-21", "prog/7 21-30", "hog/20 30-40", "cat/30 40-41", "prog/7 41-50", "prog/8 50-60"}, got); diff != "" {
		t.Error(diff)
	}
}
