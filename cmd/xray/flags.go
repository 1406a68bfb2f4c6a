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

// pathFlags bound the memory of trees of call paths.
type pathFlags struct{ memory int64 }

// add adds the flag, whose absence is no bound, to commands that have such a tree.
func (p *pathFlags) add(f *pflag.FlagSet) {
	p.memory = 512 << 20
	addSize(f, &p.memory, "path-memory", "use at most `SIZE` for the tree of call paths; fold the lightest subtrees if it is larger")
}

// bytesPerPath is what a path takes in the most wasteful command, measured.
const bytesPerPath = 256

// most is how many paths there is memory for; 0 is no bound.
func (p *pathFlags) most() int {
	if p.memory == 0 {
		return 0
	}
	return int(max(p.memory/bytesPerPath, 1))
}
