package stack

import (
	_ "embed"
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"io"
	"math"

	"github.com/xray-tools/xray/internal/texttab"
	"github.com/xray-tools/xray/symbolize"
)

//go:embed flamediff.css
var diffCSS string

// changes compares the paths of two reports.
type changes struct {
	metric    Metric
	base      *Report
	now, then pathWeights
}

// pathWeights are total weights of paths, by their key.
type pathWeights struct {
	labels *labels
	of     map[uint64]uint64
	total  uint64
}

func (r *Report) changes(names symbolize.Names, v SVGView) *changes {
	return &changes{v.Metric, v.Base, r.pathWeights(names, v.Metric), v.Base.pathWeights(v.BaseNames, v.Metric)}
}

func (r *Report) pathWeights(names symbolize.Names, m Metric) pathWeights {
	p := pathWeights{labels: newLabels(names, texttab.Printable), of: map[uint64]uint64{}}
	var weights, keys []uint64
	for t := range r.Trees() {
		weights, keys = m.weights(weights, t), p.keys(keys, t)
		for i, key := range keys {
			p.of[key] = addSaturating(p.of[key], weights[i])
			p.total = addSaturating(p.total, m.own(&t.Frames[i]))
		}
	}
	return p
}

// keys returns hashes of the names along the paths of a tree. Paths of different programs
// have the same key if their functions have the same names.
func (p *pathWeights) keys(dst []uint64, t *Tree) []uint64 {
	dst = dst[:0]
	for i := range t.Frames {
		var parent [8]byte
		if above := t.Frames[i].Parent; above >= 0 {
			binary.LittleEndian.PutUint64(parent[:], dst[above])
		}
		h := fnv.New64a()
		h.Write(parent[:])
		io.WriteString(h, p.labels.of(t.Frames[i].Func))
		dst = append(dst, h.Sum64())
	}
	return dst
}

// points returns by how many percentage points the share of a path has grown.
func (c *changes) points(path uint64) float64 {
	return share(c.now.of[path], c.now.total) - share(c.then.of[path], c.then.total)
}

// class returns the color class of a path: more1 to more4, less1 to less4, or same.
func (c *changes) class(path uint64) string {
	points := c.points(path)
	for strength, least := range []float64{8, 2, 0.5, 0.1} {
		if math.Abs(points) >= least {
			return fmt.Sprintf("%s%d", map[bool]string{true: "more", false: "less"}[points > 0], 4-strength)
		}
	}
	return "same"
}

func (c *changes) text(path uint64) string {
	then := c.then.of[path]
	if then == 0 {
		return "not in the base"
	}
	return fmt.Sprintf("in the base %s (%.2f%%): %+.2f points",
		c.metric.format(c.base.Clock, then), share(then, c.then.total), c.points(path))
}
