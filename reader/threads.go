package reader

import (
	"fmt"
	"sync"
)

// DefaultMaxThreads is how many threads a trace may have unless Options.MaxThreads says
// otherwise. A compressed trace of 1 MB can have as many. Each thread takes up to 2 KB of memory
// when threads are merged by time or reported one by one.
const DefaultMaxThreads = 1 << 17

// TooManyThreadsError reports that a trace has more threads, or more blocks, than
// Options.MaxThreads allows.
type TooManyThreadsError struct {
	File       string // in which the limit was exceeded
	MaxThreads int    // of all files
	MaxBlocks  int64  // 0 unless there are too many blocks
}

// Error names the file, the limit and the remedy.
func (e *TooManyThreadsError) Error() string {
	what := fmt.Sprintf("%d threads", e.MaxThreads)
	if e.MaxBlocks > 0 {
		what = fmt.Sprintf("%d blocks, most of them tiny", e.MaxBlocks)
	}
	return fmt.Sprintf("%s: more than %s, which may need a lot of memory. If there is enough, raise the limit with --max-threads, "+
		"for example to %d", e.File, what, 8*e.MaxThreads)
}

// threadIndex numbers the threads of a trace. It limits the memory of a trace's index.
type threadIndex struct {
	mu     sync.Mutex // of fibers, which passes find concurrently
	max    int        // threads
	index  map[Thread]int32
	list   []Thread
	bytes  int64 // of files with blocks
	blocks int64
}

// of returns the number of a thread of a file, or an error if there are too many.
func (t *threadIndex) of(f *file, th Thread) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	i, ok := t.index[th]
	if !ok {
		if len(t.list) >= t.max {
			return 0, &TooManyThreadsError{File: f.name, MaxThreads: t.max}
		}
		if t.index == nil {
			t.index = make(map[Thread]int32)
		}
		i = int32(len(t.list))
		t.index[th] = i
		t.list = append(t.list, th)
	}
	return int(i), nil
}

// addBlock counts a block of a file. The buffers of recorders are several KB, except the last one
// of each thread. So the index stays small compared to the trace, or to the memory that its
// threads may take.
func (t *threadIndex) addBlock(f *file) error {
	const perThread, bytesPerBlock = 8, 256
	most := int64(t.max)*perThread + t.bytes/bytesPerBlock
	if t.blocks++; t.blocks > most {
		return &TooManyThreadsError{File: f.name, MaxThreads: t.max, MaxBlocks: most}
	}
	return nil
}
