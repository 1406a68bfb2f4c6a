package main

import (
	"github.com/spf13/pflag"

	"github.com/xray-tools/xray/reader/calls"
)

func addOutput(f *pflag.FlagSet, path *string) {
	f.StringVarP(path, "output", "o", "-", "write to `FILE`; - is standard output")
}

// addKeepGoing accepts what llvm-xray needs to be told, and what goes without
// saying here: one bad record is no reason to give up.
func addKeepGoing(f *pflag.FlagSet) { ignored(f, "keep-going", "k") }

// ignored adds a boolean flag that asks for what is done anyway.
func ignored(f *pflag.FlagSet, name, short string) {
	f.BoolP(name, short, true, "")
	f.MarkHidden(name)
}

// matchFlags choose how exits are matched with entries.
type matchFlags struct{ deduce bool }

func (m *matchFlags) add(f *pflag.FlagSet) {
	f.BoolVarP(&m.deduce, "deduce-sibling-calls", "d", true,
		"let an exit end the calls made inside its function; =false takes only exits of the innermost call")
}

func (m *matchFlags) policy() calls.Policy {
	if m.deduce {
		return calls.Deduce
	}
	return calls.Exact
}
