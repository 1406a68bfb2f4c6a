package account

import (
	"math/bits"

	"github.com/xray-tools/xray/internal/quantile"
	"github.com/xray-tools/xray/reader"
)

// table holds functions in the order of their first calls. IDs are dense in most traces, but
// those of shared objects are far apart, and damaged traces can have any IDs. So an array has the
// small IDs, and an open-addressing hash table has all.
type table struct {
	thread    reader.Thread
	ids       []reader.FuncID
	durations quantile.Set // durations of calls that ended; the weights are self times of all calls
	specials  []*special   // nil for functions that have none
	direct    []int32      // by id: 1 + the index
	slots     []slot       // a power of two in length, at most half full
	shift     uint8        // 32 - log2(len(slots))
	memory    int64        // bytes of the table that Analysis.memory includes
}

// slot is a function's id and 1 + its index; 0 is a free slot.
type slot struct {
	id reader.FuncID
	at int32
}

// firstSlots is the initial number of slots. A table has no array until it needs more slots:
// with Options.PerThread there may be as many tables as threads.
const firstSlots = 16

func newTable(exact bool) *table {
	t := new(table)
	t.durations.Exact = exact
	t.resize(firstSlots)
	return t
}

// special returns the special properties of the function at an index.
func (t *table) special(at int) *special {
	if t.specials[at] == nil {
		t.specials[at] = new(special)
	}
	return t.specials[at]
}

// index returns the index of the function with the ID. It adds new functions.
func (t *table) index(id reader.FuncID) int {
	if at := t.known(id); at >= 0 {
		return at
	}
	return t.search(id)
}

// known returns the index of a function if the array has it, or a negative number.
func (t *table) known(id reader.FuncID) int {
	if i := uint32(id); int(i) < len(t.direct) {
		return int(t.direct[i]) - 1
	}
	return -1
}

func (t *table) search(id reader.FuncID) int {
	mask := uint32(len(t.slots) - 1)
	// The factor is 2^32 divided by the golden ratio. Consecutive ids get different slots.
	for h := uint32(id) * 0x9e3779b1 >> (t.shift & 31); ; h++ {
		s := t.slots[h&mask]
		if s.at == 0 {
			return t.add(id)
		}
		if s.id == id {
			return int(s.at - 1)
		}
	}
}

func (t *table) add(id reader.FuncID) int {
	at := t.durations.Grow()
	t.ids = append(t.ids, id)
	t.specials = append(t.specials, nil)
	if 2*len(t.ids) > len(t.slots) {
		t.resize(2 * len(t.slots))
	} else {
		t.insert(id, int32(at+1))
	}
	return at
}

func (t *table) insert(id reader.FuncID, at int32) {
	mask := uint32(len(t.slots) - 1)
	h := uint32(id) * 0x9e3779b1 >> (t.shift & 31)
	for t.slots[h&mask].at != 0 {
		h++
	}
	t.slots[h&mask] = slot{id, at}
	if i := uint32(id); int(i) < len(t.direct) {
		t.direct[i] = at
	}
}

func (t *table) resize(n int) {
	t.slots = make([]slot, n)
	t.shift = uint8(32 - bits.TrailingZeros(uint(n)))
	if n > firstSlots {
		t.direct = make([]int32, 4*n)
	}
	for i, id := range t.ids {
		t.insert(id, int32(i+1))
	}
}
