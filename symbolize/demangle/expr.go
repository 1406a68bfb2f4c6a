package demangle

// precedence is the precedence of an expression, tightest first. It determines parentheses.
type precedence int

const (
	primary precedence = iota
	postfix
	unary
	cast
	memberAccess
	multiplicative
	additive
	shift
	spaceship
	relational
	equality
	bitAnd
	bitXor
	bitOr
	conjunction
	disjunction
	conditional
	assignment
	comma
	lowest
)

// operator is an operator that is written as a sign.
type operator struct {
	text    string
	binary  precedence // 0 if it is not binary
	prefix  bool
	postfix bool
	member  bool // only in expressions
}

// operators are the operators that are not conversions or literals.
var operators = map[string]operator{
	"nw": {text: "new"}, "na": {text: "new[]"}, "dl": {text: "delete"}, "da": {text: "delete[]"},
	"ps": {text: "+", prefix: true}, "ng": {text: "-", prefix: true}, "ad": {text: "&", prefix: true},
	"de": {text: "*", prefix: true}, "co": {text: "~", prefix: true}, "nt": {text: "!", prefix: true},
	"pp": {text: "++", postfix: true}, "mm": {text: "--", postfix: true},
	"cl": {text: "()"}, "ix": {text: "[]"},
	"ml": {text: "*", binary: multiplicative}, "dv": {text: "/", binary: multiplicative}, "rm": {text: "%", binary: multiplicative},
	"pl": {text: "+", binary: additive}, "mi": {text: "-", binary: additive},
	"ls": {text: "<<", binary: shift}, "rs": {text: ">>", binary: shift},
	"ss": {text: "<=>", binary: spaceship},
	"lt": {text: "<", binary: relational}, "gt": {text: ">", binary: relational},
	"le": {text: "<=", binary: relational}, "ge": {text: ">=", binary: relational},
	"eq": {text: "==", binary: equality}, "ne": {text: "!=", binary: equality},
	"an": {text: "&", binary: bitAnd}, "eo": {text: "^", binary: bitXor}, "or": {text: "|", binary: bitOr},
	"aa": {text: "&&", binary: conjunction}, "oo": {text: "||", binary: disjunction},
	"aS": {text: "=", binary: assignment}, "pL": {text: "+=", binary: assignment}, "mI": {text: "-=", binary: assignment},
	"mL": {text: "*=", binary: assignment}, "dV": {text: "/=", binary: assignment}, "rM": {text: "%=", binary: assignment},
	"aN": {text: "&=", binary: assignment}, "oR": {text: "|=", binary: assignment}, "eO": {text: "^=", binary: assignment},
	"lS": {text: "<<=", binary: assignment}, "rS": {text: ">>=", binary: assignment},
	"cm": {text: ",", binary: comma},
	"pm": {text: "->*", binary: memberAccess}, "pt": {text: "->", binary: postfix},
	"dt": {text: ".", binary: postfix, member: true}, "ds": {text: ".*", binary: memberAccess, member: true},
}

// enclosing are operators that are written with parentheses around a type or expression.
var enclosing = map[string]struct {
	text       string
	isType     bool
	precedence precedence
}{
	"st": {"sizeof ", true, unary}, "sz": {"sizeof ", false, unary}, "at": {"alignof ", true, unary}, "az": {"alignof ", false, unary},
	"nx": {"noexcept ", false, unary}, "ti": {"typeid ", true, postfix}, "te": {"typeid ", false, postfix},
}

var casts = map[string]string{
	"sc": "static_cast<", "dc": "dynamic_cast<", "rc": "reinterpret_cast<", "cc": "const_cast<",
}

// parenthesized writes parentheses around the output of read.
func (d *demangler) parenthesized(read func()) {
	d.text("(")
	d.plainGreater++
	read()
	d.plainGreater--
	d.text(")")
}

// expression reads <expression>. It adds parentheses if the expression binds less tightly than
// most. It returns the precedence.
func (d *demangler) expression(most precedence) precedence {
	d.enter()
	defer d.leave()
	start := len(d.out)
	p := d.bareExpression(most)
	if p <= most {
		return p
	}
	d.insert(start, "(")
	d.text(")")
	return primary
}

func (d *demangler) bareExpression(most precedence) precedence {
	if len(d.in) < 2 {
		d.fail()
	}
	code := d.in[:2]
	if op, ok := operators[code]; ok && (op.binary != 0 || op.prefix || op.postfix) {
		d.in = d.in[2:]
		return d.operation(op, most)
	}
	if e, ok := enclosing[code]; ok {
		d.in = d.in[2:]
		d.text(e.text)
		d.parenthesized(func() {
			if e.isType {
				d.typ()
			} else {
				d.expression(lowest)
			}
		})
		return e.precedence
	}
	if name, ok := casts[code]; ok {
		d.in = d.in[2:]
		d.text(name)
		greater := d.plainGreater
		d.plainGreater = 0
		d.typ()
		d.plainGreater = greater
		d.text(">")
		d.parenthesized(func() { d.expression(lowest) })
		return postfix
	}
	switch code {
	case "cl":
		d.in = d.in[2:]
		d.expression(lowest)
		d.parenthesized(d.expressions)
		return postfix
	case "ix":
		d.in = d.in[2:]
		d.expression(primary)
		d.text("[")
		d.expression(lowest)
		d.text("]")
		return postfix
	case "qu":
		d.in = d.in[2:]
		d.expression(conditional - 1)
		d.text(" ? ")
		d.expression(lowest)
		d.text(" : ")
		d.expression(assignment)
		return conditional
	case "cv":
		d.in = d.in[2:]
		d.bare = true
		d.parenthesized(func() { d.typ() })
		d.parenthesized(func() {
			if d.accept("_") {
				d.expressions()
			} else {
				d.expression(lowest)
			}
		})
		return cast
	case "tl", "il":
		d.in = d.in[2:]
		if code == "tl" {
			d.typ()
		}
		d.text("{")
		d.expressions()
		d.text("}")
		return primary
	case "nw", "na":
		d.in = d.in[2:]
		d.text("new")
		if code == "na" {
			d.text("[]")
		}
		if !d.accept("_") {
			d.parenthesized(func() { d.listTo("_", func() { d.expression(lowest) }) })
		}
		d.text(" ")
		d.typ()
		if d.accept("pi") {
			d.parenthesized(d.expressions)
		} else {
			d.expect("E")
		}
		return primary
	case "tw":
		d.in = d.in[2:]
		d.text("throw ")
		d.expression(lowest)
		return primary
	case "tr":
		d.in = d.in[2:]
		d.text("throw")
		return primary
	case "gs":
		d.in = d.in[2:]
		d.text("::")
		return d.bareExpression(lowest)
	case "sZ":
		d.in = d.in[2:]
		d.text("sizeof...")
		d.parenthesized(func() { d.expand(func() { d.packOperand() }) })
		return primary
	case "sp":
		d.in = d.in[2:]
		d.expand(func() { d.expression(lowest) })
		return primary
	case "fl", "fr", "fL", "fR":
		if code == "fL" && isDigit(d.peek(2)) {
			d.functionParam()
			return primary
		}
		d.in = d.in[2:]
		d.fold(code)
		return primary
	case "fp":
		d.functionParam()
		return primary
	case "rq", "rQ":
		d.in = d.in[2:]
		d.requires(code == "rQ")
		return primary
	}
	switch c := d.in[0]; {
	case c == 'L':
		d.literal()
	case c == 'T':
		_, p := d.templateParam()
		return p
	case c == 'u': // a builtin of the compiler
		d.in = d.in[1:]
		d.text(d.identifier())
		d.parenthesized(func() { d.list(func() { d.templateArg() }) })
	default:
		d.unresolvedName()
	}
	return primary
}

// operation reads the operands of an operator.
func (d *demangler) operation(op operator, most precedence) precedence {
	p := op.binary
	switch {
	case op.prefix:
		d.text(op.text)
		d.expression(unary - 1)
		return unary
	case op.postfix:
		if d.accept("_") { // before its operand
			d.text(op.text)
			d.expression(unary - 1)
			return unary
		}
		d.expression(postfix)
		d.text(op.text)
		return postfix
	case p == postfix || p == memberAccess:
		d.expression(p)
		d.text(op.text)
		d.expression(p - 1)
		return p
	}
	if p > most { // in parentheses
		d.plainGreater++
		defer func() { d.plainGreater-- }()
	}
	apart := d.plainGreater == 0 && (op.text == ">" || op.text == ">>")
	if apart {
		d.text("(")
		d.plainGreater++
	}
	left, right := p, p-1
	if p == assignment {
		left, right = disjunction-1, p
	}
	d.expression(left)
	if p != comma {
		d.text(" ")
	}
	d.text(op.text)
	d.text(" ")
	d.expression(right)
	if apart {
		d.plainGreater--
		d.text(")")
	}
	return p
}

// expressions reads expressions up to E.
func (d *demangler) expressions() { d.list(func() { d.expression(lowest) }) }

// packOperand reads the operand of sizeof....
func (d *demangler) packOperand() {
	if d.peek(0) == 'f' {
		d.functionParam()
	} else {
		d.templateParam()
	}
}

// fold reads a fold expression after its code: an operator, a pack and an optional second
// operand.
func (d *demangler) fold(code string) {
	op, ok := operators[d.in[:min(2, len(d.in))]]
	if !ok || op.binary == 0 {
		d.fail()
	}
	d.in = d.in[2:]
	pack := func() { d.parenthesized(func() { d.expand(func() { d.expression(lowest) }) }) }
	sign := " " + op.text + " "
	d.parenthesized(func() {
		switch code {
		case "fl":
			d.text("..." + sign)
			pack()
		case "fr":
			pack()
			d.text(sign + "...")
		case "fL":
			d.expression(cast)
			d.text(sign + "..." + sign)
			pack()
		case "fR":
			pack()
			d.text(sign + "..." + sign)
			d.expression(cast)
		}
	})
}

// functionParam reads a reference to a function parameter: fp, or fL and the number of
// enclosing functions.
func (d *demangler) functionParam() {
	if d.accept("fpT") {
		d.text("this")
		return
	}
	if d.accept("fL") {
		d.number()
		d.expect("p")
	} else {
		d.expect("fp")
	}
	for d.accept("r") || d.accept("V") || d.accept("K") {
	}
	d.text("fp")
	if isDigit(d.peek(0)) {
		d.text(d.number())
	}
	d.expect("_")
}

// requires reads a requires expression after rq or rQ.
func (d *demangler) requires(params bool) {
	d.text("requires")
	if params {
		d.text(" ")
		d.parenthesized(func() {
			d.listTo("_", func() { d.typ() })
		})
	}
	d.text(" {")
	for !d.accept("E") {
		switch {
		case d.accept("X"):
			d.requirement()
		case d.accept("T"):
			d.text(" typename ")
			d.typ()
		case d.accept("Q"):
			d.text(" requires ")
			d.expression(lowest)
		default:
			d.fail()
		}
		d.text(";")
	}
	d.text(" }")
}

// requirement reads an expression that must be valid, and its constraints.
func (d *demangler) requirement() {
	d.text(" ")
	start := len(d.out)
	d.expression(lowest)
	noexcept, constraint := d.accept("N"), d.accept("R")
	if !noexcept && !constraint {
		return
	}
	d.insert(start, "{")
	d.text("}")
	if noexcept {
		d.text(" noexcept")
	}
	if constraint {
		d.text(" -> ")
		d.name(false)
	}
}
