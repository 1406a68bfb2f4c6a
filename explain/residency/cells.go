package residency

import (
	"runtime"
	"sync"

	"github.com/xray-tools/xray/reader"
)

// MaxCells is how many cells all threads together may live in, which take 64 bytes each.
const MaxCells = 2 << 20

// Life is when a thread's records are, in ticks, on a clock that does not step back.
type Life struct{ First, Last uint64 }

// Lives finds out when the threads of a trace live, of those that are chosen; a nil thread
// chooses all. It takes a pass.
func Lives(t *reader.Trace, thread func(reader.Thread) bool) ([]Life, error) {
	type clock struct {
		Life
		offset uint64
		begun  bool
		skip   bool
	}
	var mu sync.Mutex
	var threads []*clock
	err := t.Each(runtime.GOMAXPROCS(0), func(_ int, b *reader.Block) error {
		mu.Lock()
		for b.Index >= len(threads) {
			threads = append(threads, nil)
		}
		th := threads[b.Index]
		if th == nil {
			th = &clock{skip: thread != nil && !thread(b.Thread)}
			threads[b.Index] = th
		}
		mu.Unlock()
		for i := range b.Events {
			// As package calls has it: where the clock goes back, no time passes.
			now := b.Events[i].TSC + th.offset
			if now < th.Last {
				th.offset += th.Last - now
				now = th.Last
			}
			if !th.begun {
				th.First, th.begun = now, true
			}
			th.Last = now
		}
		return nil
	})
	lives := make([]Life, 0, len(threads))
	for _, th := range threads {
		if th != nil && th.begun && !th.skip {
			lives = append(lives, th.Life)
		}
	}
	return lives, err
}

// FitCells is into how many cells the time may be cut: as many as are wanted, or fewer
// where so many threads live so long that all their cells would take more than 128 MB.
func FitCells(wanted int, from, to uint64, lives []Life) int {
	cells := max(wanted, 1)
	span := max(to-from, 1)
	for ; cells > 1; cells -= max(cells/8, 1) {
		width := (span-1)/uint64(cells) + 1
		all := uint64(0)
		for _, l := range lives {
			first, last := min(max(l.First, from), to), min(max(l.Last, from), to)
			all += (last-first)/width + 2
		}
		// With two cells at least, threads may be too many for any number.
		if all <= max(MaxCells, 3*uint64(len(lives))) {
			break
		}
	}
	return cells
}
