package symbolize

import "github.com/xray-tools/xray/reader"

// standIns names the IDs that stand for something other than a function.
var standIns = map[reader.FuncID]string{
	reader.Folded:         "(folded)",
	reader.WakerThread:    "(woken by)",
	reader.WakerProcess:   "(woken by another process)",
	reader.WakerInterrupt: "(woken by an interrupt)",

	reader.Request:         "(request)",
	reader.Suspended:       "(suspended)",
	reader.ExecutorAwaited: "(waiting for its executor)",
	reader.ExecutorAtMost:  "(suspended or waiting for its executor)",
	reader.OtherRequest:    "(another request)",
}

// WithValues returns names in which [reader.ValueFrame] n is texts[n]. They have no locations. n may be nil.
func WithValues(n Names, texts []string) Names { return &valueNames{n, texts} }

type valueNames struct {
	Names
	texts []string
}

// Func implements [Names].
func (v *valueNames) Func(id reader.FuncID) (Symbol, bool) {
	if v.Names == nil {
		return Symbol{}, false
	}
	return v.Names.Func(id)
}

func (v *valueNames) find(id reader.FuncID) (*Table, reader.FuncID) {
	if f, ok := v.Names.(finder); ok {
		return f.find(id)
	}
	return nil, id
}

// standIn returns the name of an ID that is no function, or "".
func standIn(n Names, id reader.FuncID) string {
	if v, ok := inner(n).(*valueNames); ok {
		if k := int(id - reader.ValueFrame); k >= 0 && k < len(v.texts) {
			return v.texts[k]
		}
	}
	return standIns[id]
}
