package tracewrite

import "github.com/xray-tools/xray/reader"

// firstSpare is larger than any process id of Linux.
const firstSpare = 1 << 22

// Processes assigns process ids to the threads of several traces that are written to one
// file, so that threads of different traces do not merge. The zero value is ready to use.
// It is not safe for concurrent use.
//
// The first trace with a process id keeps it. A process of another trace with the same id
// gets the lowest free id from 1<<22 up. So each trace has its own processes. The same
// blocks in the same order give the same ids. A single trace keeps all of its ids.
type Processes struct {
	ids   map[process]int32
	taken map[int32]struct{}
	spare int32 // no lower id from firstSpare up is free
}

type process struct{ file, id int32 }

// Of returns the process id of a thread.
func (p *Processes) Of(t reader.Thread) int32 {
	key := process{t.File, t.Process}
	id, ok := p.ids[key]
	if ok {
		return id
	}
	if p.ids == nil {
		p.ids, p.taken, p.spare = make(map[process]int32), make(map[int32]struct{}), firstSpare
	}
	id = t.Process
	for p.isTaken(id) {
		id = p.spare
		p.spare++
	}
	p.ids[key] = id
	p.taken[id] = struct{}{}
	return id
}

func (p *Processes) isTaken(id int32) bool {
	_, ok := p.taken[id]
	return ok
}
