package args

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/big"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/xray-tools/xray/recorder/args/value"
)

// Condition selects calls by an argument: those of the functions that Spec names for which its only expression
// compares as it should.
type Condition struct {
	Spec
	Text string // what is behind the colon
	op   comparison
	word string // number, name or text to compare with
	text bool   // word was in quotes
}

// comparison is how a value is compared. The runtime has the same numbers.
type comparison byte

const (
	equal comparison = iota + 1
	unequal
	less
	atMost
	more
	atLeast
	begins
	contains
)

// comparisons by their signs. Longer ones come first.
var comparisons = []struct {
	sign string
	op   comparison
}{{"==", equal}, {"!=", unequal}, {"<=", atMost}, {">=", atLeast}, {"^=", begins}, {"*=", contains}, {"<", less}, {">", more}}

const (
	maxWord     = 64  // bytes of a text to compare with
	maxCompared = 192 // bytes of a text that are compared
)

// ParseCondition reads the argument of --when: REGEXP: EXPR OP VALUE.
func ParseCondition(text string) (*Condition, error) {
	end := PatternEnd(text)
	if end == len(text) {
		return nil, errors.New("no condition: write one, as in '^handle: req->tenant == 17'")
	}
	spec, err := Parse(text[:end])
	if err != nil {
		return nil, err
	}
	c := &Condition{Spec: Spec{Pattern: spec.Pattern, Function: spec.Function}, Text: strings.TrimSpace(text[end+1:])}
	p := parser{text: text, at: end + 1}
	e, err := p.expression()
	if err != nil {
		return nil, err
	}
	c.Expressions = []*Expression{e}
	for _, known := range comparisons {
		if p.take(known.sign) {
			c.op = known.op
			break
		}
	}
	if c.op == 0 {
		return nil, p.unexpected("one of ==, !=, <, <=, >, >=, ^= (begins with), *= (contains)")
	}
	c.word = strings.TrimSpace(text[p.at:])
	if n := len(c.word); n >= 2 && (c.word[0] == '\'' || c.word[0] == '"') && c.word[n-1] == c.word[0] {
		c.word, c.text = c.word[1:n-1], true
	}
	switch {
	case c.word == "" && !c.text:
		return nil, p.unexpected("a number, true, false, null, the name of an enumerator or a text in quotes")
	case len(c.word) > maxWord:
		return nil, fmt.Errorf("a condition compares at most %d bytes", maxWord)
	case c.text && c.op >= less && c.op <= atLeast:
		return nil, fmt.Errorf("%s: texts are compared by ==, !=, ^= (begins with) and *= (contains)", c.Text)
	case !c.text && c.op >= begins:
		return nil, fmt.Errorf("%s: only texts, in quotes, are compared by ^= and *=", c.Text)
	}
	if c.text && e.Limit <= len(c.word) {
		e.Limit = len(c.word) + 1 // a longer text differs
	}
	if e.Limit > maxCompared {
		return nil, fmt.Errorf("a condition compares at most %d bytes of a text", maxCompared)
	}
	return c, nil
}

// Compile appends the form in which the recorder receives the condition for a function, the number id of its object.
func (c *Condition) Compile(b []byte, fn *Function, id uint32) ([]byte, error) {
	values, refused := fn.Entry(c.Expressions)
	if len(refused) > 0 {
		return nil, errors.New(refused[0].Why)
	}
	v := values[0]
	d := &v.Description
	head := make([]byte, 16)
	head[0] = byte(c.op)
	switch isText := d.Kind == value.Bytes; {
	case d.Kind == value.Wide:
		return nil, errors.New("values of 16 bytes cannot be compared")
	case isText != c.text:
		return nil, fmt.Errorf("%s has the type %s, which cannot be compared with %s", d.Expression, d.Type, c.word)
	case isText:
		head[3] = byte(len(c.word))
		head = append(head, c.word...)
	default:
		n, signed, err := operandOf(d, c.word)
		if err != nil {
			return nil, err
		}
		if signed {
			head[1] = 1
		}
		head[2] = byte(d.Size)
		binary.LittleEndian.PutUint64(head[8:], n)
	}
	return (&FunctionPrograms{ID: id, Entry: []Program{v.Program}}).Append(append(b, head...)), nil
}

// operandOf returns what a scalar is compared with, in 64 bits, and whether it has a sign.
func operandOf(d *value.Description, word string) (n uint64, signed bool, err error) {
	wrong := func() (uint64, bool, error) {
		return 0, false, fmt.Errorf("%s has the type %s, which cannot be compared with %s", d.Expression, d.Type, word)
	}
	if d.Size != 1 && d.Size != 2 && d.Size != 4 && d.Size != 8 {
		return wrong()
	}
	signed = d.Format == value.Int || (d.Format == value.Enum || d.Format == value.Duration) && d.Signed
	switch d.Format {
	case value.Bool:
		if word == "true" || word == "false" {
			return map[string]uint64{"true": 1}[word], false, nil
		}
	case value.Pointer:
		if word == "null" || word == "nullptr" || word == "NULL" {
			return 0, false, nil
		}
	case value.Enum:
		for text, name := range d.Enumerators {
			if name == word || strings.HasSuffix(name, "::"+word) {
				word = text
				break
			}
		}
	case value.Duration:
		return ticksOf(d, word)
	case value.Float:
		return 0, false, errors.New("floating-point numbers cannot be compared")
	}
	bits := int(8 * d.Size)
	if signed {
		v, err := strconv.ParseInt(word, 0, bits)
		if err != nil {
			return wrong()
		}
		return uint64(v), true, nil
	}
	if n, err = strconv.ParseUint(word, 0, bits); err != nil {
		return wrong()
	}
	return n, false, nil
}

var bareNumber = regexp.MustCompile(`^-?[0-9]+$`)

// ticksOf converts a duration as "5ms", or a number of ticks.
func ticksOf(d *value.Description, word string) (uint64, bool, error) {
	if d.Float {
		return 0, false, errors.New("durations of floating-point numbers cannot be compared")
	}
	if bareNumber.MatchString(word) {
		v, err := strconv.ParseInt(word, 10, int(8*d.Size))
		return uint64(v), true, err
	}
	t, err := time.ParseDuration(word)
	unit, ok := new(big.Rat).SetString(d.Unit)
	if err != nil || !ok || unit.Sign() <= 0 {
		return 0, false, fmt.Errorf("%s has the type %s, which cannot be compared with %s: write a duration, as in 5ms", d.Expression, d.Type, word)
	}
	n := new(big.Rat).Quo(new(big.Rat).SetInt64(int64(t)), unit)
	if !n.IsInt() || !n.Num().IsInt64() || d.Size == 4 && n.Num().Int64() > math.MaxInt32 {
		return 0, false, fmt.Errorf("%s is no whole number of ticks of %s", word, d.Type)
	}
	return uint64(n.Num().Int64()), true, nil
}
