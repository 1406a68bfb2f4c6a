package symbolize

import (
	"sync"

	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/symbolize/demangle"
)

// Shorten is [demangle.Short] of a label: names of functions get short, and numbers of
// functions without a name stay.
func Shorten(label string) string { return demangle.Short(label) }

// Shortened gives the functions of names the names that [Shorten] makes of them. All
// else is as names has it. It may be used concurrently.
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

// name is Func without the place of the function, where that takes time.
func (s *shortNames) name(id reader.FuncID) (Symbol, bool) { return s.Func(id) }

func (s *shortNames) find(id reader.FuncID) (*Table, reader.FuncID) {
	if f, ok := s.Names.(finder); ok {
		return f.find(id)
	}
	return nil, id
}
