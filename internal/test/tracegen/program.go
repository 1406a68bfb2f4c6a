package tracegen

import (
	"math"
	"math/rand/v2"
)

const (
	minFunctions = 100
	maxFunctions = math.MaxUint16

	layers   = 20
	maxSites = 6
)

// program is the static call graph that all threads run.
type program struct {
	funcs []function // indexed by id; 0 is unused
	roots []uint32   // what requests start with, popular ones repeated
}

// function is one function of a program.
type function struct {
	sites []site
	// scale is the median of the ticks between two records in this function, in
	// units of the thread's gap table.
	scale uint32
	// tail says that the last site is a tail call.
	tail bool
}

// site is a place in a body that calls another function.
type site struct {
	callee uint32
	taken  uint16 // of 256: how often the site calls at all
	loop   uint16 // of 256: how often it calls once more
}

func newProgram(seed uint64, functions int) *program {
	rng := rand.New(rand.NewPCG(seed, 0x9e3779b97f4a7c15))
	p := &program{funcs: make([]function, functions+1)}

	// Layers hold ids in order. The roots are few; the layers widen towards the
	// middle and narrow towards the popular leaves.
	var width [layers]float64
	total := 0.0
	for l := range width {
		width[l] = 0.15 + math.Sin(math.Pi*(float64(l)+0.5)/layers)
		total += width[l]
	}
	var layer [layers]chooser
	sum := 0.0
	for l := range layer {
		first := int(sum / total * float64(functions))
		sum += width[l]
		last := int(sum / total * float64(functions))
		if l == layers-1 {
			last = functions
		}
		layer[l] = chooser{first: 1 + first, n: last - first}
	}

	for l, c := range layer {
		for id := c.first; id < c.first+c.n; id++ {
			f := &p.funcs[id]
			// Half of the functions take 20 to 80 ticks between records, the
			// slowest of two thousand about 1,500.
			f.scale = uint32(40 * math.Exp(1.1*rng.NormFloat64()))
			if l == layers-1 {
				continue
			}
			sites := siteCount(rng, l)
			for range sites {
				to := min(l+1+rng.IntN(3), layers-1)
				f.sites = append(f.sites, newSite(rng, layer[to].draw(rng)))
			}
			switch {
			case len(f.sites) == 0:
			case rng.IntN(50) == 0:
				f.tail = true
				f.sites[len(f.sites)-1].loop = 0
			case rng.IntN(50) == 0: // recursion, one to two levels deep on average
				f.sites[rng.IntN(len(f.sites))] = site{callee: uint32(id), taken: 128}
			}
		}
	}
	roots := chooser{first: 1, n: layer[0].n + layer[1].n}
	for range 256 {
		p.roots = append(p.roots, roots.draw(rng))
	}
	return p
}

// siteCount draws the number of call sites of a function in layer l. Roots call several
// functions, and deeper layers have more leaves.
func siteCount(rng *rand.Rand, l int) int {
	if l < 2 {
		return 3 + rng.IntN(maxSites-2)
	}
	if rng.IntN(layers) < l-2 {
		return 0
	}
	return 1 + rng.IntN(4)
}

// newSite draws how often a site is taken.
func newSite(rng *rand.Rand, callee uint32) site {
	s := site{callee: callee, taken: 256}
	switch n := rng.IntN(10); {
	case n == 9:
		s.taken = 16
	case n >= 7:
		s.taken = 240
	}
	if rng.IntN(8) == 0 {
		s.loop = 64 + uint16(rng.IntN(128))
	}
	return s
}

// chooser draws functions of one layer. In half of the cases it takes turns, so that each
// function is called from somewhere. In the other half, it prefers the first functions.
type chooser struct{ first, n, turn int }

func (c *chooser) draw(rng *rand.Rand) uint32 {
	if rng.IntN(2) == 0 {
		c.turn++
		return uint32(c.first + c.turn%c.n)
	}
	f := rng.Float64()
	return uint32(c.first + int(f*f*f*float64(c.n)))
}
