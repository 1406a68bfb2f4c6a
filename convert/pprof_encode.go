package convert

import (
	"encoding/binary"
	"io"
	"math"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/reader/calls"
	"github.com/xray-tools/xray/symbolize"
)

// pprofEncoder writes a profile.proto message field by field. The pprof module keeps a whole profile
// in memory, at about a kilobyte for a sample with labels. pprofEncoder keeps only functions and
// strings.
//
// Strings, locations, functions and mappings are numbered in order of first use by the samples.
type pprofEncoder struct {
	out       output
	opts      *Options
	clock     reader.Clock
	message   []byte // the current message
	nested    []byte // a message inside it
	strings   map[string]uint64
	table     []string
	frames    map[symbolize.Call][]symbolize.Symbol // of calls whose source location is known
	locations map[symbolize.Call]uint64             // their numbers; Callee is 0 if frames are unknown
	order     []symbolize.Call                      // location i+1
	functions map[pprofFunction]uint64              // their numbers
	mappings  map[symbolize.Object]uint64
	objects   []pprofMapping // mapping i+1
	path      calls.PathID   // of the last sample
	stack     []byte         // its encoded locations
	thread    reader.Thread  // of the last sample with labels
	labels    []byte         // its encoded labels
}

// pprofMapping is an object and the known properties of its functions.
type pprofMapping struct {
	symbolize.Object
	filenames, lines, inlines bool
}

// valueType is the type of a sample's value.
type valueType struct{ name, unit string }

// Field numbers of profile.proto.
const (
	profileSampleType        = 1
	profileSample            = 2
	profileMapping           = 3
	profileLocation          = 4
	profileFunction          = 5
	profileStringTable       = 6
	profileDurationNanos     = 10
	profileComment           = 13
	profileDefaultSampleType = 14

	valueTypeType = 1
	valueTypeUnit = 2

	sampleLocation = 1
	sampleValue    = 2
	sampleLabel    = 3

	labelKey    = 1
	labelString = 2
	labelNumber = 3

	mappingID           = 1
	mappingStart        = 2
	mappingLimit        = 3
	mappingOffset       = 4
	mappingFilename     = 5
	mappingBuildID      = 6
	mappingHasFunctions = 7
	mappingHasFilenames = 8
	mappingHasLines     = 9
	mappingHasInlines   = 10

	locationID      = 1
	locationMapping = 2
	locationAddress = 3
	locationLine    = 4

	lineFunction = 1
	lineLine     = 2
	lineColumn   = 3

	functionID         = 1
	functionName       = 2
	functionSystemName = 3
	functionFilename   = 4
	functionStartLine  = 5
)

func newPprofEncoder(w io.Writer, opts *Options) *pprofEncoder {
	return &pprofEncoder{
		out: newOutput(w), opts: opts, clock: reader.Clock{Frequency: opts.Header.CycleFrequency},
		strings: map[string]uint64{"": 0}, table: []string{""},
		locations: map[symbolize.Call]uint64{}, functions: map[pprofFunction]uint64{}, mappings: map[symbolize.Object]uint64{},
	}
}

func appendFlag(dst []byte, field protowire.Number, v bool) []byte {
	if !v {
		return dst
	}
	return appendNumber(dst, field, 1)
}

// field writes a message as a field of the profile.
func (e *pprofEncoder) field(field protowire.Number, message []byte) {
	e.out.buf = e.out.spill(appendBytes(e.out.buf, field, message))
}

// string returns the index of a string in the string table.
func (e *pprofEncoder) string(s string) uint64 {
	n, ok := e.strings[s]
	if !ok {
		n = uint64(len(e.table))
		e.strings[s] = n
		e.table = append(e.table, validText(s))
	}
	return n
}

func (e *pprofEncoder) comment(s string) {
	e.out.buf = appendNumber(e.out.buf, profileComment, e.string(s))
}

func (e *pprofEncoder) duration(ns uint64) {
	e.out.buf = appendNumber(e.out.buf, profileDurationNanos, min(ns, math.MaxInt64))
}

func (e *pprofEncoder) sampleTypes(shown valueType, all ...valueType) {
	for _, t := range all {
		m := appendNumber(e.message[:0], valueTypeType, e.string(t.name))
		e.message = appendNumber(m, valueTypeUnit, e.string(t.unit))
		e.field(profileSampleType, e.message)
	}
	e.out.buf = appendNumber(e.out.buf, profileDefaultSampleType, e.string(shown.name))
}

// sample writes the tally of a path.
func (e *pprofEncoder) sample(paths *calls.Paths, s *pprofSample) {
	if s.path != e.path {
		e.path, e.stack = s.path, e.stack[:0]
		callee := reader.FuncID(0)
		for p := s.path; p != 0; p = paths.Parent(p) {
			at := symbolize.Call{Caller: paths.Func(p), Callee: callee}
			e.stack = binary.AppendUvarint(e.stack, e.location(at))
			callee = at.Caller
		}
	}
	m := appendBytes(e.message[:0], sampleLocation, e.stack)
	e.nested = binary.AppendUvarint(e.nested[:0], min(s.calls, math.MaxInt64))
	e.nested = binary.AppendUvarint(e.nested, min(e.clock.Nanos(s.selfTSC), math.MaxInt64))
	if e.opts.OffCPU != nil {
		off := s.off.Sum()
		for _, ticks := range [...]uint64{s.selfTSC - min(off, s.selfTSC), s.off.Blocked, s.off.Queued} {
			e.nested = binary.AppendUvarint(e.nested, min(e.clock.Nanos(ticks), math.MaxInt64))
		}
	}
	m = appendBytes(m, sampleValue, e.nested)
	if e.opts.Threads {
		if s.thread != e.thread || e.labels == nil {
			e.thread, e.labels = s.thread, e.appendLabels(e.labels[:0], s.thread)
		}
		m = append(m, e.labels...)
	}
	e.message = m
	e.field(profileSample, m)
}

// appendLabels appends the thread of a sample. IDs are numeric labels, so that pprof filters them by
// value: -tagfocus=thread=17, or thread=17:20. pprof treats a bare number as a range, which string
// labels never match.
func (e *pprofEncoder) appendLabels(dst []byte, t reader.Thread) []byte {
	number := func(key string, v int32) {
		m := appendNumber(e.nested[:0], labelKey, e.string(key))
		e.nested = appendNumber(m, labelNumber, uint64(v))
		dst = appendBytes(dst, sampleLabel, e.nested)
	}
	number("process", t.Process)
	number("thread", t.Thread)
	text := func(key, v string) {
		if v == "" {
			return
		}
		m := appendNumber(e.nested[:0], labelKey, e.string(key))
		e.nested = appendNumber(m, labelString, e.string(v))
		dst = appendBytes(dst, sampleLabel, e.nested)
	}
	text("thread_name", nameOf(e.opts.ThreadName, t))
	text("trace", e.opts.file(t))
	return dst
}

// close writes everything that the samples refer to.
func (e *pprofEncoder) close() error {
	for i, c := range e.order {
		e.writeLocation(uint64(i+1), c)
	}
	for i, o := range e.objects {
		m := appendNumber(e.message[:0], mappingID, uint64(i+1))
		m = appendNumber(m, mappingStart, o.Start)
		m = appendNumber(m, mappingLimit, o.Limit)
		m = appendNumber(m, mappingOffset, o.Offset)
		m = appendNumber(m, mappingFilename, e.string(o.Path))
		m = appendNumber(m, mappingBuildID, e.string(o.BuildID))
		m = appendFlag(m, mappingHasFunctions, true)
		m = appendFlag(m, mappingHasFilenames, o.filenames)
		m = appendFlag(m, mappingHasLines, o.lines)
		e.message = appendFlag(m, mappingHasInlines, o.inlines)
		e.field(profileMapping, e.message)
	}
	for _, s := range e.table {
		e.out.buf = e.out.spill(appendBytes(e.out.buf, profileStringTable, s))
	}
	return e.out.finish("")
}
