package sql

import (
	"cmp"
	"database/sql/driver"
	"encoding/binary"
	"errors"
	"io"
	"slices"
	"strings"

	"modernc.org/sqlite/vtab"

	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/reader/calls"
	"github.com/xray-tools/xray/tables"
)

// bucketList groups calls by the values of columns. For example, it has a bucket for each
// function, or for each function of each thread. SQLite has no hash tables, so it sorts calls to
// group them. bucketList gives it the calls in order. It also looks up a column when a join asks
// for one value after the other.
//
// Stored calls have only the columns that the query needs. They go to a temporary file when they
// do not fit into memory.
type bucketList struct {
	db      *DB
	order   []ordering
	keyed   []fields // of the order's columns, each once
	fields  fields   // of the calls in buckets
	threads []*tables.Thread
	byKey   map[bucketKey]*bucket
	sorted  []*bucket
	values  map[driver.Value][]*bucket // by the first value; nil until it is needed
	store   blockStore
}

// mostKeys is the maximum number of columns that buckets are made by.
const mostKeys = 4

// bucketKey has the keys of bucketList.keyed.
type bucketKey [mostKeys]uint32

// bucket is the calls with one key.
type bucket struct {
	key    bucketKey
	values []driver.Value // of the order's columns
	count  uint64
	blocks []int64 // in the store
	last   []byte  // the block that is being filled
}

// fields are the parts of calls that buckets hold.
type fields uint16

const (
	fieldThread fields = 1 << iota
	fieldStart
	fieldDuration
	fieldSelf
	fieldDepth
	fieldFunc
	fieldCaller
	fieldPath
	fieldArgs
	fieldEnd
	fieldOff
	fieldSelfOff
	fieldResult
	fieldValues
)

// fieldsOf are the parts of a call that columns show.
var fieldsOf = func() (list []fields) {
	parts := map[string]fields{
		"trace": fieldThread, "process": fieldThread, "thread": fieldThread, "thread_name": fieldThread,
		"start": fieldStart, "duration": fieldDuration, "duration_ticks": fieldDuration, "self": fieldSelf, "self_ticks": fieldSelf,
		"depth": fieldDepth, "function_id": fieldFunc, "function": fieldFunc, "file": fieldFunc, "line": fieldFunc,
		"caller_id": fieldCaller, "caller": fieldCaller, "path": fieldPath, "arguments": fieldArgs, "result": fieldResult, "args": fieldValues, "results": fieldValues, "ended": fieldEnd,
		"cpu": fieldOff | fieldDuration, "blocked": fieldOff, "queued": fieldOff, "recorder": fieldOff,
		"self_cpu": fieldSelfOff | fieldSelf, "self_blocked": fieldSelfOff, "self_queued": fieldSelfOff, "self_recorder": fieldSelfOff,
	}
	for _, c := range tables.Calls.Columns {
		list = append(list, parts[c.Name])
	}
	return list
}()

// fields are the parts of calls that a plan needs.
func (p *plan) fields() (f fields) {
	for n := range fieldsOf {
		if p.uses(n) {
			f |= fieldsOf[n]
		}
	}
	return f
}

// keyFields are the parts of calls that have few different values.
const keyFields = fieldThread | fieldDepth | fieldFunc | fieldCaller | fieldPath | fieldEnd

// bucketable reports whether there may be buckets for a column.
func bucketable(column int) bool {
	return column >= 0 && column < len(tables.Calls.Columns) && fieldsOf[column]&keyFields != 0
}

// key returns the part of a call that a column shows, as a number.
func (r *row) key(f fields) uint32 {
	switch f {
	case fieldThread:
		return uint32(r.index)
	case fieldDepth:
		return r.Depth
	case fieldFunc:
		return uint32(r.Func)
	case fieldCaller:
		return uint32(r.Caller)
	case fieldPath:
		return uint32(r.Path)
	}
	return uint32(r.Ending())
}

// setEnding is the inverse of Ending.
func (r *row) setEnding(e byte) { r.End, r.Earlier = calls.End(e%calls.Ends), e >= calls.Ends }

// setKeys is the inverse of key, for all keys.
func (l *bucketList) setKeys(r *row, keys bucketKey) {
	for i, f := range l.keyed {
		switch key := keys[i]; f {
		case fieldThread:
			r.index, r.Thread = int(key), l.threads[key]
		case fieldDepth:
			r.Depth = key
		case fieldFunc:
			r.Func = reader.FuncID(int32(key))
		case fieldCaller:
			r.Caller = reader.FuncID(int32(key))
		case fieldPath:
			r.Path = calls.PathID(key)
		case fieldEnd:
			r.setEnding(byte(key))
		}
	}
}

// blockSize is about how many bytes of a bucket are stored together.
const blockSize = 1 << 10

// collect reads the calls that a filter selects into buckets.
func (db *DB) collect(p *plan, filter calls.Filter, order []ordering) (*bucketList, error) {
	l := &bucketList{db: db, order: order, byKey: make(map[bucketKey]*bucket)}
	l.fields = p.fields()
	with := *p
	for _, o := range order {
		with.used |= 1 << o.column
		f := fieldsOf[o.column]
		l.fields &^= f
		if !slices.Contains(l.keyed, f) {
			l.keyed = append(l.keyed, f)
		}
	}
	from, err := db.pass(&with, filter)
	if err != nil {
		return nil, err
	}
	defer from.stop()
	if err := l.fill(from); err != nil {
		return nil, errors.Join(err, l.store.close())
	}
	l.threads = from.threads
	l.sort()
	return l, l.store.flush()
}

// bucketBytes is the measured size of a bucket, without the blocks of its calls.
const bucketBytes = 256

// fill puts the calls of a pass into buckets.
func (l *bucketList) fill(from *passReader) error {
	var r row
	var b *bucket // bucket of the previous call
	for {
		if err := from.next(&r); err == io.EOF {
			return nil
		} else if err != nil {
			return err
		}
		var key bucketKey
		for i, f := range l.keyed {
			key[i] = r.key(f)
		}
		if b == nil || b.key != key {
			if b = l.byKey[key]; b == nil {
				b = &bucket{key: key}
				l.byKey[key] = b
				if most := l.db.opts.Memory; most > 0 && int64(len(l.byKey))*bucketBytes > most {
					return &calls.MemoryError{Limit: most}
				}
			}
		}
		b.count++
		b.last = l.append(b.last, &r)
		if len(b.last) >= blockSize {
			at, err := l.store.add(b.last)
			if err != nil {
				return err
			}
			b.blocks, b.last = append(b.blocks, at), b.last[:0]
		}
	}
}

// sort puts the buckets in order.
func (l *bucketList) sort() {
	for _, b := range l.byKey {
		var r row
		l.setKeys(&r, b.key)
		for _, o := range l.order {
			b.values = append(b.values, tables.Calls.Value(&l.db.opts.Source, &r.Call, o.column))
		}
		l.sorted = append(l.sorted, b)
	}
	slices.SortFunc(l.sorted, func(a, b *bucket) int {
		for i, o := range l.order {
			if c := compare(a.values[i], b.values[i]); c != 0 {
				if o.desc {
					return -c
				}
				return c
			}
		}
		return slices.Compare(a.key[:], b.key[:])
	})
}

// with returns the buckets that have a value in the first column.
func (l *bucketList) with(v driver.Value) []*bucket {
	if l.values == nil {
		l.values = make(map[driver.Value][]*bucket)
		for _, b := range l.sorted {
			l.values[b.values[0]] = append(l.values[b.values[0]], b)
		}
	}
	return l.values[v]
}

// compare orders values of a column as SQLite does.
func compare(a, b driver.Value) int {
	switch x := a.(type) {
	case nil:
		if b == nil {
			return 0
		}
		return -1
	case int64:
		switch y := b.(type) {
		case nil:
			return 1
		case int64:
			return cmp.Compare(x, y)
		}
		return -1
	case string:
		if y, ok := b.(string); ok {
			return strings.Compare(x, y)
		}
		return 1
	}
	return 0
}

// append appends a call.
func (l *bucketList) append(dst []byte, r *row) []byte {
	f := l.fields
	if f&fieldThread != 0 {
		dst = binary.AppendUvarint(dst, uint64(r.index))
	}
	if f&fieldStart != 0 {
		dst = binary.AppendUvarint(dst, r.Start)
	}
	if f&fieldDuration != 0 {
		dst = binary.AppendUvarint(dst, r.Duration)
	}
	if f&fieldSelf != 0 {
		dst = binary.AppendUvarint(dst, r.Self)
	}
	if f&fieldDepth != 0 {
		dst = binary.AppendUvarint(dst, uint64(r.Depth))
	}
	if f&fieldFunc != 0 {
		dst = binary.AppendUvarint(dst, uint64(uint32(r.Func)))
	}
	if f&fieldCaller != 0 {
		dst = binary.AppendUvarint(dst, uint64(uint32(r.Caller)))
	}
	if f&fieldPath != 0 {
		dst = binary.AppendUvarint(dst, uint64(r.Path))
	}
	if f&fieldEnd != 0 {
		dst = append(dst, byte(r.Ending()))
	}
	if f&fieldOff != 0 {
		dst = appendOff(dst, r.Off)
	}
	if f&fieldSelfOff != 0 {
		dst = appendOff(dst, r.SelfOff)
	}
	if f&fieldResult != 0 {
		if dst = append(dst, 0); r.HasResult {
			dst[len(dst)-1] = 1
			dst = binary.AppendUvarint(dst, r.Result)
		}
	}
	if f&fieldValues != 0 {
		for _, text := range [...]string{r.Values.Args, r.Values.Results} {
			dst = append(binary.AppendUvarint(dst, uint64(len(text))), text...)
		}
	}
	if f&fieldArgs != 0 {
		dst = binary.AppendUvarint(dst, uint64(len(r.Args)))
		for _, a := range r.Args {
			dst = binary.AppendUvarint(dst, a.Value)
		}
	}
	return dst
}

func appendOff(dst []byte, off calls.Off) []byte {
	return binary.AppendUvarint(binary.AppendUvarint(binary.AppendUvarint(dst, off.Blocked), off.Queued), off.Recorder)
}

// bucketReader gives the calls of some buckets.
type bucketReader struct {
	l     *bucketList
	list  []*bucket // not begun
	now   *bucket
	left  uint64 // calls of now that are to come
	block int    // the next one of now
	data  []byte
	buf   []byte
	owned bool // the list is closed with the reader
}

func (b *bucketReader) stop() {
	if b.owned {
		b.l.store.close()
	}
}

// load reads the next block of the bucket.
func (b *bucketReader) load() (err error) {
	if b.block == len(b.now.blocks) {
		b.data = b.now.last
		return nil
	}
	b.buf, err = b.l.store.read(b.now.blocks[b.block], b.buf)
	b.block++
	b.data = b.buf
	return err
}

func (b *bucketReader) next(r *row) error {
	for b.left == 0 {
		if len(b.list) == 0 {
			return io.EOF
		}
		b.now, b.list = b.list[0], b.list[1:]
		b.left, b.block, b.data = b.now.count, 0, nil
		b.l.setKeys(r, b.now.key)
	}
	b.left--
	if len(b.data) == 0 && b.l.fields != 0 {
		if err := b.load(); err != nil {
			return err
		}
	}
	u := func() uint64 {
		v, n := binary.Uvarint(b.data)
		b.data = b.data[n:]
		return v
	}
	f := b.l.fields
	if f&fieldThread != 0 {
		r.index = int(u())
		r.Thread = b.l.threads[r.index]
	}
	if f&fieldStart != 0 {
		r.Start = u()
	}
	if f&fieldDuration != 0 {
		r.Duration = u()
	}
	if f&fieldSelf != 0 {
		r.Self = u()
	}
	if f&fieldDepth != 0 {
		r.Depth = uint32(u())
	}
	if f&fieldFunc != 0 {
		r.Func = reader.FuncID(int32(uint32(u())))
	}
	if f&fieldCaller != 0 {
		r.Caller = reader.FuncID(int32(uint32(u())))
	}
	if f&fieldPath != 0 {
		r.Path = calls.PathID(u())
	}
	if f&fieldEnd != 0 {
		r.setEnding(b.data[0])
		b.data = b.data[1:]
	}
	if f&fieldOff != 0 {
		r.Off.Blocked, r.Off.Queued, r.Off.Recorder = u(), u(), u()
	}
	if f&fieldSelfOff != 0 {
		r.SelfOff.Blocked, r.SelfOff.Queued, r.SelfOff.Recorder = u(), u(), u()
	}
	if f&fieldResult != 0 {
		if r.HasResult = u() != 0; r.HasResult {
			r.Result = u()
		}
	}
	if f&fieldValues != 0 {
		for _, text := range [...]*string{&r.Values.Args, &r.Values.Results} {
			n := u()
			*text, b.data = string(b.data[:n]), b.data[n:]
		}
	}
	if f&fieldArgs != 0 {
		r.Args = r.Args[:0]
		for n := u(); n > 0; n-- {
			r.Args = append(r.Args, calls.Arg{Value: u()})
		}
	}
	return nil
}

// looker reads calls for a cursor: by a pass, or from buckets when SQLite asks for one value of a
// column after the other.
type looker struct {
	asked  int // how often
	last   []vtab.Value
	varied []bool // values that were not the same each time
	column int    // of the list
	fixed  []vtab.Value
	list   *bucketList
}

// passesFirst is how many passes a cursor makes before it makes buckets, which cost a few.
const passesFirst = 3

func (l *looker) close() {
	if l.list != nil {
		l.list.store.close()
		l.list = nil
	}
}

// read returns the calls that a plan selects.
func (l *looker) read(db *DB, p *plan, args []vtab.Value) (callReader, error) {
	if len(p.order) > 0 {
		filter, err := db.filter(p, args)
		if err != nil {
			return nil, err
		}
		list, err := db.collect(p, filter, p.order)
		if err != nil {
			return nil, db.fail(err)
		}
		return &bucketReader{l: list, list: list.sorted, owned: true}, nil
	}
	l.note(args)
	at := slices.IndexFunc(p.conds, func(c condition) bool { return c.op == vtab.OpEQ && bucketable(c.column) })
	if at < 0 || l.asked <= passesFirst || !l.varied[at] || !natural(p.conds[at].column, args[at]) {
		filter, err := db.filter(p, args)
		if err != nil {
			return nil, err
		}
		reader, err := db.pass(p, filter)
		if err != nil {
			return nil, db.fail(err)
		}
		return reader, nil
	}
	column := p.conds[at].column
	if l.list == nil || l.column != column {
		l.close()
		l.column, l.fixed = column, slices.Clone(args)
		for i, varied := range l.varied {
			if varied {
				l.fixed[i] = nil
			}
		}
		filter, err := db.filter(p, l.fixed)
		if err != nil {
			return nil, err
		}
		if l.list, err = db.collect(p, filter, []ordering{{column: column}}); err != nil {
			l.list = nil
			return nil, db.fail(err)
		}
	}
	return &bucketReader{l: l.list, list: l.list.with(args[at])}, nil
}

// note records which values vary. Buckets for a value that did not vary before become useless.
func (l *looker) note(args []vtab.Value) {
	l.asked++
	if l.last == nil {
		l.last, l.varied = cloned(args), make([]bool, len(args))
		return
	}
	for i, v := range args {
		if same(v, l.last[i]) {
			continue
		}
		if !l.varied[i] {
			l.close()
		}
		l.varied[i] = true
	}
	l.last = cloned(args)
}

// cloned copies values that SQLite takes back.
func cloned(args []vtab.Value) []vtab.Value {
	list := make([]vtab.Value, len(args))
	for i, v := range args {
		if b, ok := v.([]byte); ok {
			v = slices.Clone(b)
		}
		list[i] = v
	}
	return list
}

func same(a, b vtab.Value) bool {
	x, ok := a.([]byte)
	y, ok2 := b.([]byte)
	if ok || ok2 {
		return ok && ok2 && string(x) == string(y)
	}
	return a == b
}
