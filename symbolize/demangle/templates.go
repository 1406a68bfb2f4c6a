package demangle

import "strconv"

// lambdaName reads the name of a lambda after Ul.
func (d *demangler) lambdaName() {
	start := len(d.out)
	id, lambda, declared := d.scopeID, d.lambda, d.declared
	d.scopes++
	d.scopeID, d.lambda, d.declared = d.scopes, true, nil
	d.templateParamDecls()
	head := string(d.out[start:])
	d.out = d.out[:start]
	d.text("(")
	if d.accept("v") {
		d.expect("E")
	} else {
		d.list(func() { d.typ() })
	}
	d.text(")")
	d.scopeID, d.lambda, d.declared = id, lambda, declared
	d.insert(start, "'lambda"+d.ordinal()+"'"+head)
}

// templateParamDecls reads the template parameters of a lambda, and generates names for them.
func (d *demangler) templateParamDecls() {
	types, values := 0, 0
	declare := func(name string, n *int) {
		if *n > 0 {
			name += strconv.Itoa(*n - 1)
		}
		*n++
		d.declared = append(d.declared, name)
		d.text(name)
	}
	for first := true; ; first = false {
		open := ", "
		if first {
			open = "<"
		}
		switch {
		case d.accept("Ty"):
			d.text(open + "typename ")
			declare("$T", &types)
		case d.accept("Tn"):
			d.text(open)
			d.typ()
			d.text(" ")
			declare("$N", &values)
		default:
			if !first {
				d.text(">")
			}
			return
		}
	}
}

// templateArgs reads <template-args>. Function parameters refer to the template arguments of
// the function itself.
func (d *demangler) templateArgs(outer bool) {
	d.expect("I")
	d.text("<")
	greater := d.plainGreater
	d.plainGreater = 0
	if outer {
		d.params = d.params[:d.scope]
	}
	d.list(func() {
		start := len(d.out)
		d.skipParamDecl()
		if d.accept("J") {
			p := param{first: len(d.arguments), pack: true}
			if !outer {
				d.list(func() { d.templateArg() })
				return
			}
			var kept []text
			d.list(func() {
				from := len(d.out)
				s, precedence := d.templateArg()
				t := d.keep(from, s)
				t.precedence = precedence
				kept = append(kept, t)
			})
			p.first, p.n = len(d.arguments), len(kept)
			d.arguments = append(d.arguments, kept...)
			d.params = append(d.params, p)
			return
		}
		s, precedence := d.templateArg()
		if outer {
			t := d.keep(start, s)
			t.precedence = precedence
			d.params = append(d.params, param{first: len(d.arguments), n: 1})
			d.arguments = append(d.arguments, t)
		}
	})
	d.plainGreater = greater
	d.text(">")
}

// skipParamDecl skips the kind of a template parameter, which is present if the argument does
// not determine it.
func (d *demangler) skipParamDecl() {
	start := len(d.out)
	d.accept("Tp")
	switch {
	case d.accept("Ty"):
	case d.accept("Tn"):
		d.typ()
	case d.accept("Tk"):
		d.name(false)
	}
	d.out = d.out[:start]
}

// templateArg reads <template-arg> except packs.
func (d *demangler) templateArg() (shape, precedence) {
	start := len(d.out)
	p := primary
	switch {
	case d.peek(0) == 'L':
		d.literal()
	case d.accept("X"):
		p = d.expression(lowest)
		d.expect("E")
	default:
		return d.typ(), primary
	}
	return shape{mid: len(d.out) - start}, p
}
