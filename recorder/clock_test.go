//go:build linux && amd64

package recorder_test

import (
	"testing"
	"time"

	"github.com/xray-tools/xray/internal/test/testenv"
	"github.com/xray-tools/xray/reader"
)

// The header of a stream has the TSC frequency to within one part per million.
func TestClockOfARecording(t *testing.T) {
	pid := startControlled(t, "control=1,start=0")
	file, path := createFile(t)
	mustAsk(t, pid, "start stream=1", file)
	time.Sleep(200 * time.Millisecond)
	mustAsk(t, pid, "stop")
	got := readTrace(t, path)
	clock := got.recording.Clock
	if len(clock.Anchors) < 2 {
		t.Fatalf("got %d anchors", len(clock.Anchors))
	}
	first, last := clock.Anchors[0], clock.Anchors[len(clock.Anchors)-1]
	measured := float64(last.TSC-first.TSC) / float64(last.Raw-first.Raw) * 1e9
	if ratio := float64(clock.Frequency) / measured; ratio < 1-1e-6 || ratio > 1+1e-6 {
		t.Errorf("got %d Hz, want %.0f as by its anchors", clock.Frequency, measured)
	}
	if lag := time.Since(time.Unix(0, int64(last.Real))); lag < 0 || lag > time.Hour {
		t.Errorf("the last anchor is %v old", lag)
	}
	trace, err := reader.Open(reader.Options{}, path)
	if err != nil {
		t.Fatal(err)
	}
	defer trace.Close()
	if h := trace.Header(0); h.CycleFrequency != clock.Frequency {
		t.Errorf("got %d Hz in the header and %d in the metadata", h.CycleFrequency, clock.Frequency)
	}
}

// A short measurement of the frequency agrees with one over ten seconds.
func TestClockOfALongRecording(t *testing.T) {
	if !testenv.Soak() {
		t.Skip("takes ten seconds; set XRAY_SOAK=1 to run it")
	}
	pid := startControlled(t, "control=1,start=0")
	measure := func(d time.Duration) (said, measured float64) {
		file, path := createFile(t)
		mustAsk(t, pid, "start stream=1", file)
		time.Sleep(d)
		mustAsk(t, pid, "stop")
		clock := readTrace(t, path).recording.Clock
		first, last := clock.Anchors[0], clock.Anchors[len(clock.Anchors)-1]
		return float64(clock.Frequency), float64(last.TSC-first.TSC) / float64(last.Raw-first.Raw) * 1e9
	}
	said, _ := measure(50 * time.Millisecond)
	_, reference := measure(10 * time.Second)
	if ratio := said / reference; ratio < 1-1e-6 || ratio > 1+1e-6 {
		t.Errorf("got %.0f Hz, want %.0f as measured over ten seconds", said, reference)
	}
}
