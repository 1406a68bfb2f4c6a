package why

import "github.com/xray-tools/xray/reader"

// Kind is the way in which slow calls differ from usual ones.
type Kind uint8

const (
	Slower    Kind = iota // a function itself takes longer
	MoreCalls             // a function is called more often by its caller
	NewPath               // a path that usual calls hardly ever take
	Blocked               // a function is blocked longer
	Wait                  // a function waits, according to its name or to other threads
	LockWait              // a function waits for a lock
)

// String returns the name of the kind in JSON.
func (k Kind) String() string {
	return [...]string{"slower", "more-calls", "new-path", "slower", "wait", "lock-wait"}[k]
}

// Role is the effect of a function on other threads.
type Role uint8

const (
	Runs          Role = iota // nothing
	Waits                     // waits for something
	Locks                     // waits for a lock, and has it when it returns
	Unlocks                   // releases a lock
	WaitsUnlocked             // waits, and releases a lock while it waits, as condition variables do
	Posts                     // only wakes other threads
)

// runs reports whether a function with the role neither waits nor releases anything.
func (r Role) runs() bool { return r == Runs || r == Posts }

// kind returns the kind of a wait in a function with the role, or Slower if it does not wait.
func (r Role) kind() Kind {
	switch r {
	case Locks:
		return LockWait
	case Waits, WaitsUnlocked:
		return Wait
	}
	return Slower
}

// Waits reports whether functions with the role wait.
func (r Role) Waits() bool { return r.kind() != Slower }

// parts is the number of kinds that the decomposition itself distinguishes.
const parts = 4

// model describes usual invocations, by node.
type model struct {
	tree     *tree
	children [][]node
	// Calls n and self time s per invocation. s excludes foreign time. b is the blocked part
	// of s.
	n, s, b, foreign []float64
	u, r, v          []float64 // see the package documentation
	ub               []float64 // part of u that was blocked
	rare             []node    // topmost rare path that a path is part of; 0 for none
	mean             float64   // duration of an invocation
	meanForeign      float64   // of mean
	meanRecorder     float64   // of meanForeign
	meanInterrupted  float64   // of meanForeign
}

func newModel(c *cohorts) *model {
	size := len(c.places.tree.steps)
	m := &model{tree: c.places.tree, children: c.places.tree.children(), rare: make([]node, size)}
	for _, f := range []*[]float64{&m.n, &m.s, &m.b, &m.foreign, &m.u, &m.ub, &m.r, &m.v} {
		*f = make([]float64, size)
	}
	count := float64(c.usual.count)
	m.mean, m.meanForeign = float64(c.usual.ticks)/count, float64(c.usual.foreign)/count
	m.meanRecorder, m.meanInterrupted = float64(c.usual.recorder)/count, float64(c.usual.interrupted)/count
	fewest := max(min(5, count), count/200)
	for i := range size {
		p := c.usual.paths[i]
		m.n[i], m.s[i] = float64(p.calls)/count, float64(p.self-foreign(p.off))/count
		m.b[i], m.foreign[i] = float64(p.off.Blocked)/count, float64(foreign(p.off))/count
		if i == 0 {
			m.u[i], m.ub[i] = m.s[i], m.b[i]
			continue
		}
		if p.calls > 0 {
			m.u[i], m.ub[i] = m.s[i]/m.n[i], m.b[i]/m.n[i]
		}
		parent := m.tree.steps[i].parent
		if m.n[parent] > 0 {
			m.r[i] = m.n[i] / m.n[parent]
		}
		if m.rare[i] = m.rare[parent]; m.rare[i] == 0 && float64(p.have) < fewest {
			m.rare[i] = node(i)
		}
	}
	for i := size - 1; i >= 0; i-- {
		m.v[i] += m.u[i]
		if i > 0 {
			m.v[m.tree.steps[i].parent] += m.r[i] * m.v[i]
		}
	}
	return m
}

// decomposer divides the time of invocations beyond the mean of the usual ones.
type decomposer struct {
	*model
	// Of the current invocation, by node, without foreign time:
	calls, self, blocked []float64
	all                  []float64 // self time in the subtree
	expected             []float64 // share of the calls that the calls of all callers explain
}

func newDecomposer(m *model) *decomposer {
	d := &decomposer{model: m}
	for _, f := range []*[]float64{&d.calls, &d.self, &d.blocked, &d.all, &d.expected} {
		*f = make([]float64, len(m.n))
	}
	return d
}

// split passes the amounts of an invocation to add. They add up to its duration minus the
// mean of the usual ones, in ticks. Both exclude foreign time.
//
// More calls cost what calls usually cost, or what they cost here if that is less: a retry
// that fails at once is cheap. Then the expected calls alone are compared with the usual
// ones, so what is inside counts in proportion.
func (d *decomposer) split(v *rootCall, add func(Kind, node, float64)) {
	for i := range v.visits {
		w := &v.visits[i]
		self := float64(w.self - foreign(w.off))
		d.calls[w.node], d.self[w.node], d.blocked[w.node] = float64(w.calls), self, float64(w.off.Blocked)
		d.all[w.node] += self
	}
	for i := len(v.visits) - 1; i > 0; i-- { // visits are sorted by node, so callees come after their callers
		n := v.visits[i].node
		d.all[d.tree.steps[n].parent] += d.all[n]
	}
	d.expected[0] = 1
	for i := range v.visits {
		p := v.visits[i].node
		if d.rare[p] > 0 {
			continue
		}
		share := d.expected[p]
		blocked := d.blocked[p] - d.calls[p]*d.ub[p]
		add(Slower, p, share*(d.self[p]-d.calls[p]*d.u[p]-blocked))
		add(Blocked, p, share*blocked)
		for _, c := range d.children[p] {
			expected := d.calls[p] * d.r[c]
			if d.rare[c] > 0 {
				add(NewPath, c, share*(d.all[c]-expected*d.v[c]))
				continue
			}
			cost := d.v[c]
			d.expected[c] = share
			if d.calls[c] > expected && d.all[c] < d.calls[c]*cost {
				cost = d.all[c] / d.calls[c]
				d.expected[c] *= expected / d.calls[c]
			}
			add(MoreCalls, c, share*(d.calls[c]-expected)*cost)
		}
	}
	for i := range v.visits {
		n := v.visits[i].node
		d.calls[n], d.self[n], d.blocked[n], d.all[n] = 0, 0, 0, 0
		d.all[max(0, d.tree.steps[n].parent)] = 0
	}
}

// group is one kind of amount of one function. Causes are made from groups.
type group struct {
	kind Kind
	fn   reader.FuncID
	lock uint64
}

func (m *model) group(k Kind, n node) group {
	return group{k, m.tree.steps[n].fn, m.tree.steps[n].lock}
}
