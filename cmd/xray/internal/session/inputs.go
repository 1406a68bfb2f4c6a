package session

import (
	"errors"

	"github.com/spf13/pflag"

	"github.com/xray-tools/xray/cmd/xray/internal/cli"
	"github.com/xray-tools/xray/explain/machines"
	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/reader/calls"
	"github.com/xray-tools/xray/symbolize"
)

// Inputs declares what a command reads, and holds the values of its flags. Set the exported
// fields that are not flags before AddFlags.
type Inputs struct {
	// Scope says which flags choose calls.
	Scope ScopeKind
	// Apart allows --around to choose several spans of time.
	Apart bool
	// Templates adds --group-templates, PathMemory --path-memory, Siblings
	// --deduce-sibling-calls.
	Templates, PathMemory, Siblings bool
	// Join allows traces of several machines and builds. Analyses then use Session.Source.
	Join bool
	// Summaries lets the command take summaries. Its analysis is a calls.SumSink then.
	Summaries bool
	// Lenient omits --strict.
	Lenient bool
	// Named are the traces as the user named them if some are folders, else nil.
	Named []string

	NameFlags
	strict   bool
	group    bool
	scope    scopeFlags
	memory   int64 // for call paths
	tables   int64 // for all other tables
	siblings bool
}

// DefaultTableMemory is the default of --table-memory. With the default of --path-memory, a
// command needs less than 500 MB for a small trace that was made to use much memory.
const DefaultTableMemory = 256 << 20

// BytesPerPath is the memory for a call path, as measured in the command that needs most.
const BytesPerPath = 256

// AddFlags adds the flags that i declares.
func (i *Inputs) AddFlags(f *pflag.FlagSet) {
	i.NameFlags.AddFlags(f)
	if i.Templates {
		f.BoolVar(&i.group, "group-templates", false, "count all instances of a template as one function")
	}
	if !i.Lenient {
		f.BoolVar(&i.strict, "strict", false, "fail if any part of the trace was lost")
	}
	i.scope.apart = i.Apart
	i.scope.add(f, i.Scope)
	if i.PathMemory {
		i.memory = 384 << 20
		cli.AddSize(f, &i.memory, "path-memory", "use at most `SIZE` of memory for the call-path tree; fold the lightest subtrees if it needs more")
	}
	i.tables = DefaultTableMemory
	cli.AddSize(f, &i.tables, "table-memory", "use at most `SIZE` of memory for each table, such as functions or threads; fail if one needs more")
	if i.Siblings {
		f.BoolVarP(&i.siblings, "deduce-sibling-calls", "d", true,
			"let the exit of a function end the calls inside it; =false matches only exits of the innermost call")
	}
}

// Policy returns how to match exits with entries.
func (i *Inputs) Policy() calls.Policy { return PolicyOf(i.siblings) }

// PolicyOf returns how to match exits with entries for a value of --deduce-sibling-calls.
func PolicyOf(siblings bool) calls.Policy {
	if siblings {
		return calls.Deduce
	}
	return calls.Exact
}

// Check rejects contradictory flags. Open calls it, too.
func (i *Inputs) Check() error { return i.scope.check() }

// Chooses returns which flags were given that choose calls by their properties.
func (i *Inputs) Chooses() (function, minDuration bool) {
	return i.scope.function != "", i.scope.minDuration != ""
}

// LimitsDepth reports whether --max-depth was given.
func (i *Inputs) LimitsDepth() bool { return i.scope.maxDepth > 0 }

// Groups reports whether --group-templates was given.
func (i *Inputs) Groups() bool { return i.group }

// With returns i with other maps, if there are any.
func (i Inputs) With(maps []string) *Inputs {
	if len(maps) > 0 {
		i.maps = maps
	}
	return &i
}

// MapPair holds maps for only one side of a comparison.
type MapPair [2][]string

// AddFlags adds --instr-map-1 and --instr-map-2, also known as -m1 and -m2.
func (m *MapPair) AddFlags(f *pflag.FlagSet) {
	f.StringArrayVar(&m[0], "instr-map-1", nil, "read names for A from `FILE` (-m1)")
	f.StringArrayVar(&m[1], "instr-map-2", nil, "read names for B from `FILE` (-m2)")
}

// Open opens the traces on the command line and finds names for their functions. The caller
// closes the session.
func (i *Inputs) Open(streams *cli.Streams, command string, paths ...string) (*Session, error) {
	s, err := i.session(streams, command)
	if err != nil {
		return nil, err
	}
	if err := i.open(s, paths); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// session returns a session before its inputs are open.
func (i *Inputs) session(streams *cli.Streams, command string) (*Session, error) {
	if err := i.Check(); err != nil {
		return nil, err
	}
	s := &Session{Streams: streams, Command: command, Strict: i.strict, traces: i.TraceFlags, style: i.Style}
	s.MaxPaths, s.TableMemory = i.maxPaths(), i.tables
	s.named = i.Named
	return s, nil
}

func (i *Inputs) open(s *Session, paths []string) (err error) {
	switch summary, err := i.inputs(s.Streams).Any(paths); {
	case err != nil:
		return err
	case summary != "":
		return i.openSummaries(s, paths)
	}
	if s.Trace, err = i.OpenTrace(s.Streams, paths...); err != nil {
		return err
	}
	if i.Join && len(paths) > 1 {
		if err := s.joinMachines(&i.NameFlags); err != nil {
			return err
		}
	}
	if s.machines != nil {
		s.Scope, err = i.scope.build(s)
		return err
	}
	if err = s.openNames(&i.NameFlags); err != nil {
		return err
	}
	if i.group {
		if s.Names == nil {
			return cli.Usagef("--group-templates: the functions have no names: pass the traced program with -m")
		}
		templates := symbolize.GroupTemplates(s.Names)
		s.Names, s.Alias = templates, templates.Alias
	}
	frequency, err := s.Trace.CycleFrequency()
	if err != nil {
		return err
	}
	s.Clock = reader.Clock{Frequency: frequency}
	s.Scope, err = i.scope.build(s)
	return err
}

// OpenNames opens only names: those of the trace at path, or those that flags give if path is
// "". The caller closes the session.
func (f *NameFlags) OpenNames(streams *cli.Streams, command, path string) (*Session, error) {
	s := &Session{Streams: streams, Command: command, style: f.Style}
	var err error
	if path != "" {
		if s.Trace, err = f.OpenTrace(streams, path); err != nil {
			return nil, err
		}
	}
	if err := s.openNames(f); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// joinMachines makes the session one over several machines or builds of a program, if the traces come
// from several.
func (s *Session) joinMachines(f *NameFlags) error {
	from := machines.Sources{Open: func(path string) (*reader.Trace, error) { return f.OpenTrace(s.Streams, path) }, Search: f.Search(s.Streams)}
	var err error
	if from.Given, from.Auto, err = f.given(); err != nil {
		return err
	}
	if s.machines, err = machines.Join(s.Trace, from); s.machines == nil || err != nil {
		return err
	}
	s.Names, s.Clock, s.missing = s.machines.Names(), s.machines.Clock, s.machines.Missing
	s.Code.Continue = s.machines.Continues()
	s.closers = append(s.closers, s.machines.Close)
	return nil
}

// Source is the trace for analyses, with all machines joined if there are several.
func (s *Session) Source() calls.Source {
	if s.machines != nil && s.replaced == nil {
		return s.machines
	}
	return s.calls()
}

// Origins says where the files are from if they are of several machines or builds. It is nil
// otherwise.
func (s *Session) Origins() []machines.Origin {
	if s.machines == nil {
		return nil
	}
	return s.machines.Origins
}
