package reader

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// Pruned describes the calls that the recorder dropped because they were short: their number and
// total time by function. The trace does not contain the calls.
type Pruned struct {
	// From and To are the TSCs between which the calls ended. They are those of the whole
	// recording, even if the trace has only the end of it, as with a ring.
	From, To  uint64
	Functions []PrunedFunction // each function once, in file order
}

// PrunedFunction is the dropped calls of a function. Ticks is their total time, which
// includes the calls that they made. Those were dropped too.
type PrunedFunction struct {
	Func         FuncID
	Calls, Ticks uint64
}

// Calls is the number of all dropped calls.
func (p *Pruned) Calls() uint64 {
	var n uint64
	for i := range p.Functions {
		n += p.Functions[i].Calls
	}
	return n
}

const (
	prunedHeadSize = 24
	prunedRowSize  = 24
)

// parsePruned reads the body of a metadata event. With an error, it returns the functions
// that are complete.
func parsePruned(body []byte) (Pruned, error) {
	le := binary.LittleEndian
	if len(body) < prunedHeadSize {
		return Pruned{}, errors.New("sums of pruned calls without a header")
	}
	n := le.Uint64(body)
	p := Pruned{From: le.Uint64(body[8:]), To: le.Uint64(body[16:])}
	rows := body[prunedHeadSize:]
	there := uint64(len(rows) / prunedRowSize)
	seen := make(map[FuncID]bool)
	var err error
	if n != there {
		err = fmt.Errorf("sums of pruned calls declare %d functions but contain %d", n, there)
	}
	for i := range min(n, there) {
		row := rows[prunedRowSize*i:]
		id := le.Uint32(row)
		if id < 1 || id > maxRecordedFunc || seen[FuncID(id)] {
			return p, fmt.Errorf("pruned function %d has ID %d, which is invalid or repeated", i, id)
		}
		seen[FuncID(id)] = true
		p.Functions = append(p.Functions, PrunedFunction{FuncID(id), le.Uint64(row[8:]), le.Uint64(row[16:])})
	}
	return p, err
}

// AppendPruned appends sums as the body of a metadata event of kind
// [MetadataPruned].
func AppendPruned(b []byte, p *Pruned) []byte {
	le := binary.LittleEndian
	b = le.AppendUint64(b, uint64(len(p.Functions)))
	b = le.AppendUint64(le.AppendUint64(b, p.From), p.To)
	for i := range p.Functions {
		f := &p.Functions[i]
		b = le.AppendUint64(b, uint64(uint32(f.Func)))
		b = le.AppendUint64(le.AppendUint64(b, f.Calls), f.Ticks)
	}
	return b
}
