package residency

import (
	"runtime"
	"sync"

	"github.com/xray-tools/xray/reader"
)

// MaxCells is the maximum number of cells in which threads live, summed over all threads. A
// cell takes 80 bytes.
const MaxCells = 2 << 20

// Life is the time from a thread's first record to its last, in ticks, on a clock that does
// not step back.
type Life struct{ First, Last uint64 }

// Lives returns the lives of the selected threads of a trace. A nil thread selects all. It
// reads the trace once.
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
			// As in package calls, no time passes when the clock steps back.
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

// FitCells returns into how many cells to divide the time: wanted, or fewer if the threads'
// cells would take more than 144 MB.
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
		// Even two cells may be too many if there are many threads.
		if all <= max(MaxCells, 3*uint64(len(lives))) {
			break
		}
	}
	return cells
}
