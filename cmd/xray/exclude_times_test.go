package main

import (
	"testing"

	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/recorder/exclude"
)

// Most functions say how much larger a load is, whatever a loop that waits does.
func TestBaselineScale(t *testing.T) {
	sink := exclude.New()
	for id, n := range map[reader.FuncID]uint64{1: 20, 2: 21, 3: 2000, 5: 7} {
		sink.Pruned(reader.Thread{}, 0, id, n, 0)
	}
	c := &countedCalls{of: map[reader.FuncID]uint64{1: 10, 2: 10, 3: 5, 4: 9}}
	if scale, err := c.scale(sink); err != nil || scale != 2.1 {
		t.Errorf("%v, %v", scale, err)
	}
	c.of = map[reader.FuncID]uint64{4: 9}
	if _, err := c.scale(sink); err == nil {
		t.Error("a scale without a function in common")
	}
}
