package symbolize

import (
	"slices"
	"strings"

	"github.com/xray-tools/xray/reader"
)

// Call is a function that calls another, by their ids in a trace.
type Call struct{ Caller, Callee reader.FuncID }

// CallFrames returns, for each of the calls, what the code of the caller that calls the
// callee stands for in the source: first the function that has the call in it, which may
// be one that was inlined into the caller, then the one that this was inlined into, and
// so on up to the caller itself. Locations are those of the calls, and Address is that of
// the code.
//
// A trace does not tell from where in a function a call came. So the frames are
// those that all the places have in common where the debug information says that the
// caller calls the callee directly. There are none where it says so of no place or of more
// than 64, or where the places are in different inlined functions. Where places in the
// same ones differ, an inlined function has line 0, and the caller its own location.
func CallFrames(n Names, calls []Call) [][]Symbol {
	frames := make([][]Symbol, len(calls))
	names, ok := n.(finder)
	if _, grouped := n.(*Templates); !ok || grouped {
		return frames // what stands for several functions has no one place
	}
	type function struct {
		table *Table
		id    reader.FuncID
	}
	var callers []function // in order, so that what is read of one is needed once
	callees := make(map[function][]wantedCall)
	for i, c := range calls {
		t, id := names.find(c.Caller)
		of, callee := names.find(c.Callee)
		if t == nil || t.elf == nil {
			continue
		}
		if s, ok := of.name(callee); ok && s.Linkage != "" {
			caller := function{t, id}
			if callees[caller] == nil {
				callers = append(callers, caller)
			}
			callees[caller] = append(callees[caller], wantedCall{call: i, callee: s.Linkage})
		}
	}
	places := make(map[*Table]*callPlaces)
	for _, caller := range callers {
		if places[caller.table] == nil {
			places[caller.table] = &callPlaces{table: caller.table}
		}
		places[caller.table].add(caller.id, callees[caller])
	}
	for _, p := range places {
		p.locate()
		for _, w := range p.wanted {
			frames[w.call] = p.frames(&w)
		}
	}
	return frames
}

// mostPlaces bounds the places of one call, which would hardly have anything in common.
const mostPlaces = 64

// callPlaces are the places of calls in the code of one table.
type callPlaces struct {
	table     *Table
	wanted    []wantedCall // those that have places
	addresses []uint64     // of the places, in the end sorted
	locations []location
}

// wantedCall is a call that is asked for.
type wantedCall struct {
	call   int // which
	caller reader.FuncID
	callee string
	places int // how many there are
	sites  []callSite
}

// callSite is a place that a function is called from.
type callSite struct {
	address uint64
	chain   []Inlined // what it is inside of, from the outermost one
}

// add finds the places of calls of one function.
func (p *callPlaces) add(caller reader.FuncID, wanted []wantedCall) {
	i, ok := p.table.m.index(caller)
	if !ok {
		return
	}
	_ = guard(func() error {
		key := p.table.m.Functions[i].key
		calls := p.table.callSites(key)
		var addresses []uint64
		var found []wantedCall
		for _, w := range wanted {
			of := calls[w.callee]
			if of == nil {
				// A copy that the compiler made for some of the calls goes by the name of the
				// function, with more behind it.
				base, _, _ := strings.Cut(w.callee, ".")
				of = calls[base]
			}
			if len(of) > 0 && len(of) <= mostPlaces {
				w.caller, w.places = caller, len(of)
				found = append(found, w)
				addresses = append(addresses, of...)
			}
		}
		if len(found) == 0 {
			return nil
		}
		sites := p.table.inside(key, addresses)
		for _, w := range found {
			w.sites, sites = sites[:w.places], sites[w.places:]
			p.wanted = append(p.wanted, w)
		}
		p.addresses = append(p.addresses, addresses...)
		return nil
	})
}

// callSites are the addresses of the calls of the function at an address, by the name of
// the callee. Of calls through pointers the debug information does not know that.
func (t *Table) callSites(function uint64) map[string][]uint64 {
	found := make(map[string][]uint64)
	t.eachCall(function, roleCall, func(depth int, u *unit, e *die) bool {
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

// inside tells what places of the function at an address are inside of.
func (t *Table) inside(function uint64, addresses []uint64) []callSite {
	sites := make([]callSite, len(addresses))
	for i, a := range addresses {
		sites[i].address = a
	}
	t.eachInlined(function, func(depth int, u *unit, e *die) bool {
		pieces := u.pieces(e)
		var call *Inlined
		for i := range sites {
			s := &sites[i]
			if depth != len(s.chain)+1 ||
				!slices.ContainsFunc(pieces, func(r addressRange) bool { return r.low <= s.address && s.address < r.high }) {
				continue
			}
			if call == nil {
				in := t.inlined(depth, u, e)
				call = &in
			}
			s.chain = append(s.chain, *call)
		}
		return call != nil
	})
	return sites
}

// locate finds the lines of all places at once.
func (p *callPlaces) locate() {
	slices.Sort(p.addresses)
	p.addresses = slices.Compact(p.addresses)
	ends := make([]uint64, len(p.addresses))
	for i, a := range p.addresses {
		ends[i] = a + 1
	}
	p.locations = make([]location, len(p.addresses))
	_ = guard(func() error {
		i := p.table.debugInfo()
		i.mu.Lock()
		defer i.mu.Unlock()
		found, _, err := i.main.findLines(p.addresses, ends)
		copy(p.locations, found)
		return err
	})
}

// frames is what all places of a call have in common.
func (p *callPlaces) frames(w *wantedCall) []Symbol {
	caller, _ := p.table.Func(w.caller)
	frames := p.framesAt(&w.sites[0], caller)
	for i := range w.sites[1:] {
		others := p.framesAt(&w.sites[i+1], caller)
		if !slices.EqualFunc(frames, others, func(a, b Symbol) bool { return a.Linkage == b.Linkage }) {
			return nil
		}
		for k := range frames {
			a, b := &frames[k], &others[k]
			a.Address = caller.Address
			if a.File == b.File && a.Line == b.Line {
				if a.Column != b.Column {
					a.Column = 0
				}
				continue
			}
			a.Line, a.Column = 0, 0
			if k == len(frames)-1 {
				a.File, a.Line, a.Column = caller.File, caller.Line, caller.Column
			}
		}
	}
	return frames
}

// framesAt is what a place stands for.
func (p *callPlaces) framesAt(s *callSite, caller Symbol) []Symbol {
	i, _ := slices.BinarySearch(p.addresses, s.address)
	at := p.locations[i]
	caller.Address = s.address
	caller.File, caller.Line, caller.Column = at.file, int(at.line), int(at.column)
	return unwind(caller, s.chain)
}
