// Package value describes recorded arguments and results of functions, and writes them as text and JSON.
// A trace has each description once, and the bytes of each value.
package value

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"math/big"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Functions are the descriptions in a trace.
type Functions struct {
	Functions []Function `json:"functions"`
	Refused   []Refused  `json:"refused,omitempty"`
}

// Function describes the values of a function.
type Function struct {
	ID    uint32        `json:"id"`
	Entry []Description `json:"entry,omitempty"`
	Exit  []Description `json:"exit,omitempty"`
}

// Refused is an expression that is not recorded for a function.
type Refused struct {
	Function   string `json:"function"`
	Expression string `json:"expression"`
	Why        string `json:"why"`
}

// Kind says in which form a value is recorded.
type Kind string

const (
	Scalar Kind = "scalar" // 8 bytes
	Wide   Kind = "wide"   // 16 bytes
	Bytes  Kind = "bytes"  // any number of bytes
)

// Format says what the bytes of a value mean.
type Format string

const (
	Int      Format = "int"
	Uint     Format = "uint"
	Bool     Format = "bool"
	Float    Format = "float" // of Size bytes; 10 for the extended precision of x87
	Char     Format = "char"
	Pointer  Format = "pointer"
	Enum     Format = "enum"
	String   Format = "string"
	Duration Format = "duration"
)

// Description describes a value.
type Description struct {
	// Expression is the name of the value, as the user wrote it.
	Expression string `json:"expression"`
	Type       string `json:"type"` // in the language of the program
	Kind       Kind   `json:"kind"`
	Format     Format `json:"format"`
	// Size is the size of the type in bytes. Of a string, it is that of the array that contains it,
	// which a NUL can end; 0 for other strings.
	Size uint64 `json:"size,omitempty"`
	// Unit of a duration is the length of a tick in nanoseconds, as a fraction "num/den".
	Unit string `json:"unit,omitempty"`
	// Signed is whether the values of an enumeration or the ticks of a duration have a sign.
	Signed bool `json:"signed,omitempty"`
	// Float is whether the ticks of a duration are floating-point numbers.
	Float bool `json:"float,omitempty"`
	// Enumerators has the names of the values of an enumeration, by the value in decimal.
	Enumerators map[string]string `json:"enumerators,omitempty"`
}

// Flags of a recorded value.
const (
	Truncated  = 1  // the bytes are only the first ones
	Unreadable = 2  // its memory could not be read
	None       = 4  // it does not exist: a null pointer is on the way to it, or an optional is empty
	Forbidden  = 16 // it is unreadable because the process could not make the system call for it
)

// Recorded is a value in a trace.
type Recorded struct {
	Flags  uint16
	Length uint32 // of the full value in bytes, if the value is of kind [Bytes]
	Data   []byte // little-endian; of a scalar, 8 bytes
}

// FullLength returns the length of a string in bytes, or false if it is unknown: the recorder does not look for the
// end of a C string that it truncates.
func (r *Recorded) FullLength() (uint64, bool) {
	known := r.Flags&Truncated == 0 || r.Length < math.MaxUint32 && uint64(r.Length) > uint64(len(r.Data))
	return uint64(r.Length), known
}

// Words says what is special about the value, each word after a space.
func (r *Recorded) Words() (words string) {
	for _, f := range [...]struct {
		flag uint16
		word string
	}{{Truncated, " truncated"}, {Unreadable, " unreadable"}, {None, " none"}, {Forbidden, " forbidden"}} {
		if r.Flags&f.flag != 0 {
			words += f.word
		}
	}
	return words
}

// Of returns a recorded scalar.
func Of(scalar uint64) Recorded { return Recorded{Data: binary.LittleEndian.AppendUint64(nil, scalar)} }

// Text returns a value as text, without the name. The result is one line, and has no characters that are
// not printable. Values that are damaged or missing are in parentheses.
func (d *Description) Text(r Recorded) string {
	switch {
	case r.Flags&None != 0:
		return "(none)"
	case r.Flags&Unreadable != 0:
		return "(unreadable)"
	case d.Kind == Bytes:
		return d.quoted(r)
	}
	v, ok := d.number(r.Data)
	if !ok {
		return "(damaged)"
	}
	switch d.Format {
	case Bool:
		switch v.low {
		case 0:
			return "false"
		case 1:
			return "true"
		}
		return strconv.FormatUint(v.low, 10)
	case Char:
		if c := rune(v.low); v.low <= unicode.MaxRune && utf8.ValidRune(c) && (c < 0x80 || d.Size > 1) {
			return strconv.QuoteRuneToASCII(c)
		}
		return strconv.FormatUint(v.low, 10)
	case Pointer:
		return "0x" + strconv.FormatUint(v.low, 16)
	case Enum:
		if name, ok := d.Enumerators[v.text(d)]; ok {
			return printable(name)
		}
	case Duration:
		return d.duration(v)
	}
	return v.text(d)
}

// JSON returns a value as JSON: a number, a boolean, a string, or null if there is no value. Numbers that
// a double cannot represent, and those that are not finite, are strings.
func (d *Description) JSON(r Recorded) json.RawMessage {
	if r.Flags&(None|Unreadable) != 0 {
		return json.RawMessage("null")
	}
	text := d.Text(r)
	if d.Kind == Bytes {
		text = strings.ToValidUTF8(string(d.content(r)), "\uFFFD")
	} else {
		switch d.Format {
		case Bool:
			if text == "true" || text == "false" {
				return json.RawMessage(text)
			}
			fallthrough
		case Int, Uint, Float:
			if f, err := strconv.ParseFloat(text, 64); err == nil && !math.IsInf(f, 0) && !math.IsNaN(f) &&
				(math.Abs(f) <= 1<<53 || d.Format == Float) && d.Size <= 8 {
				return json.RawMessage(text)
			}
		}
	}
	b, err := json.Marshal(text)
	if err != nil { // a string can always be written
		return json.RawMessage("null")
	}
	return b
}

// content returns the bytes of a string.
func (d *Description) content(r Recorded) []byte {
	b := r.Data
	if d.Size > 0 {
		for i, c := range b {
			if c == 0 {
				return b[:i]
			}
		}
	}
	return b
}

// quoted returns a string in quotes, with its length if it was truncated.
func (d *Description) quoted(r Recorded) string {
	b := d.content(r)
	text := strconv.Quote(string(b))
	if r.Flags&Truncated == 0 || len(b) < len(r.Data) {
		return text
	}
	if n, ok := r.FullLength(); ok {
		return fmt.Sprintf("%s... (%d bytes)", text, n)
	}
	return text + "..."
}

// printable replaces what a name of a damaged trace should not have.
func printable(name string) string {
	for _, c := range name {
		if !unicode.IsPrint(c) {
			return strconv.Quote(name)
		}
	}
	return name
}

// number is a value of up to 16 bytes.
type number struct{ low, high uint64 }

// number reads the bytes of a value, of which those beyond the size of its type do not count.
func (d *Description) number(b []byte) (v number, ok bool) {
	if d.Kind == Wide {
		if len(b) != 16 {
			return v, false
		}
		return number{binary.LittleEndian.Uint64(b), binary.LittleEndian.Uint64(b[8:])}, true
	}
	if len(b) != 8 {
		return v, false
	}
	return d.sized(binary.LittleEndian.Uint64(b)), true
}

// sized returns a scalar without the bytes beyond the size of its type.
func (d *Description) sized(scalar uint64) number {
	if shift := 64 - 8*min(d.Size, 8); d.Size > 0 && shift > 0 {
		if scalar <<= shift; d.signed() {
			scalar = uint64(int64(scalar) >> shift)
		} else {
			scalar >>= shift
		}
	}
	return number{low: scalar}
}

func (d *Description) signed() bool { return d.Format == Int || d.Signed }

func (v number) text(d *Description) string {
	switch {
	case d.Format == Float || d.Format == Duration && d.Float:
		return v.float(d)
	case d.Kind == Wide:
		n := new(big.Int).SetUint64(v.high)
		if d.signed() {
			n.SetInt64(int64(v.high))
		}
		return n.Lsh(n, 64).Add(n, new(big.Int).SetUint64(v.low)).String()
	case d.signed():
		return strconv.FormatInt(int64(v.low), 10)
	}
	return strconv.FormatUint(v.low, 10)
}

func (v number) float(d *Description) string {
	switch {
	case d.Size == 4:
		return strconv.FormatFloat(float64(math.Float32frombits(uint32(v.low))), 'g', -1, 32)
	case d.Size == 8:
		return strconv.FormatFloat(math.Float64frombits(v.low), 'g', -1, 64)
	case d.Size == 10:
		return extended(v.low, uint16(v.high))
	}
	return fmt.Sprintf("0x%016x%016x", v.high, v.low)
}

// extended returns a number of the x87's format: 64 bits of significand, without a hidden one, and 16
// bits of sign and exponent.
func extended(significand uint64, exponent uint16) string {
	negative := exponent&0x8000 != 0
	switch exponent &= 0x7FFF; {
	case exponent == 0x7FFF && significand<<1 == 0:
		return strconv.FormatFloat(math.Inf(map[bool]int{false: 1, true: -1}[negative]), 'g', -1, 64)
	case exponent == 0x7FFF:
		return "NaN"
	}
	f := new(big.Float).SetPrec(64).SetUint64(significand)
	f.SetMantExp(f, max(int(exponent), 1)-16383-63)
	if negative {
		f.Neg(f)
	}
	return f.Text('g', 18)
}

// duration returns a number of ticks in s, ms, us or ns, or as a number of ticks if it is not a short
// decimal number in any of these.
func (d *Description) duration(v number) string {
	ticks, ok := new(big.Rat).SetString(v.text(d))
	num, den, found := strings.Cut(d.Unit, "/")
	if unit, valid := new(big.Rat).SetString(num + "/" + den); ok && found && valid && len(d.Unit) < 64 {
		ns := ticks.Mul(ticks, unit)
		for _, u := range []struct {
			name string
			ns   int64
		}{{"s", 1e9}, {"ms", 1e6}, {"us", 1e3}, {"ns", 1}} {
			in := new(big.Rat).Quo(ns, new(big.Rat).SetInt64(u.ns))
			if places, exact := in.FloatPrec(); exact && places <= 9 && (u.ns == 1 || new(big.Rat).Abs(in).Cmp(big.NewRat(1, 1)) >= 0) {
				return in.FloatString(places) + u.name
			}
		}
		if f, _ := ns.Float64(); d.Float && !math.IsInf(f, 0) {
			return strconv.FormatFloat(f/1e9, 'g', -1, 64) + "s"
		}
	}
	return v.text(d) + " ticks of " + printable(d.Unit) + "ns"
}
