package args

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"sync/atomic"
)

// Spec is what --args or --results asks for: values of the functions that a regular expression matches.
type Spec struct {
	Pattern string // as the user wrote it
	// Function matches names of functions as xray shows them.
	Function *regexp.Regexp
	// Expressions are empty if all parameters are asked for, or the result.
	Expressions []*Expression
	// Used is set by who has found a function that matches.
	Used atomic.Bool
}

// Expression is a path from a parameter or the result to a value, as "req->key.size()".
type Expression struct {
	// Text is the expression as the user wrote it, without a limit.
	Text string
	// Limit is the most bytes of a string that are recorded.
	Limit int
	root  string // name of the parameter, or "result"
	ops   []op   // in the order in which they apply
}

// op is a step of a path.
type op struct {
	kind  opKind
	name  string // of a member
	arrow bool   // by ->
	index int64
	at    int // offset in the text, for messages
}

type opKind uint8

const (
	opMember opKind = iota
	opCall          // of a function without arguments, as size()
	opIndex
	opDeref
	opChars // a cast to char *
)

const (
	// DefaultLimit is the limit of strings without one of their own, in bytes.
	DefaultLimit = 32
	// MaxLimit is the largest limit of a string, in bytes.
	MaxLimit = 4096
	// MaxValues is the most values of a function at its entry, and at its exit.
	MaxValues = 16

	maxText  = 1 << 12 // bytes of an expression
	maxDepth = 32      // operators of an expression
)

// Parse reads the argument of --args or --results: REGEXP[: EXPR, ...]. The first colon that is neither
// part of "::" nor in parentheses or brackets ends the regular expression.
func Parse(text string) (*Spec, error) {
	end := PatternEnd(text)
	s := &Spec{Pattern: strings.TrimSpace(text[:end])}
	if s.Pattern == "" {
		return nil, errors.New("no function: write a regular expression that matches its name, as in '^handle: req->id'")
	}
	var err error
	if s.Function, err = regexp.Compile(s.Pattern); err != nil {
		return nil, err
	}
	if end == len(text) {
		return s, nil
	}
	for at := end + 1; ; {
		p := parser{text: text, at: at}
		e, err := p.expression()
		if err == nil && p.at < len(text) && text[p.at] != ',' {
			err = p.unexpected("a comma or the end")
		}
		if err != nil {
			return nil, err
		}
		s.Expressions = append(s.Expressions, e)
		if len(s.Expressions) > MaxValues {
			return nil, fmt.Errorf("more than %d expressions for a function", MaxValues)
		}
		if p.at >= len(text) {
			return s, nil
		}
		at = p.at + 1
	}
}

// PatternEnd returns the offset of the colon behind the regular expression, or the length of the text.
func PatternEnd(text string) int {
	depth, class := 0, false
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case c == '\\':
			i++
		case class:
			switch {
			case strings.HasPrefix(text[i:], "[:"): // [[:alpha:]]
				if end := strings.Index(text[i:], ":]"); end > 0 {
					i += end + 1
				}
			case c == ']':
				class = false
			}
		case c == '[':
			class = true
			if strings.HasPrefix(text[i:], "[]") || strings.HasPrefix(text[i:], "[^]") {
				i += strings.IndexByte(text[i:], ']')
			}
		case c == '(':
			depth++
		case c == ')':
			depth--
		case c == ':' && strings.HasPrefix(text[i:], "::"):
			i++
		case c == ':' && depth <= 0:
			return i
		}
	}
	return len(text)
}

// parseExpression reads a single expression.
func parseExpression(text string) (*Expression, error) {
	p := parser{text: text}
	e, err := p.expression()
	if err == nil && p.at < len(text) {
		err = p.unexpected("the end")
	}
	if err != nil {
		return nil, err
	}
	return e, nil
}

type parser struct {
	text string
	at   int // offset of the next byte
	ops  int
}

func (p *parser) blanks() {
	for p.at < len(p.text) && (p.text[p.at] == ' ' || p.text[p.at] == '\t') {
		p.at++
	}
}

// take skips a token if it is next.
func (p *parser) take(token string) bool {
	p.blanks()
	if !strings.HasPrefix(p.text[p.at:], token) {
		return false
	}
	p.at += len(token)
	return true
}

// unexpected says what should be here.
func (p *parser) unexpected(want string) error {
	p.blanks()
	got := "the end"
	if rest := p.text[p.at:]; rest != "" {
		got = strconv.Quote(rest[:min(len(rest), 12)])
	}
	return fmt.Errorf("position %d of %q: expected %s instead of %s", p.at+1, p.text, want, got)
}

func (p *parser) expression() (*Expression, error) {
	p.blanks()
	start := p.at
	e := &Expression{Limit: DefaultLimit}
	if err := p.unary(e); err != nil {
		return nil, err
	}
	e.Text = strings.TrimSpace(p.text[start:p.at])
	if len(e.Text) > maxText {
		return nil, fmt.Errorf("an expression has more than %d bytes", maxText)
	}
	if p.take(":") {
		n, err := p.number("a number of bytes")
		if err == nil && (n < 1 || n > MaxLimit) {
			err = fmt.Errorf("position %d of %q: a string can have 1 to %d bytes", p.at, p.text, MaxLimit)
		}
		if err != nil {
			return nil, err
		}
		e.Limit = int(n)
	}
	p.blanks()
	return e, nil
}

// charCast is the only cast. It makes a string of what a pointer to anything else points to.
var charCast = regexp.MustCompile(`^\(\s*(?:const\s+)?char\s*\*\s*\)`)

// unary reads "*" or a cast, and what follows. The operators behind a name bind stronger, as in C.
func (p *parser) unary(e *Expression) error {
	p.blanks()
	at, kind := p.at, opDeref
	if cast := charCast.FindString(p.text[at:]); cast != "" {
		p.at += len(cast)
		kind = opChars
	} else if !p.take("*") {
		return p.postfix(e)
	}
	if p.ops++; p.ops > maxDepth {
		return p.deep()
	}
	if err := p.unary(e); err != nil {
		return err
	}
	e.ops = append(e.ops, op{kind: kind, at: at})
	return nil
}

func (p *parser) deep() error {
	return fmt.Errorf("position %d of %q: more than %d operators in an expression", p.at+1, p.text, maxDepth)
}

func (p *parser) postfix(e *Expression) error {
	if p.take("(") {
		if p.ops++; p.ops > maxDepth {
			return p.deep()
		}
		if err := p.unary(e); err != nil {
			return err
		}
		if !p.take(")") {
			return p.unexpected(`")"`)
		}
	} else if e.root = p.name(); e.root == "" {
		return p.unexpected("the name of a parameter")
	}
	for {
		if p.ops++; p.ops > maxDepth {
			return p.deep()
		}
		p.blanks()
		o := op{at: p.at}
		switch {
		case p.take("->"):
			o.arrow = true
			fallthrough
		case o.arrow, p.take("."):
			p.blanks()
			if o.name = p.member(); o.name == "" {
				return p.unexpected("the name of a member")
			}
			if p.take("(") {
				o.kind = opCall
				if !p.take(")") {
					return p.unexpected(`")": only functions without arguments are known, as size()`)
				}
			}
		case p.take("["):
			o.kind = opIndex
			n, err := p.number("a number")
			if err != nil {
				return err
			}
			if o.index = n; !p.take("]") {
				return p.unexpected(`"]"`)
			}
		default:
			return nil
		}
		e.ops = append(e.ops, o)
	}
}

func isNameByte(c byte, first bool) bool {
	return c == '_' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= 0x80 || !first && (c >= '0' && c <= '9' || c == '$')
}

// name reads an identifier; "" if there is none.
func (p *parser) name() string {
	p.blanks()
	start := p.at
	for p.at < len(p.text) && isNameByte(p.text[p.at], p.at == start) {
		p.at++
	}
	return p.text[start:p.at]
}

// member reads an identifier, or the number of a member of a tuple of Rust.
func (p *parser) member() string {
	if name := p.name(); name != "" {
		return name
	}
	start := p.at
	for p.at < len(p.text) && p.text[p.at] >= '0' && p.text[p.at] <= '9' {
		p.at++
	}
	return p.text[start:p.at]
}

// number reads a decimal number that fits into 31 bits.
func (p *parser) number(want string) (int64, error) {
	p.blanks()
	start := p.at
	for p.at < len(p.text) && p.text[p.at] >= '0' && p.text[p.at] <= '9' {
		p.at++
	}
	n, err := strconv.ParseUint(p.text[start:p.at], 10, 31)
	if err != nil {
		p.at = start
		return 0, p.unexpected(want)
	}
	return int64(n), nil
}
