package debuginfo

// InlinedCall is a call that the compiler replaced by the code of the function called.
type InlinedCall struct {
	Depth   int    // 1 for calls in the function itself, 2 for those in one inlined into it
	Linkage string // as it would be linked; in C, and where that is not known, its name
	At      Location
}

// InlinedCalls are the calls that were inlined into the i-th function, in the order of the
// debug information, callees right behind their callers. Without debug information
// there are none.
func (b *Binary) InlinedCalls(i int) []InlinedCall {
	var list []InlinedCall
	_ = Guard(func() error {
		b.eachInlined(b.functions[i], func(depth int, u *unit, e *die) bool {
			list = append(list, inlinedCall(depth, u, e))
			return true
		})
		return nil
	})
	return list
}

// InlinedAt are the inlined calls that addresses in the i-th function are inside of, those of
// each address from the outermost one on.
func (b *Binary) InlinedAt(i int, addresses []uint64) [][]InlinedCall {
	chains := make([][]InlinedCall, len(addresses))
	_ = Guard(func() error {
		b.inside(b.functions[i], addresses, chains)
		return nil
	})
	return chains
}

// inside is InlinedAt for the function at an address.
func (b *Binary) inside(function uint64, addresses []uint64, chains [][]InlinedCall) {
	b.eachInlined(function, func(depth int, u *unit, e *die) bool {
		pieces := u.pieces(e)
		var call *InlinedCall
		for i, a := range addresses {
			if depth != len(chains[i])+1 || !contain(pieces, a) {
				continue
			}
			if call == nil {
				in := inlinedCall(depth, u, e)
				call = &in
			}
			chains[i] = append(chains[i], *call)
		}
		return call != nil
	})
}

// CallSites are the addresses of the calls that the code of the i-th function makes, by the
// name of the callee as it is linked. Each is within the instruction. Of calls through pointers
// debug information does not know the callee.
func (b *Binary) CallSites(i int) map[string][]uint64 {
	var sites map[string][]uint64
	_ = Guard(func() error {
		sites = b.callSites(b.functions[i])
		return nil
	})
	return sites
}

func (b *Binary) callSites(function uint64) map[string][]uint64 {
	found := make(map[string][]uint64)
	b.eachCall(function, roleCall, func(depth int, u *unit, e *die) bool {
		if e.tag == tagInlined || e.origin.form == 0 {
			return true
		}
		if back, ok := u.address(e.low); ok && back > 0 {
			name := u.function(*e)
			found[name] = append(found[name], back-1) // which is in the call
		}
		return true
	})
	return found
}

// eachInlined calls f for the calls inlined into the function at an address; where f
// says no, those in them are left out.
func (b *Binary) eachInlined(address uint64, f func(depth int, u *unit, e *die) bool) {
	b.eachCall(address, roleInlined, f)
}

// eachCall calls f for the calls of the function at an address that have one of the
// roles: for those inlined into it, where f may say that what is in them is to be left
// out, and for the others that the debug information tells of.
func (b *Binary) eachCall(address uint64, roles role, f func(depth int, u *unit, e *die) bool) {
	i := b.info()
	if i == nil {
		return
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	u := i.unitAt(address)
	if u == nil {
		return
	}
	if root, ok := u.subprogramAt(address); ok {
		u.eachCall(&root, roles, f)
	}
}

// eachCall is that of a binary, for a function of the unit.
func (u *unit) eachCall(function *die, roles role, f func(depth int, u *unit, e *die) bool) {
	if !function.children || function.next < u.first || function.next-u.first > uint64(len(u.data)) {
		return
	}
	// depth is that of inlined calls, whose entries may be in those of blocks, by
	// level of nesting; -1 below what is left out.
	depth := []int{0}
	c := cursor{b: u.data[function.next-u.first:], order: u.d.o.f.ByteOrder}
	var e die
	for at := function.next; len(depth) > 0 && len(depth) < maxNesting; {
		inside := depth[len(depth)-1]
		wanted := roles
		if inside < 0 {
			wanted = 0
		}
		if !u.entryFor(wanted, &c, at, &e) {
			return
		}
		at = e.next
		switch {
		case e.tag == 0:
			depth = depth[:len(depth)-1]
			continue
		case inside < 0 || e.tag == tagSubprogram:
			inside = -1
		case e.tag == tagInlined:
			if inside++; !f(inside, u, &e) {
				inside = -1
			}
		case roles&roleCall != 0 && (e.tag == tagCallSite || e.tag == tagGNUCallSite):
			f(inside+1, u, &e)
		}
		if e.children {
			depth = append(depth, inside)
		}
	}
}

// maxNesting bounds how deep entries are in each other.
const maxNesting = 1000

func inlinedCall(depth int, u *unit, e *die) InlinedCall {
	call := InlinedCall{Depth: depth, Linkage: u.function(*e)}
	if e.callLine.n>>31 == 0 && e.callColumn.n>>31 == 0 { // what is beyond is damage
		call.At.Line, call.At.Column = int32(e.callLine.n), int32(e.callColumn.n)
	}
	if e.callFile.form != 0 {
		call.At.File = u.file(e.callFile.n)
	}
	return call
}

// nameFromDebug names the function at an address that has no symbol, as the debug
// information has it.
func (b *Binary) nameFromDebug(address uint64) string {
	i := b.info()
	if i == nil {
		return ""
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	u := i.unitAt(address)
	if u == nil {
		return ""
	}
	e, ok := u.subprogramAt(address)
	if !ok {
		return ""
	}
	return u.function(e)
}
