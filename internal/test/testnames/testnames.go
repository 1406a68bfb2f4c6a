// Package testnames has function names for tests.
package testnames

import (
	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/symbolize"
)

// Names are functions by ID. The line of each, in /src/a.cc, is its ID. It implements
// [symbolize.Names].
type Names map[reader.FuncID]string

// Func implements [symbolize.Names].
func (n Names) Func(id reader.FuncID) (symbolize.Symbol, bool) {
	name, ok := n[id]
	return symbolize.Symbol{Name: name, File: "/src/a.cc", Line: int(id), Column: 1}, ok
}
