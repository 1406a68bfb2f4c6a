package reader

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"

	"go.yaml.in/yaml/v4"

	"github.com/xray-tools/xray/internal/frames"
	"github.com/xray-tools/xray/internal/yamltext"
)

// Trace YAML is the output of `llvm-xray convert -f yaml`: a header, and the records as a
// sequence of flow mappings, one per line. It is for people and tests. The events are kept
// in memory, 16 bytes for about 130 bytes of text.
//
// A scanner reads the form that LLVM writes. Other YAML goes to a YAML library, unless it
// is large.

// yamlTrace is a trace in YAML.
type yamlTrace struct {
	file    *file
	threads *threadIndex
	byIndex map[int]*yamlLane
	order   []*yamlLane
	runs    []*yamlLane // the lane of each next run
	// names are those of functions, "" if records disagree, and named their bytes.
	names map[FuncID]string
	named int
}

// yamlRun is a run of records of one thread.
type yamlRun struct {
	place int64 // in yamlTrace.runs
	end   int   // in yamlLane.events
}

type yamlLane struct {
	thread   Thread
	index    int
	events   []Event
	runs     []yamlRun
	args     []Arg     // with indices into events
	payloads []Payload // likewise
}

const (
	maxYAMLLine = 16 << 20
	// maxYAMLHeader limits the keys of a header, which has five.
	maxYAMLHeader = 16
	// maxYAMLNames limits the bytes of names.
	maxYAMLNames = 64 << 20
)

// yamlRecord is one record of trace YAML.
type yamlRecord struct {
	typ             uint16
	fn              int32
	cpu             uint16
	thread, process int32
	kind            Kind
	tsc             uint64
	args            []uint64
	data            []byte
	name            []byte // of the function, or its ID in text
}

func parseYAML(f *file, threads *threadIndex) (*yamlTrace, error) {
	y := &yamlTrace{file: f, threads: threads, byIndex: make(map[int]*yamlLane)}
	if err := looksLikeText(f.in); err != nil {
		return nil, &FormatError{f.name, 0, err}
	}
	defer y.setNames()
	place, err := y.scan()
	var odd *unexpectedYAML
	if errors.As(err, &odd) {
		if f.in.size > yamltext.MaxText {
			return nil, place.wrap(f, fmt.Errorf("%w; YAML of this size must have the form that llvm-xray writes", odd))
		}
		*y = yamlTrace{file: f, threads: threads, byIndex: make(map[int]*yamlLane)}
		f.header = Header{}
		if err := y.load(); err != nil {
			return nil, &FormatError{f.name, 0, fmt.Errorf("%w: as YAML: %w", ErrNotTrace, err)}
		}
		return y, nil
	}
	if err != nil {
		return nil, place.wrap(f, err)
	}
	return y, nil
}

// yamlPlace is the position of a line.
type yamlPlace struct {
	line   int
	offset int64 // of its first byte
}

func (p yamlPlace) wrap(f *file, err error) error {
	return &FormatError{f.name, p.offset, fmt.Errorf("line %d: %w", p.line, err)}
}

// looksLikeText rejects binary files early, with a clear message.
func looksLikeText(in *input) error {
	var b [512]byte
	n, err := readFull(in, b[:], 0)
	if err != nil {
		return err
	}
	return isText(b[:n])
}

func isText(b []byte) error {
	if len(b) == 0 {
		return fmt.Errorf("%w: the file is empty: did the program end normally, or flush its log?", ErrNotTrace)
	}
	for _, c := range b {
		if c < ' ' && c != '\n' && c != '\r' && c != '\t' {
			return fmt.Errorf("%w: it begins neither with a version and type nor with YAML", ErrNotTrace)
		}
	}
	return nil
}

// maybeTrace is the [acceptFunc] of traces.
func maybeTrace(head []byte, whole bool) error {
	_, profiling := profilingOrder(head)
	if _, ok := detect(head); ok || profiling || whole || bytes.HasPrefix(head, []byte(frames.Magic)) {
		return nil // the parsers decide
	}
	if err := isText(head[:min(len(head), 512)]); err != nil {
		return err
	}
	if !bytes.Contains(head, []byte("header")) {
		return fmt.Errorf("%w: it begins neither with a version and type nor with the header of trace YAML", ErrNotTrace)
	}
	return nil
}

// unexpectedYAML reports text that the scanner does not understand, but a YAML library may.
type unexpectedYAML struct{ what string }

func (e *unexpectedYAML) Error() string { return "unexpected " + e.what }

// scan reads the form that LLVM writes, and returns where it stopped. A truncated last line
// is a loss.
func (y *yamlTrace) scan() (at yamlPlace, err error) {
	sc := bufio.NewScanner(io.NewSectionReader(y.file.in, 0, y.file.in.size))
	sc.Buffer(make([]byte, 0, 64<<10), maxYAMLLine)
	next := int64(0)
	sc.Split(func(data []byte, atEOF bool) (int, []byte, error) {
		n, line, err := bufio.ScanLines(data, atEOF)
		next += int64(n)
		return n, line, err
	})
	p := &yamlScanner{trace: y, head: make(map[string]string)}
	for {
		at.offset = next
		if !sc.Scan() {
			break
		}
		at.line++
		done, err := p.line(bytes.TrimSpace(sc.Bytes()))
		var many *TooManyThreadsError
		if err != nil && p.inRecords && next == y.file.in.size && !errors.As(err, &many) {
			y.file.losses.add(Loss{
				Cause: TruncatedFile, File: y.file.name, Offset: at.offset, Bytes: next - at.offset, Records: 1,
				Detail: fmt.Sprintf("line %d: %v", at.line, err),
			})
			break
		}
		if err != nil {
			return at, err
		}
		if done {
			break
		}
	}
	if err := sc.Err(); err != nil {
		return at, fmt.Errorf("%w: %w", ErrNotTrace, err)
	}
	return at, y.setHeader(p.head)
}

// yamlScanner is the state of the scanner after the lines read so far.
type yamlScanner struct {
	trace     *yamlTrace
	head      map[string]string
	inRecords bool
	flow      flowParser
	record    yamlRecord // the latest
}

// line reads a line; done is set at the end of the document.
func (p *yamlScanner) line(b []byte) (done bool, err error) {
	switch {
	case len(b) == 0 || b[0] == '#':
		return false, nil
	case bytes.Equal(b, []byte("---")), bytes.Equal(b, []byte("header:")):
		if p.inRecords {
			return false, &unexpectedYAML{"second document"}
		}
		return false, nil
	case bytes.Equal(b, []byte("...")):
		return true, nil
	case p.inRecords:
		if b[0] != '-' {
			return false, &unexpectedYAML{strconv.Quote(string(b[:min(len(b), 40)]))}
		}
		p.record = yamlRecord{name: p.record.name[:0]}
		if err := p.flow.record(bytes.TrimSpace(b[1:]), &p.record); err != nil {
			return false, err
		}
		return false, p.trace.add(&p.record)
	}
	key, value, ok := bytes.Cut(b, []byte(":"))
	if !ok {
		return false, &unexpectedYAML{strconv.Quote(string(b[:min(len(b), 40)]))}
	}
	v := string(bytes.TrimSpace(value))
	if string(key) == "records" {
		if v != "" && v != "[]" {
			return false, &unexpectedYAML{"records"}
		}
		p.inRecords = v == ""
		return false, nil
	}
	if _, twice := p.head[string(key)]; twice {
		return false, fmt.Errorf("header: duplicate key %q", key)
	}
	if len(p.head) == maxYAMLHeader {
		return false, fmt.Errorf("%w: the YAML has more than %d keys in a header", ErrNotTrace, maxYAMLHeader)
	}
	p.head[string(key)] = v
	return false, nil
}

func (y *yamlTrace) setHeader(head map[string]string) error {
	h := &y.file.header
	h.ByteOrder = binary.LittleEndian
	want := []string{"version", "type", "constant-tsc", "nonstop-tsc", "cycle-frequency"}
	for _, key := range want {
		v, ok := head[key]
		if !ok {
			return fmt.Errorf("%w: the YAML has no %q in a header", ErrNotTrace, key)
		}
		delete(head, key)
		var err error
		var n uint64
		switch key {
		case "version":
			n, err = strconv.ParseUint(v, 0, 16)
			h.Version = uint16(n)
		case "type":
			n, err = strconv.ParseUint(v, 0, 16)
			h.Type = Type(n)
			if n > uint64(FDR) {
				err = errors.New("neither 0 (basic) nor 1 (fdr)")
			}
		case "constant-tsc":
			h.ConstantTSC, err = parseYAMLBool(v)
		case "nonstop-tsc":
			h.NonstopTSC, err = parseYAMLBool(v)
		case "cycle-frequency":
			h.CycleFrequency, err = strconv.ParseUint(v, 0, 64)
		}
		if err != nil {
			return &unexpectedYAML{fmt.Sprintf("header: %s: %v", key, err)}
		}
	}
	for key := range head {
		return &unexpectedYAML{fmt.Sprintf("header: unknown key %q", key)}
	}
	return nil
}

func parseYAMLBool(v string) (bool, error) {
	switch v {
	case "true", "True", "TRUE":
		return true, nil
	case "false", "False", "FALSE":
		return false, nil
	}
	return false, fmt.Errorf("%q is not true or false", v)
}

func (y *yamlTrace) add(r *yamlRecord) error {
	i, err := y.threads.of(y.file, Thread{File: y.file.number, Process: r.process, Thread: r.thread})
	if err != nil {
		return err
	}
	l := y.byIndex[i]
	if l == nil {
		l = &yamlLane{thread: y.threads.list[i], index: i}
		y.byIndex[i] = l
		y.order = append(y.order, l)
	}
	y.name(r)
	n := len(l.events)
	l.events = append(l.events, Event{TSC: r.tsc, Func: FuncID(r.fn), CPU: r.cpu, Kind: r.kind})
	ev := &l.events[n]
	for _, a := range r.args {
		ev.Side = true
		l.args = append(l.args, Arg{Event: n, Value: a})
	}
	if r.kind == Custom || r.kind == Typed {
		ev.Side = true
		l.payloads = append(l.payloads, Payload{Event: n, Type: r.typ, Data: r.data})
	}
	if k := len(y.runs) - 1; k >= 0 && y.runs[k] == l {
		l.runs[len(l.runs)-1].end++
		return nil
	}
	l.runs = append(l.runs, yamlRun{int64(len(y.runs)), n + 1})
	y.runs = append(y.runs, l)
	return nil
}

// name remembers the name of a record's function.
func (y *yamlTrace) name(r *yamlRecord) {
	if r.fn < 1 || r.fn > maxRecordedFunc || y.named > maxYAMLNames {
		return
	}
	known, ok := y.names[FuncID(r.fn)]
	switch {
	case ok && known != "" && known != string(r.name):
		y.names[FuncID(r.fn)] = ""
	case !ok && len(y.names) <= maxNamedFunctions && isYAMLName(r):
		if y.names == nil {
			y.names = make(map[FuncID]string)
		}
		y.names[FuncID(r.fn)] = string(r.name)
		y.named += len(r.name)
	}
}

// isYAMLName reports whether a record has the name of its function. Without one, it has the ID or, from
// llvm-xray, the address.
func isYAMLName(r *yamlRecord) bool {
	var id [12]byte
	return len(r.name) > 0 && !bytes.HasPrefix(r.name, []byte("@(")) && r.name[0] != '#' &&
		!bytes.Equal(r.name, strconv.AppendInt(id[:0], int64(r.fn), 10))
}

// setNames makes the names those of the trace, as if it was packed with them.
func (y *yamlTrace) setNames() {
	var r Recording
	for _, fn := range slices.Sorted(maps.Keys(y.names)) {
		if y.names[fn] != "" && len(r.Functions) < maxNamedFunctions {
			r.Functions = append(r.Functions, NamedFunction{ID: fn, Name: y.names[fn]})
		}
	}
	if len(r.Functions) > 0 {
		y.file.recording = &r
	}
	if y.named > maxYAMLNames || len(y.names) > maxNamedFunctions {
		y.file.losses.add(Loss{Cause: BadMetadata, File: y.file.name, Records: 1,
			Detail: fmt.Sprintf("the names of functions exceed %d MB or %d functions", maxYAMLNames>>20, maxNamedFunctions)})
	}
	y.names = nil
}

// load reads any YAML with a library.
func (y *yamlTrace) load() error {
	if y.file.in.size > yamltext.MaxText {
		return yamltext.ErrLarge
	}
	text := make([]byte, y.file.in.size)
	if n, err := readFull(y.file.in, text, 0); err != nil || n < len(text) {
		return errors.Join(err, io.ErrUnexpectedEOF)
	}
	root, err := yamltext.Load(text)
	if err != nil {
		return err
	}
	head := make(map[string]string)
	var records *yaml.Node
	err = yamltext.Pairs(root, maxYAMLHeader, func(key, value *yaml.Node) error {
		switch key.Value {
		case "header":
			return yamltext.Pairs(value, maxYAMLHeader, func(key, value *yaml.Node) error {
				head[key.Value] = value.Value
				return nil
			})
		case "records":
			records = value
		}
		return nil
	})
	if err != nil {
		return err
	}
	if err := y.setHeader(head); err != nil {
		return err
	}
	if records == nil || records.Tag == "!!null" {
		return nil
	}
	return yamltext.Items(records, func(i int, item *yaml.Node) error {
		var r yamlRecord
		if err := r.load(item); err != nil {
			return fmt.Errorf("record %d: %w", i+1, err)
		}
		return y.add(&r)
	})
}

func (r *yamlRecord) load(n *yaml.Node) error {
	var seen [fieldData + 1]bool
	err := yamltext.Pairs(n, len(seen), func(key, value *yaml.Node) error {
		field := recordField(key.Value)
		if field < 0 {
			return fmt.Errorf("unknown key %q", key.Value)
		}
		seen[field] = true
		if field != fieldArgs {
			return r.set(field, []byte(value.Value))
		}
		return yamltext.Items(value, func(_ int, arg *yaml.Node) error { return r.addArg([]byte(arg.Value)) })
	})
	if err != nil {
		return err
	}
	for _, required := range []struct {
		field int
		key   string
	}{{fieldType, "type"}, {fieldCPU, "cpu"}, {fieldKind, "kind"}, {fieldTSC, "tsc"}} {
		if !seen[required.field] {
			return fmt.Errorf("%q is missing", required.key)
		}
	}
	return nil
}
