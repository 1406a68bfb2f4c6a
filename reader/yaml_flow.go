package reader

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
	"unicode"
	"unicode/utf8"
)

// flowParser reads flow mappings such as { a: 1, b: 'x', c: [ 1, 2 ] }.
type flowParser struct {
	b    []byte
	text []byte // of the scalar that was read last
}

func (p *flowParser) record(b []byte, r *yamlRecord) error {
	p.b = b
	if !p.eat('{') {
		return &unexpectedYAML{"record is not a flow mapping"}
	}
	var seen uint
	for !p.eat('}') {
		if err := p.scalar(true); err != nil {
			return err
		}
		field := recordField(string(p.text))
		if field < 0 {
			return fmt.Errorf("record: unknown key %q", p.text)
		}
		if seen&(1<<field) != 0 {
			return fmt.Errorf("record: duplicate key %q", p.text)
		}
		seen |= 1 << field
		if !p.eat(':') {
			return &unexpectedYAML{"key without a value"}
		}
		if err := p.value(field, r); err != nil {
			return err
		}
		if !p.eat(',') && (len(p.b) == 0 || p.b[0] != '}') {
			return &unexpectedYAML{"text after a value"}
		}
	}
	if p.skip(); len(p.b) > 0 && p.b[0] != '#' {
		return &unexpectedYAML{"text after a record"}
	}
	const required = 1<<fieldType | 1<<fieldCPU | 1<<fieldKind | 1<<fieldTSC
	if seen&required != required {
		return errors.New("record: type, cpu, kind or tsc is missing")
	}
	return nil
}

const (
	fieldType = iota
	fieldFunc
	fieldFunction
	fieldArgs
	fieldCPU
	fieldThread
	fieldProcess
	fieldKind
	fieldTSC
	fieldData
)

func recordField(key string) int {
	switch key {
	case "type":
		return fieldType
	case "func-id":
		return fieldFunc
	case "function":
		return fieldFunction
	case "args":
		return fieldArgs
	case "cpu":
		return fieldCPU
	case "thread":
		return fieldThread
	case "process":
		return fieldProcess
	case "kind":
		return fieldKind
	case "tsc":
		return fieldTSC
	case "data":
		return fieldData
	}
	return -1
}

func (p *flowParser) value(field int, r *yamlRecord) error {
	if field == fieldArgs {
		return p.list(r)
	}
	if err := p.scalar(false); err != nil {
		return err
	}
	return r.set(field, p.text)
}

// set stores a scalar.
func (r *yamlRecord) set(field int, text []byte) (err error) {
	var n int64
	var u uint64
	switch field {
	case fieldType:
		u, err = strconv.ParseUint(string(text), 0, 16)
		r.typ = uint16(u)
	case fieldFunc:
		n, err = strconv.ParseInt(string(text), 0, 32)
		r.fn = int32(n)
	case fieldCPU:
		u, err = strconv.ParseUint(string(text), 0, 16)
		r.cpu = uint16(u)
	case fieldThread:
		n, err = strconv.ParseInt(string(text), 0, 64)
		r.thread = int32(n)
	case fieldProcess:
		n, err = strconv.ParseInt(string(text), 0, 64)
		r.process = int32(n)
	case fieldTSC:
		r.tsc, err = strconv.ParseUint(string(text), 0, 64)
	case fieldKind:
		for k, name := range kindNames {
			if name == string(text) {
				r.kind = Kind(k)
				return nil
			}
		}
		return fmt.Errorf("record: unknown kind %q", text)
	case fieldFunction:
		r.name = append(r.name, text...)
	case fieldData:
		r.data = bytes.Clone(text)
	}
	if err != nil {
		return fmt.Errorf("record: %w", err)
	}
	return nil
}

func (p *flowParser) list(r *yamlRecord) error {
	if !p.eat('[') {
		return &unexpectedYAML{"args is not a flow sequence"}
	}
	for !p.eat(']') {
		if err := p.scalar(false); err != nil {
			return err
		}
		if err := r.addArg(p.text); err != nil {
			return err
		}
		if !p.eat(',') && (len(p.b) == 0 || p.b[0] != ']') {
			return &unexpectedYAML{"text after an argument"}
		}
	}
	return nil
}

func (r *yamlRecord) addArg(text []byte) error {
	u, err := strconv.ParseUint(string(text), 0, 64)
	if err != nil {
		return fmt.Errorf("record: args: %w", err)
	}
	if len(r.args) == maxArgs {
		return fmt.Errorf("record: more than %d args", maxArgs)
	}
	r.args = append(r.args, u)
	return nil
}

func (p *flowParser) skip() {
	for len(p.b) > 0 && (p.b[0] == ' ' || p.b[0] == '\t') {
		p.b = p.b[1:]
	}
}

func (p *flowParser) eat(c byte) bool {
	p.skip()
	if len(p.b) == 0 || p.b[0] != c {
		return false
	}
	p.b = p.b[1:]
	return true
}

// scalar reads a plain or quoted scalar into p.text.
func (p *flowParser) scalar(key bool) error {
	p.skip()
	if len(p.b) == 0 {
		return &unexpectedYAML{"end of line inside a record"}
	}
	switch p.b[0] {
	case '\'':
		return p.single()
	case '"':
		return p.double()
	}
	i := 0
	for i < len(p.b) {
		c := p.b[i]
		if c == ',' || c == '{' || c == '}' || c == '[' || c == ']' ||
			c == ':' && (key || i+1 == len(p.b) || p.b[i+1] == ' ') ||
			c == '#' && i > 0 && p.b[i-1] == ' ' {
			break
		}
		i++
	}
	p.text = append(p.text[:0], bytes.TrimRight(p.b[:i], " \t")...)
	p.b = p.b[i:]
	if len(p.text) == 0 {
		return &unexpectedYAML{"empty value"}
	}
	return nil
}

func (p *flowParser) single() error {
	p.text = p.text[:0]
	for i := 1; i < len(p.b); i++ {
		c := p.b[i]
		if c == '\'' {
			if i+1 < len(p.b) && p.b[i+1] == '\'' {
				i++
			} else {
				p.b = p.b[i+1:]
				return nil
			}
		}
		p.text = append(p.text, c)
	}
	return &unexpectedYAML{"quoted text continues on the next line"}
}

// double reads a double-quoted scalar. Payloads are bytes: \xNN is the byte NN here, as the
// writer of payloads needs it, not the character U+00NN.
func (p *flowParser) double() error {
	p.text = p.text[:0]
	for i := 1; i < len(p.b); i++ {
		c := p.b[i]
		if c == '"' {
			p.b = p.b[i+1:]
			return nil
		}
		if c != '\\' {
			p.text = append(p.text, c)
			continue
		}
		i++
		if i == len(p.b) {
			break
		}
		digits := 0
		switch e := p.b[i]; e {
		case '0':
			p.text = append(p.text, 0)
		case 'a':
			p.text = append(p.text, '\a')
		case 'b':
			p.text = append(p.text, '\b')
		case 't', '\t':
			p.text = append(p.text, '\t')
		case 'n':
			p.text = append(p.text, '\n')
		case 'v':
			p.text = append(p.text, '\v')
		case 'f':
			p.text = append(p.text, '\f')
		case 'r':
			p.text = append(p.text, '\r')
		case 'e':
			p.text = append(p.text, 0x1b)
		case 'N':
			p.text = utf8.AppendRune(p.text, 0x85)
		case '_':
			p.text = utf8.AppendRune(p.text, 0xa0)
		case 'L':
			p.text = utf8.AppendRune(p.text, 0x2028)
		case 'P':
			p.text = utf8.AppendRune(p.text, 0x2029)
		case ' ', '"', '/', '\\':
			p.text = append(p.text, e)
		case 'x':
			digits = 2
		case 'u':
			digits = 4
		case 'U':
			digits = 8
		default:
			return &unexpectedYAML{fmt.Sprintf("escape \\%c", e)}
		}
		if digits == 0 {
			continue
		}
		if i+digits >= len(p.b) {
			break
		}
		n, err := strconv.ParseUint(string(p.b[i+1:i+1+digits]), 16, 32)
		if err != nil || n > unicode.MaxRune {
			return &unexpectedYAML{"escape"}
		}
		if digits == 2 {
			p.text = append(p.text, byte(n))
		} else {
			p.text = utf8.AppendRune(p.text, rune(n))
		}
		i += digits
	}
	return &unexpectedYAML{"quoted text continues on the next line"}
}
