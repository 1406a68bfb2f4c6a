package exclude

import (
	"testing"

	"github.com/xray-tools/xray/reader"
)

// The scale between two loads is a median over functions, so a polling loop does not distort it.
func TestBaselineScale(t *testing.T) {
	sink := New()
	for id, n := range map[reader.FuncID]uint64{1: 20, 2: 21, 3: 2000, 5: 7} {
		sink.Pruned(reader.Thread{}, 0, id, n, 0)
	}
	c := &countedCalls{of: map[reader.FuncID]uint64{1: 10, 2: 10, 3: 5, 4: 9}}
	if scale, err := c.scale(sink); err != nil || scale != 2.1 {
		t.Errorf("got scale %v, error %v; want 2.1", scale, err)
	}
	c.of = map[reader.FuncID]uint64{4: 9}
	if _, err := c.scale(sink); err == nil {
		t.Error("no error without common functions")
	}
}
