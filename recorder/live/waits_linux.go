package live

import (
	"encoding/binary"
	"fmt"
	"math"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/recorder/ring"
)

// waits returns how long a thread has been off the CPU since it was last checked, and the TSC of this check.
// switched is false if the thread does not wait now, or if that is unknown.
func (l *Reader) waits(t *ring.Thread) (now uint64, s reader.Switch, switched bool) {
	if l.text.Process.OffCPU == "" || l.threadSize < ring.ThreadOffAt+ring.OffSize {
		return 0, s, false
	}
	b, err := l.image.Read("a thread", t.Address+ring.ThreadOffAt, ring.OffSize)
	cpu, queued, ok := l.sleeps(t.TID)
	var wall unix.Timespec
	if err != nil || !ok || unix.ClockGettime(unix.CLOCK_MONOTONIC_RAW, &wall) != nil {
		return 0, s, false
	}
	now = ring.ReadTSC()
	f := ring.Fields(b)
	off, before := uint64(wall.Nano())-cpu, f.U64(ring.OffNSAt)
	checked := f.U64(ring.OffCheckedAt)
	// A time namespace has other clocks.
	if checked < l.since || off <= before || float64(off-before) > 1.01*float64(now-checked)*1e9/float64(max(1, l.text.Clock.Frequency)) {
		return 0, s, false
	}
	s = reader.Switch{OffNS: off - before, QueuedNS: reader.UnknownNS}
	if had := f.U64(ring.OffQueuedAt); had != reader.UnknownNS {
		had += f.U64(ring.OffLeftAt)
		s.QueuedNS = min(queued-min(queued, had), s.OffNS)
	}
	if f.U64(ring.OffKeepsAt) != 0 && f.U64(ring.OffKeptAt) != reader.UnknownNS {
		s.OffNS += f.U64(ring.OffKeptAt)
		s.RecorderNS = f.U64(ring.OffKeptAt + ring.SwitchRecorderAt)
		if more := f.U64(ring.OffKeptAt + ring.SwitchQueuedAt); more == reader.UnknownNS || s.QueuedNS == reader.UnknownNS {
			s.QueuedNS = reader.UnknownNS
		} else {
			s.QueuedNS += more
		}
	}
	again, err := l.image.Read("a thread", t.Address+ring.ThreadOffAt, ring.OffSize)
	return now, s, err == nil && ring.Fields(again).U64(ring.OffCheckedAt) == checked
}

// notedWait is the result of [Reader.waits] at some time.
type notedWait struct {
	now      uint64
	s        reader.Switch
	switched bool
}

// NoteWaits notes how long threads have been off the CPU, for a trace that is written after the process has
// ended. It returns how many threads are waiting.
func (l *Reader) NoteWaits() (waiting int) {
	for _, t := range l.threads {
		if t.Free || t.Taken == 0 {
			continue
		}
		now, s, switched := l.waits(t.Thread)
		t.wait = notedWait{now, s, switched}
		if switched {
			waiting++
		}
	}
	return waiting
}

// waited is like waits for a process that has ended. If a thread waited when that was last noted, and has
// recorded nothing since, it waited until the end.
func (l *Reader) waited(t *ring.Thread) (now uint64, s reader.Switch, switched bool) {
	of := l.threads[t.Address]
	if _, err := l.image.ParseRoot(l.root); err == nil || of == nil || of.TID != t.TID {
		return 0, s, false
	}
	return of.wait.now, of.wait.s, of.wait.switched
}

// sleeps returns the CPU time of a thread and its time in run queues, if it sleeps.
func (l *Reader) sleeps(tid int32) (cpu, queued uint64, ok bool) {
	if l.foreign {
		return 0, 0, false // it has other thread IDs
	}
	dir := fmt.Sprintf("/proc/%d/task/%d/", l.process.PID, tid)
	times, err := os.ReadFile(dir + "schedstat")
	if err != nil {
		return 0, 0, false
	}
	stat, err := os.ReadFile(dir + "stat")
	_, state, found := strings.Cut(string(stat), ") ")
	if err != nil || !found || !strings.HasPrefix(state, "S") && !strings.HasPrefix(state, "D") {
		return 0, 0, false
	}
	part := strings.Fields(string(times))
	if len(part) < 3 || part[2] == "0" {
		return 0, 0, false
	}
	cpu, err = strconv.ParseUint(part[0], 10, 64)
	if err == nil {
		queued, err = strconv.ParseUint(part[1], 10, 64)
	}
	return cpu, queued, err == nil
}

// nextAfter returns the TSC of the first record after another TSC, and the record if it is a switch. The TSC
// is 0 if there is none.
func nextAfter(chunks []*keptChunk, tsc uint64) (at uint64, s reader.Switch, switched bool) {
	for _, k := range chunks {
		clock := ring.ChunkClock{Epoch: k.place.First &^ math.MaxUint32}
		for i := ring.ChunkHeader; i+8 <= len(k.data); {
			word, time, size := clock.Next(k.data[i:], false)
			if size == 0 {
				break
			}
			r := k.data[i : i+size]
			i += size
			if word != 0 && time > tsc {
				return time, s, false
			}
			if kind := r[0] >> 1; r[0]&1 == 0 || kind != ring.RecordCustom && kind != ring.RecordTyped || !ring.IsWritten(r) {
				continue
			}
			if time = binary.LittleEndian.Uint64(r[8:]) >> 1; time > tsc {
				s, switched = reader.ParseSwitch(r[16 : 16+binary.LittleEndian.Uint32(r[4:])])
				return time, s, switched
			}
		}
	}
	return 0, s, false
}
