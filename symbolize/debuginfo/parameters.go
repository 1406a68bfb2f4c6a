package debuginfo

import (
	"bytes"
	"cmp"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
)

// Function is what debug information says about the code of a function.
type Function struct {
	Name     string // without its scope
	Linkage  string // "" if it has none, as in C
	Language uint64 // DW_LANG of its unit
	Producer string // the compiler
	// External functions can be called from other units, by the source.
	External bool
	// NoCall (DW_CC_nocall) means that the compiler changed how the function is called.
	NoCall bool
	// Convention is DW_AT_calling_convention; 0 for the usual one.
	Convention uint64
	Parameters []Parameter // in the order of the source, "this" first
	Variadic   bool        // has more parameters, without a name
	Result     *Type       // nil for void
	// EntryCode is the size of the code at the entry that a profiler patches, in bytes, as the sled of XRay.
	EntryCode uint64
	// Size is the size of the code from the entry on, in bytes, without parts that the compiler moved away.
	Size uint64
}

// Parameter is a parameter of a function.
type Parameter struct {
	Name       string // "" if it has none
	Type       *Type
	Artificial bool // "this"
	Entry      EntryLocation
}

// EntryLocation is where a parameter is when its function is entered.
type EntryLocation struct {
	Kind   LocationKind
	Pieces []LocationPiece // of [LocationExact]: in order, all of the value
	// From is where [LocationExact] begins to hold, in bytes from the entry. The code before it may have moved
	// the parameter there.
	From uint64
	// Slot of [LocationPresent] is the variable to which the prologue copies the parameter, if Base is not
	// SlotNone: Offset bytes from the base.
	Base   SlotBase
	Offset int64
}

// SlotBase is what the place of a variable of a function is relative to.
type SlotBase uint8

const (
	SlotNone  SlotBase = iota
	SlotCFA            // the canonical frame address
	SlotFrame          // the frame pointer, behind the prologue
	SlotStack          // the stack pointer, behind the prologue
)

// LocationKind says what debug information tells about the place of a parameter.
type LocationKind uint8

const (
	// LocationNone means that the parameter has no place at the entry: the function does not use it,
	// or the compiler removed it.
	LocationNone LocationKind = iota
	// LocationPresent means that the parameter exists. Its place is that of the calling convention, or
	// it is not known before the prologue has run.
	LocationPresent
	// LocationExact means that the pieces say where the value is, at the entry or a few instructions later.
	LocationExact
	// LocationUnclear means that the parameter exists in a form that is not understood.
	LocationUnclear
)

// LocationPiece is a part of a value.
type LocationPiece struct {
	Kind     PieceKind
	Size     uint64 // in bytes; 0 for the whole value
	Register uint64 // number in DWARF
	Offset   int64  // of PieceMemory and PieceFrame, in bytes
	Value    []byte // of PieceConstant; it may be shorter than the piece, whose rest is 0
	Negative bool   // the rest of a constant is 0xFF
}

// PieceKind is the kind of place of a piece.
type PieceKind uint8

const (
	PieceMissing  PieceKind = iota // no value
	PieceRegister                  // the low bytes of a register
	PieceMemory                    // in memory at a register + an offset; the stack pointer is that of the moment
	PieceFrame                     // in memory at the canonical frame address + an offset
	PieceConstant
	PieceUnclear // a place that is not understood
)

// FunctionAt returns the function whose code begins at an address.
func (b *Binary) FunctionAt(address uint64) (*Function, error) {
	var f *Function
	err := Guard(func() (err error) {
		i := b.info()
		i.mu.Lock()
		defer i.mu.Unlock()
		i.release()
		f, err = i.functionAt(address)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("%s: function at %#x: %w", b.path, address, err)
	}
	return f, nil
}

// Exported reports whether the symbol table has a symbol for the function at an address that other files
// could refer to when the linker ran. It returns false for functions that only their own unit can call,
// for those that link-time optimization made such, and for hidden ones in linked files.
func (b *Binary) Exported(address uint64) bool { return b.exported()[address] }

func (b *Binary) findExported() map[uint64]bool {
	list := make(map[uint64]bool)
	_ = Guard(func() error {
		for _, o := range b.symbols {
			for _, s := range o.f.Sections {
				if s.Type != elf.SHT_SYMTAB && s.Type != elf.SHT_DYNSYM {
					continue
				}
				err := o.symbols(s, func(s symbol) {
					if s.section != 0 && s.bind != elf.STB_LOCAL && (s.kind == elf.STT_FUNC || s.kind == elf.STT_GNU_IFUNC) && b.isFunction(s.address) {
						list[s.address] = true
					}
				})
				if err != nil {
					return err
				}
			}
		}
		return nil
	})
	return list
}

// isFunction reports whether an address is one of the list that the binary was made with.
func (b *Binary) isFunction(address uint64) bool {
	_, ok := slices.BinarySearch(b.keys, address)
	return ok
}

func (i *debugInfo) functionAt(address uint64) (*Function, error) {
	u := i.unitAt(address)
	if u == nil {
		return nil, errors.New("no debug information: compile with -g")
	}
	e, ok := u.subprogramAt(address)
	if !ok {
		return nil, errors.New("no debug information")
	}
	n, ok := u.node(e.at)
	if !ok {
		return nil, errors.New("damaged debug information")
	}
	if low, ok := u.address(n.get(atLowPC)); ok && low != address || !ok && !startsAt(u.pieces(&e), address) {
		return nil, errors.New("the debug information describes no function that begins there")
	}
	f := &Function{}
	if root, ok := u.node(u.first); ok {
		f.Language, _ = root.number(atLanguage)
		f.Producer = root.text(atProducer)
	}
	f.Convention, _ = n.number(atConvention)
	f.NoCall = f.Convention == conventionNoCall
	f.EntryCode = i.entryCode(address)
	for _, r := range u.pieces(&e) {
		if r.low == address {
			f.Size = r.high - r.low
		}
	}
	place := placer{u: u, entry: address}
	place.frame(n)
	abstract := n.follow(atAbstractOrigin)
	typed := false
	for from, next := n, 0; from != nil && next < 8; next++ {
		if f.Name == "" {
			f.Name = from.text(atName)
		}
		if f.Linkage == "" {
			if f.Linkage = from.text(atLinkageName); f.Linkage == "" {
				f.Linkage = from.text(atMIPSLinkage)
			}
		}
		f.External = f.External || from.flag(atExternal)
		if !typed && from.has(atType) {
			f.Result, typed = i.typeOf(from), true
		}
		if to := from.follow(atAbstractOrigin); to != nil {
			from = to
		} else {
			from = from.follow(atSpecification)
		}
	}
	i.parameters(f, n, abstract, &place)
	return f, nil
}

// VariableType returns the type of the variable with a name or linkage name, in the unit of the function at an
// address. It returns nil if the unit describes none.
func (b *Binary) VariableType(function uint64, name string) (t *Type) {
	_ = Guard(func() error {
		i := b.info()
		i.mu.Lock()
		defer i.mu.Unlock()
		i.release()
		if u := i.unitAt(function); u != nil {
			if root, ok := u.node(u.first); ok {
				t = i.variable(root, name, 0)
			}
		}
		return nil
	})
	return t
}

// maxScopeDepth limits the namespaces and classes around a variable.
const maxScopeDepth = 32

// variable looks for a variable in an entry, and in the namespaces and classes inside.
func (i *debugInfo) variable(in *node, name string, depth int) (t *Type) {
	in.eachChild(func(c *node) bool {
		switch c.tag {
		case tagVariable:
			declared := cmp.Or(c.follow(atSpecification), c.follow(atAbstractOrigin), c)
			for _, n := range []*node{c, declared} {
				if t == nil && (n.text(atName) == name || n.text(atLinkageName) == name || n.text(atMIPSLinkage) == name) {
					t = i.typeOf(declared)
				}
			}
		case tagNamespace, tagStruct, tagClass, tagUnion:
			if depth < maxScopeDepth {
				t = i.variable(c, name, depth+1)
			}
		}
		return t == nil
	})
	return t
}

func startsAt(pieces []addressRange, address uint64) bool {
	for _, r := range pieces {
		if r.low == address {
			return true
		}
	}
	return false
}

// conventionNoCall is DW_CC_nocall.
const conventionNoCall = 3

// maxParameters limits the parameters of a function.
const maxParameters = 1 << 10

// parameters reads the parameters of a function. If it has an abstract instance, that one has the order
// of the source, and parameters that the compiler removed.
func (i *debugInfo) parameters(f *Function, n, abstract *node, place *placer) {
	type key struct {
		u  *unit
		at uint64
	}
	index := make(map[key]int)
	read := func(in *node, each func(c *node)) {
		in.eachChild(func(c *node) bool {
			switch c.tag {
			case tagParameter:
				each(c)
			case tagUnspecifiedParams:
				f.Variadic = true
			}
			return len(f.Parameters) < maxParameters
		})
	}
	if abstract != nil {
		read(abstract, func(c *node) {
			index[key{c.u, c.at}] = len(f.Parameters)
			f.Parameters = append(f.Parameters, Parameter{Name: c.text(atName), Type: i.typeOf(c), Artificial: c.flag(atArtificial)})
		})
	}
	read(n, func(c *node) {
		p := Parameter{Name: c.text(atName), Artificial: c.flag(atArtificial)}
		if c.has(atType) {
			p.Type = i.typeOf(c)
		}
		p.Entry = place.of(c)
		origin := c.follow(atAbstractOrigin)
		if origin == nil {
			f.Parameters = append(f.Parameters, p)
			return
		}
		if at, ok := index[key{origin.u, origin.at}]; ok {
			f.Parameters[at].Entry = p.Entry
			return
		}
		for range 8 {
			if p.Name == "" {
				p.Name = origin.text(atName)
			}
			if p.Type == nil && origin.has(atType) {
				p.Type = i.typeOf(origin)
			}
			p.Artificial = p.Artificial || origin.flag(atArtificial)
			if origin = origin.follow(atAbstractOrigin); origin == nil {
				break
			}
		}
		f.Parameters = append(f.Parameters, p)
	})
}

// entryCode returns the size of the code at the entry of a function that does nothing until a profiler
// patches it, as the sled of XRay. Locations of clang begin behind it.
func (i *debugInfo) entryCode(address uint64) uint64 {
	o := i.b.elf
	if o.f.Machine != elf.EM_X86_64 {
		return 0
	}
	code := i.code.At(address, 32)
	size := 0
	if bytes.HasPrefix(code, []byte("\xf3\x0f\x1e\xfa")) { // endbr64
		size = 4
	}
	for _, p := range []struct {
		code string
		size int
	}{
		{"\xeb\x09", 11}, {"\x0f\x1f\x44\x00\x00", 5}, {"\x67\x0f\x1f\x40\x00", 5},
	} {
		if bytes.HasPrefix(code[min(size, len(code)):], []byte(p.code)) {
			return uint64(size + p.size)
		}
	}
	return uint64(size)
}

// placer reads where parameters of a function are at its entry.
type placer struct {
	u     *unit
	entry uint64
	// base is what DW_OP_fbreg is relative to.
	base SlotBase
}

// frame reads DW_AT_frame_base.
func (p *placer) frame(n *node) {
	if e := n.get(atFrameBase).inline; len(e) == 1 {
		switch e[0] {
		case opCallFrameCFA:
			p.base = SlotCFA
		case opReg0 + 6: // rbp
			p.base = SlotFrame
		case opReg0 + 7: // rsp
			p.base = SlotStack
		}
	}
}

// of returns where a parameter is.
func (p *placer) of(n *node) EntryLocation {
	if v := n.get(atConstValue); v.form != 0 {
		piece := LocationPiece{Kind: PieceConstant, Value: v.inline}
		if c, ok := v.constant(); ok {
			piece.Value = binary.LittleEndian.AppendUint64(nil, c)
			switch v.form {
			case formData1, formData2, formData4, formUdata:
			default:
				piece.Negative = int64(c) < 0
			}
		} else if v.inline == nil {
			return EntryLocation{Kind: LocationUnclear}
		}
		return EntryLocation{Kind: LocationExact, Pieces: []LocationPiece{piece}}
	}
	v := n.get(atLocation)
	switch v.form {
	case 0:
		return EntryLocation{}
	case formExprloc, formBlock, formBlock1, formBlock2, formBlock4:
		return p.everywhere(v.inline)
	case formSecOffset, formData4, formData8, formLoclistx:
		expression, from, found := p.u.locationAt(v, p.entry)
		if !found || len(expression) == 0 {
			return EntryLocation{}
		}
		l := p.exact(expression)
		l.From = from
		return l
	}
	return EntryLocation{Kind: LocationUnclear}
}

// everywhere returns the place of a parameter that has one expression for the whole function. It does not
// hold during the prologue if it uses the stack, or registers that the prologue sets.
func (p *placer) everywhere(expression []byte) EntryLocation {
	if len(expression) == 0 {
		return EntryLocation{}
	}
	l := p.exact(expression)
	for _, piece := range l.Pieces {
		switch {
		case piece.Kind == PieceUnclear,
			(piece.Kind == PieceRegister || piece.Kind == PieceMemory) && !isArgumentRegister(piece.Register),
			piece.Kind == PieceFrame && (p.base != SlotCFA || piece.Offset < 0):
			l.Kind = LocationPresent
		}
	}
	if l.Kind != LocationPresent {
		return l
	}
	present := EntryLocation{Kind: LocationPresent}
	if c := (cursor{b: expression, order: p.u.d.o.f.ByteOrder}); c.uint8() == opFbreg {
		if offset := c.sleb(); len(c.b) == 0 && !c.bad {
			present.Base, present.Offset = p.base, offset
		}
	}
	return present
}

// isArgumentRegister reports whether the calling convention of x86-64 passes arguments in a register.
func isArgumentRegister(r uint64) bool {
	switch r {
	case 1, 2, 4, 5, 8, 9:
		return true
	}
	return r >= 17 && r <= 24
}

// Operations of location expressions, from the DWARF 5 standard, section 7.7.1, and GNU extensions.
const (
	opConst1u       = 0x08
	opConst8s       = 0x0f
	opConstu        = 0x10
	opConsts        = 0x11
	opPlusUconst    = 0x23
	opLit0          = 0x30
	opReg0          = 0x50
	opBreg0         = 0x70
	opRegx          = 0x90
	opFbreg         = 0x91
	opBregx         = 0x92
	opPiece         = 0x93
	opCallFrameCFA  = 0x9c
	opImplicitValue = 0x9e
	opStackValue    = 0x9f
	opEntryValue    = 0xa3
	opGNUEntryValue = 0xf3
)

// exact reads an expression that holds at the entry.
func (p *placer) exact(expression []byte) EntryLocation {
	c := cursor{b: expression, order: p.u.d.o.f.ByteOrder}
	var pieces []LocationPiece
	for len(c.b) > 0 && !c.bad && len(pieces) < maxChildren {
		piece := p.piece(&c)
		if len(c.b) > 0 && !c.bad {
			if c.uint8() != opPiece {
				return EntryLocation{Kind: LocationUnclear}
			}
			piece.Size = c.uleb()
		}
		pieces = append(pieces, piece)
	}
	if c.bad {
		return EntryLocation{Kind: LocationUnclear}
	}
	for _, piece := range pieces {
		if piece.Kind != PieceMissing {
			return EntryLocation{Kind: LocationExact, Pieces: pieces}
		}
	}
	return EntryLocation{}
}

// piece reads an expression up to the next DW_OP_piece.
func (p *placer) piece(c *cursor) LocationPiece {
	start := *c
	piece, ok := p.simple(c)
	if ok && (len(c.b) == 0 || c.b[0] == opPiece) && !c.bad {
		return piece
	}
	// The expression calculates something. Look for its end.
	*c = start
	for len(c.b) > 0 && !c.bad && c.b[0] != opPiece {
		if !skipOperation(c, p.u) {
			c.bad = true
		}
	}
	return LocationPiece{Kind: PieceUnclear}
}

// simple reads an expression that is a single place or a constant.
func (p *placer) simple(c *cursor) (LocationPiece, bool) {
	if len(c.b) == 0 || c.b[0] == opPiece {
		return LocationPiece{}, true
	}
	switch op := c.uint8(); {
	case op >= opReg0 && op < opReg0+32:
		return LocationPiece{Kind: PieceRegister, Register: uint64(op - opReg0)}, true
	case op == opRegx:
		return LocationPiece{Kind: PieceRegister, Register: c.uleb()}, true
	case op >= opBreg0 && op < opBreg0+32, op == opBregx:
		m := LocationPiece{Kind: PieceMemory, Register: uint64(op - opBreg0)}
		if op == opBregx {
			m.Register = c.uleb()
		}
		if m.Offset = c.sleb(); len(c.b) > 0 && c.b[0] == opStackValue {
			c.uint8()
			if m.Offset != 0 {
				return m, false
			}
			m.Kind = PieceRegister // the value is that of the register
		}
		return m, true
	case op == opFbreg:
		m := LocationPiece{Kind: PieceFrame, Offset: c.sleb()}
		if p.base != SlotCFA {
			m.Kind = PieceUnclear
		}
		return m, true
	case op == opCallFrameCFA:
		m := LocationPiece{Kind: PieceFrame}
		if len(c.b) > 0 && c.b[0] == opPlusUconst {
			c.uint8()
			m.Offset = int64(c.uleb())
		}
		return m, true
	case op == opEntryValue, op == opGNUEntryValue:
		inner := cursor{b: c.take(c.uleb()), order: c.order}
		piece, ok := p.simple(&inner)
		if !ok || len(inner.b) > 0 || inner.bad || piece.Kind != PieceRegister || c.uint8() != opStackValue {
			return piece, false
		}
		return piece, true
	case op == opImplicitValue:
		return LocationPiece{Kind: PieceConstant, Value: c.take(c.uleb())}, true
	default:
		v, ok := constantOperation(op, c)
		if !ok || c.uint8() != opStackValue {
			return LocationPiece{}, false
		}
		return LocationPiece{Kind: PieceConstant, Value: binary.LittleEndian.AppendUint64(nil, uint64(v)), Negative: v < 0}, true
	}
}

// constantOperation reads an operation that pushes a constant.
func constantOperation(op byte, c *cursor) (int64, bool) {
	switch {
	case op >= opLit0 && op < opLit0+32:
		return int64(op - opLit0), true
	case op == opConstu:
		return int64(c.uleb()), true
	case op == opConsts:
		return c.sleb(), true
	case op >= opConst1u && op <= opConst8s:
		size := 1 << ((op - opConst1u) / 2)
		v := c.uint(size)
		if (op-opConst1u)%2 == 1 { // signed
			shift := 64 - 8*size
			return int64(v<<shift) >> shift, true
		}
		return int64(v), true
	}
	return 0, false
}

// skipOperation skips an operation with its operands. It returns false if it does not know it.
func skipOperation(c *cursor, u *unit) bool {
	switch op := c.uint8(); {
	case op == 0x03: // addr
		c.uint(u.addressSize)
	case op >= opConst1u && op <= opConst8s, op == opConstu, op == opConsts:
		constantOperation(op, c)
	case op == 0x15, op == 0x94, op == 0x95: // pick, deref_size, xderef_size
		c.uint8()
	case op == opPlusUconst, op == opRegx, op == 0xa1, op == 0xa2, op == 0xa8, op == 0xa9, op == 0xf7, op == 0xf9, op == 0xfb, op == 0xfc:
		c.uleb() // also addrx, constx, convert, reinterpret
	case op == 0x28, op == 0x2f, op == 0x98: // bra, skip, call2
		c.uint(2)
	case op >= opBreg0 && op < opBreg0+32, op == opFbreg:
		c.sleb()
	case op == opBregx:
		c.uleb()
		c.sleb()
	case op == 0x9d, op == 0xa5, op == 0xf5: // bit_piece, regval_type
		c.uleb()
		c.uleb()
	case op == 0x99, op == 0xfa: // call4, parameter_ref
		c.uint(4)
	case op == 0xa0, op == 0xf2: // implicit_pointer
		c.offset(u.wide)
		c.sleb()
	case op == opImplicitValue, op == opEntryValue, op == opGNUEntryValue:
		c.take(c.uleb())
	case op == 0xa4, op == 0xf4: // const_type
		c.uleb()
		c.take(uint64(c.uint8()))
	case op == 0xa6, op == 0xa7, op == 0xf6: // deref_type
		c.uint8()
		c.uleb()
	case op == 0x06, op >= 0x12 && op <= 0x2e, op >= opLit0 && op < opBreg0, op >= 0x96 && op <= opStackValue:
	default:
		return false
	}
	return !c.bad
}

// Entries of location lists, from the DWARF 5 standard, section 7.7.3, and an extension of GNU.
const (
	lleEnd          = 0
	lleBaseAddressx = 1
	lleStartxEndx   = 2
	lleStartxLength = 3
	lleOffsetPair   = 4
	lleDefault      = 5
	lleBaseAddress  = 6
	lleStartEnd     = 7
	lleStartLength  = 8
	lleViewPair     = 9
)

// maxListEntries limits the entries of a location list that are read. The first ones are at the entry.
const maxListEntries = 1 << 12

// maxLater limits how far behind the entry a location may begin, in bytes.
const maxLater = 512

// locationAt returns the expression of a location list that holds at an address, or the first one that
// begins behind it, and how far behind.
func (u *unit) locationAt(v value, address uint64) (expression []byte, from uint64, found bool) {
	take := func(low, high uint64, e []byte) bool {
		switch {
		case low >= high || high <= address || low > address+maxLater:
		case low <= address:
			expression, from, found = e, 0, true
			return true
		case !found || low-address < from:
			expression, from, found = e, low-address, true
		}
		return false
	}
	if u.version < 5 {
		u.oldLocations(v.n, take)
	} else {
		u.locations(v, take)
	}
	return expression, from, found
}

// locationWindow is how many bytes of a list are read.
const locationWindow = 16 << 10

func (u *unit) locations(v value, take func(low, high uint64, e []byte) bool) {
	offset := v.n
	lists := u.d.loclists
	if v.form == formLoclistx {
		size := u.offsetSize()
		b, err := lists.near(u.loclistsBase+v.n*size, int(size))
		if err != nil || uint64(len(b)) < size {
			return
		}
		offset = u.loclistsBase + u.d.o.uint(b, int(size))
	}
	b, err := lists.at(offset, locationWindow)
	if err != nil {
		return
	}
	indexed := func(n uint64) uint64 {
		a, _ := u.address(value{form: formAddrx, n: n})
		return a
	}
	c := cursor{b: b, order: u.d.o.f.ByteOrder}
	base := u.low
	for range maxListEntries {
		var low, high uint64
		switch c.uint8() {
		case lleBaseAddressx:
			base = indexed(c.uleb())
			continue
		case lleBaseAddress:
			base = c.uint(u.addressSize)
			continue
		case lleViewPair:
			c.uleb()
			c.uleb()
			continue
		case lleStartxEndx:
			low = indexed(c.uleb())
			high = indexed(c.uleb())
		case lleStartxLength:
			low = indexed(c.uleb())
			high = low + c.uleb()
		case lleOffsetPair:
			low = base + c.uleb()
			high = base + c.uleb()
		case lleDefault:
			high = ^uint64(0)
		case lleStartEnd:
			low = c.uint(u.addressSize)
			high = c.uint(u.addressSize)
		case lleStartLength:
			low = c.uint(u.addressSize)
			high = low + c.uleb()
		default: // lleEnd, or unknown
			return
		}
		e := c.take(c.uleb())
		if c.bad || take(low, high, e) {
			return
		}
	}
}

// oldLocations reads a list of .debug_loc.
func (u *unit) oldLocations(offset uint64, take func(low, high uint64, e []byte) bool) {
	b, err := u.d.loc.at(u.locBase+offset, locationWindow)
	if err != nil {
		return
	}
	c := cursor{b: b, order: u.d.o.f.ByteOrder}
	base := u.low
	highest := ^uint64(0) >> (64 - 8*u.addressSize)
	split := u.addresses != u.d
	for range maxListEntries {
		var low, high uint64
		if split { // the lists of .dwo files, before DWARF 5
			kind := c.uint8()
			low, _ = u.address(value{form: formAddrx, n: c.uleb()})
			switch kind {
			case 1:
				base = low
				continue
			case 2:
				high, _ = u.address(value{form: formAddrx, n: c.uleb()})
			case 3:
				high = low + c.uint(4)
			default:
				return
			}
		} else {
			low, high = c.uint(u.addressSize), c.uint(u.addressSize)
			switch {
			case low == 0 && high == 0:
				return
			case low == highest:
				base = high
				continue
			}
			low, high = base+low, base+high
		}
		e := c.take(c.uint(2))
		if c.bad || take(low, high, e) {
			return
		}
	}
}
