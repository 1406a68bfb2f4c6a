package convert

import (
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"io"
	"math"
	"slices"
	"strconv"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/reader/calls"
)

// Perfetto writes a protobuf trace for Perfetto's UI and trace processor. It is a fifth of the
// size of Chrome's JSON, with times in whole nanoseconds.
//
// Each thread is a sequence of packets with an incremental clock and its own interned names
// and source locations. A call is a slice, whose annotations show its arguments and results, and how
// it ended if it has no exit record. Custom and typed events are instants. Those that name a
// request have the flow of that request, so that viewers draw arrows from thread to thread.
// A counter samples how many calls of a thread are open, and another shows how many records
// the trace lost. Runs of the calls that Options.LeftOut describes are slices, with the
// number and the time of the calls, and a counter for each thread shows how many were
// omitted. Off-CPU times are slices on a track below that of their thread. With
// Options.Sched, an annotation shows what ran instead or what ended the wait. If a thread of
// the process ended it, a flow leads from there to the slice. Interrupts are slices on
// another track. The scheduler events are there as ftrace has them, too, from which viewers draw
// lanes of CPUs and states of threads. Each sentence of Options.Caveats has a track.
//
// If the frequency is unknown, a nanosecond stands for a tick. Times before Options.Base
// become 0.
//
// It is a sink for calls.Options with Opens, and without a MinDuration. Use
// Options.Shortest instead. Memory grows with threads, with the functions of each, and with
// the depth of their stacks.
type Perfetto struct {
	out     output
	opts    Options
	time    timeline
	tracks  tracks
	threads perThread[*perfettoThread]
	last    int64 // of all threads: time of the latest packet
	// byThread has the threads that have calls, and pendingWakes the wake-ups by other threads.
	byThread     map[reader.Thread]*perfettoThread
	pendingWakes map[reader.Thread][]wakeUp
	memory       int64 // bytes of the threads' names and pending instants
	withoutLanes []string
	named        []calls.Recorded // of the current call
}

// perfettoThread is the state of a sequence of packets.
type perfettoThread struct {
	thread reader.Thread
	head   []byte // start of packets: the sequence and its flags
	// headWords are head and the tag of the time: headSize bytes, little-endian.
	headWords [2]uint64
	headSize  int
	counter   uint64 // track of the open calls
	last      int64  // time of the latest packet
	count     int    // number of open calls after the latest packet
	// unsampled is the number of packets since the last sample of the counter.
	unsampled int
	names     map[string]uint64
	begins    eventTemplates // of packets that begin a call
	calls     longCalls
	// pending are the instants in open calls that may be omitted.
	pending     []pendingInstant
	leftOut     []byte // the track event that begins a run of omitted calls
	hasGaps     bool   // the track of off-CPU times is described already
	interrupted uint64 // interrupts that begin before this TSC are written
	absent      bool   // the track of the counter of omitted calls is not described yet
	// fresh is interned data for the next packet.
	fresh []byte
	// memory is the thread's part of Perfetto.memory, and nameBytes the length of its names.
	memory, nameBytes int64
}

// pendingInstant is an instant that waits until all calls around it are either written or omitted.
// With Options.LeftOut, it is omitted with the innermost call.
type pendingInstant struct {
	tsc   uint64
	open  int    // calls around it
	event []byte // the fields of the track event
}

// Field numbers and constants of Perfetto's protos/perfetto/trace.
const (
	tracePacket = 1

	packetClockSnapshot  = 6
	packetTimestamp      = 8
	packetSequence       = 10
	packetTrackEvent     = 11
	packetInternedData   = 12
	packetSequenceFlags  = 13
	packetTimestampClock = 58
	packetDefaults       = 59
	packetTrack          = 60

	stateCleared, needsState = 1, 2

	trackUUID, trackName, trackParent, trackProcessField, trackThreadField, trackCounter = 1, 2, 5, 3, 4, 8

	eventAnnotation, eventType, eventName, eventTrack, eventNameText, eventCount, eventSource, eventFlow = 4, 9, 10, 11, 23, 30, 34, 47

	sliceBegin, sliceEnd, instantEvent, counterEvent = 1, 2, 3, 4

	internedNames, internedSources = 2, 4

	annotationBool, annotationUint, annotationInt, annotationDouble = 2, 3, 4, 5
	annotationText, annotationPointer, annotationName               = 6, 7, 10

	clockRealtime, clockBoottime, clockOfSequence = 1, 6, 64
)

// Track numbers. Those of threads count from 1.
const (
	processTrack    = 1 << 40
	counterTracks   = 1 << 41
	lostTrack       = 1 << 42
	caveatTracks    = 1 << 43
	leftOutTracks   = 1 << 44
	offCPUTracks    = 1 << 45
	interruptTracks = 1 << 46
	windowTracks    = 1 << 47
	// The sequence of packets that belong to no thread.
	commonSequence = math.MaxUint32
)

// NewPerfetto starts the trace.
func NewPerfetto(w io.Writer, opts Options) *Perfetto {
	p := &Perfetto{
		out: newOutput(w), opts: opts, time: opts.timeline(),
		byThread: make(map[reader.Thread]*perfettoThread), pendingWakes: make(map[reader.Thread][]wakeUp),
	}
	p.tracks = newTracks(&p.opts)
	if opts.Epoch != 0 {
		var snapshot []byte
		snapshot = appendClock(snapshot, clockBoottime, 0, false)
		snapshot = appendClock(snapshot, clockRealtime, opts.Epoch, false)
		var packet []byte
		packet = appendPresent(packet, packetSequence, commonSequence)
		packet = appendBytes(packet, packetClockSnapshot, snapshot)
		p.out.buf = appendBytes(p.out.buf, tracePacket, packet)
	}
	return p
}

// Calls implements [calls.Sink].
func (p *Perfetto) Calls(b *calls.Batch) error {
	t := p.thread(b)
	if p.byThread[t.thread] != t && len(p.opts.Sched) > 0 {
		p.wakesBefore(t)
	}
	if p.plain(t, b) {
		p.plainCalls(t, b)
	} else {
		p.allCalls(t, b)
	}
	p.gaps(t, b)
	p.interrupts(t, b)
	if b.Last {
		t.calls.finish()
		if t.unsampled > 0 {
			p.sample(t)
		}
	}
	p.measure(t)
	return p.out.err
}

// Memory implements [calls.MemoryUser].
func (p *Perfetto) Memory() int64 { return p.memory + 2*perThreadBytes*int64(len(p.threads)) }

// measure updates what a thread holds.
func (p *Perfetto) measure(t *perfettoThread) {
	const perName, perTemplate, perInstant = 96, 160, 128
	memory := t.nameBytes + perName*int64(len(t.names)) + perTemplate*int64(t.begins.used) + perInstant*int64(len(t.pending))
	p.memory += memory - t.memory
	t.memory = memory
}

// allCalls writes the calls and the events of any batch.
func (p *Perfetto) allCalls(t *perfettoThread, b *calls.Batch) {
	i := 0
	b.Replay(
		t.calls.enter,
		func(c *calls.Call, args []calls.Arg) {
			p.named = p.opts.Values.Of(b, i, p.named[:0])
			i++
			p.leave(t, c, args)
		},
		func(e *calls.Event) {
			if t.calls.settle(e.TSC) {
				p.instantsBefore(t, math.MaxUint64)
			}
			p.instant(t, e)
		})
}

// instantsBefore writes the pending instants up to and including a time.
func (p *Perfetto) instantsBefore(t *perfettoThread, tsc uint64) {
	if len(t.pending) == 0 {
		return
	}
	n := 0
	for n < len(t.pending) && t.pending[n].tsc <= tsc {
		p.packet(t, t.pending[n].tsc, t.pending[n].event, 0)
		n++
	}
	t.pending = slices.Delete(t.pending, 0, n)
}

// leave ends the innermost call.
func (p *Perfetto) leave(t *perfettoThread, c *calls.Call, args []calls.Arg) {
	shown := t.calls.leave(c)
	if !shown && t.calls.short != nil {
		t.dropInstants(len(t.calls.open))
	}
	if t.calls.shown == len(t.calls.open) {
		p.instantsBefore(t, math.MaxUint64)
	}
	if shown {
		p.end(t, c, args)
	}
}

// end writes the end of a call with the values in named, or its logged arguments if it has none.
func (p *Perfetto) end(t *perfettoThread, c *calls.Call, args []calls.Arg) {
	if len(args)+len(p.named) == 0 && c.Ending() < calls.Inferred {
		p.packet(t, c.Start+c.Duration, plainEnd, -1)
		return
	}
	event := slices.Clone(plainEnd)
	for i := range p.named {
		event = annotateValue(event, &p.named[i])
		args = nil // they are among the values
	}
	for i := range args {
		name := "argument"
		if len(args) > 1 {
			name += " " + strconv.Itoa(i+1)
		}
		event = annotateNumber(event, name, args[i].Value)
	}
	if c.Ending() >= calls.Inferred {
		event = annotateText(event, "end", c.Ending().String())
	}
	p.packet(t, c.Start+c.Duration, event, -1)
}

// plainEnd ends a call without further information.
var plainEnd = appendPresent(nil, eventType, sliceEnd)

// begin writes the start of a call.
func (p *Perfetto) begin(t *perfettoThread, o *openCall) {
	p.instantsBefore(t, o.start)
	p.templated(t, o.start, p.beginning(t, o.fn), 1)
}

// beginning returns the template of packets that begin calls of a function. It is valid
// until the next call.
func (p *Perfetto) beginning(t *perfettoThread, fn reader.FuncID) *eventTemplate {
	if begin := t.begins.find(fn); begin != nil {
		return begin
	}
	return t.begins.add(newEventTemplate(fn, p.intern(t, fn)))
}

// instant writes a custom or typed event, or keeps it until the calls around it are settled.
func (p *Perfetto) instant(t *perfettoThread, e *calls.Event) {
	event := appendPresent(nil, eventType, instantEvent)
	mark, isMark := e.Mark()
	event = appendText(event, eventNameText, e.Name())
	switch {
	case isMark && mark.Request:
		event = annotateText(event, "request", strconv.FormatUint(mark.ID, 10))
		if mark.Text != "" {
			event = annotateText(event, "text", mark.Text)
		}
		if mark.ID != 0 {
			event = protowire.AppendTag(event, eventFlow, protowire.Fixed64Type)
			event = protowire.AppendFixed64(event, mark.ID^uint64(t.thread.File)<<56)
		}
	case isMark:
	case e.IsText():
		event = annotateText(event, "text", string(e.Data))
	default:
		event = annotateText(event, "hex", hex.EncodeToString(e.Data))
	}
	if t.calls.shown < len(t.calls.open) {
		t.pending = append(t.pending, pendingInstant{e.TSC, len(t.calls.open), event})
		return
	}
	p.packet(t, e.TSC, event, 0)
}

// The counter of open calls is written before and after an idle time of at least quiet nanoseconds,
// after every often packets, and at the end of a thread.
const quiet, often = 1e6, 64

// packet writes a track event of a thread. change is added to the number of open calls.
func (p *Perfetto) packet(t *perfettoThread, tsc uint64, event []byte, change int) {
	at := max(0, p.time.at(tsc))
	paused := at-t.last >= quiet
	if paused && t.unsampled > 0 {
		p.sample(t)
	}
	p.write(t, t.head, at-t.last, event)
	t.last, p.last = at, max(p.last, at)
	t.count += change
	if t.unsampled++; paused || t.unsampled >= often {
		p.sample(t)
	}
}

// sample writes the number of open calls at the time of the latest packet.
func (p *Perfetto) sample(t *perfettoThread) {
	var buf [32]byte
	event := appendPresent(buf[:0], eventType, counterEvent)
	event = appendPresent(event, eventTrack, t.counter)
	p.write(t, t.head, 0, appendPresent(event, eventCount, uint64(t.count)))
	t.unsampled = 0
}

// write writes a packet of a thread: head, the time on the clock that head names, and the track
// event.
func (p *Perfetto) write(t *perfettoThread, head []byte, time int64, event []byte) {
	buf := p.out.buf
	body := len(head) + numberSize(packetTimestamp, uint64(time)) + bytesSize(packetTrackEvent, len(event))
	if len(t.fresh) > 0 {
		body += bytesSize(packetInternedData, len(t.fresh))
	}
	buf = protowire.AppendTag(buf, tracePacket, protowire.BytesType)
	buf = protowire.AppendVarint(buf, uint64(body))
	buf = append(buf, head...)
	buf = appendPresent(buf, packetTimestamp, uint64(time))
	if len(t.fresh) > 0 {
		buf = appendBytes(buf, packetInternedData, t.fresh)
		t.fresh = t.fresh[:0]
	}
	p.out.buf = p.out.spill(appendBytes(buf, packetTrackEvent, event))
}

// intern assigns IDs to the name and the source location of a function, and returns the track event
// that begins a call of it. The next packet contains the interned data.
func (p *Perfetto) intern(t *perfettoThread, id reader.FuncID) []byte {
	label := p.opts.label(id)
	begin := appendPresent(nil, eventType, sliceBegin)
	begin = appendPresent(begin, eventName, t.name(label))
	if p.opts.Names != nil {
		if s, ok := p.opts.Names.Func(id); ok && s.File != "" {
			source := uint64(t.begins.used + 1)
			entry := appendText(appendPresent(nil, 1, source), 2, s.File)
			entry = appendText(entry, 3, label)
			t.fresh = appendBytes(t.fresh, internedSources, appendNumber(entry, 4, uint64(max(s.Line, 0))))
			begin = appendPresent(begin, eventSource, source)
		}
	}
	return begin
}

// name returns the ID of a name. The next packet contains the name if it is new.
func (t *perfettoThread) name(label string) uint64 {
	name := t.names[label]
	if name == 0 {
		name = uint64(len(t.names) + 1)
		t.names[label] = name
		t.nameBytes += int64(len(label))
		t.fresh = appendBytes(t.fresh, internedNames, appendText(appendPresent(nil, 1, name), 2, label))
	}
	return name
}

// thread returns the state of the batch's thread. On the first call, it begins the thread's
// sequence.
func (p *Perfetto) thread(b *calls.Batch) *perfettoThread {
	at := p.threads.at(b.Index)
	if *at != nil {
		return *at
	}
	number := uint64(b.Index + 1)
	t := &perfettoThread{
		thread: b.Thread, counter: counterTracks | number,
		names: map[string]uint64{}, absent: true,
		unsampled: often, // the first packet has a sample
	}
	t.calls = longCalls{
		min: p.opts.Shortest, memory: &p.memory, begin: func(o *openCall) { p.begin(t, o) },
		short: p.opts.shortCalls(&p.memory, func(r *shortRun) { p.run(t, r) }, func(tsc, n uint64) { p.leftOutFrom(t, number, tsc, n) }),
	}
	*at = t
	pid, known := p.tracks.process(b.Thread)
	process := processTrack | uint64(pid)
	if !known {
		p.process(pid, p.tracks.processBeside(b.Thread, pid))
	}
	about := appendPresent(nil, 1, uint64(pid))
	about = appendPresent(about, 2, uint64(b.Thread.Thread))
	about = appendText(about, 5, p.tracks.threadBeside(b.Thread))
	p.track(number, process, trackThreadField, about, "")
	p.track(t.counter, number, trackCounter, nil, "open calls")

	snapshot := appendClock(nil, clockBoottime, 0, false)
	snapshot = appendClock(snapshot, clockOfSequence, 0, true)
	defaults := appendPresent(nil, packetTimestampClock, clockOfSequence)
	defaults = appendBytes(defaults, packetTrackEvent, appendPresent(nil, eventTrack, number))
	first := appendPresent(nil, packetSequence, number)
	first = appendPresent(first, packetSequenceFlags, stateCleared)
	first = appendBytes(first, packetDefaults, defaults)
	first = appendBytes(first, packetClockSnapshot, snapshot)
	p.out.buf = appendBytes(p.out.buf, tracePacket, first)
	t.head = appendPresent(nil, packetSequence, number)
	t.head = appendPresent(t.head, packetSequenceFlags, needsState)
	var words [16]byte
	t.headSize = len(protowire.AppendTag(append(words[:0], t.head...), packetTimestamp, protowire.VarintType))
	t.headWords = [2]uint64{binary.LittleEndian.Uint64(words[:]), binary.LittleEndian.Uint64(words[8:])}
	return t
}

// process describes a process.
func (p *Perfetto) process(pid int64, name string) {
	about := appendText(appendPresent(nil, 1, uint64(pid)), 6, name)
	p.track(processTrack|uint64(pid), 0, trackProcessField, about, "")
}

// track describes a track. field determines its kind.
func (p *Perfetto) track(uuid, parent uint64, field protowire.Number, about []byte, name string) {
	track := appendPresent(nil, trackUUID, uuid)
	if name != "" {
		track = appendText(track, trackName, name)
	}
	track = appendBytes(track, field, about)
	if parent != 0 {
		track = appendPresent(track, trackParent, parent)
	}
	packet := appendPresent(nil, packetSequence, commonSequence)
	p.out.buf = appendBytes(p.out.buf, tracePacket, appendBytes(packet, packetTrack, track))
}

// Close writes the rest.
func (p *Perfetto) Close() error {
	if len(p.threads) == 0 {
		// The UI cannot open an empty file.
		p.out.buf = appendBytes(p.out.buf, tracePacket, appendPresent(nil, packetSequence, commonSequence))
	}
	if len(p.opts.Sched) > 0 {
		p.lanes()
	}
	caveats := p.opts.caveats()
	for _, file := range p.withoutLanes {
		caveats = append(caveats, "The lanes of CPUs lack "+file+": another trace has its process or thread IDs.")
	}
	for i, text := range caveats {
		track := uint64(caveatTracks + i)
		p.track(track, 0, trackName, []byte(validText(text)), "")
		event := appendPresent(nil, eventType, instantEvent)
		event = appendPresent(event, eventTrack, track)
		p.common(0, appendText(event, eventNameText, text))
	}
	p.windows()
	if p.opts.Lost != nil {
		if n := p.opts.Lost(); n > 0 {
			p.track(lostTrack, 0, trackCounter, nil, "records lost")
			event := appendPresent(nil, eventType, counterEvent)
			event = appendPresent(event, eventTrack, lostTrack)
			event = appendPresent(event, eventCount, uint64(n))
			p.common(p.last, event)
		}
	}
	return p.out.finish("")
}

// windows writes the windows of the recording, to a track for each file that has any.
func (p *Perfetto) windows() {
	for file, windows := range p.opts.Windows {
		if len(windows) == 0 {
			continue
		}
		name, track := "recorded", uint64(windowTracks+file)
		if of := p.opts.file(reader.Thread{File: int32(file)}); of != "" {
			name += " of " + of
		}
		p.track(track, 0, trackName, []byte(validText(name)), "")
		begin := appendPresent(appendPresent(nil, eventType, sliceBegin), eventTrack, track)
		begin = appendText(begin, eventNameText, "window")
		end := appendPresent(appendPresent(nil, eventType, sliceEnd), eventTrack, track)
		for _, w := range windows {
			from, to := max(0, p.time.at(w.From)), p.last
			if w.To != 0 {
				to = p.time.at(w.To)
			}
			p.common(from, begin)
			p.common(max(to, from), end)
		}
	}
}

// common writes a track event that belongs to no thread.
func (p *Perfetto) common(at int64, event []byte) {
	packet := appendPresent(nil, packetSequence, commonSequence)
	packet = appendPresent(packet, packetTimestamp, uint64(at))
	p.out.buf = appendBytes(p.out.buf, tracePacket, appendBytes(packet, packetTrackEvent, event))
}

func appendClock(dst []byte, id, time uint64, incremental bool) []byte {
	clock := appendPresent(nil, 1, id)
	clock = appendPresent(clock, 2, time)
	if incremental {
		clock = appendPresent(clock, 3, 1)
	}
	return appendBytes(dst, 1, clock)
}

// annotateNumber annotates an event with a number, as a pointer if it is hexadecimal.
func annotateNumber(dst []byte, name string, v uint64) []byte {
	kind := protowire.Number(annotationUint)
	if isHexadecimal(v) {
		kind = annotationPointer
	}
	return appendBytes(dst, eventAnnotation, appendPresent(appendText(nil, annotationName, name), kind, v))
}

// annotateValue annotates an event with an argument or a result.
func annotateValue(dst []byte, r *calls.Recorded) []byte {
	annotation := appendText(nil, annotationName, r.Expression.Expression)
	var v any
	if json.Unmarshal(r.JSON(), &v) != nil || v == nil || r.Truncated() {
		v = r.Text()
	}
	switch v := v.(type) {
	case bool:
		annotation = appendPresent(annotation, annotationBool, protowire.EncodeBool(v))
	case float64:
		if v != math.Trunc(v) || math.Abs(v) > 1<<53 {
			annotation = protowire.AppendTag(annotation, annotationDouble, protowire.Fixed64Type)
			annotation = protowire.AppendFixed64(annotation, math.Float64bits(v))
			break
		}
		annotation = appendPresent(annotation, annotationInt, uint64(int64(v)))
	case string:
		annotation = appendText(annotation, annotationText, v)
	}
	return appendBytes(dst, eventAnnotation, annotation)
}

func annotateText(dst []byte, name, text string) []byte {
	return appendBytes(dst, eventAnnotation, appendText(appendText(nil, annotationName, name), annotationText, text))
}

func numberSize(field protowire.Number, v uint64) int {
	return protowire.SizeTag(field) + protowire.SizeVarint(v)
}

func bytesSize(field protowire.Number, n int) int {
	return protowire.SizeTag(field) + protowire.SizeBytes(n)
}
