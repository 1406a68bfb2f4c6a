package why

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/xray-tools/xray/reader"
)

// A call that is typical of several causes is shown once.
func TestShown(t *testing.T) {
	thread := reader.Thread{Process: 1, Thread: 2}
	call := func(start uint64) Exemplar { return Exemplar{Thread: thread, Start: start} }
	r := &Report{
		Exemplars: []Exemplar{call(10), call(20)},
		Causes:    []Cause{{Exemplars: []Exemplar{call(10), call(40)}}, {Exemplars: []Exemplar{call(30)}}},
	}
	for n, want := range map[int][]uint64{3: {10, 20, 30}, 9: {10, 20, 30, 40}} {
		list, causes := r.Shown(n)
		var got []uint64
		for _, e := range list {
			got = append(got, e.Start)
		}
		if diff := cmp.Diff(want, got); diff != "" || len(causes) != len(list) {
			t.Errorf("%d: %s", n, diff)
		}
	}
}
