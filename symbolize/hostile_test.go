package symbolize

import (
	"runtime"
	"runtime/debug"
	"strconv"
	"testing"
	"time"

	"github.com/xray-tools/xray/internal/test/elftest"
	"github.com/xray-tools/xray/symbolize/debuginfo"
)

// No file of 10 MB takes 500 MB or a long time. Files with compressed parts are tested at an eighth
// of all sizes.
func TestHostileFiles(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(25)) // as cli.LimitMemory, which xray calls
	for name, data := range map[string][]byte{
		"units": elftest.ManyUnits(700_000), "abbreviations": elftest.Mapped(elftest.ManyAbbreviations(8 << 20)...), "functions": elftest.Overlapping(8 << 20), "nested": elftest.Mapped(elftest.Nested(8 << 20)...),
	} {
		hostile(t, name, data, 10<<20, 450<<20)
	}
	const scale = 8
	t.Setenv(debuginfo.UnpackLimitVariable, strconv.Itoa((128<<20)/scale))
	for name, data := range elftest.HostileFiles(t, scale) {
		if name != "units" && name != "abbreviations" {
			hostile(t, name+", scaled", data, 10<<20/scale, 450<<20/scale)
		}
	}
}

// hostile reports a file that takes much memory for its size.
func hostile(t *testing.T, name string, data []byte, size int, most uint64) {
	if len(data) > size {
		t.Errorf("%s: got a file of %d bytes", name, len(data))
	}
	runtime.GC()
	before := elftest.Heap()
	stop, peak := make(chan struct{}), make(chan uint64)
	go func() {
		var most uint64
		for tick := time.NewTicker(time.Millisecond); ; {
			select {
			case <-stop:
				peak <- most
				return
			case <-tick.C:
				most = max(most, elftest.Heap())
			}
		}
	}()
	elftest.Bounded(t, 1<<40, func() { exercise(data) })
	close(stop)
	if n := <-peak; n > before+most {
		t.Errorf("%s: got %d MB allocated for a file of %d bytes", name, (n-before)>>20, len(data))
	}
}
