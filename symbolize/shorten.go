package symbolize

import (
	"regexp"
	"strings"
	"sync"

	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/symbolize/demangle"
)

// Shorten shortens a label with [demangle.Short]. It keeps the numbers of functions without a
// name.
func Shorten(label string) string { return demangle.Short(label) }

// Matches reports whether a regular expression matches a label, in full or as [Shorten] shows it.
func Matches(re *regexp.Regexp, label string) bool {
	return re.MatchString(label) || strings.ContainsAny(label, "(<. []") && re.MatchString(Shorten(label))
}

// Shortened returns names whose symbols have names shortened by [Shorten]. It is safe for
// concurrent use.
func Shortened(names Names) Names {
	if names == nil {
		return nil
	}
	return &shortNames{Names: names, known: make(map[reader.FuncID]string)}
}

type shortNames struct {
	Names
	mu    sync.Mutex
	known map[reader.FuncID]string
}

func (s *shortNames) Func(id reader.FuncID) (Symbol, bool) {
	symbol, ok := s.Names.Func(id)
	if !ok {
		return symbol, false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	short, known := s.known[id]
	if !known {
		short = Shorten(symbol.Name)
		s.known[id] = short
	}
	symbol.Name = short
	return symbol, true
}

// name is Func without the location.
func (s *shortNames) name(id reader.FuncID) (Symbol, bool) { return s.Func(id) }

func (s *shortNames) find(id reader.FuncID) (*Table, reader.FuncID) {
	if f, ok := s.Names.(finder); ok {
		return f.find(id)
	}
	return nil, id
}
