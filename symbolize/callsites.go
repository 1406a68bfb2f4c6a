package symbolize

import (
	"slices"
	"strings"

	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/symbolize/debuginfo"
)

// Call is a pair of a function and a function that it calls, by their ids in a trace.
type Call struct{ Caller, Callee reader.FuncID }

// CallFrames returns the inlined frames of calls. For each call, the first frame is the
// function that contains the call in the source, which may have been inlined into the caller.
// The function that it was inlined into follows, up to the caller itself. Locations are those
// of the calls, and Address is that of the code.
//
// A trace does not contain the call site. So the frames are those that all direct calls of the
// callee in the caller have in common, according to the debug information. There are no frames if
// the debug information lists no such call or more than 64, or if the calls are in different
// inlined functions. If calls in the same inlined functions differ, an inlined function has line 0,
// and the caller has its own location.
func CallFrames(n Names, calls []Call) [][]Symbol {
	frames := make([][]Symbol, len(calls))
	names, ok := n.(finder)
	if _, grouped := n.(*Templates); !ok || grouped {
		return frames // an instance of a group has no location of its own
	}
	type function struct {
		table *Table
		id    reader.FuncID
	}
	var callers []function // in order, to read each of them once
	callees := make(map[function][]wantedCall)
	for i, c := range calls {
		t, id := names.find(c.Caller)
		of, callee := names.find(c.Callee)
		if t == nil || t.debug == nil {
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
	sites := make(map[*Table]*callSites)
	for _, caller := range callers {
		if sites[caller.table] == nil {
			sites[caller.table] = &callSites{table: caller.table}
		}
		sites[caller.table].add(caller.id, callees[caller])
	}
	for _, s := range sites {
		s.locate()
		for _, w := range s.wanted {
			frames[w.call] = s.frames(&w)
		}
	}
	return frames
}

// maxSites limits the call sites of one call. More would hardly have frames in common.
const maxSites = 64

// callSites has the call sites in the code of one table.
type callSites struct {
	table     *Table
	wanted    []wantedCall // those with call sites
	addresses []uint64     // of the sites, sorted by locate
	locations []debuginfo.Location
}

// wantedCall is a call to find frames for.
type wantedCall struct {
	call      int // index in the list that CallFrames got
	caller    reader.FuncID
	callee    string
	siteCount int
	sites     []callSite
}

// callSite is the address of a call.
type callSite struct {
	address uint64
	chain   []Inlined // inlined calls around it, outermost first
}

// add finds the call sites in one function.
func (p *callSites) add(caller reader.FuncID, wanted []wantedCall) {
	i, ok := p.table.m.index(caller)
	if !ok {
		return
	}
	calls := p.table.debug.CallSites(i)
	var addresses []uint64
	var found []wantedCall
	for _, w := range wanted {
		of := calls[w.callee]
		if of == nil {
			// The name of a copy that the compiler made for some calls has a suffix.
			base, _, _ := strings.Cut(w.callee, ".")
			of = calls[base]
		}
		if len(of) > 0 && len(of) <= maxSites {
			w.caller, w.siteCount = caller, len(of)
			found = append(found, w)
			addresses = append(addresses, of...)
		}
	}
	if len(found) == 0 {
		return
	}
	sites := make([]callSite, len(addresses))
	for k, chain := range p.table.debug.InlinedAt(i, addresses) {
		sites[k] = callSite{addresses[k], p.table.inlined(chain)}
	}
	for _, w := range found {
		w.sites, sites = sites[:w.siteCount], sites[w.siteCount:]
		p.wanted = append(p.wanted, w)
	}
	p.addresses = append(p.addresses, addresses...)
}

// locate finds the lines of all call sites at once.
func (p *callSites) locate() {
	slices.Sort(p.addresses)
	p.addresses = slices.Compact(p.addresses)
	p.locations = p.table.debug.CodeLocations(p.addresses)
}

// frames returns the common frames of all sites of a call.
func (p *callSites) frames(w *wantedCall) []Symbol {
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

// framesAt returns the frames of one site.
func (p *callSites) framesAt(s *callSite, caller Symbol) []Symbol {
	i, _ := slices.BinarySearch(p.addresses, s.address)
	caller.Address = s.address
	caller.locate(p.locations[i])
	return unwind(caller, s.chain)
}
