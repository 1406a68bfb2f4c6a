package residency

import "github.com/xray-tools/xray/reader"

// ofFunc is a value for a function.
type ofFunc[V any] interface {
	*V
	id() *reader.FuncID
}

// byFunc holds values for some functions. Most threads have few, for which a list takes a
// tenth of the memory of a map.
type byFunc[V any] struct {
	list []V                     // in order of first occurrence
	at   map[reader.FuncID]int32 // indices of the list; nil while it is short
}

const shortList = 8

func place[V any, P ofFunc[V]](b *byFunc[V], fn reader.FuncID) *V {
	if b.at == nil {
		for i := range b.list {
			if v := &b.list[i]; *P(v).id() == fn {
				return v
			}
		}
	} else if i, ok := b.at[fn]; ok {
		return &b.list[i]
	}
	var v V
	*P(&v).id() = fn
	b.list = append(b.list, v)
	switch n := len(b.list); {
	case b.at != nil:
		b.at[fn] = int32(n - 1)
	case n > shortList:
		b.at = make(map[reader.FuncID]int32)
		for i := range b.list {
			b.at[*P(&b.list[i]).id()] = int32(i)
		}
	}
	return &b.list[len(b.list)-1]
}

// reset removes all values.
func (b *byFunc[V]) reset() { b.list, b.at = b.list[:0], nil }
