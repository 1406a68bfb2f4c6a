package debuginfo

// InlinedCall is a call that the compiler replaced by the code of the callee.
type InlinedCall struct {
	Depth   int    // 1 for calls in the function itself, 2 for those in one inlined into it
	Linkage string // linkage name; the plain name in C, or if there is none
	At      Location
}

// InlinedCalls returns the calls that were inlined into functions[i], callees after their
// callers. It returns nil without debug information.
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

// InlinedAt returns the inlined calls around each of the addresses in functions[i], outermost
// first.
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

// CallSites returns the addresses of calls in the code of functions[i], by the linkage name of
// the callee. An address is inside the call instruction. Debug information does not list the
// callees of calls through pointers.
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
			found[name] = append(found[name], back-1) // inside the call
		}
		return true
	})
	return found
}

// eachInlined calls f for the calls that were inlined into the function at an address. If f
// returns false, it skips the calls inside.
func (b *Binary) eachInlined(address uint64, f func(depth int, u *unit, e *die) bool) {
	b.eachCall(address, roleInlined, f)
}

// eachCall calls f for the calls of the function at an address that have one of the roles:
// inlined calls and call sites. If f returns false for an inlined call, it skips the calls
// inside.
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

// eachCall is [Binary.eachCall] for a function of the unit.
func (u *unit) eachCall(function *die, roles role, f func(depth int, u *unit, e *die) bool) {
	if !function.children || function.next < u.first || function.next-u.first > uint64(len(u.data)) {
		return
	}
	// depth has the depth of inlined calls by nesting level, since blocks also nest. It is -1 in
	// skipped parts.
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

// maxNesting limits the nesting of entries.
const maxNesting = 1000

func inlinedCall(depth int, u *unit, e *die) InlinedCall {
	call := InlinedCall{Depth: depth, Linkage: u.function(*e)}
	if e.callLine.n>>31 == 0 && e.callColumn.n>>31 == 0 { // larger numbers are damage
		call.At.Line, call.At.Column = int32(e.callLine.n), int32(e.callColumn.n)
	}
	if e.callFile.form != 0 {
		call.At.File = u.file(e.callFile.n)
	}
	return call
}

// nameFromDebug returns the name of the function at an address from the debug information.
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
