package layered

// rank assigns a rank to every node. Nodes have even ranks. So every edge has a bend in an
// odd rank, which has room for its label.
func (l *layout) rank() {
	out := make([][]int32, len(l.g.Nodes)) // edges by start node
	into := make([]int, len(l.g.Nodes))
	for i := range l.edges {
		if e := &l.edges[i]; !e.loop {
			out[e.from] = append(out[e.from], int32(i))
			into[e.to]++
		}
	}
	order := l.turn(out, into)

	// Move each node as far up as its edges allow.
	for i := range l.edges {
		e := &l.edges[i]
		if e.turned {
			e.from, e.to = e.to, e.from
		}
	}
	down, up := make([][]int32, len(l.g.Nodes)), make([][]int32, len(l.g.Nodes))
	for i := range l.edges {
		if e := &l.edges[i]; !e.loop {
			down[e.from] = append(down[e.from], e.to)
			up[e.to] = append(up[e.to], e.from)
		}
	}
	for _, n := range order {
		for _, to := range down[n] {
			l.items[to].rank = max(l.items[to].rank, l.items[n].rank+2)
		}
	}
	l.sink(order, up, down)
}

// turn marks the edges that close a cycle, and returns the nodes in an order in which all
// other edges lead forward. out holds the outgoing edges of each node, into the number of
// incoming edges. It visits nodes depth first, starting with those without incoming edges.
func (l *layout) turn(out [][]int32, into []int) []int32 {
	const (
		unseen = iota
		open   // its descendants are being visited
		done
	)
	state := make([]uint8, len(out))
	next := make([]int, len(out)) // next edge to follow
	order := make([]int32, len(out))
	place := len(order)
	var stack []int32
	visit := func(root int) {
		if state[root] != unseen {
			return
		}
		state[root] = open
		stack = append(stack[:0], int32(root))
		for len(stack) > 0 {
			at := stack[len(stack)-1]
			if next[at] == len(out[at]) {
				state[at] = done
				place--
				order[place] = at
				stack = stack[:len(stack)-1]
				continue
			}
			e := &l.edges[out[at][next[at]]]
			next[at]++
			switch state[e.to] {
			case unseen:
				state[e.to] = open
				stack = append(stack, e.to)
			case open:
				e.turned = true
			}
		}
	}
	for i := range out {
		if into[i] == 0 {
			visit(i)
		}
	}
	for i := range out {
		visit(i)
	}
	return order
}

// sink moves down the nodes that have more edges to lower nodes than to higher ones. This
// makes edges shorter.
func (l *layout) sink(order []int32, up, down [][]int32) {
	const sweeps = 8
	for range sweeps {
		moved := false
		for i := len(order) - 1; i >= 0; i-- {
			n := order[i]
			if len(down[n]) <= len(up[n]) {
				continue
			}
			lowest := l.items[down[n][0]].rank
			for _, to := range down[n] {
				lowest = min(lowest, l.items[to].rank)
			}
			if lowest-2 > l.items[n].rank {
				l.items[n].rank = lowest - 2
				moved = true
			}
		}
		if !moved {
			return
		}
	}
}

// link splits edges into links from rank to rank. The bend in the middle of an edge has the
// label on its right.
func (l *layout) link() {
	for i := range l.edges {
		e := &l.edges[i]
		if e.loop {
			continue
		}
		from, to := l.items[e.from].rank, l.items[e.to].rank
		last := e.from
		middle := (from + to) / 2
		if middle%2 == 0 {
			middle++ // labels are in ranks without nodes
		}
		for rank := from + 1; rank < to; rank++ {
			bend := item{rank: rank, left: 1, right: 1}
			if label := &l.g.Edges[i]; rank == middle && label.LabelWidth > 0 {
				bend.right, bend.height = labelRoom+label.LabelWidth, label.LabelHeight
			}
			e.bends = append(e.bends, int32(len(l.items)))
			l.items = append(l.items, bend)
			l.join(last, int32(len(l.items)-1))
			last = int32(len(l.items) - 1)
		}
		l.join(last, e.to)
	}
}

func (l *layout) join(upper, lower int32) {
	l.items[upper].down = append(l.items[upper].down, lower)
	l.items[lower].up = append(l.items[lower].up, upper)
}
