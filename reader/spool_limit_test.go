package reader

import (
	"math"
	"testing"
)

// Compressed data may not expand more than a trace can.
func TestSpoolRatio(t *testing.T) {
	l := spoolLimit{most: spoolMost, ratio: spoolRatio, free: math.MaxInt64}
	for _, c := range []struct {
		size, unpacked int64
		ok             bool
	}{
		{spoolLeast, 1000, true},
		{spoolLeast + 1, 9 << 20, false},
		{spoolLeast + 1, 17 << 20, true},
		{spoolMost, 1 << 30, true},
		{spoolMost + 1, 1 << 30, false},
		{spoolMost, -1, true},
	} {
		if err := l.check(c.size, c.unpacked); (err == nil) != c.ok {
			t.Errorf("%+v: got error %v", c, err)
		}
	}
	l.free = 5 << 20
	if err := l.check(6<<20, -1); err == nil {
		t.Error("the limit exceeds the free space")
	}
}
