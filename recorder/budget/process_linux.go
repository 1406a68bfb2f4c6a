package budget

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"

	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/recorder/client"
	"github.com/xray-tools/xray/recorder/ring"
)

// processMemory is the memory of a process that has a budget of its own. It is read and written through
// /proc/PID/mem. The open file belongs to the address space: when the process executes another program,
// it does not refer to the new one. Writes need not be atomic: a half-written word is a wrong limit for
// a moment.
type processMemory struct {
	pid     int
	image   *ring.Image
	file    *os.File
	root    uint64 // address of the runtime's root
	at      uint64 // address of the budget
	limits  uint64 // address of the limits
	slots   map[uint64]uint32
	about   *reader.Recording
	counted uint64 // TSC when the counts were last read
}

// Open creates the budget of a process without starting it. m reads the memory of the process, which has
// the runtime's root at the address root. about is the metadata of the process. [Controller.Between] needs keepHistory.
func Open(ctx context.Context, p *client.Process, m *ring.Image, root uint64, about *reader.Recording, share float64, keepHistory bool) (*Controller, error) {
	file, err := os.OpenFile(fmt.Sprintf("/proc/%d/mem", p.PID), os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	// Since its memory was searched, the process may have executed another program. live.open checks that it has not.
	live := &processMemory{pid: p.PID, image: m.From(file), file: file, root: root, slots: make(map[uint64]uint32), about: about}
	control := p.Connection()
	err = live.open()
	if err == nil {
		// While this connection is open, the process refuses other budgets.
		err = control.Do(ctx, nil, "budget")
	}
	if err != nil {
		control.Close()
		return nil, errors.Join(fmt.Errorf("%s: %w", p, err), file.Close())
	}
	b := newController(live, share)
	if keepHistory {
		b.history = new(history)
	}
	live.follow(b, control)
	return b, nil
}

// Close ends the rounds of a budget from Open, and releases its resources.
func (b *Controller) Close() error {
	b.Stop()
	return b.memory.(*processMemory).file.Close()
}

// Over reports whether there is nothing more to decide.
func (b *Controller) Over() bool { return b.memory.over() }

// ChargeWriting notes that the process writes its trace itself.
func (b *Controller) ChargeWriting() {
	b.writing = writingCost
	b.call += b.writing
}

// CallsAtEnd fills c with the calls of a process from Open that ended some time after its calls were last
// counted. It had used cpu ns of CPU time at a TSC. CallsAtEnd returns false if its calls were never counted.
func (b *Controller) CallsAtEnd(c *Calls, tsc uint64, cpu float64) bool {
	m := b.memory.(*processMemory)
	if m.counted == 0 {
		return false
	}
	for i := range b.slots {
		for id, calls := range b.slots[i].counts {
			if calls > 0 {
				c.Counted[reader.FuncID(id)] += calls
			}
		}
	}
	p := b.processes[0]
	c.cut = true
	c.uncounted = max(0, p.cpu-cpu) * float64(b.overAt-m.counted) / float64(max(1, m.counted-tsc))
	c.CPU = p.cpu + p.samples + c.uncounted
	return true
}

func (m *processMemory) open() error {
	root, err := m.image.ParseRoot(m.root)
	if err != nil {
		return err
	}
	if m.at = root.Budget; m.at == 0 || m.u32(m.at+ring.BudgetOnAt) != 1 {
		return m.image.Errorf("it records without a budget")
	}
	if m.limits = m.u64(m.at); m.limits%8 != 0 || m.limits == 0 {
		return m.image.Errorf("the recorder's budget is damaged")
	}
	return nil
}

func (m *processMemory) u32(at uint64) uint32 {
	var p [4]byte
	_, _ = m.image.ReadSome(p[:], at) // 0 if the process has ended
	return binary.LittleEndian.Uint32(p[:])
}

func (m *processMemory) u64(at uint64) uint64 {
	var p [8]byte
	_, _ = m.image.ReadSome(p[:], at)
	return binary.LittleEndian.Uint64(p[:])
}

// write writes memory, unless the process has ended.
func (m *processMemory) write(at uint64, p []byte) { _, _ = m.file.WriteAt(p, int64(at)) }

func (m *processMemory) exhausted() uint32 { return m.u32(m.at + ring.BudgetSpentAt) }

func (m *processMemory) decide() {
	m.write(m.at+ring.BudgetDecidedAt, binary.LittleEndian.AppendUint32(nil, m.u32(m.at+ring.BudgetDecidedAt)+1))
}

func (m *processMemory) limit(id uint32) uint64 { return m.u64(m.limits + 8*uint64(id)) }

func (m *processMemory) setLimit(id uint32, calls uint64) {
	if id < ring.MaxLimits {
		m.write(m.limits+8*uint64(id), binary.LittleEndian.AppendUint64(nil, calls))
	}
}

func (m *processMemory) setUncounted(first, bits uint32) {
	if first < ring.MaxLimits {
		m.write(m.limits+8*ring.MaxLimits+uint64(first/8), binary.LittleEndian.AppendUint32(nil, bits))
	}
}

func (m *processMemory) setSampled(ids []uint32) {
	p := binary.LittleEndian.AppendUint32(nil, uint32(len(ids)))
	for _, id := range ids {
		p = binary.LittleEndian.AppendUint32(p, id)
	}
	m.write(m.at+ring.BudgetSampledAt, p)
}

func (m *processMemory) processes() uint32 { return 1 }

// over reports whether the recording or the process has ended.
func (m *processMemory) over() bool { return m.u32(m.at+ring.BudgetOnAt) != 1 }

// find does nothing, because follow has added the only process.
func (m *processMemory) find(*Controller) {}

// follow adds the process to a new budget.
func (m *processMemory) follow(b *Controller, control *client.Connection) {
	p := &processState{clock: ProcessClock(m.pid), control: control}
	b.processes, b.estimates[0] = []*processState{p}, p
	b.learnCost(m.about)
	b.learnGroups(m.about)
	// The process was recording before. Those calls belong to earlier CPU time, so read them now: the first round must
	// not find them.
	earlier := b.read(func(*processState) bool { return true })[0]
	p.cpu = p.cpuNow()
	b.balance -= earlier.cost(b.call)
	// If the process was forked from one with a budget, some functions are already off.
	for _, o := range m.about.Objects {
		for id := o.First; o.State == "ready" && o.Holds(id) && id < ring.MaxLimits; id++ {
			if m.limit(uint32(id)) > 0 {
				continue
			}
			b.functions = upTo(b.functions, uint64(id))
			if f := &b.functions[id]; !f.called {
				f.called, f.off, f.backoff = true, true, leastBackoff
				p.assume(int(id), 0)
				p.turn(int(id), true)
			}
		}
	}
}

func (m *processMemory) threads(each func(slot, process uint32, words func(func(id, calls uint64)))) {
	now, whole := ring.ReadTSC(), true
	root, err := m.image.ParseRoot(m.root)
	if err != nil {
		return
	}
	table, err := m.image.Read("the table of threads", root.Threads, int(root.Nthreads)*8)
	if err != nil {
		return
	}
	for f := ring.Fields(table); len(f) > 0; f = f[8:] {
		t, err := m.image.ParseThread(f.U64(0), root.ThreadSize)
		if err != nil {
			return
		}
		slot, ok := m.slots[t.Address]
		if !ok {
			slot = uint32(len(m.slots))
			m.slots[t.Address] = slot
		}
		each(slot, 0, func(each func(id, calls uint64)) {
			p := make(ring.Fields, 8*min(t.Ncounter, root.MaxFunction+1, ring.MaxLimits))
			if n, err := m.image.ReadSome(p, t.Counters); n < len(p) || err != nil {
				whole = false
				return
			}
			for id := 0; 8*id < len(p); id++ {
				if calls := p.U64(8 * id); calls > 0 {
					each(uint64(id), calls)
				}
			}
		})
	}
	if whole {
		m.counted = now
	}
}

func (m *processMemory) charges(each func(id, ticks uint64)) {
	root, err := m.image.ParseRoot(m.root)
	if err != nil {
		return
	}
	p := make(ring.Fields, 8*min(root.MaxFunction+1, ring.MaxLimits))
	if n, err := m.image.ReadSome(p, m.limits+ring.ChargesAt); n < len(p) || err != nil {
		return
	}
	for id := 0; 8*id < len(p); id++ {
		if ticks := p.U64(8 * id); ticks > 0 {
			each(uint64(id), ticks)
		}
	}
}

// inspect does nothing, because [live.Reader.Read] reads all records.
func (m *processMemory) inspect(*Controller) {}
