// Package coverage tells which functions of a binary have sleds, which have none and why, and what
// sleds cost.
package coverage

import (
	"cmp"
	"debug/elf"
	"errors"
	"fmt"
	"regexp"
	"slices"

	"github.com/xray-tools/xray/symbolize"
	"github.com/xray-tools/xray/symbolize/debuginfo"
)

// Reason is why a function has no sleds.
type Reason uint8

// The reasons that a binary can show.
const (
	// Short: it has no loop and fewer instructions than the threshold that the binary was probably built
	// with.
	Short Reason = iota
	// Never: others of its compilation unit have sleds, and it is long enough. An attribute or
	// a compiler list excludes it.
	Never
	// Plain: no function of its compilation unit has sleds. The unit was compiled without
	// -fxray-instrument, or all its functions are short.
	Plain
	// Unknown functions have no debug information.
	Unknown
	// Runtime: it is part of LLVM's runtime, which the compiler links in.
	Runtime
	// Inlined: it exists only inside other functions.
	Inlined
	reasons
)

// String returns a word for the reason.
func (r Reason) String() string {
	return [...]string{"short", "never", "plain", "unknown", "runtime", "inlined"}[r]
}

// Function is a function without sleds.
type Function struct {
	Name         string
	Unit         string // the source file of its compilation unit; "" if unknown
	Bytes        uint64 // of code
	Instructions uint64 // 0 if they are not counted
	Loop         bool
	Missing      uint64 // instructions that a Short function lacks to reach Report.Likely
	Reason       Reason
}

// Choice is a value of -fxray-instruction-threshold.
type Choice struct {
	Threshold uint64
	Functions uint64 // that would have sleds, of compilation units that are instrumented
	Bytes     uint64 // of sleds and of their tables
}

// Report describes the functions of a binary.
type Report struct {
	Functions, Always uint64 // with sleds, and of these marked xray_always_instrument
	Sleds             uint64
	CodeBytes         uint64 // of sleds, in the code
	TableBytes        uint64 // of the instrumentation map and its index
	FileBytes         uint64
	// Threshold is the fewest instructions of a function without loops that has sleds, and is not
	// marked. It is 0 if there is none or instructions are not counted. The compiler counted its
	// own form of instructions, which may be a few more.
	Threshold uint64
	// Likely is the threshold that the binary was probably built with, as a number of its instructions: at
	// least Threshold, and clang's default without one.
	Likely  uint64
	Without []Function // by reason, then the longest first
	Counts  [reasons]uint64
	Choices []Choice // by threshold; nil if instructions are not counted
}

// thresholds are the thresholds in Choices.
var thresholds = []uint64{1, 5, 10, 20, 50, 100, 200, 500, 1000}

// Read describes a binary with these sleds. name converts a linkage name to a name.
func Read(b *debuginfo.Binary, sleds []symbolize.Sled, name func(string) string) (*Report, error) {
	if b.ELF().Relocatable() {
		return nil, errors.New("functions of object files have no addresses yet: pass the linked program or shared object")
	}
	in := &binary{Binary: b, machine: b.ELF().Header().Machine, sleds: make(map[uint64][]symbolize.Sled), name: name}
	for _, s := range sleds {
		in.sleds[s.Function] = append(in.sleds[s.Function], s)
	}
	if err := in.findFunctions(); err != nil {
		return nil, err
	}
	if err := in.findUnits(); err != nil {
		return nil, fmt.Errorf("debug information: %w", err)
	}
	r := in.report()
	r.FileBytes = uint64(b.ELF().Size())
	return r, nil
}

// binary is a file that is being read.
type binary struct {
	*debuginfo.Binary
	machine   elf.Machine
	sleds     map[uint64][]symbolize.Sled // by function
	functions []function                  // by address
	units     map[string]bool             // whether any function of it has sleds
	anyUnit   bool                        // there is debug information
	inlined   []Function
	name      func(string) string
}

// function is a function with code.
type function struct {
	linkage string
	address uint64
	size    uint64
	shape
	hasUnit  bool
	unit     string
	excluded bool // no threshold would give it sleds
}

// maxFunction limits how much of a function's code is examined, in bytes. Longer functions are
// instrumented.
const maxFunction = 1 << 20

// findFunctions lists the functions of the symbol table, and looks at their code.
func (b *binary) findFunctions() error {
	symbols, found, err := b.CodeSymbols()
	if err != nil || !found {
		return fmt.Errorf("no symbol table: %w", cmp.Or(err, elf.ErrNoSymbols))
	}
	code := debuginfo.NewCode(b.ELF())
	for _, s := range symbols {
		f := function{linkage: s.Linkage, address: s.Address, size: s.Size}
		f.shape = shapeOf(b.machine, code.At(s.Address, int(min(s.Size, maxFunction))), s.Address, b.sleds[s.Address])
		b.functions = append(b.functions, f)
	}
	return nil
}

// find returns the function at an address, or nil.
func (b *binary) find(address uint64) *function {
	i, ok := slices.BinarySearchFunc(b.functions, address, func(f function, a uint64) int { return cmp.Compare(f.address, a) })
	if !ok {
		return nil
	}
	return &b.functions[i]
}

// findUnits reads from the debug information to which compilation unit each function belongs, and
// which functions exist only inside others.
func (b *binary) findUnits() error {
	b.units = make(map[string]bool)
	seen := make(map[string]bool)
	for i := range b.functions {
		seen[b.functions[i].linkage] = true
	}
	err := b.UnitFunctions(func(u debuginfo.UnitFunction) {
		if u.Inlined == "" {
			if f := b.find(u.Address); f != nil {
				f.hasUnit, f.unit = true, u.Unit
			}
		} else if !seen[u.Inlined] {
			seen[u.Inlined] = true
			b.inlined = append(b.inlined, Function{Name: b.name(u.Inlined), Unit: u.Unit, Reason: Inlined})
		}
	})
	for i := range b.functions {
		f := &b.functions[i]
		b.anyUnit = b.anyUnit || f.hasUnit
		if f.hasUnit && len(b.sleds[f.address]) > 0 {
			b.units[f.unit] = true
		}
	}
	return err
}

// report builds the report.
func (b *binary) report() *Report {
	r := &Report{Functions: uint64(len(b.sleds))}
	for _, sleds := range b.sleds {
		r.Sleds += uint64(len(sleds))
		if sleds[0].AlwaysInstrument {
			r.Always++
		}
	}
	for _, name := range []string{"xray_instr_map", "xray_fn_idx"} {
		for _, s := range b.ELF().SectionsNamed(name) {
			r.TableBytes += s.Size()
		}
	}
	counted := false
	for i := range b.functions {
		f := &b.functions[i]
		sleds := b.sleds[f.address]
		r.CodeBytes += f.sledBytes
		counted = counted || f.instructions > 0
		if len(sleds) > 0 && !sleds[0].AlwaysInstrument && !f.loop && f.instructions > 0 && (r.Threshold == 0 || f.instructions < r.Threshold) {
			r.Threshold = f.instructions
		}
	}
	if counted {
		r.Likely = likely(r.Threshold)
	}
	for i := range b.functions {
		if f := &b.functions[i]; len(b.sleds[f.address]) == 0 {
			d := b.without(f, r.Likely)
			f.excluded = d.Reason != Short
			r.Without = append(r.Without, d)
		}
	}
	r.Without = append(r.Without, b.inlined...)
	slices.SortFunc(r.Without, func(x, y Function) int {
		return cmp.Or(cmp.Compare(x.Reason, y.Reason), cmp.Compare(y.Instructions, x.Instructions), cmp.Compare(y.Bytes, x.Bytes), cmp.Compare(x.Name, y.Name))
	})
	for i := range r.Without {
		r.Counts[r.Without[i].Reason]++
	}
	if counted {
		b.choose(r)
	}
	return r
}

// likely returns the threshold that a binary was probably built with, if this is the fewest instructions of a
// function that has sleds for its length, or 0. People choose few, or round numbers. The compiler also counts
// instructions that leave no code, such as those for debug information, so that a function with fewer can
// have sleds.
func likely(fewest uint64) uint64 {
	const byDefault, few = 200, 10
	switch {
	case fewest == 0:
		return byDefault
	case fewest <= few:
		return fewest
	}
	for _, round := range thresholds {
		if round >= fewest {
			return round
		}
	}
	return fewest
}

// runtimeName matches the linkage names of functions of LLVM's runtime, which has no debug information.
var runtimeName = regexp.MustCompile(`^(_ZN?K?\d*|_ZTv\S*|)(__sanitizer|__xray|__interception|__sancov)|^_Z\S*(11__sanitizer|6__xray|14__interception)|^_GLOBAL__sub_I_(sanitizer|xray)_`)

// without describes a function that has no sleds.
func (b *binary) without(f *function, threshold uint64) Function {
	d := Function{Name: b.name(f.linkage), Unit: f.unit, Bytes: f.size, Instructions: f.instructions, Loop: f.loop}
	switch {
	case f.hasUnit && !b.units[f.unit]:
		d.Reason = Plain
	case !f.loop && f.instructions > 0 && f.instructions < threshold && (f.hasUnit || !b.anyUnit):
		d.Reason, d.Missing = Short, threshold-f.instructions
	case f.hasUnit:
		d.Reason = Never
	case runtimeName.MatchString(f.linkage):
		d.Reason = Runtime
	default:
		d.Reason = Unknown
	}
	return d
}

// choose computes the effect of other thresholds.
func (b *binary) choose(r *Report) {
	all := append(slices.Clone(thresholds), r.Threshold)
	slices.Sort(all)
	perSled := uint64(0)
	if r.Sleds > 0 {
		perSled = (r.TableBytes + r.Sleds - 1) / r.Sleds
	}
	for _, threshold := range slices.Compact(all) {
		if threshold == 0 {
			continue
		}
		c := Choice{Threshold: threshold}
		for i := range b.functions {
			f := &b.functions[i]
			sleds := b.sleds[f.address]
			always := len(sleds) > 0 && sleds[0].AlwaysInstrument
			if f.excluded || !always && !f.loop && f.instructions < threshold {
				continue
			}
			c.Functions++
			n := uint64(len(sleds))
			if n == 0 {
				n = 1 + f.ends
			}
			c.Bytes += n * (sledSize(b.machine) + perSled)
		}
		r.Choices = append(r.Choices, c)
	}
}
