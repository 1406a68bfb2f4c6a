package convert

import (
	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/reader/calls"
	"github.com/xray-tools/xray/symbolize"
)

// pprofFunction is an instrumented function, by its ID, or an inlined one, by its linkage
// name.
type pprofFunction struct {
	id      reader.FuncID
	inlined string
}

// findFrames finds the inlined functions that make the calls of the paths.
func (e *pprofEncoder) findFrames(paths *calls.Paths) {
	known := make(map[symbolize.Call]bool)
	var list []symbolize.Call
	for p := calls.PathID(1); int(p) < paths.Len(); p++ {
		caller := paths.Parent(p)
		c := symbolize.Call{Caller: paths.Func(caller), Callee: paths.Func(p)}
		// Function 0 stands for omitted frames.
		if caller != 0 && c.Caller != 0 && c.Callee != 0 && !known[c] {
			known[c] = true
			list = append(list, c)
		}
	}
	e.frames = make(map[symbolize.Call][]symbolize.Symbol)
	for i, frames := range symbolize.CallFrames(e.opts.Names, list) {
		if len(frames) > 0 {
			e.frames[list[i]] = frames
		}
	}
}

// location returns the number of a location: where the caller makes the call if that is known, and
// otherwise the caller.
func (e *pprofEncoder) location(c symbolize.Call) uint64 {
	if len(e.frames[c]) == 0 {
		c.Callee = 0
	}
	n, ok := e.locations[c]
	if !ok {
		e.order = append(e.order, c)
		n = uint64(len(e.order))
		e.locations[c] = n
	}
	return n
}

// writeLocation writes a location and everything it refers to.
func (e *pprofEncoder) writeLocation(n uint64, c symbolize.Call) {
	own, mapping := e.symbol(c.Caller)
	frames := e.frames[c]
	if len(frames) == 0 {
		frames = []symbolize.Symbol{own}
	}
	var lines []byte
	for i := range frames {
		f := &frames[i]
		var function uint64
		if i < len(frames)-1 {
			function = e.function(pprofFunction{inlined: f.Linkage}, f.Name, f.Linkage, f.File, 0)
		} else {
			function = e.function(pprofFunction{id: c.Caller}, own.Name, own.Linkage, own.File, own.Line)
		}
		line := appendNumber(e.nested[:0], lineFunction, function)
		line = appendNumber(line, lineLine, uint64(f.Line))
		e.nested = appendNumber(line, lineColumn, uint64(f.Column))
		lines = appendBytes(lines, locationLine, e.nested)
	}
	if mapping > 0 {
		known := &e.objects[mapping-1]
		known.filenames = known.filenames || own.File != ""
		known.lines = known.lines || own.Line != 0
		known.inlines = known.inlines || len(frames) > 1
	}
	m := appendNumber(e.message[:0], locationID, n)
	m = appendNumber(m, locationMapping, mapping)
	m = appendNumber(m, locationAddress, frames[0].Address)
	e.message = append(m, lines...)
	e.field(profileLocation, e.message)
}

// function returns the number of a function, which is written when it is first used.
func (e *pprofEncoder) function(key pprofFunction, name, linkage, file string, line int) uint64 {
	if n := e.functions[key]; n != 0 {
		return n
	}
	n := uint64(len(e.functions) + 1)
	e.functions[key] = n
	m := appendNumber(e.message[:0], functionID, n)
	m = appendNumber(m, functionName, e.string(name))
	m = appendNumber(m, functionSystemName, e.string(linkage))
	m = appendNumber(m, functionFilename, e.string(file))
	e.message = appendNumber(m, functionStartLine, uint64(line))
	e.field(profileFunction, e.message)
	return n
}

// symbol returns the known properties of a function, and the number of its object, or 0 if the
// object is unknown.
func (e *pprofEncoder) symbol(id reader.FuncID) (symbolize.Symbol, uint64) {
	s := symbolize.Symbol{Name: "(frames omitted)"}
	if id == 0 {
		return s, 0
	}
	if e.opts.Names == nil {
		s.Name = e.opts.label(id)
		return s, 0
	}
	s, known := e.opts.Names.Func(id)
	s.Name = e.opts.label(id)
	if !known {
		return s, 0
	}
	return s, e.mapping(id)
}

// mapping returns the number of the object of a function, or 0 if the object is unknown.
func (e *pprofEncoder) mapping(id reader.FuncID) uint64 {
	table := symbolize.TableOf(e.opts.Names, id)
	if table == nil {
		return 0
	}
	o := table.Object()
	n := e.mappings[o]
	if n == 0 {
		e.objects = append(e.objects, pprofMapping{Object: o})
		n = uint64(len(e.objects))
		e.mappings[o] = n
	}
	return n
}
