package parquet

import (
	"fmt"
	"io"
	"strconv"
	"sync"

	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/reader/calls"
	"github.com/xray-tools/xray/tables"
	"github.com/xray-tools/xray/tables/parquetfile"
)

// buckets is the number of equal parts of the trace's time in which calls are collected.
const buckets = 16

// Writer writes the tables of a trace. It implements [calls.Sink] for a run with one shard and with
// paths. It is not safe for concurrent use.
type Writer struct {
	opts    Options
	threads []*tables.Thread // by index of batches; nil for those without a call and an event
	paths   *calls.Paths
	events  *rows
	scratch []calls.Recorded

	bucket [buckets]*group
	width  uint64 // of a bucket, in ticks
	// partRows limits the rows of a file, so that the metadata of row groups stays small.
	partRows int64
	// Memory for reuse.
	free    chan *group
	encoded chan *parquetfile.Group
	slots   chan struct{} // limits the groups that are being encoded or written
	todo    chan task
	queue   chan *group // in the order of the file
	over    sync.WaitGroup
	wait    sync.WaitGroup

	mu    sync.Mutex // guards err
	err   error
	calls callsFile
}

// task is a group to encode, and the threads that have begun.
type task struct {
	group   *group
	threads []*tables.Thread
}

// New returns a writer of the tables of a trace, and starts its goroutines. Call Close or Abort to
// end them.
func New(opts Options) *Writer {
	opts.Workers = max(opts.Workers, 1)
	w := &Writer{
		opts:     opts,
		width:    (max(opts.Last, opts.Base)-opts.Base)/buckets + 1,
		partRows: 1 << 25,
		free:     make(chan *group, 2*opts.Workers+buckets),
		encoded:  make(chan *parquetfile.Group, 2*opts.Workers),
		slots:    make(chan struct{}, opts.Workers+1),
		todo:     make(chan task, opts.Workers+1),
		queue:    make(chan *group, opts.Workers+1),
	}
	w.calls = callsFile{writer: w, functions: map[reader.FuncID]struct{}{}}
	for range opts.Workers {
		w.over.Add(1)
		go w.work()
	}
	w.wait.Add(1)
	go w.collect()
	return w
}

// create starts a file of a table.
func (w *Writer) create(t *tables.Table, part int) (*parquetfile.File, io.Closer, error) {
	out, err := w.opts.Create(fmt.Sprintf("%s/trace=%s/part-%d.parquet", t.Name, w.opts.Trace, part))
	if err != nil {
		return nil, nil, err
	}
	file, err := parquetfile.NewFile(out, t.Name, w.opts.CreatedBy, t.InFiles(), [][2]string{
		{schemaKey, strconv.Itoa(tables.Version)}, {traceKey, w.opts.Identity},
	})
	if err != nil {
		out.Close()
		return nil, nil, err
	}
	return file, out, nil
}

// Calls implements [calls.Sink].
func (w *Writer) Calls(b *calls.Batch) error {
	w.paths = b.Paths
	for len(w.threads) <= b.Index {
		w.threads = append(w.threads, nil)
	}
	if w.threads[b.Index] == nil && len(b.Calls)+len(b.Events) > 0 {
		t := w.opts.ThreadOf(b.Thread)
		w.threads[b.Index] = &t
	}
	t := w.threads[b.Index]
	for i := range b.Events {
		if err := w.event(t, &b.Events[i]); err != nil {
			return err
		}
	}
	args, results, waits := b.Args, b.Results, b.Waits
	var g *group
	var from, last uint64 // times of g; most calls belong to the same group as the previous call
	for i := range b.Calls {
		c := &b.Calls[i]
		if g == nil || c.Start < from || c.Start > last {
			g, from, last = w.bucketOf(c.Start)
		}
		row := uint32(g.rows())
		g.span(row, int32(b.Index))
		g.start = append(g.start, c.Start)
		g.length, g.self = append(g.length, c.Duration), append(g.self, c.Self)
		g.site = append(g.site, site{c.Path, c.Depth, c.Func, c.Caller})
		g.end = append(g.end, uint8(c.Ending()))
		for ; len(args) > 0 && args[0].Call == i; args = args[1:] {
			g.args = append(g.args, rowValue{row, args[0].Value})
		}
		for ; len(results) > 0 && results[0].Call == i; results = results[1:] {
			g.results = append(g.results, rowValue{row, results[0].Value})
		}
		for ; len(waits) > 0 && waits[0].Call == i; waits = waits[1:] {
			g.waits = append(g.waits, rowWait{row, waits[0].Self, waits[0].Total})
		}
		var v tables.Values
		if v, w.scratch = w.opts.ValuesOf(b, i, w.scratch); v != (tables.Values{}) {
			g.values = append(g.values, rowValues{row, v})
			g.size += len(v.Args) + len(v.Results)
		}
		t.Count(c)
		g.grow()
		if g.rows() == groupRows || g.size >= valueBytes {
			if err := w.flush(g); err != nil {
				return err
			}
			g = nil
		}
	}
	return nil
}

// bucketOf returns the group of calls that start at start, and a range of times with the same group.
func (w *Writer) bucketOf(start uint64) (g *group, from, last uint64) {
	i := uint64(0)
	if start > w.opts.Base {
		i = min((start-w.opts.Base)/w.width, buckets-1)
	}
	if w.bucket[i] == nil {
		w.bucket[i] = taken(w.free)
	}
	from = w.opts.Base + i*w.width
	return w.bucket[i], from, from + w.width - 1
}

// taken returns memory from free, or new memory.
func taken[T any](free chan *T) *T {
	select {
	case v := <-free:
		return v
	default:
		return new(T)
	}
}

// give returns unused memory to free.
func give[T any](free chan *T, v *T) {
	select {
	case free <- v:
	default:
	}
}

// flush passes a group on to be encoded and written. It waits if too many are pending.
func (w *Writer) flush(g *group) error {
	for i := range w.bucket {
		if w.bucket[i] == g {
			w.bucket[i] = nil
		}
	}
	if err := w.failure(); err != nil {
		return err
	}
	g.done = make(chan struct{})
	w.slots <- struct{}{}
	// w.threads may change during encoding, but not the values that are encoded.
	w.queue <- g
	w.todo <- task{g, w.threads}
	return nil
}

// work encodes groups until todo is closed.
func (w *Writer) work() {
	defer w.over.Done()
	e := newGroupEncoder(&w.opts)
	for t := range w.todo {
		e.encode(t.group, t.threads, taken(w.encoded))
		close(t.group.done)
	}
}

// collect writes groups in order.
func (w *Writer) collect() {
	defer w.wait.Done()
	for g := range w.queue {
		<-g.done
		if w.failure() == nil {
			w.fail(w.calls.append(g))
		}
		give(w.encoded, g.encoded)
		g.reset()
		give(w.free, g)
		<-w.slots
	}
}

func (w *Writer) failure() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.err
}

func (w *Writer) fail(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err == nil {
		w.err = err
	}
}

// stop waits until all groups are written.
func (w *Writer) stop() {
	close(w.todo)
	close(w.queue)
	w.over.Wait()
	w.wait.Wait()
}

// Abort ends the writer without completing the tables.
func (w *Writer) Abort() {
	w.stop()
	w.closeFiles()
}

// closeFiles closes files without completing them.
func (w *Writer) closeFiles() {
	w.calls.abort()
	if w.events != nil {
		w.events.closer.Close()
	}
}

// Close writes the remaining rows, and the tables other than calls.
func (w *Writer) Close(trace *tables.Trace) error {
	err := w.flushAll()
	w.stop()
	if err == nil {
		err = w.failure()
	}
	if err != nil {
		w.closeFiles()
		return err
	}
	if err := w.calls.finish(); err != nil {
		return err
	}
	return w.tables(trace)
}

// flushAll passes on the remaining rows of the buckets, in row groups of several buckets.
func (w *Writer) flushAll() error {
	var last *group
	for i, g := range w.bucket {
		w.bucket[i] = nil
		switch {
		case g == nil:
			continue
		case last == nil:
			last = g
		case last.rows()+g.rows() <= groupRows && last.size+g.size <= valueBytes:
			last.take(g)
		default:
			if err := w.flush(last); err != nil {
				return err
			}
			last = g
		}
	}
	if last == nil {
		return nil
	}
	return w.flush(last)
}

// callsFile writes the table calls in parts. Only one goroutine uses it at a time.
type callsFile struct {
	writer    *Writer
	file      *parquetfile.File
	closer    io.Closer
	part      int
	rows      int64
	functions map[reader.FuncID]struct{} // of all calls
}

func (c *callsFile) open() (err error) {
	c.file, c.closer, err = c.writer.create(&tables.Calls.Table, c.part)
	return err
}

func (c *callsFile) append(g *group) error {
	for _, id := range g.functions {
		c.functions[id] = struct{}{}
	}
	c.rows += int64(g.rows())
	if c.file != nil && c.file.Rows()+int64(g.rows()) > c.writer.partRows {
		if err := c.close(); err != nil {
			return err
		}
		c.part++
	}
	if c.file == nil {
		if err := c.open(); err != nil {
			return err
		}
	}
	return c.file.Append(g.encoded)
}

// close completes a part.
func (c *callsFile) close() error {
	err := c.file.Close()
	if closed := c.closer.Close(); err == nil {
		err = closed
	}
	c.file = nil
	return err
}

// finish completes the last part. Even a table without rows has a file.
func (c *callsFile) finish() error {
	if c.file == nil {
		if err := c.open(); err != nil {
			return err
		}
	}
	return c.close()
}

func (c *callsFile) abort() {
	if c.file != nil {
		c.closer.Close()
	}
}
