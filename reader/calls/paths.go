package calls

import "github.com/xray-tools/xray/reader"

// PathID is a node of a [Paths] tree. 0 is the root: no call at all.
type PathID uint32

// Paths is the tree of call paths of one shard: a node stands for a function
// called through the path of its parent. Parents have smaller ids than their
// children. Ids of different trees are unrelated; compare paths by their
// functions, or carry them over with [Paths.Remap]. A tree may be read while it
// grows only by the goroutine that grows it.
type Paths struct {
	nodes []pathNode
	// table is an open-addressing hash table over (parent, function), a power
	// of two in length and at most half full.
	table []PathID
}

type pathNode struct {
	parent PathID
	fn     reader.FuncID
	// A function mostly makes the calls that it made the last time, in the same
	// order. So the child that followed this node among its siblings, and its
	// own first child, are remembered; this spares most calls the hash table.
	next, first PathID
}

// NewPaths returns a tree that holds only the root.
func NewPaths() *Paths {
	return &Paths{nodes: make([]pathNode, 1, 64), table: make([]PathID, 128)}
}

// Len is one more than the largest id.
func (p *Paths) Len() int { return len(p.nodes) }

// Func is the last function of the path; 0 for the root.
func (p *Paths) Func(id PathID) reader.FuncID { return p.nodes[id].fn }

// Parent is the path of the caller; the root is its own parent.
func (p *Paths) Parent(id PathID) PathID { return p.nodes[id].parent }

// Frames appends the functions of the path to dst, the outermost first.
func (p *Paths) Frames(dst []reader.FuncID, id PathID) []reader.FuncID {
	n := len(dst)
	for ; id != 0; id = p.nodes[id].parent {
		dst = append(dst, p.nodes[id].fn)
	}
	for i, j := n, len(dst)-1; i < j; i, j = i+1, j-1 {
		dst[i], dst[j] = dst[j], dst[i]
	}
	return dst
}

// Child is the path that calls fn from parent; it is added when it is new.
func (p *Paths) Child(parent PathID, fn reader.FuncID) PathID { return p.childAfter(parent, 0, fn) }

// childAfter is Child; sibling is the child of parent that was wanted before, or 0.
func (p *Paths) childAfter(parent, sibling PathID, fn reader.FuncID) PathID {
	if c := p.guess(parent, sibling, fn); c != 0 {
		return c
	}
	return p.search(parent, sibling, fn)
}

// after is what followed sibling the last time, or came first when it is 0.
func (p *Paths) after(parent, sibling PathID) PathID {
	if sibling != 0 {
		return p.nodes[sibling].next
	}
	return p.nodes[parent].first
}

// guess is childAfter where that is what followed the last time, and 0 otherwise.
func (p *Paths) guess(parent, sibling PathID, fn reader.FuncID) PathID {
	c := p.after(parent, sibling)
	if p.nodes[c].fn == fn {
		return c
	}
	return 0
}

// search is childAfter where the guess was wrong. Calls in a loop and calls that
// are left out now and then are no reason to change the guess.
func (p *Paths) search(parent, sibling PathID, fn reader.FuncID) PathID {
	if sibling != 0 && p.nodes[sibling].fn == fn {
		return sibling
	}
	if left := p.after(parent, sibling); left != 0 {
		if c := p.guess(parent, left, fn); c != 0 {
			return c
		}
	}
	c := p.lookup(parent, fn)
	if sibling != 0 {
		p.nodes[sibling].next = c
	} else {
		p.nodes[parent].first = c
	}
	return c
}

func (p *Paths) lookup(parent PathID, fn reader.FuncID) PathID {
	mask := uint64(len(p.table) - 1)
	i := pathHash(parent, fn) & mask
	for p.table[i] != 0 {
		c := p.table[i]
		if n := &p.nodes[c]; n.parent == parent && n.fn == fn {
			return c
		}
		i = (i + 1) & mask
	}
	c := PathID(len(p.nodes))
	p.nodes = append(p.nodes, pathNode{parent: parent, fn: fn})
	p.table[i] = c
	if 2*len(p.nodes) > len(p.table) {
		p.grow()
	}
	return c
}

func (p *Paths) grow() {
	p.table = make([]PathID, 2*len(p.table))
	mask := uint64(len(p.table) - 1)
	for c := 1; c < len(p.nodes); c++ {
		i := pathHash(p.nodes[c].parent, p.nodes[c].fn) & mask
		for p.table[i] != 0 {
			i = (i + 1) & mask
		}
		p.table[i] = PathID(c)
	}
}

func pathHash(parent PathID, fn reader.FuncID) uint64 {
	h := (uint64(parent)<<32 | uint64(uint32(fn))) * 0x9e3779b97f4a7c15
	return h ^ h>>32
}

// Remap adds all paths of other and returns, indexed by the ids of other, their
// ids here.
func (p *Paths) Remap(other *Paths) []PathID {
	ids := make([]PathID, len(other.nodes))
	for c := 1; c < len(other.nodes); c++ {
		n := other.nodes[c]
		ids[c] = p.Child(ids[n.parent], n.fn)
	}
	return ids
}
