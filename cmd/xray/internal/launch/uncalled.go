package launch

import (
	"slices"

	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/reader/calls"
	"github.com/xray-tools/xray/symbolize"
)

// functionsWithValues returns the functions of a trace of this many files whose arguments or results are recorded.
func functionsWithValues(t *reader.Trace, files int) map[reader.FuncID]bool {
	list := make(map[reader.FuncID]bool)
	for i := range files {
		if r := t.Recording(i); r != nil {
			for _, v := range r.Values {
				if v.Missing == "" {
					list[v.ID] = true
				}
			}
		}
	}
	return list
}

// called notes which of the functions with values have calls. Calls that the compiler has inlined reach no sled.
type called struct {
	values, functions map[reader.FuncID]bool
}

// Calls implements [calls.Analysis].
func (s *called) Calls(b *calls.Batch) error {
	for i := range b.Calls {
		if len(s.functions) == len(s.values) {
			break
		}
		if f := b.Calls[i].Func; s.values[f] {
			s.functions[f] = true
		}
	}
	return nil
}

// Merge implements [calls.Analysis].
func (s *called) Merge(other *called) {
	for f := range other.functions {
		s.functions[f] = true
	}
}

// maxUncalled is how many functions without calls are worth a warning, unless there are no others: a pattern may select
// any number of functions that a run does not need.
const maxUncalled = 5

// uncalled returns the name of the first function with values and without calls, and how many there are.
func (s *called) uncalled(t *reader.Trace) (name string, n int, err error) {
	var list []reader.FuncID
	for f := range s.values {
		if !s.functions[f] {
			list = append(list, f)
		}
	}
	if len(list) == 0 || len(list) > maxUncalled && len(list) < len(s.values) {
		return "", 0, nil
	}
	names, err := symbolize.Open(t, nil, symbolize.Search{})
	if err != nil {
		return "", 0, err
	}
	return symbolize.Label(names.Names, slices.Min(list)), len(list), names.Close()
}
