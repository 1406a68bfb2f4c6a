package symbolize

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v4"

	"github.com/xray-tools/xray/internal/yamltext"
	"github.com/xray-tools/xray/reader"
)

// parseYAMLMap reads a YAML map: a sequence of mappings, one per sled. It scans the form of
// llvm-xray and of this package directly, and uses a YAML parser for other forms.
func parseYAMLMap(data []byte) (*Map, error) {
	b := newMapBuilder()
	if !b.scan(data) {
		b = newMapBuilder()
		if err := b.parse(data); err != nil {
			return nil, err
		}
	}
	// Sort the functions by id. Nothing uses their positions from here on.
	slices.SortFunc(b.m.Functions, func(x, y Function) int { return cmp.Compare(x.ID, y.ID) })
	return &b.m, nil
}

type mapBuilder struct {
	m    Map
	last int // position in m.Functions of the sled before; -1 for none
	byID map[reader.FuncID]int
}

func newMapBuilder() *mapBuilder {
	return &mapBuilder{last: -1, byID: make(map[reader.FuncID]int)}
}

// add appends a sled. If sleds of one id have different functions, the last function counts, as in
// llvm-xray.
func (b *mapBuilder) add(s Sled, name string) {
	b.m.Sleds = append(b.m.Sleds, s)
	if b.last < 0 || b.m.Functions[b.last].ID != s.ID {
		i, ok := b.byID[s.ID]
		if !ok {
			i = len(b.m.Functions)
			b.byID[s.ID] = i
			b.m.Functions = append(b.m.Functions, Function{ID: s.ID})
		}
		b.last = i
	}
	f := &b.m.Functions[b.last]
	f.Address, f.key = s.Function, s.Function
	if name != "" && name != f.Name {
		// Clone the name: it may refer to the file, which is not kept.
		f.Name = strings.Clone(name)
	}
}

// parse reads any YAML.
func (b *mapBuilder) parse(data []byte) error {
	root, err := yamltext.Load(data)
	if err == nil && root != nil && root.Kind == yaml.MappingNode && yamlHeader.Match(data[:min(len(data), 512)]) {
		err = errors.New("this is trace YAML")
	}
	if err != nil {
		return fmt.Errorf("not a YAML instrumentation map: %w", err)
	}
	notSled := func(n *yaml.Node) error {
		return fmt.Errorf("not a YAML instrumentation map: %s does not belong there: a map is a list of sleds", yamltext.Describe(n))
	}
	if root == nil || root.Kind != yaml.SequenceNode {
		return notSled(root)
	}
	return yamltext.Items(root, func(i int, item *yaml.Node) error {
		if item.Kind != yaml.MappingNode {
			return notSled(item)
		}
		s, name, err := yamlSled(item)
		if err != nil {
			return fmt.Errorf("not a YAML instrumentation map: sled %d: %w", i+1, err)
		}
		b.add(s, named(name))
		return nil
	})
}

// yamlSled reads one entry of a YAML map.
func yamlSled(n *yaml.Node) (s Sled, name string, err error) {
	var kind string
	fields := []struct {
		key      string
		value    any
		optional bool
		seen     bool
	}{
		{key: "id", value: &s.ID}, {key: "address", value: &s.Address}, {key: "function", value: &s.Function},
		{key: "kind", value: &kind}, {key: "always-instrument", value: &s.AlwaysInstrument},
		{key: "function-name", value: &name, optional: true}, {key: "version", value: &s.Version, optional: true},
	}
	err = yamltext.Pairs(n, len(fields), func(key, value *yaml.Node) error {
		for i := range fields {
			f := &fields[i]
			if f.key != key.Value {
				continue
			}
			f.seen = true
			if value.Kind != yaml.ScalarNode || value.Decode(f.value) != nil {
				return fmt.Errorf("%s: %s does not belong there", f.key, yamltext.Describe(value))
			}
			return nil
		}
		return fmt.Errorf("line %d: unknown key %q", key.Line, key.Value)
	})
	if err != nil {
		return s, "", err
	}
	for _, f := range fields {
		if !f.seen && !f.optional {
			return s, "", fmt.Errorf("%q is missing", f.key)
		}
	}
	var ok bool
	if s.Kind, ok = parseSledKind(kind); !ok {
		return s, "", fmt.Errorf("unknown kind %q", kind)
	}
	return s, name, nil
}

var yamlHeader = regexp.MustCompile(`(?m)^header:`)

// scan reads lines of the form that llvm-xray writes. It returns false for anything else.
func (b *mapBuilder) scan(data []byte) bool {
	for line := range bytes.Lines(data) {
		line = bytes.TrimRight(line, "\r\n")
		fields, isSled := bytes.CutPrefix(line, []byte("- { "))
		switch {
		case isSled:
			fields, ok := bytes.CutSuffix(fields, []byte(" }"))
			if !ok || !b.scanSled(fields) {
				return false
			}
		case string(line) == "---" && len(b.m.Sleds) == 0, len(line) == 0:
		case string(line) == "...":
			return len(b.m.Sleds) > 0
		default:
			return false
		}
	}
	return len(b.m.Sleds) > 0
}

// scanSled reads "key: value, key: value".
func (b *mapBuilder) scanSled(line []byte) bool {
	const id, address, function, kind, always, name, version = 1, 2, 4, 8, 16, 32, 64
	var s Sled
	var label string
	seen := 0
	for len(line) > 0 {
		colon := bytes.Index(line, []byte(": "))
		if colon < 0 {
			return false
		}
		key := string(line[:colon])
		v, rest, ok := scanScalar(line[colon+2:])
		if !ok {
			return false
		}
		line = rest
		field := 0
		switch key {
		case "id":
			n, err := strconv.ParseInt(v, 10, 32)
			ok, field, s.ID = err == nil, id, reader.FuncID(n)
		case "address":
			s.Address, ok = scanAddress(v)
			field = address
		case "function":
			s.Function, ok = scanAddress(v)
			field = function
		case "kind":
			s.Kind, ok = parseSledKind(v)
			field = kind
		case "always-instrument":
			s.AlwaysInstrument = v == "true"
			ok, field = v == "true" || v == "false", always
		case "function-name":
			label, field = named(v), name
		case "version":
			n, err := strconv.ParseUint(v, 10, 8)
			ok, field, s.Version = err == nil && n <= math.MaxUint8, version, uint8(n)
		}
		if !ok || field == 0 || seen&field != 0 {
			return false
		}
		seen |= field
	}
	if required := id | address | function | kind | always; seen&required != required {
		return false
	}
	b.add(s, label)
	return true
}

// scanAddress reads a number in the form of llvm-xray.
func scanAddress(v string) (uint64, bool) {
	hex, ok := strings.CutPrefix(v, "0x")
	if !ok {
		// Other forms have different meanings in different versions of YAML.
		return 0, false
	}
	n, err := strconv.ParseUint(hex, 16, 64)
	return n, err == nil
}

// scanScalar reads a value up to the next ", " or the end. It accepts unambiguous plain words
// and single quotes.
func scanScalar(b []byte) (v string, rest []byte, ok bool) {
	if len(b) > 0 && b[0] == '\'' {
		var sb []byte
		for i := 1; ; i++ {
			j := bytes.IndexByte(b[i:], '\'')
			if j < 0 {
				return "", nil, false
			}
			sb = append(sb, b[i:i+j]...)
			i += j
			if i+1 < len(b) && b[i+1] == '\'' {
				sb = append(sb, '\'')
				i++
				continue
			}
			rest = b[i+1:]
			break
		}
		v = string(sb)
		if !utf8.ValidString(v) || strings.ContainsFunc(v, func(r rune) bool { return r < ' ' || r == 0x7F }) {
			return "", nil, false
		}
	} else {
		end := bytes.IndexByte(b, ',')
		if end < 0 {
			end = len(b)
		}
		v, rest = string(b[:end]), b[end:]
		for _, c := range []byte(v) {
			if !isWord(c) {
				return "", nil, false
			}
		}
	}
	if len(rest) == 0 {
		return v, nil, len(b) > 0
	}
	rest, ok = bytes.CutPrefix(rest, []byte(", "))
	return v, rest, ok && len(rest) > 0
}

func isWord(c byte) bool {
	return c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c == '_' || c == '.' || c == '-'
}

// named returns "" for the "@(address)" that replaces a missing name.
func named(name string) string {
	if strings.HasPrefix(name, "@(") && strings.HasSuffix(name, ")") {
		return ""
	}
	return name
}
