package reader

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strconv"
)

// MetadataKind is the kind of the body of a metadata event.
type MetadataKind uint16

const (
	MetadataProcess    MetadataKind = 1
	MetadataObjects    MetadataKind = 2
	MetadataThreads    MetadataKind = 3
	MetadataClock      MetadataKind = 4
	MetadataLosses     MetadataKind = 5
	MetadataAddresses  MetadataKind = 6
	MetadataCounters   MetadataKind = 7
	MetadataChanges    MetadataKind = 8
	MetadataProfile    MetadataKind = 9
	MetadataFunctions  MetadataKind = 10 // all events count, not only the last
	MetadataSources    MetadataKind = 11 // likewise
	MetadataPruned     MetadataKind = 12
	MetadataProfileOff MetadataKind = 13 // after kind 9
	MetadataSched      MetadataKind = 14 // all events count
	MetadataTasks      MetadataKind = 15 // likewise
	MetadataMark       MetadataKind = 16 // this kind and the following ones are in blocks of threads
	MetadataRequest    MetadataKind = 17
	MetadataLanding    MetadataKind = 18
	MetadataName       MetadataKind = 19
	MetadataSwitch     MetadataKind = 20
	MetadataResult     MetadataKind = 21
	MetadataDescriptor MetadataKind = 22
	MetadataBudget     MetadataKind = 23 // this kind and the following one describe the whole trace
	MetadataSwitched   MetadataKind = 24
	MetadataWindows    MetadataKind = 25 // all events count
	MetadataEdge       MetadataKind = 26 // of threads, like the following one
	MetadataCut        MetadataKind = 27
	MetadataValue      MetadataKind = 28
	MetadataValues     MetadataKind = 29 // of the whole trace; all events count
	MetadataPart       MetadataKind = 30 // of threads, like the following one
	MetadataStacks     MetadataKind = 31
	MetadataChecksum   MetadataKind = 32 // of each block; no kind whose number differs in one bit exists
)

// metadataSpec is what the reader, the writer, the text forms and docs/dev/format.md know about
// a kind of metadata.
type metadataSpec struct {
	name string
	// set applies the body of an event. It is nil for events of threads. It omits the parts that
	// it returns an error about.
	set func(r *Recording, body []byte) error
	// bodies calls add with the body of each event that encodes r.
	bodies func(r *Recording, add func(body []byte))
}

// metadataSpecs are by kind.
var metadataSpecs = [...]metadataSpec{
	MetadataProcess: jsonMetadata("process", maxMetadataItems, func(r *Recording, p *Process) error {
		// Keep the command of the start. Programs may overwrite it later.
		if len(r.Process.Argv) > 0 {
			p.Argv = r.Process.Argv
		}
		r.Process = *p
		return nil
	}, func(r *Recording) (*Process, bool) { return &r.Process, true }),

	MetadataObjects: jsonMetadata("objects", maxLargeItems, func(r *Recording, b *objectsBody) (err error) {
		r.Objects, err = disjoint(b.Objects)
		return err
	}, func(r *Recording) (*objectsBody, bool) { return &objectsBody{r.Objects}, len(r.Objects) > 0 }),

	MetadataThreads: jsonMetadata("threads", maxMetadataItems, func(r *Recording, b *threadsBody) error {
		r.Threads = b.Threads
		return nil
	}, func(r *Recording) (*threadsBody, bool) { return &threadsBody{r.Threads}, len(r.Threads) > 0 }),

	MetadataClock: jsonMetadata("clock", maxMetadataItems, func(r *Recording, c *RecordedClock) (err error) {
		c.Anchors, err = ascending(c.Anchors)
		r.Clock = *c
		return err
	}, func(r *Recording) (*RecordedClock, bool) {
		return &r.Clock, r.Clock.Frequency != 0 || r.Clock.Invariant || len(r.Clock.Anchors) > 0
	}),

	MetadataLosses: jsonMetadata("losses", maxMetadataItems, func(r *Recording, b *lossesBody) error {
		r.Losses, r.Refusals = b.Losses, b.Refusals
		return nil
	}, func(r *Recording) (*lossesBody, bool) {
		return &lossesBody{r.Losses, r.Refusals}, len(r.Losses)+len(r.Refusals) > 0
	}),

	MetadataAddresses: {"addresses", (*Recording).setAddresses, (*Recording).addAddresses},
	MetadataCounters:  {"counters", (*Recording).setCounters, (*Recording).addCounters},

	MetadataChanges: jsonMetadata("changes", maxMetadataItems, func(r *Recording, b *changesBody) error {
		r.Changes = b.Changes
		return nil
	}, func(r *Recording) (*changesBody, bool) { return &changesBody{r.Changes}, len(r.Changes) > 0 }),

	MetadataProfile: {"profile", func(r *Recording, body []byte) (err error) {
		r.Profiles, err = parseProfiles(body)
		return err
	}, func(r *Recording, add func([]byte)) {
		if len(r.Profiles) > 0 {
			add(appendProfiles(nil, r.Profiles))
		}
	}},

	MetadataFunctions: {"functions", func(r *Recording, body []byte) error {
		var b functionsBody
		if err := decodeJSON(body, &b, maxLargeItems); err != nil {
			return err
		}
		return r.addFunctions(b.Functions)
	}, func(r *Recording, add func([]byte)) {
		for part := range chunks(r.Functions, func(f *NamedFunction) int { return len(f.Name) + len(f.File) + 10*len(f.Continues) }) {
			add(encodeJSON(functionsBody{part}))
		}
	}},

	MetadataSources: {"sources", func(r *Recording, body []byte) error {
		var b sourcesBody
		if err := decodeJSON(body, &b, maxLargeItems); err != nil {
			return err
		}
		return r.addSources(b.Sources)
	}, func(r *Recording, add func([]byte)) {
		for part := range chunks(r.Sources, func(s *SourceText) int { return len(s.Text) + len(s.File) }) {
			add(encodeJSON(sourcesBody{part}))
		}
	}},

	MetadataPruned: {"pruned", func(r *Recording, body []byte) (err error) {
		r.Pruned, err = parsePruned(body)
		return err
	}, func(r *Recording, add func([]byte)) {
		// Also state that nothing was dropped.
		if p := &r.Pruned; len(p.Functions) > 0 || p.From != 0 || p.To != 0 {
			add(AppendPruned(nil, p))
		}
	}},

	MetadataProfileOff: {"profile-off", (*Recording).setProfileOff, (*Recording).addProfileOff},

	MetadataSched: {"sched", (*Recording).addSched, (*Recording).schedBodies},
	MetadataTasks: {"tasks", (*Recording).addTasks, (*Recording).taskBodies},

	MetadataMark:       {name: "mark"},
	MetadataRequest:    {name: "request"},
	MetadataPart:       {name: "part"},
	MetadataStacks:     {name: "stacks"},
	MetadataLanding:    {name: "landing"},
	MetadataName:       {name: "name"},
	MetadataSwitch:     {name: "switch"},
	MetadataResult:     {name: "result"},
	MetadataDescriptor: {name: "descriptor"},

	MetadataBudget:   {"budget", (*Recording).setBudget, (*Recording).addBudget},
	MetadataSwitched: {"switched", (*Recording).setSwitched, (*Recording).addSwitched},
	MetadataWindows:  {"windows", (*Recording).setWindows, (*Recording).addWindows},
	MetadataEdge:     {name: "edge"},
	MetadataCut:      {name: "cut"},
	MetadataValue:    {name: "value"},
	MetadataValues:   {"values", (*Recording).addValues, (*Recording).valuesBodies},
	MetadataChecksum: {name: "checksum"},
}

// Bodies of JSON.
type (
	objectsBody struct {
		Objects []Object `json:"objects"`
	}
	threadsBody struct {
		Threads []ThreadInfo `json:"threads"`
	}
	lossesBody struct {
		Losses   []RecordedLoss `json:"losses"`
		Refusals []Refusal      `json:"refusals"`
	}
	changesBody struct {
		Changes []Change `json:"changes"`
	}
	functionsBody struct {
		Functions []NamedFunction `json:"functions"`
	}
	sourcesBody struct {
		Sources []SourceText `json:"sources"`
	}
)

// jsonMetadata is a kind whose body is JSON. most limits the number of objects in it.
func jsonMetadata[T any](name string, most int, take func(*Recording, *T) error, give func(*Recording) (v *T, have bool)) metadataSpec {
	return metadataSpec{name, func(r *Recording, body []byte) error {
		var v T
		if err := decodeJSON(body, &v, most); err != nil {
			return err
		}
		return take(r, &v)
	}, func(r *Recording, add func([]byte)) {
		if v, have := give(r); have {
			add(encodeJSON(v))
		}
	}}
}

// spec returns nil for an unknown kind.
func (k MetadataKind) spec() *metadataSpec {
	if int(k) >= len(metadataSpecs) || metadataSpecs[k].name == "" {
		return nil
	}
	return &metadataSpecs[k]
}

// String returns the name of the kind as in docs/dev/format.md, or its number if it is unknown.
func (k MetadataKind) String() string {
	if s := k.spec(); s != nil {
		return s.name
	}
	return strconv.Itoa(int(k))
}

// ParseMetadataKind is the inverse of [MetadataKind.String].
func ParseMetadataKind(text string) (MetadataKind, error) {
	for k := range metadataSpecs {
		if metadataSpecs[k].name == text && text != "" {
			return MetadataKind(k), nil
		}
	}
	n, err := strconv.ParseUint(text, 0, 16)
	if err != nil {
		return 0, fmt.Errorf("unknown kind of metadata %q", text)
	}
	return MetadataKind(n), nil
}

// set applies the body of a metadata event, and reports whether the kind is known. It omits the
// parts that it returns an error about.
func (r *Recording) set(kind MetadataKind, body []byte) (known bool, err error) {
	s := kind.spec()
	if s == nil || s.set == nil {
		return false, nil
	}
	return true, s.set(r, body)
}

// Metadata yields the bodies of the events that encode r, by kind. Each is valid until the
// next.
func (r *Recording) Metadata() iter.Seq2[MetadataKind, []byte] {
	return func(yield func(MetadataKind, []byte) bool) {
		more := true
		for k := range metadataSpecs {
			if metadataSpecs[k].bodies != nil {
				metadataSpecs[k].bodies(r, func(body []byte) { more = more && yield(MetadataKind(k), body) })
			}
		}
	}
}

func (r *Recording) setAddresses(body []byte) error {
	words, err := counted(body, 8)
	r.Addresses = make([]uint64, len(words)/8)
	for i := range r.Addresses {
		r.Addresses[i] = binary.LittleEndian.Uint64(words[8*i:])
	}
	return err
}

func (r *Recording) addAddresses(add func([]byte)) {
	if len(r.Addresses) == 0 {
		return
	}
	b := binary.LittleEndian.AppendUint64(nil, uint64(len(r.Addresses)))
	for _, a := range r.Addresses {
		b = binary.LittleEndian.AppendUint64(b, a)
	}
	add(b)
}

func (r *Recording) setCounters(body []byte) error {
	entries, err := counted(body, 16)
	r.Counters = make([]Counter, len(entries)/16)
	for i := range r.Counters {
		e := entries[16*i:]
		r.Counters[i] = Counter{FuncID(binary.LittleEndian.Uint32(e)), binary.LittleEndian.Uint64(e[8:])}
	}
	return err
}

func (r *Recording) addCounters(add func([]byte)) {
	if len(r.Counters) == 0 {
		return
	}
	b := binary.LittleEndian.AppendUint64(nil, uint64(len(r.Counters)))
	for _, c := range r.Counters {
		b = binary.LittleEndian.AppendUint64(b, uint64(uint32(c.Func)))
		b = binary.LittleEndian.AppendUint64(b, c.Calls)
	}
	add(b)
}

// chunks divides a list into parts that fit into one event each.
func chunks[T any](list []T, size func(*T) int) iter.Seq[[]T] {
	const maxItems, maxBytes = 4096, 1 << 20
	return func(yield func([]T) bool) {
		for start := 0; start < len(list); {
			end, bytes := start+1, size(&list[start])
			for end < len(list) && end-start < maxItems && bytes < maxBytes {
				bytes += size(&list[end])
				end++
			}
			if !yield(list[start:end]) {
				return
			}
			start = end
		}
	}
}

// maxMetadataJSON and maxMetadataItems limit what a JSON body can make its decoder
// allocate. Items with many fields take more. Functions and sources may have several events, and
// the writer puts at most 4096 into one.
const (
	maxMetadataJSON  = 16 << 20
	maxMetadataItems = 1 << 18
	maxLargeItems    = 1 << 14
)

func encodeJSON(v any) []byte {
	var body bytes.Buffer
	e := json.NewEncoder(&body)
	e.SetEscapeHTML(false)
	_ = e.Encode(v) // nothing in it can fail
	return bytes.TrimSuffix(body.Bytes(), []byte("\n"))
}

// decodeJSON decodes a body into v. Every item of a list is an object, so the number of
// braces limits the items.
func decodeJSON(body []byte, v any, most int) error {
	if len(body) > maxMetadataJSON {
		return fmt.Errorf("%d bytes of JSON, more than %d", len(body), maxMetadataJSON)
	}
	if n := bytes.Count(body, []byte("{")); n > most {
		return fmt.Errorf("%d objects of JSON, more than %d", n, most)
	}
	err := json.Unmarshal(body, v)
	if wrong := (*json.UnmarshalTypeError)(nil); errors.As(err, &wrong) {
		return fmt.Errorf("JSON field %s: unexpected %s", wrong.Field, wrong.Value)
	}
	return err
}

// counted returns the entries of a table that begins with their number. If the number is
// wrong, it returns the entries that exist, and an error.
func counted(body []byte, size int) ([]byte, error) {
	if len(body) < 8 {
		return nil, fmt.Errorf("a table of %d bytes is too short for its number of entries", len(body))
	}
	n, entries := binary.LittleEndian.Uint64(body), body[8:]
	there := uint64(len(entries) / size)
	if n != there {
		return entries[:min(n, there)*uint64(size)], fmt.Errorf("a table declares %d entries but contains %d", n, there)
	}
	return entries, nil
}

// disjoint orders objects by their IDs. Objects without IDs come last: code without a map
// is identified only by its address. An object that was loaded again is listed once.
// Objects whose IDs are out of range or overlap are removed, with an error.
func disjoint(objects []Object) ([]Object, error) {
	objects = slices.Clone(objects)
	for i := range objects {
		if objects[i].Count == 0 {
			objects[i].First = 0
		}
	}
	slices.SortStableFunc(objects, func(a, b Object) int {
		if a.Count == 0 || b.Count == 0 {
			return cmp.Compare(b.Count, a.Count)
		}
		return cmp.Compare(a.First, b.First)
	})
	var kept []Object
	var err error
	for _, o := range objects {
		if o.Count == 0 {
			kept = append(kept, o)
			continue
		}
		if o.First < 1 || uint64(o.First)+uint64(o.Count) > maxRecordedFunc+1 {
			err = fmt.Errorf("object %s: %d functions from ID %d on exceed the range 1 to %d", o.Path, o.Count, o.First, maxRecordedFunc)
			continue
		}
		if n := len(kept); n > 0 && kept[n-1].Holds(o.First) {
			if last := &kept[n-1]; last.First != o.First || last.Count != o.Count || last.BuildID != o.BuildID || last.BuildID == "" && last.Path != o.Path {
				err = fmt.Errorf("objects %s and %s share ID %d", last.Path, o.Path, o.First)
			}
			continue
		}
		kept = append(kept, o)
	}
	return kept, err
}

// maxRecordedFunc is the largest ID in an FDR log.
const maxRecordedFunc = 1<<28 - 1

// ascending removes anchors at which a clock stands still or goes back.
func ascending(anchors []Anchor) ([]Anchor, error) {
	var kept []Anchor
	var err error
	for i, a := range anchors {
		if n := len(kept); n > 0 && (a.TSC <= kept[n-1].TSC || a.Raw <= kept[n-1].Raw) {
			err = fmt.Errorf("clock anchor %d is not after the previous one", i)
			continue
		}
		kept = append(kept, a)
	}
	return kept, err
}
