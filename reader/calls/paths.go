package calls

import (
	"slices"

	"github.com/xray-tools/xray/reader"
)

// PathID is a node of a [Paths] tree. 0 is the root: no call.
type PathID uint32

// Paths is the tree of call paths of one shard: a node stands for a function called through
// the path of its parent. Parents have smaller IDs than their children. IDs of different
// trees are unrelated. Compare paths by their functions, or convert them with
// [Paths.Remap]. While a tree grows, only the goroutine that grows it may read it.
type Paths struct {
	nodes []pathNode
	// table is an open-addressing hash table from (parent, function) to nodes. Its length
	// is a power of two, and it is at most half full.
	table []PathID
	// frozen trees take no new paths. Unknown paths are folded.
	frozen bool
	// roots, if not nil, says where paths begin.
	roots *funcCache
}

type pathNode struct {
	parent PathID
	fn     reader.FuncID
	// A function mostly makes the same calls as the last time, in the same order. So each
	// node remembers the child that followed it among its siblings, and its own first
	// child. Most calls then need no hash table.
	next, first PathID
}

// NewPaths returns a tree with only the root.
func NewPaths() *Paths {
	return &Paths{nodes: make([]pathNode, 1, 64), table: make([]PathID, 128)}
}

// Len is one more than the largest ID.
func (p *Paths) Len() int { return len(p.nodes) }

// Func is the last function of the path: 0 for the root, and [reader.Folded] for paths
// beyond a [PathBudget].
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

// Child returns the path that calls fn from parent, and adds it if it is new.
func (p *Paths) Child(parent PathID, fn reader.FuncID) PathID { return p.childAfter(parent, 0, fn) }

// ChildAfter is [Paths.Child], given the child of parent that was looked up before, or 0. It
// is faster if children are looked up in the same order as before.
func (p *Paths) ChildAfter(parent, sibling PathID, fn reader.FuncID) PathID {
	return p.childAfter(parent, sibling, fn)
}

// childAfter is Child, given sibling, the previous child of parent that was looked up, or
// 0.
func (p *Paths) childAfter(parent, sibling PathID, fn reader.FuncID) PathID {
	if c := p.guess(parent, sibling, fn); c != 0 {
		return c
	}
	return p.search(parent, sibling, fn)
}

// after returns what followed sibling the last time, or the first child if it is 0.
func (p *Paths) after(parent, sibling PathID) PathID {
	if sibling != 0 {
		return p.nodes[sibling].next
	}
	return p.nodes[parent].first
}

// guess returns childAfter if it is what followed the last time, or 0.
func (p *Paths) guess(parent, sibling PathID, fn reader.FuncID) PathID {
	c := p.after(parent, sibling)
	if p.nodes[c].fn == fn {
		return c
	}
	return 0
}

// search is childAfter if the guess was wrong. Calls in a loop, and calls that are
// sometimes omitted, do not change the guess.
func (p *Paths) search(parent, sibling PathID, fn reader.FuncID) PathID {
	switch {
	case p.nodes[parent].fn == reader.Folded:
		return parent
	case parent == 0 && p.roots != nil && !p.roots.of(fn):
		return 0
	case sibling != 0 && p.nodes[sibling].fn == fn:
		return sibling
	}
	if left := p.after(parent, sibling); left != 0 {
		if c := p.guess(parent, left, fn); c != 0 {
			return c
		}
	}
	c := p.lookup(parent, fn)
	switch {
	case sibling == 0:
		p.nodes[parent].first = c
	case p.nodes[sibling].fn != reader.Folded:
		// A folded path is its own sibling and child, so that all paths below it are the
		// same.
		p.nodes[sibling].next = c
	}
	return c
}

// funcCache caches the results of a predicate on functions.
type funcCache struct {
	ask   func(reader.FuncID) bool
	small [1 << 14]uint8 // 0 for unknown, 1 for no, 2 for yes
	large map[reader.FuncID]bool
}

func newFuncCache(ask func(reader.FuncID) bool) *funcCache {
	return &funcCache{ask: ask, large: make(map[reader.FuncID]bool)}
}

func (c *funcCache) of(fn reader.FuncID) bool {
	if i := uint32(fn); i < uint32(len(c.small)) {
		if c.small[i] == 0 {
			c.small[i] = 1
			if c.ask(fn) {
				c.small[i] = 2
			}
		}
		return c.small[i] == 2
	}
	is, ok := c.large[fn]
	if !ok {
		is = c.ask(fn)
		c.large[fn] = is
	}
	return is
}

// Freeze makes p fold all paths that it does not contain, and returns it: [Paths.Child] then
// returns a node of [reader.Folded], below the longest part of the path that p contains.
func (p *Paths) Freeze() *Paths {
	p.frozen = true
	return p
}

// fold returns the path of all calls from parent that have no path of their own.
func (p *Paths) fold(parent PathID) PathID {
	if p.nodes[parent].fn == reader.Folded {
		return parent
	}
	return p.find(parent, reader.Folded, true)
}

// reserve allocates room for exactly n nodes. There must not be more already.
func (p *Paths) reserve(n int) {
	p.nodes = append(make([]pathNode, 0, n), p.nodes...)
	size := 128
	for size < 2*n {
		size *= 2
	}
	p.table = make([]PathID, size)
	p.rebuild()
}

// clone returns a tree with the same IDs.
func (p *Paths) clone() *Paths {
	c := *p
	c.nodes, c.table = slices.Clone(p.nodes), slices.Clone(p.table)
	return &c
}

func (p *Paths) lookup(parent PathID, fn reader.FuncID) PathID {
	c := p.find(parent, fn, !p.frozen || parent == 0 && p.roots != nil)
	if c == 0 {
		return p.fold(parent)
	}
	return c
}

// find looks up a child. If there is none, it adds it if add is set, or returns 0.
func (p *Paths) find(parent PathID, fn reader.FuncID, add bool) PathID {
	mask := uint64(len(p.table) - 1)
	i := pathHash(parent, fn) & mask
	for p.table[i] != 0 {
		c := p.table[i]
		if n := &p.nodes[c]; n.parent == parent && n.fn == fn {
			return c
		}
		i = (i + 1) & mask
	}
	if !add {
		return 0
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
	p.rebuild()
}

// rebuild fills the table with the nodes, for which it must have room.
func (p *Paths) rebuild() {
	clear(p.table)
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

// Remap adds all paths of other and returns their IDs here, indexed by the IDs of other.
func (p *Paths) Remap(other *Paths) []PathID {
	ids := make([]PathID, len(other.nodes))
	for c := 1; c < len(other.nodes); c++ {
		n := other.nodes[c]
		ids[c] = p.Child(ids[n.parent], n.fn)
	}
	return ids
}
