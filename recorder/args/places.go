package args

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/xray-tools/xray/symbolize/debuginfo"
)

// place is where a value is.
type place struct {
	pieces []piece // of a value that is not in memory as a whole
	// memory has the steps that put the address of the value into A, if it is in memory.
	memory []Step
	why    string // why there is no place
}

// piece is a part of a value that is in a register.
type piece struct {
	offset, size uint64 // in the value, in bytes
	step         Step   // REG or XMM, which puts the piece into the low bytes of A; 0 if it is missing
}

func (p *piece) missing() bool { return p.step.Op == 0 }

func refused(format string, args ...any) place { return place{why: fmt.Sprintf(format, args...)} }

// The registers of arguments and results, in the numbering of DWARF.
var (
	integerArguments = []uint8{5, 4, 1, 2, 8, 9}
	integerResults   = []uint8{0, 1}
)

const (
	vectorArguments = 8
	vectorResults   = 2
	firstVector     = 17 // xmm0
)

// Numbers of languages, DW_LANG.
const languageRust = 0x1c

// isC reports whether functions of a language are called as those of C and C++ are.
func isC(language uint64) bool {
	switch language {
	case 0x01, 0x02, 0x04, 0x0c, 0x10, 0x11, 0x1a, 0x1d, 0x21, 0x2a, 0x2b, 0x2c, 0x3a, 0x3b, 0x3d, 0x3e:
		return true
	}
	return language >= 0x8000 && language != 0x8001 // of vendors: assemblers have no parameters
}

// assigner gives registers and memory to parameters, in their order.
type assigner struct {
	integers, vectors int // that are used
	stack             int64
	// lost says why the places that follow are unknown; "" if they are known. Registers and memory are
	// lost separately, because a large vector takes a vector register or memory.
	lostInteger, lostVector, lostStack string
}

const before = "the place of a parameter before it is not known: %s"

// assign returns the place of the next parameter.
func (a *assigner) assign(p passing) place {
	switch p.whole() {
	case classUnclear:
		a.lostInteger, a.lostVector, a.lostStack = p.why, p.why, p.why
		return refused("%s", p.why)
	case classMemory, classX87:
		return a.inMemory(p)
	}
	integers, vectors := 0, 0
	for _, c := range p.parts {
		switch c {
		case classInteger:
			integers++
		case classSSE:
			vectors++
		}
	}
	if integers == 0 && vectors == 0 {
		return refused("it is empty")
	}
	if why := a.lostInteger; integers > 0 && why != "" {
		return refused(before, why)
	}
	if why := a.lostVector; vectors > 0 && why != "" {
		return refused(before, why)
	}
	if a.integers+integers > len(integerArguments) || a.vectors+vectors > vectorArguments {
		return a.inMemory(p)
	}
	var l place
	for i, c := range p.parts {
		part := piece{offset: uint64(i) * 8, size: min(8, p.size-uint64(i)*8)}
		switch c {
		case classInteger:
			part.step = Step{Op: REG, A: integerArguments[a.integers]}
			a.integers++
		case classSSE:
			part.step = Step{Op: XMM, A: uint8(a.vectors)}
			a.vectors++
		case classUpper:
			part.step = Step{Op: XMM, A: uint8(a.vectors - 1), B: 1}
		default:
			continue // padding
		}
		l.pieces = append(l.pieces, part)
	}
	if p.reference {
		return place{memory: []Step{l.pieces[0].step}}
	}
	return l
}

func (a *assigner) inMemory(p passing) place {
	if a.lostStack != "" {
		return refused(before, a.lostStack)
	}
	align := int64(8)
	if p.align >= 16 {
		align = 16
	}
	if p.align > 16 || p.size > 1<<20 {
		a.lostStack = "it is aligned to more than 16 bytes, or very large"
		return refused("%s", a.lostStack)
	}
	at := (a.stack + align - 1) &^ (align - 1)
	a.stack = at + int64(p.size+7)&^7
	l := place{memory: []Step{{Op: CFA, K: int32(at)}}}
	if p.reference {
		l.memory = append(l.memory, Step{Op: LOAD, A: 8})
	}
	return l
}

// resultPlace returns the place of a result when its function returns.
func resultPlace(p passing) place {
	switch p.whole() {
	case classUnclear:
		return refused("%s", p.why)
	case classX87:
		return refused("it is in a register of the x87, which the recorder does not read")
	case classMemory:
		return place{memory: []Step{{Op: REG, A: 0}}} // the caller's memory, whose address is returned
	}
	if p.reference {
		return place{memory: []Step{{Op: REG, A: 0}}}
	}
	var l place
	integers, vectors := 0, 0
	for i, c := range p.parts {
		part := piece{offset: uint64(i) * 8, size: min(8, p.size-uint64(i)*8)}
		switch c {
		case classInteger:
			part.step = Step{Op: REG, A: integerResults[integers]}
			integers++
		case classSSE:
			part.step = Step{Op: XMM, A: uint8(vectors)}
			vectors++
		case classUpper:
			part.step = Step{Op: XMM, A: uint8(vectors - 1), B: 1}
		default:
			continue
		}
		l.pieces = append(l.pieces, part)
	}
	if len(l.pieces) == 0 {
		return refused("it is empty")
	}
	return l
}

// fn is a function whose values are read.
type fn struct {
	*debuginfo.Function
	symbol string
	// exported functions are called as their declaration says, because the compiler does not know all of
	// their callers.
	exported bool
	uses     *uses
	places   []place // by parameter
}

// clone matches the names that compilers give to functions that they changed for some callers.
var clone = regexp.MustCompile(`\.(isra|constprop|part|simdclone|specialized)\b`)

const (
	ignored = "the function may not use it: then its callers pass nothing, and an old value would be in its place"
	changed = "the compiler changed how the function is called, and the debug information does not tell where the parameter is"
)

// locate finds the places of all parameters.
func (f *fn) locate() {
	conventional := f.conventional()
	trusted := f.asDeclared()
	f.places = make([]place, len(f.Parameters))
	owners := map[Step]int{}
	for i := range f.Parameters {
		p := &f.Parameters[i]
		usual := refused(changed)
		if trusted {
			usual = conventional[i]
		}
		switch p.Entry.Kind {
		case debuginfo.LocationNone:
			f.places[i] = refused(ignored)
			if trusted {
				f.places[i] = f.used(usual, p)
			}
		case debuginfo.LocationPresent:
			if f.places[i] = f.stored(p); f.places[i].why != "" {
				f.places[i] = usual
			}
		case debuginfo.LocationUnclear:
			f.places[i] = usual
		case debuginfo.LocationExact:
			l := f.described(p, usual)
			switch {
			case l.why == "" && trusted && usual.why == "":
				if l = l.with(f.used(usual, p)); !l.agrees(usual) {
					l = refused("the debug information and the calling convention contradict each other: perhaps the function assigns to the parameter at once")
				}
			case l.why != "" && trusted:
				l = f.used(usual, p)
			}
			f.places[i] = l
		}
		for _, part := range f.places[i].pieces {
			if part.step.Op != 0 {
				owners[part.step]++
			}
		}
	}
	for i, l := range f.places {
		if slices.ContainsFunc(l.pieces, func(p piece) bool { return p.step.Op != 0 && owners[p.step] > 1 }) && !trusted {
			f.places[i] = refused("the debug information has several parameters in the same register")
		}
	}
}

// agrees reports whether the parts of a place are where another one says.
func (l place) agrees(usual place) bool {
	if (l.memory != nil) != (usual.memory != nil) {
		return false
	}
	if l.memory != nil {
		return slices.Equal(l.memory, usual.memory)
	}
	for _, part := range l.pieces {
		if part.missing() {
			continue
		}
		if !slices.ContainsFunc(usual.pieces, func(u piece) bool { return u.offset == part.offset && u.step == part.step }) {
			return false
		}
	}
	return true
}

// byAddress reports whether the caller passes the address of the parameter. clang 14 describes the memory
// that has the address as if it had the parameter.
func (f *fn) byAddress(p *debuginfo.Parameter) bool {
	if f.Language == languageRust {
		size, _ := p.Type.Size()
		return size > 16
	}
	return classify(p.Type).reference
}

// stored returns the place of a parameter that the code at the entry copies to a variable of the function.
func (f *fn) stored(p *debuginfo.Parameter) place {
	slot, ok := f.uses.slot(&p.Entry)
	size, known := p.Type.Size()
	if !ok || !known || size == 0 || size > 16 || f.byAddress(p) {
		return refused(changed)
	}
	if slot >= 0 {
		return place{memory: []Step{{Op: CFA, K: int32(slot)}}} // the caller has put it there
	}
	var l place
	for at := uint64(0); at < size; at += 8 {
		s, ok := f.uses.stores[slot+int64(at)]
		part := piece{offset: at, size: min(8, size-at), step: s.register}
		if !ok || uint64(s.size) < part.size {
			return refused(changed)
		}
		l.pieces = append(l.pieces, part)
	}
	return l
}

// asDeclared reports whether the parameters are where the declaration says. They may not be only in a function
// that nobody else can call. gcc gives it another name, and clang sometimes sets DW_CC_nocall. It also shows
// in a parameter of which a part is missing or a constant.
func (f *fn) asDeclared() bool {
	if f.NoCall || clone.MatchString(f.symbol) {
		return false
	}
	if f.exported {
		return true
	}
	for i := range f.Parameters {
		switch e := &f.Parameters[i].Entry; e.Kind {
		case debuginfo.LocationNone:
			return false
		case debuginfo.LocationExact:
			for _, l := range e.Pieces {
				if l.Kind == debuginfo.PieceMissing || l.Kind == debuginfo.PieceConstant {
					return false
				}
			}
		}
	}
	return true
}

// used returns the parts of a place that the code of the function certainly reads. clang does not describe
// all parameters that a function uses, and callers pass nothing for those that it does not use, even if the
// function can be called from elsewhere.
func (f *fn) used(usual place, p *debuginfo.Parameter) place {
	if usual.why != "" {
		return usual
	}
	if f.Variadic {
		return refused(ignored) // it saves all registers, used or not
	}
	if usual.memory != nil {
		size, _ := p.Type.Size()
		first := usual.memory[0]
		if len(usual.memory) > 1 { // a pointer in memory
			size = 8
		}
		if first.Op == REG && f.uses.general[first.A] || first.Op == CFA && f.uses.memory(int64(first.K), int64(max(size, 8))) {
			return usual
		}
		return refused(ignored)
	}
	l := place{}
	for _, part := range usual.pieces {
		if part.step.Op == REG && f.uses.general[part.step.A] || part.step.Op == XMM && f.uses.vectors[part.step.A] {
			l.pieces = append(l.pieces, part)
		}
	}
	if len(l.pieces) == 0 {
		return refused(ignored)
	}
	return l
}

// with returns a place with the parts of another one that it lacks.
func (l place) with(other place) place {
	if l.why != "" || l.memory != nil {
		return l
	}
	for _, part := range other.pieces {
		overlap := func(p piece) bool { return p.offset < part.offset+part.size && part.offset < p.offset+p.size }
		if !slices.ContainsFunc(l.pieces, func(p piece) bool { return overlap(p) && !p.missing() }) {
			l.pieces = append(slices.DeleteFunc(slices.Clone(l.pieces), overlap), part)
		}
	}
	return l
}

// conventional returns the places of the parameters in a function that is called as its declaration says.
func (f *fn) conventional() []place {
	list := make([]place, len(f.Parameters))
	if f.Convention > 1 && f.Convention != 3 { // DW_CC_normal, DW_CC_nocall
		for i := range list {
			list[i] = refused("the function has a calling convention of its own (DW_AT_calling_convention %d)", f.Convention)
		}
		return list
	}
	var a assigner
	switch {
	case f.Language == languageRust:
		if f.Result != nil {
			if l := rustResult(f.Result); l.hidden {
				a.integers++
			} else if l.why != "" {
				a.lostInteger, a.lostVector, a.lostStack = "how the result is returned is not known", "how the result is returned is not known", "how the result is returned is not known"
			}
		}
		for i := range f.Parameters {
			list[i] = a.rust(f.Parameters[i].Type)
		}
		return list
	case !isC(f.Language):
		for i := range list {
			list[i] = refused("how functions of its language (DW_LANG %#x) are called is not known", f.Language)
		}
		return list
	}
	if f.Result != nil {
		switch p := classify(f.Result); {
		case p.reference, p.whole() == classMemory:
			a.integers++ // the address of the result
		case p.whole() == classUnclear:
			a.lostInteger = "how the result is returned is not known: " + p.why
		}
	}
	for i := range f.Parameters {
		p := &f.Parameters[i]
		if p.Name == "__in_chrg" {
			list[i] = refused("it is not passed")
			continue // of constructors, in the debug information of gcc
		}
		passed := classify(p.Type)
		wide := passed.size == 16 && passed.align == 16 && len(passed.parts) == 2 && passed.parts[0] == classInteger
		if wide && a.integers >= len(integerArguments)-1 && !strings.HasPrefix(f.Producer, "GNU ") && f.clang() < 22 {
			// Versions before 18 split it and align it to 8 bytes. Version 19 leaves a register unused.
			passed = unclear("clang before version 22 passes it in a way of its own")
		}
		list[i] = a.assign(passed)
	}
	return list
}

// described returns the place of a parameter that the debug information describes exactly at the entry, or so
// soon that nothing has changed. A part that it describes in a way that is not understood is where the calling
// convention says. A constant says nothing about what the caller passed: the function may assign it.
func (f *fn) described(p *debuginfo.Parameter, usual place) place {
	size, ok := p.Type.Size()
	if !ok {
		size = 8
	}
	pieces, from := p.Entry.Pieces, p.Entry.From
	if len(pieces) == 1 && (pieces[0].Size == 0 || pieces[0].Size == size) {
		switch l := pieces[0]; l.Kind {
		case debuginfo.PieceConstant:
			return refused("the debug information has a constant for it: the compiler specialized the function, or the function assigns to the parameter at once")
		case debuginfo.PieceMemory:
			step, ok := registerStep(l.Register)
			switch {
			case !ok || step.Op != REG || l.Offset != int64(int32(l.Offset)):
				return usual
			case step.A == dwarfStack && from > f.EntryCode:
				return usual
			case step.A == dwarfStack:
				return place{memory: []Step{{Op: CFA, K: int32(l.Offset - 8)}}}
			case !f.uses.keeps(step, from):
				return refused(ignored)
			case l.Offset != 0:
				return place{memory: []Step{step, {Op: ADD, K: int32(l.Offset)}}}
			}
			return place{memory: []Step{step}}
		case debuginfo.PieceFrame:
			if l.Offset < 0 || f.byAddress(p) {
				return usual // a variable of the function, which its prologue fills
			}
			if l.Offset <= 1<<30 {
				return place{memory: []Step{{Op: CFA, K: int32(l.Offset)}}}
			}
		}
	}
	var l place
	at, missing := uint64(0), true
	for _, d := range pieces {
		part := piece{offset: at, size: d.Size}
		if part.size == 0 {
			part.size = size
		}
		if at >= size {
			break
		}
		part.size = min(part.size, size-at)
		at += part.size
		switch d.Kind {
		case debuginfo.PieceMissing, debuginfo.PieceConstant:
		case debuginfo.PieceRegister:
			step, ok := registerStep(d.Register)
			if !ok {
				return usual
			}
			if !f.uses.keeps(step, from) {
				break
			}
			part.step = step
			if part.size > 8 {
				if step.Op != XMM || part.size > 16 {
					return usual
				}
				l.pieces = append(l.pieces, piece{offset: part.offset, size: 8, step: step})
				part.offset, part.size, part.step.B = part.offset+8, part.size-8, 1
			}
			missing = false
		default:
			return usual.without(p)
		}
		l.pieces = append(l.pieces, part)
	}
	if missing {
		return refused(ignored)
	}
	return l
}

// without returns the place of the calling convention without the parts that the debug information says
// are missing: the callers may leave anything there.
func (l place) without(p *debuginfo.Parameter) place {
	if l.memory != nil || l.why != "" {
		return l
	}
	at := uint64(0)
	for _, d := range p.Entry.Pieces {
		if d.Kind == debuginfo.PieceMissing {
			l.pieces = slices.DeleteFunc(slices.Clone(l.pieces), func(part piece) bool {
				return part.offset < at+d.Size && at < part.offset+part.size
			})
		}
		at += d.Size
	}
	return l
}

// registerStep returns the step that reads a register with a number of DWARF.
func registerStep(n uint64) (Step, bool) {
	switch {
	case n < 16:
		return Step{Op: REG, A: uint8(n)}, true
	case n >= firstVector && n < firstVector+vectorArguments:
		return Step{Op: XMM, A: uint8(n - firstVector)}, true
	}
	return Step{}, false
}

// result returns the place of the result.
func (f *fn) result() place {
	switch {
	case f.Result == nil:
		return refused("the function returns nothing")
	case f.NoCall:
		return refused("the compiler changed how the function is called, perhaps so that it returns nothing")
	case clone.MatchString(f.symbol):
		return refused("the function is a copy that gcc specialized (%s), which may return nothing", f.symbol)
	case !f.exported && !f.tellsChanges():
		return refused("the function is local to its file, and its compiler does not tell if it removed the result: compile with clang 17 or later, or make the function external")
	case f.Convention > 1:
		return refused("the function has a calling convention of its own (DW_AT_calling_convention %d)", f.Convention)
	case f.Language == languageRust:
		return rustResult(f.Result).place
	case !isC(f.Language):
		return refused("how functions of its language (DW_LANG %#x) are called is not known", f.Language)
	}
	return resultPlace(classify(f.Result))
}

var clangVersion = regexp.MustCompile(`clang version ([0-9]+)\.`)

// tellsChanges reports whether the compiler marks functions whose results it removed: gcc by their names,
// and clang by DW_CC_nocall, from version 17 on.
func (f *fn) tellsChanges() bool {
	if strings.HasPrefix(f.Producer, "GNU ") {
		return true
	}
	if strings.Contains(f.Producer, "rustc version") {
		return true // versions whose sleds can be used are built with LLVM 17 or later
	}
	return f.clang() >= 17
}

// clang returns the version of clang that compiled the function; 0 if it was another compiler.
func (f *fn) clang() int {
	if m := clangVersion.FindStringSubmatch(f.Producer); m != nil {
		if version, err := strconv.Atoi(m[1]); err == nil {
			return version
		}
	}
	return 0
}
