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

// Condition selects calls by arguments: those of the functions that Spec names for which each of its expressions
// compares as its test says.
type Condition struct {
	Spec
	Text  string // what is behind the colon
	tests []test
}

// test is what an expression is compared with.
type test struct {
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
	maxTests    = 4   // of a condition
)

// How the runtime compares numbers.
const (
	unsignedNumber = iota
	signedNumber
	floatingNumber
)

// ParseCondition reads the argument of --when: REGEXP: EXPR OP VALUE, and up to three more tests, each after "and".
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
	for more := true; more; {
		if len(c.tests) == maxTests {
			return nil, fmt.Errorf("%s: a condition has at most %d comparisons", c.Text, maxTests)
		}
		e, err := p.expression()
		if err != nil {
			return nil, err
		}
		var t test
		if t, more, err = p.test(); err != nil {
			return nil, fmt.Errorf("%s: %w", c.Text, err)
		}
		if t.text && e.Limit <= len(t.word) {
			e.Limit = len(t.word) + 1 // a longer text differs
		}
		if e.Limit > maxCompared {
			return nil, fmt.Errorf("a condition compares at most %d bytes of a text", maxCompared)
		}
		c.Expressions, c.tests = append(c.Expressions, e), append(c.tests, t)
	}
	return c, nil
}

// conjunction separates a test from the next one.
var conjunction = regexp.MustCompile(`^\s+and\s`)

// test reads a sign and what is behind it. It reports whether another test follows.
func (p *parser) test() (t test, more bool, err error) {
	for _, known := range comparisons {
		if p.take(known.sign) {
			t.op = known.op
			break
		}
	}
	if t.op == 0 {
		return t, false, p.unexpected("one of ==, !=, <, <=, >, >=, ^= (begins with), *= (contains)")
	}
	p.at += len(p.text[p.at:]) - len(strings.TrimLeft(p.text[p.at:], " \t"))
	rest := p.text[p.at:]
	end, next := len(rest), len(rest)
	quoted := rest != "" && (rest[0] == '\'' || rest[0] == '"')
	for i := 1; i < len(rest); i++ {
		if and := conjunction.FindString(rest[i:]); and != "" && (!quoted || i > 1 && rest[i-1] == rest[0]) {
			end, next, more = i, i+len(and), true
			break
		}
	}
	t.word = strings.TrimSpace(rest[:end])
	if n := len(t.word); quoted && n >= 2 && t.word[n-1] == t.word[0] {
		t.word, t.text = t.word[1:n-1], true
	}
	switch {
	case t.word == "" && !t.text:
		return t, false, p.unexpected("a number, true, false, null, the name of an enumerator or a text in quotes")
	case len(t.word) > maxWord:
		return t, false, fmt.Errorf("a condition compares at most %d bytes", maxWord)
	case t.text && t.op >= less && t.op <= atLeast:
		return t, false, errors.New("texts are compared by ==, !=, ^= (begins with) and *= (contains)")
	case !t.text && t.op >= begins:
		return t, false, errors.New("only texts, in quotes, are compared by ^= and *=")
	}
	p.at += next
	return t, more, nil
}

// Compile appends the form in which the recorder receives the condition for a function, the number id of its object.
func (c *Condition) Compile(b []byte, fn *Function, id uint32) ([]byte, error) {
	values, refused := fn.Entry(c.Expressions)
	if len(refused) > 0 {
		return nil, errors.New(refused[0].Why)
	}
	programs := FunctionPrograms{ID: id}
	for i, t := range c.tests {
		head, err := t.compile(&values[i].Description)
		if err != nil {
			return nil, err
		}
		head[4] = byte(len(c.tests) - 1 - i) // so many follow
		b = append(b, head...)
		programs.Entry = append(programs.Entry, values[i].Program)
	}
	return programs.Append(b), nil
}

// compile returns a test of a value in the form that the recorder receives.
func (t *test) compile(d *value.Description) ([]byte, error) {
	head := make([]byte, 16)
	head[0] = byte(t.op)
	switch isText := d.Kind == value.Bytes; {
	case d.Kind == value.Wide:
		return nil, errors.New("values of 16 bytes cannot be compared")
	case isText != t.text:
		return nil, fmt.Errorf("%s has the type %s, which cannot be compared with %s", d.Expression, d.Type, t.word)
	case isText:
		head[3] = byte(len(t.word))
		return append(head, t.word...), nil
	}
	n, kind, err := operandOf(d, t.word)
	head[1], head[2] = kind, byte(d.Size)
	binary.LittleEndian.PutUint64(head[8:], n)
	return head, err
}

// operandOf returns what a scalar is compared with, in 64 bits, and the kind of the numbers.
func operandOf(d *value.Description, word string) (n uint64, kind byte, err error) {
	wrong := func() (uint64, byte, error) {
		return 0, 0, fmt.Errorf("%s has the type %s, which cannot be compared with %s", d.Expression, d.Type, word)
	}
	if d.Size != 1 && d.Size != 2 && d.Size != 4 && d.Size != 8 {
		return wrong()
	}
	signed := d.Format == value.Int || (d.Format == value.Enum || d.Format == value.Duration) && d.Signed
	switch d.Format {
	case value.Bool:
		if word == "true" || word == "false" {
			return map[string]uint64{"true": 1}[word], unsignedNumber, nil
		}
	case value.Pointer:
		if word == "null" || word == "nullptr" || word == "NULL" {
			return 0, unsignedNumber, nil
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
		f, err := strconv.ParseFloat(word, int(8*d.Size))
		if err != nil || math.IsNaN(f) {
			return wrong()
		}
		return floatBits(d, f), floatingNumber, nil
	}
	bits := int(8 * d.Size)
	if signed {
		v, err := strconv.ParseInt(word, 0, bits)
		if err != nil {
			return wrong()
		}
		return uint64(v), signedNumber, nil
	}
	if n, err = strconv.ParseUint(word, 0, bits); err != nil {
		return wrong()
	}
	return n, unsignedNumber, nil
}

// floatBits returns a number as a value of its type has it.
func floatBits(d *value.Description, f float64) uint64 {
	if d.Size == 4 {
		return uint64(math.Float32bits(float32(f)))
	}
	return math.Float64bits(f)
}

var bareNumber = regexp.MustCompile(`^-?[0-9]+$`)

// ticksOf converts a duration as "5ms", or a number of ticks.
func ticksOf(d *value.Description, word string) (uint64, byte, error) {
	if bareNumber.MatchString(word) {
		v, err := strconv.ParseInt(word, 10, int(8*d.Size))
		if d.Float {
			return floatBits(d, float64(v)), floatingNumber, err
		}
		return uint64(v), signedNumber, err
	}
	t, err := time.ParseDuration(word)
	unit, ok := new(big.Rat).SetString(d.Unit)
	if err != nil || !ok || unit.Sign() <= 0 {
		return 0, 0, fmt.Errorf("%s has the type %s, which cannot be compared with %s: write a duration, as in 5ms", d.Expression, d.Type, word)
	}
	n := new(big.Rat).Quo(new(big.Rat).SetInt64(int64(t)), unit)
	if d.Float {
		f, _ := n.Float64()
		return floatBits(d, f), floatingNumber, nil
	}
	if !n.IsInt() || !n.Num().IsInt64() || d.Size == 4 && n.Num().Int64() > math.MaxInt32 {
		return 0, 0, fmt.Errorf("%s is no whole number of ticks of %s", word, d.Type)
	}
	return uint64(n.Num().Int64()), signedNumber, nil
}
