package args

import (
	"cmp"
	"slices"

	"github.com/xray-tools/xray/symbolize/debuginfo"
)

// scalars are the numbers and pointers that a type of Rust consists of, without what has no size.
type scalars struct {
	list []scalar
	// mixed means that the type is not only scalars: it has an array, a union or variants.
	mixed bool
	left  int
}

type scalar struct {
	offset, size uint64
	float        bool
}

func (s *scalars) add(t *debuginfo.Type, offset uint64, depth int) {
	t = t.Resolve()
	size, ok := t.Size()
	if s.left--; s.left < 0 || depth > maxNesting || t == nil || !ok {
		s.mixed = true
		return
	}
	if size == 0 {
		return
	}
	switch t.Kind {
	case debuginfo.KindBase, debuginfo.KindPointer, debuginfo.KindReference, debuginfo.KindEnum:
		s.list = append(s.list, scalar{offset, size, t.Kind == debuginfo.KindBase && t.Encoding == debuginfo.EncodingFloat})
	case debuginfo.KindStruct:
		members, variants := t.Members()
		s.mixed = s.mixed || variants
		for _, m := range members {
			s.add(m.Type, offset+m.Offset, depth+1)
		}
	default:
		s.mixed = true
	}
}

// scalarsOf returns the scalars of a type, or false if it has more than two, or others than scalars: rustc
// passes such types as a whole.
func scalarsOf(t *debuginfo.Type) (list []scalar, size uint64, ok bool) {
	size, known := t.Size()
	s := scalars{left: maxFields}
	s.add(t, 0, 0)
	if !known || s.mixed || len(s.list) > 2 {
		return nil, size, false
	}
	slices.SortFunc(s.list, func(a, b scalar) int { return cmp.Compare(a.offset, b.offset) })
	return s.list, size, true
}

// rust returns the place of a parameter of a function of Rust that is not extern "C". The convention is not
// documented and may change; the rules are those of rustc 1.95. One or two numbers or pointers are passed
// in a register each, and values of more than 16 bytes by reference. What else rustc does is refused,
// and so is what does not fit into registers.
func (a *assigner) rust(t *debuginfo.Type) place {
	const why = "how rustc passes it is not known"
	list, size, ok := scalarsOf(t)
	lose := func() place {
		a.lostInteger, a.lostVector, a.lostStack = why, why, why
		return refused(why)
	}
	if a.lostInteger != "" {
		return refused(before, a.lostInteger)
	}
	if !ok {
		if size <= 16 {
			return lose()
		}
		list = []scalar{{size: 8}}
	}
	if len(list) == 0 {
		return refused("it is empty")
	}
	var l place
	for _, s := range list {
		part := piece{offset: s.offset, size: s.size}
		switch {
		case s.size > 8:
			return lose()
		case s.float && a.vectors < vectorArguments:
			part.step = Step{Op: XMM, A: uint8(a.vectors)}
			a.vectors++
		case !s.float && a.integers < len(integerArguments):
			part.step = Step{Op: REG, A: integerArguments[a.integers]}
			a.integers++
		default:
			return lose()
		}
		l.pieces = append(l.pieces, part)
	}
	if !ok {
		return place{memory: []Step{l.pieces[0].step}}
	}
	return l
}

// rustReturn is how a function of Rust returns a result.
type rustReturn struct {
	place
	hidden bool // the caller passes the address of its memory as the first argument
}

func rustResult(t *debuginfo.Type) rustReturn {
	list, size, ok := scalarsOf(t)
	switch {
	case !ok && size > 32:
		return rustReturn{place: place{memory: []Step{{Op: REG, A: 0}}}, hidden: true}
	case !ok:
		return rustReturn{place: refused("how rustc returns it is not known")}
	case len(list) == 0:
		return rustReturn{place: refused("it is empty"), hidden: false}
	}
	var l place
	integers, vectors := 0, 0
	for _, s := range list {
		part := piece{offset: s.offset, size: s.size}
		switch {
		case s.size > 8:
			return rustReturn{place: refused("how rustc returns it is not known")}
		case s.float:
			part.step = Step{Op: XMM, A: uint8(vectors)}
			vectors++
		default:
			part.step = Step{Op: REG, A: integerResults[integers]}
			integers++
		}
		l.pieces = append(l.pieces, part)
	}
	return rustReturn{place: l}
}
