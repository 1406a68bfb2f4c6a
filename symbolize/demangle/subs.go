package demangle

// keep stores the output from start on.
func (d *demangler) keep(start int, s shape) text {
	t := text{start: len(d.store), shape: s}
	d.store = append(d.store, d.out[start:]...)
	t.end = len(d.store)
	if len(d.store) > 16*maxDemangled {
		d.fail()
	}
	return t
}

// recall writes stored output.
func (d *demangler) recall(t text) {
	if len(d.out)+t.end-t.start > maxDemangled {
		d.fail()
	}
	d.out = append(d.out, d.store[t.start:t.end]...)
}

// record adds the output since begin to the candidates for substitutions.
func (d *demangler) record(begin state, s shape, from source) *text {
	if d.replay > 0 {
		return new(text)
	}
	t := d.keep(begin.start, s)
	t.depends, t.packed = d.uses != begin.uses, d.packs != begin.packs
	t.scopeID, t.source = d.scopeID, from
	d.subs = append(d.subs, t)
	return &d.subs[len(d.subs)-1]
}

// templateParam reads T_, T0_ and so on, and writes the template argument.
func (d *demangler) templateParam() (shape, precedence) {
	d.expect("T")
	start := len(d.out)
	i := d.sequence(10)
	plain := shape{}
	d.uses++
	switch {
	case i < 0:
		d.fail()
	case d.lambda && i < len(d.declared):
		d.text(d.declared[i])
	case d.lambda:
		d.text("auto")
	case d.scope+i >= len(d.params):
		d.fail() // refers to a later argument
	default:
		p := d.params[d.scope+i]
		if !p.pack {
			t := d.arguments[p.first]
			d.recall(t)
			return t.shape, t.precedence
		}
		if d.element < 0 {
			d.fail()
		}
		d.packs++
		if d.size < 0 {
			d.size = p.n
		}
		if d.element < p.n {
			t := d.arguments[p.first+d.element]
			d.recall(t)
			return t.shape, t.precedence
		}
	}
	plain.mid = len(d.out) - start
	return plain, primary
}

// abbreviations are the abbreviations of the standard library. Constructors have the name of
// base.
var abbreviations = map[byte]struct{ name, base, arguments string }{
	'a': {"allocator", "allocator", ""},
	'b': {"basic_string", "basic_string", ""},
	's': {"string", "basic_string", "<char, std::char_traits<char>, std::allocator<char>>"},
	'i': {"istream", "basic_istream", "<char, std::char_traits<char>>"},
	'o': {"ostream", "basic_ostream", "<char, std::char_traits<char>>"},
	'd': {"iostream", "basic_iostream", "<char, std::char_traits<char>>"},
}

// substitution reads S_, S0_ and so on, and the abbreviations of the standard library except
// St. prefix is true if a constructor can follow. The results describe the text that it wrote.
func (d *demangler) substitution(prefix bool) text {
	if a, ok := abbreviations[d.peek(1)]; ok {
		d.in = d.in[2:]
		name := a.name
		switch c := d.peek(0); {
		case c == 'B':
			d.fail()
		case prefix && (c == 'C' || c == 'D'):
			name = a.base + a.arguments
		}
		d.text("std::" + name)
		return text{shape: shape{mid: len("std::") + len(name)}, base: len("std::"), last: len("std::") + len(a.base)}
	}
	d.expect("S")
	i := d.sequence(36)
	if i < 0 || i >= len(d.subs) {
		d.fail()
	}
	t := d.subs[i]
	if t.depends && (t.packed || t.scopeID != d.scopeID) {
		return d.again(t.source)
	}
	if t.depends {
		d.uses++
	}
	d.recall(t)
	return t
}

// again reads the source of a substitution again.
func (d *demangler) again(from source) text {
	d.enter()
	defer d.leave()
	rest := d.in
	d.in = d.input[from.at:]
	d.replay++
	var t text
	if from.stop > 0 {
		start := len(d.out)
		_, t.base, t.last = d.components(false, from)
		t.shape.mid = len(d.out) - start
	} else {
		d.bare = from.bare
		t.shape = d.typ()
	}
	d.replay--
	d.in = rest
	return t
}
