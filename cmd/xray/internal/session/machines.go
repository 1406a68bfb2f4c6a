package session

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/xray-tools/xray/explain/why"
	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/reader/calls"
	"github.com/xray-tools/xray/symbolize"
)

// machines joins traces of several machines or builds. Functions with the same name are the
// same function. Times are in nanoseconds. The time of each machine starts after that of the
// previous one, so that nothing on one machine seems to happen at the same time as something on
// another. Traces of a machine keep their order in time.
type machines struct {
	*reader.Trace
	origins []why.Origin
	files   []machineFile
	builds  []*build
	apart   bool // machines run several programs
	names   joinedNames
}

// machineFile says how to translate the events of a file.
type machineFile struct {
	build *build
	clock reader.Clock
	// first is the time of the first event, in ticks, and start its time in the joined trace.
	first, start uint64
}

// build is the state that traces of the same binaries share.
type build struct {
	names   symbolize.Names
	program string                      // "" unless machines run several programs
	tails   func() *symbolize.TailCalls // nil if no binary shows them
	n       int
	ids     map[reader.FuncID]reader.FuncID // to those of the joined trace
	own     map[reader.FuncID]reader.FuncID // from those
}

// joinedNames names the functions of a joined trace, by ID from 1.
type joinedNames []joinedName

type joinedName struct {
	build *build
	id    reader.FuncID
	of    string // " [PROGRAM]" if another program has a function of this name
}

// Func implements symbolize.Names.
func (n *joinedNames) Func(id reader.FuncID) (symbolize.Symbol, bool) {
	if id < 1 || int(id) > len(*n) {
		return symbolize.Symbol{}, false
	}
	of := (*n)[id-1]
	if of.build.names != nil {
		if s, ok := of.build.names.Func(of.id); ok {
			if s.Name != "" {
				s.Name += of.of
			}
			return s, true
		}
	}
	return symbolize.Symbol{Name: symbolize.Label(nil, of.id)}, true
}

// key identifies a function in the joined trace: by its name, or without a name by its build and
// ID.
func (b *build) key(fn reader.FuncID) string {
	if b.names != nil {
		if s, ok := b.names.Func(fn); ok && s.Name != "" {
			return b.program + "=" + s.Name
		}
	}
	return fmt.Sprintf("#%d#%d", b.n, fn)
}

// number gives the functions that occur IDs in the joined trace, in the order of their names,
// so that IDs do not depend on the order of decoding.
func (m *machines) number(called []map[reader.FuncID]bool) {
	byKey := make(map[string][]joinedName)
	programs := make(map[string]int) // with a function, by its name
	for i, functions := range called {
		b := m.files[i].build
		for fn := range functions {
			if _, ok := b.ids[fn]; !ok {
				b.ids[fn] = 0
				key := b.key(fn)
				if byKey[key] == nil {
					programs[strings.TrimPrefix(key, b.program)]++
				}
				byKey[key] = append(byKey[key], joinedName{build: b, id: fn})
			}
		}
	}
	for _, key := range slices.Sorted(maps.Keys(byKey)) {
		same := byKey[key]
		slices.SortFunc(same, func(x, y joinedName) int { return cmp.Or(cmp.Compare(x.build.n, y.build.n), cmp.Compare(x.id, y.id)) })
		if p := same[0].build.program; programs[strings.TrimPrefix(key, p)] > 1 && p != "" {
			same[0].of = " [" + p + "]"
		}
		m.names = append(m.names, same[0])
		for _, f := range same {
			f.build.ids[f.id] = reader.FuncID(len(m.names))
			f.build.own[reader.FuncID(len(m.names))] = f.id
		}
	}
}

// originOf returns the origin of a file, from its recorder's metadata and from KEY=VALUE
// folders in its path.
func originOf(path string, r *reader.Recording) why.Origin {
	o := why.Origin{File: path}
	if r != nil {
		o.Host, o.Build = r.Process.Host, r.Process.BuildID
	}
	parts := strings.Split(path, "/")
	for _, part := range parts[:len(parts)-1] {
		key, value, ok := strings.Cut(part, "=")
		if !ok || key == "" || value == "" {
			continue
		}
		if plain, err := url.PathUnescape(value); err == nil {
			value = plain
		}
		switch key {
		case "host":
			o.Host = value
		case "build":
			o.Build = value
		default:
			o.Labels = append(o.Labels, key+"="+value)
		}
	}
	return o
}

// programName returns the name of a recorded program, or "" if it is unknown.
func programName(r *reader.Recording) string {
	if r == nil || r.Process.Exe == "" {
		return ""
	}
	return filepath.Base(r.Process.Exe)
}

// joinMachines makes the session one over several machines or builds of a program, if the traces come
// from several. Otherwise it does nothing: package reader tells programs of a machine apart.
func (s *Session) joinMachines(f *NameFlags) (joined bool, err error) {
	files := s.Trace.Files()
	origins := make([]why.Origin, len(files))
	several := false
	m := &machines{Trace: s.Trace, origins: origins}
	programs := make(map[string]string) // by host
	builds := make(map[string]string)   // by program
	for i, path := range files {
		origins[i] = originOf(path, s.Trace.Recording(i))
		program := programName(s.Trace.Recording(i))
		if builds[program] == "" {
			builds[program] = origins[i].Build
		}
		if of := programs[origins[i].Host]; of == "" {
			programs[origins[i].Host] = program
		} else if of != program {
			m.apart = true
		}
		several = several || origins[i].Host != origins[0].Host || origins[i].Build != builds[program] ||
			!slices.Equal(origins[i].Labels, origins[0].Labels)
	}
	if _, _, err := s.Trace.Objects(); err != nil {
		several = true
	}
	if _, err := s.Trace.CycleFrequency(); err != nil {
		several = true
	}
	if !several {
		return false, nil
	}
	if slices.Contains(files, "-") {
		return false, errors.New("standard input cannot be used with traces from other machines or builds: save it to a file first")
	}
	s.Trace.Separate()
	if err := m.open(s, f); err != nil {
		return false, err
	}
	if err := m.order(); err != nil {
		return false, err
	}
	s.machines, s.Names = m, &m.names
	s.Clock = reader.Clock{}
	if m.files[0].clock.Known() {
		s.Clock.Frequency = nanosPerSecond
	}
	if m.tailCalls() {
		s.Code.Continue = m.continues
	}
	return true, nil
}

const nanosPerSecond = 1_000_000_000

// open finds the names of all files, once for each build.
func (m *machines) open(s *Session, f *NameFlags) error {
	given, auto, err := f.given()
	if err != nil {
		return err
	}
	if auto {
		return errors.New("--object auto needs traces of one build")
	}
	search := f.Search(s.Streams)
	byObjects := make(map[string]*build)
	for _, path := range m.Files() {
		t, err := f.OpenTrace(s.Streams, path)
		if err != nil {
			return err
		}
		b, err := m.buildOf(s, t, given, search, byObjects)
		if err == nil && m.apart {
			b.program = programName(t.Recording(0))
		}
		if err = cmp.Or(err, t.Close()); err != nil {
			return err
		}
		frequency, err := t.CycleFrequency()
		if err != nil {
			return err
		}
		m.files = append(m.files, machineFile{build: b, clock: reader.Clock{Frequency: frequency}})
		if (frequency == 0) != (m.files[0].clock.Frequency == 0) {
			return fmt.Errorf("only one of %s and %s states its clock frequency: analyze them separately", path, m.Files()[0])
		}
	}
	return nil
}

// buildOf opens the names of a trace, unless those of the same objects are already open.
func (m *machines) buildOf(s *Session, t *reader.Trace, given map[int]string, search symbolize.Search, known map[string]*build) (*build, error) {
	objects, addresses, err := t.Objects()
	if err != nil {
		return nil, err
	}
	functions, err := t.Functions()
	if err != nil {
		return nil, err
	}
	key := fmt.Sprintf("%v %v %v", objects, addresses, functions)
	if b := known[key]; b != nil {
		return b, nil
	}
	opened, err := symbolize.Open(t, given, search)
	if err != nil {
		return nil, err
	}
	s.closers = append(s.closers, opened.Close)
	s.missing = append(s.missing, opened.Missing...)
	b := &build{
		names: opened.Names, tails: opened.TailCalls(), n: len(m.builds),
		ids: make(map[reader.FuncID]reader.FuncID), own: make(map[reader.FuncID]reader.FuncID),
	}
	known[key], m.builds = b, append(m.builds, b)
	return b, nil
}

// order gives each machine a time of its own. It passes over the trace.
func (m *machines) order() error {
	var mu sync.Mutex
	first, last := make([]uint64, len(m.files)), make([]uint64, len(m.files))
	called := make([]map[reader.FuncID]bool, len(m.files))
	for i := range first {
		first[i], called[i] = math.MaxUint64, make(map[reader.FuncID]bool)
	}
	err := m.Trace.Each(0, func(_ int, b *reader.Block) error {
		mu.Lock()
		defer mu.Unlock()
		f := b.Thread.File
		for i := range b.Events {
			e := &b.Events[i]
			first[f], last[f] = min(first[f], e.TSC), max(last[f], e.TSC)
			if e.Func != 0 {
				called[f][e.Func] = true
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	m.number(called)
	hosts := make(map[string][]int)
	var order []string
	for i, o := range m.origins {
		key := o.Machine()
		if hosts[key] == nil {
			order = append(order, key)
		}
		hosts[key] = append(hosts[key], i)
	}
	slices.Sort(order)
	next := uint64(0)
	for _, host := range order {
		begins := uint64(math.MaxUint64)
		for _, i := range hosts[host] {
			begins = min(begins, first[i])
		}
		latest := next
		for _, i := range hosts[host] {
			f := &m.files[i]
			f.first = first[i]
			if first[i] > last[i] { // there are no events
				continue
			}
			// The files of a machine share its clock, apart from errors of measurement.
			f.start = next + m.files[hosts[host][0]].clock.Nanos(first[i]-begins)
			latest = max(latest, f.start+f.clock.Nanos(last[i]-first[i]))
		}
		next = latest + nanosPerSecond
	}
	for i := range m.files {
		m.origins[i].Start = m.files[i].start
	}
	return nil
}

func (m *machines) tailCalls() bool {
	return slices.ContainsFunc(m.builds, func(b *build) bool { return b.tails != nil })
}

// continues reports whether a function may end with a tail call of another one, in a build.
func (m *machines) continues(from, to reader.FuncID) bool {
	for _, b := range m.builds {
		if b.tails == nil {
			continue
		}
		x, known := b.own[from]
		y, also := b.own[to]
		if known && also && b.tails().Continue(x, y) {
			return true
		}
	}
	return false
}

// Each decodes with the IDs and times of the joined trace.
func (m *machines) Each(n int, fn func(shard int, b *reader.Block) error) error {
	shards := make([][]reader.Event, max(n, 1))
	return m.Trace.Each(len(shards), func(shard int, b *reader.Block) error {
		f := &m.files[b.Thread.File]
		events := append(shards[shard][:0], b.Events...)
		for i := range events {
			e := &events[i]
			e.TSC, e.Func = f.time(e.TSC), f.build.ids[e.Func] // 0 for none
		}
		shards[shard] = events
		out := *b
		out.Events = events
		return fn(shard, &out)
	})
}

// time translates a time. Clocks may step back, but not before the first event.
func (f *machineFile) time(tsc uint64) uint64 {
	return f.start + f.clock.Nanos(max(tsc, f.first)-f.first)
}

// EachPacked is Each: packed records have the IDs and times of their file.
func (m *machines) EachPacked(n int, fn func(shard int, b *reader.Block) error) error {
	return m.Each(n, fn)
}

// Source is the trace for analyses, with all machines joined if there are several.
func (s *Session) Source() calls.Source {
	if s.machines != nil {
		return s.machines
	}
	return s.Trace
}

// Origins says where the files are from if they are of several machines or builds. It is nil
// otherwise.
func (s *Session) Origins() []why.Origin {
	if s.machines == nil {
		return nil
	}
	return s.machines.origins
}
