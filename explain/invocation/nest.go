package invocation

// Nest adds up the calls of nested invocations of a thread. Calls arrive in the order in which they
// end, before the invocation around them. So each depth has a level of sums, until a call around it
// ends. E is a sum by ID, and X the data of an invocation that do not belong to an ID.
type Nest[E, X any] struct {
	levels []level[E, X] // at least one, deeper ones last
	at     map[nestKey]int
	merge  func(to, from *E)
	join   func(to, from *X)
}

type level[E, X any] struct {
	least uint32 // depth
	ids   []uint32
	items []E
	extra X
}

type nestKey struct {
	level int
	id    uint32
}

// NewNest returns an empty Nest. The functions merge two levels.
func NewNest[E, X any](merge func(to, from *E), join func(to, from *X)) *Nest[E, X] {
	return &Nest[E, X]{levels: make([]level[E, X], 1), at: make(map[nestKey]int), merge: merge, join: join}
}

func (n *Nest[E, X]) last() *level[E, X] { return &n.levels[len(n.levels)-1] }

// Gather merges the levels at a depth or deeper into the last level.
func (n *Nest[E, X]) Gather(depth uint32) {
	for k := len(n.levels); k > 1 && n.levels[k-2].least >= depth; k = len(n.levels) {
		from := n.levels[k-1]
		n.forget()
		n.levels = n.levels[:k-1]
		for i, id := range from.ids {
			n.merge(n.Item(id), &from.items[i])
		}
		n.join(&n.last().extra, &from.extra)
	}
	if n.last().least < depth {
		n.levels = append(n.levels, level[E, X]{})
	}
	n.last().least = depth
}

// Item returns the sum of an ID in the last level. It is valid until the next call.
func (n *Nest[E, X]) Item(id uint32) *E {
	l, key := n.last(), nestKey{len(n.levels), id}
	i, ok := n.at[key]
	if !ok {
		i = len(l.items)
		n.at[key] = i
		l.ids, l.items = append(l.ids, id), append(l.items, *new(E))
	}
	return &l.items[i]
}

// Items returns the sums of the last level, and Extra its data that do not belong to an ID.
func (n *Nest[E, X]) Items() []E { return n.last().items }
func (n *Nest[E, X]) Extra() *X  { return &n.last().extra }

// Len returns the number of sums in all levels.
func (n *Nest[E, X]) Len() int { return len(n.at) }

// Clear removes all levels.
func (n *Nest[E, X]) Clear() {
	for len(n.levels) > 1 {
		n.forget()
		n.levels = n.levels[:len(n.levels)-1]
	}
	n.Reset()
}

// Reset empties the last level.
func (n *Nest[E, X]) Reset() {
	n.forget()
	*n.last() = level[E, X]{least: n.last().least}
}

// forget removes the keys of the last level.
func (n *Nest[E, X]) forget() {
	for _, id := range n.last().ids {
		delete(n.at, nestKey{len(n.levels), id})
	}
}
