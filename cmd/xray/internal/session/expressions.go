package session

import (
	"strings"

	"github.com/xray-tools/xray/cmd/xray/internal/cli"
	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/reader/calls"
	"github.com/xray-tools/xray/symbolize"
)

// Expressions are the arguments and results whose values the trace has, or nil.
func (s *Session) Expressions() *calls.Expressions {
	recordings := make([]*reader.Recording, len(s.Trace.Files()))
	for i := range recordings {
		recordings[i] = s.Trace.Recording(i)
	}
	return calls.ExpressionsOf(recordings...)
}

// ChooseExpressions returns the expressions that a flag selects: each text is FUNCTION: EXPRESSION, with a regular
// expression and what was recorded of the function. Each must select some.
func (s *Session) ChooseExpressions(flag string, texts ...string) (*calls.Expressions, error) {
	all := s.Expressions()
	chosen := make(map[int]bool)
	for _, text := range texts {
		some, err := s.chooseExpressions(flag, text, all)
		if err != nil {
			return nil, err
		}
		for _, id := range some {
			chosen[id] = true
		}
	}
	return all.Only(func(x *calls.Expression) bool { return chosen[x.ID] }), nil
}

// chooseExpressions returns the IDs of the expressions that a text selects.
func (s *Session) chooseExpressions(flag, text string, all *calls.Expressions) (chosen []int, err error) {
	function, expression := calls.SplitExpression(text)
	if expression == "" {
		return nil, cli.Usagef("--%s: %q has no expression: write FUNCTION: EXPRESSION", flag, text)
	}
	matches, err := s.ChooseFuncs(flag, function)
	if err != nil {
		return nil, err
	}
	if all == nil {
		return nil, cli.Usagef("--%s: the trace has no arguments or results: record them with `xray record --args`", flag)
	}
	for _, x := range all.All() {
		if x.Expression == expression && (matches == nil || matches(x.Func)) {
			chosen = append(chosen, x.ID)
		}
	}
	if chosen == nil {
		var have []string
		for _, x := range all.All() {
			have = append(have, symbolize.Shorten(symbolize.Label(s.Names, x.Func))+": "+x.Expression)
		}
		return nil, cli.Usagef("--%s: the trace does not have %q, but %s", flag, text, strings.Join(have[:min(len(have), 10)], ", "))
	}
	return chosen, nil
}
