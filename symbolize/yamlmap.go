package symbolize

import (
	"bytes"
	"cmp"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v4"

	"github.com/xray-tools/xray/reader"
)

// yamlSled is one entry of a YAML map. Pointers tell what is missing.
type yamlSled struct {
	ID               *reader.FuncID `yaml:"id"`
	Address          *uint64        `yaml:"address"`
	Function         *uint64        `yaml:"function"`
	Kind             *string        `yaml:"kind"`
	AlwaysInstrument *bool          `yaml:"always-instrument"`
	Name             string         `yaml:"function-name"`
	Version          uint8          `yaml:"version"`
}

// parseYAMLMap reads a YAML map: a sequence of mappings, one for each sled.
// Lines as llvm-xray and this package write them take a fast path; anything
// else goes through a YAML parser.
func parseYAMLMap(data []byte) (*Map, error) {
	b := newMapBuilder()
	if !b.scan(data) {
		b = newMapBuilder()
		if err := b.parse(data); err != nil {
			return nil, err
		}
	}
	// References by position are over; put the functions in the order of ids.
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

// add appends a sled. Where sleds of one id disagree about its function, the
// last one counts, as it does for llvm-xray.
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
		// A copy: name may be part of the file, which is not to be kept.
		f.Name = strings.Clone(name)
	}
}

// parse reads any YAML.
func (b *mapBuilder) parse(data []byte) error {
	var sleds []yamlSled
	if err := yaml.Load(data, &sleds, yaml.WithKnownFields()); err != nil {
		return fmt.Errorf("not a YAML instrumentation map: %s", yamlProblem(data, err))
	}
	for i, y := range sleds {
		for _, f := range []struct {
			name    string
			missing bool
		}{
			{"id", y.ID == nil}, {"address", y.Address == nil}, {"function", y.Function == nil},
			{"kind", y.Kind == nil}, {"always-instrument", y.AlwaysInstrument == nil},
		} {
			if f.missing {
				return fmt.Errorf("sled %d: no %q", i+1, f.name)
			}
		}
		kind, ok := parseSledKind(*y.Kind)
		if !ok {
			return fmt.Errorf("sled %d: kind %q is not known", i+1, *y.Kind)
		}
		b.add(Sled{
			ID: *y.ID, Address: *y.Address, Function: *y.Function, Kind: kind,
			AlwaysInstrument: *y.AlwaysInstrument, Version: y.Version,
		}, named(y.Name))
	}
	return nil
}

var (
	yamlHeader     = regexp.MustCompile(`(?m)^header:`)
	yamlUnknownKey = regexp.MustCompile(`line (\d+): field (\S+) not found`)
	yamlOddValue   = regexp.MustCompile("line (\\d+): cannot construct !!(\\w+)( `[^`]*`)?")
	yamlKinds      = map[string]string{"map": "a mapping", "seq": "a list"}
)

// yamlProblem says what is wrong with a map without the types of this package,
// which the parser speaks of.
func yamlProblem(data []byte, err error) string {
	text := err.Error()
	if yamlHeader.Match(data[:min(len(data), 512)]) {
		return "it is trace YAML"
	}
	if m := yamlUnknownKey.FindStringSubmatch(text); m != nil {
		return fmt.Sprintf("line %s: a sled has no key %q", m[1], m[2])
	}
	if m := yamlOddValue.FindStringSubmatch(text); m != nil {
		value := cmp.Or(strings.TrimSpace(m[3]), yamlKinds[m[2]], "a "+m[2])
		return fmt.Sprintf("line %s: %s does not belong there: a map is a list of sleds", m[1], value)
	}
	return text
}

// scan reads lines of the form that llvm-xray writes, and reports false when it
// meets anything else.
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

// scanAddress reads a number as llvm-xray writes it.
func scanAddress(v string) (uint64, bool) {
	hex, ok := strings.CutPrefix(v, "0x")
	if !ok {
		// Other forms mean different things in different versions of YAML.
		return 0, false
	}
	n, err := strconv.ParseUint(hex, 16, 64)
	return n, err == nil
}

// scanScalar reads a value up to the next ", " or the end. It knows plain words
// that cannot be mistaken, and single quotes.
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

// named undoes the "@(address)" that stands in for a missing name.
func named(name string) string {
	if strings.HasPrefix(name, "@(") && strings.HasSuffix(name, ")") {
		return ""
	}
	return name
}
