// Package machines joins traces of several machines or builds of a program into one, for an analysis of
// all of them.
package machines

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

	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/symbolize"
)

// Origin is the origin of a file of the trace.
type Origin struct {
	File        string
	Host, Build string   // "" if unknown
	Labels      []string // KEY=VALUE
	Start       uint64   // of the file, in the time of the trace
}

// Machine identifies the machine. Files of unknown hosts count as machines of their own.
func (o *Origin) Machine() string {
	if o.Host != "" {
		return o.Host
	}
	return o.File
}

// Features returns the properties that machines may have in common.
func (o *Origin) Features() (list []string) {
	if o.Build != "" {
		list = append(list, "build="+o.Build)
	}
	return append(list, o.Labels...)
}

// Trace joins traces of several machines or builds. Functions with the same name are the same function.
// Times are in nanoseconds. The time of each machine starts after that of the previous one, so that
// nothing on one machine seems to happen at the same time as something on another. Traces of a machine
// keep their order in time.
type Trace struct {
	*reader.Trace
	Origins []Origin
	Clock   reader.Clock
	Missing []symbolize.Missing

	opened []*symbolize.Opened
	files  []machineFile
	builds []*build
	apart  bool // machines run several programs
	names  joinedNames
}

// Names are the names of the functions.
func (m *Trace) Names() symbolize.Names { return &m.names }

// Close closes the files that names are from, but no trace.
func (m *Trace) Close() (err error) {
	for _, o := range m.opened {
		err = errors.Join(err, o.Close())
	}
	return err
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
func (m *Trace) number(called []map[reader.FuncID]bool) {
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
func originOf(path string, r *reader.Recording) Origin {
	o := Origin{File: path}
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

// Sources says where names are from.
type Sources struct {
	Open   func(path string) (*reader.Trace, error) // opens a file of the trace once more
	Given  map[int]string                           // files of objects
	Auto   bool                                     // find others
	Search symbolize.Search
}

// Join joins the files of a trace, if they come from several machines or builds. Otherwise it returns
// nil: package reader tells programs of a machine apart.
func Join(t *reader.Trace, from Sources) (*Trace, error) {
	files := t.Files()
	m := &Trace{Trace: t, Origins: make([]Origin, len(files))}
	if !m.isSeveral() {
		return nil, nil
	}
	if slices.Contains(files, "-") {
		return nil, errors.New("standard input cannot be used with traces from other machines or builds: save it to a file first")
	}
	t.Separate()
	err := m.open(from)
	if err == nil {
		err = m.order()
	}
	if err != nil {
		return nil, errors.Join(err, m.Close())
	}
	if m.files[0].clock.Known() {
		m.Clock.Frequency = nanosPerSecond
	}
	return m, nil
}

// isSeveral sets the origins of files, and reports whether they are of several machines or builds.
func (m *Trace) isSeveral() bool {
	several := false
	programs := make(map[string]string) // by host
	builds := make(map[string]string)   // by program
	for i, path := range m.Files() {
		m.Origins[i] = originOf(path, m.Recording(i))
		o := &m.Origins[i]
		program := programName(m.Recording(i))
		if builds[program] == "" {
			builds[program] = o.Build
		}
		if of := programs[o.Host]; of == "" {
			programs[o.Host] = program
		} else if of != program {
			m.apart = true
		}
		several = several || o.Host != m.Origins[0].Host || o.Build != builds[program] || !slices.Equal(o.Labels, m.Origins[0].Labels)
	}
	_, _, err1 := m.Objects()
	_, err2 := m.CycleFrequency()
	return several || err1 != nil || err2 != nil
}

const nanosPerSecond = 1_000_000_000

// open finds the names of all files, once for each build.
func (m *Trace) open(from Sources) error {
	if from.Auto {
		return errors.New("--object auto needs traces of one build")
	}
	byObjects := make(map[string]*build)
	for _, path := range m.Files() {
		t, err := from.Open(path)
		if err != nil {
			return err
		}
		b, err := m.buildOf(t, from, byObjects)
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
func (m *Trace) buildOf(t *reader.Trace, from Sources, known map[string]*build) (*build, error) {
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
	opened, err := symbolize.Open(t, from.Given, from.Search)
	if err != nil {
		return nil, err
	}
	m.opened = append(m.opened, opened)
	m.Missing = append(m.Missing, opened.Missing...)
	b := &build{
		names: opened.Names, tails: opened.TailCalls(), n: len(m.builds),
		ids: make(map[reader.FuncID]reader.FuncID), own: make(map[reader.FuncID]reader.FuncID),
	}
	known[key], m.builds = b, append(m.builds, b)
	return b, nil
}

// order gives each machine a time of its own. It passes over the trace.
func (m *Trace) order() error {
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
	for i, o := range m.Origins {
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
		m.Origins[i].Start = m.files[i].start
	}
	return nil
}

// Continues returns a function that reports whether a function may end with a tail call of another one, in
// a build, or nil if no binary shows that.
func (m *Trace) Continues() func(from, to reader.FuncID) bool {
	if !slices.ContainsFunc(m.builds, func(b *build) bool { return b.tails != nil }) {
		return nil
	}
	return m.continues
}

func (m *Trace) continues(from, to reader.FuncID) bool {
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
func (m *Trace) Each(n int, fn func(shard int, b *reader.Block) error) error {
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
func (m *Trace) EachPacked(n int, fn func(shard int, b *reader.Block) error) error {
	return m.Each(n, fn)
}
