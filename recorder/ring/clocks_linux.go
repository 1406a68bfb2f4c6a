package ring

import (
	"golang.org/x/sys/unix"

	"github.com/xray-tools/xray/reader"
)

// ReadClocks reads the TSC and the kernel's clocks at one moment. It makes several attempts and
// uses the fastest.
func ReadClocks() reader.Anchor {
	var best reader.Anchor
	for range 16 {
		var raw, real, mono unix.Timespec
		before := ReadTSC()
		if unix.ClockGettime(unix.CLOCK_MONOTONIC_RAW, &raw) != nil || unix.ClockGettime(unix.CLOCK_REALTIME, &real) != nil ||
			unix.ClockGettime(unix.CLOCK_MONOTONIC, &mono) != nil {
			return reader.Anchor{}
		}
		after := ReadTSC()
		if width := after - before; best.TSC == 0 || width < best.Width {
			best = reader.Anchor{TSC: before + width/2, Raw: uint64(raw.Nano()), Real: uint64(real.Nano()), Mono: uint64(mono.Nano()), Width: width}
		}
	}
	return best
}
