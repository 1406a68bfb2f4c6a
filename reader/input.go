package reader

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"sync"
	"unsafe"
)

// input is the uncompressed bytes of a trace. ReadAt may be called concurrently.
type input struct {
	io.ReaderAt
	size   int64
	packed string // how it was compressed; "" for not at all
	stored int64  // compressed size; 0 if not compressed
	framed *framed
	close  func() error
	// damage says why a compressed or piped stream ended early, or what follows it.
	damage error
	// bytes is the whole input, if it is in memory or mapped.
	bytes  []byte
	mapped bool
	// file is the mapped file until closeFile, or nil. Reading a few bytes of each block costs less
	// than mapping their pages, and processors that map or release pages wait for each other.
	file *os.File
	used span // the bytes read since the last release
}

// span is a part of a file that contains all bytes read. It may be used concurrently.
type span struct {
	mu         sync.Mutex
	start, end int64
	bytes      int64
}

// releaseAfter is the number of bytes of a mapping that stay in the process's memory. A release
// interrupts the other processors.
const releaseAfter = 8 << 20

// use notes that bytes of the input have been decoded. It releases only pages between those that
// were read since the last release. Looking for others would take time that grows with the file.
func (in *input) use(start, end int64) {
	if !in.mapped || start >= end {
		return
	}
	s := &in.used
	s.mu.Lock()
	if s.bytes == 0 {
		s.start, s.end = start, end
	}
	s.start, s.end = min(s.start, start), max(s.end, end)
	s.bytes += end - start
	full := s.bytes >= releaseAfter
	from, to := s.start, s.end
	if full {
		s.bytes = 0
	}
	s.mu.Unlock()
	if full {
		// A fault maps pages around the one that is read: 64 kB, and since Linux 6.18 all of a
		// large folio, of up to 2 MB. So pages that were released may have come back.
		const around = 2 << 20
		release(in.bytes[from/around*around : to])
	}
}

// guard runs f, which reads mapped bytes. If the file shrinks, reading its pages is a
// memory fault, which guard turns into an error.
func (in *input) guard(name string, f func() error) (err error) {
	if !in.mapped {
		return f()
	}
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		r := recover()
		if r == nil {
			return
		}
		fault, ok := r.(interface{ Addr() uintptr })
		if !ok {
			panic(r)
		}
		start := uintptr(unsafe.Pointer(unsafe.SliceData(in.bytes)))
		if a := fault.Addr(); a < start || a-start >= uintptr(len(in.bytes)) {
			panic(r)
		}
		err = &FormatError{name, int64(fault.Addr() - start), errShrinks}
	}()
	return f()
}

var errShrinks = fmt.Errorf("%w: the file shrank while it was read", io.ErrUnexpectedEOF)

// spoolMemory is how much of a compressed or piped input is kept in memory before it goes
// to a temporary file.
const spoolMemory = 16 << 20

// acceptFunc examines the first bytes of a stream, or all of them if whole is set. It returns the
// reason to refuse the stream, or nil.
type acceptFunc func(head []byte, whole bool) error

// openInput opens path, or standard input for "-". Traces are read at random offsets (FDR
// blocks of a thread are not contiguous) and more than once, so pipes and compressed files
// are spooled.
func openInput(path string, stdin io.Reader, accept acceptFunc) (*input, error) {
	if path == "-" {
		return newInput(path, stdin, accept)
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	in, err := newInput(path, f, accept)
	if err != nil || in.ReaderAt != io.ReaderAt(f) {
		return in, errors.Join(err, f.Close())
	}
	in.close = f.Close
	return in, nil
}

// lost returns the damage as a loss, or false if there is none.
func (in *input) lost(name string) (Loss, bool) {
	if in.damage == nil {
		return Loss{}, false
	}
	l := Loss{Cause: TruncatedFile, File: name, Offset: in.size, Detail: in.damage.Error()}
	if t := (*trailingError)(nil); errors.As(in.damage, &t) {
		l.Cause, l.Bytes, l.Detail = TrailingGarbage, t.bytes, ""
	}
	return l, true
}

func (in *input) unmap() error {
	if !in.mapped {
		return nil
	}
	b := in.bytes
	in.bytes, in.mapped = nil, false
	return errors.Join(munmap(b), in.closeFile())
}

// closeFile closes what is mapped. A process may open far fewer files than it can map.
func (in *input) closeFile() error {
	f := in.file
	if f == nil {
		return nil
	}
	in.file = nil
	return f.Close()
}

// newFileInput maps a file if possible. Then the caller may close it.
func newFileInput(name string, f *os.File, size int64) *input {
	in := &input{ReaderAt: f, size: size, close: func() error { return nil }}
	if in.bytes = mmap(f, size); in.bytes != nil {
		in.mapped, in.file = true, duplicate(f)
		in.ReaderAt, in.close = &mapping{in, name}, in.unmap
	}
	return in
}

// mapping reads the bytes of a mapped input.
type mapping struct {
	in   *input
	name string
}

func (m *mapping) ReadAt(p []byte, off int64) (n int, err error) {
	err = m.in.guard(m.name, func() error {
		n = copy(p, m.in.bytes[min(off, int64(len(m.in.bytes))):])
		return nil
	})
	m.in.use(off, off+int64(n))
	if err == nil && n < len(p) {
		err = io.EOF
	}
	return n, err
}

func newInput(name string, r io.Reader, accept acceptFunc) (*input, error) {
	if f, ok := r.(*os.File); ok {
		st, err := f.Stat()
		if err != nil {
			return nil, err
		}
		if st.IsDir() {
			return nil, fmt.Errorf("%s: is a directory", name)
		}
		var magic [4]byte
		if n, _ := f.ReadAt(magic[:], 0); st.Mode().IsRegular() && packingOf(magic[:n]) == nil {
			return newFileInput(name, f, st.Size()), nil
		}
	}
	br := bufio.NewReaderSize(r, 1<<16)
	magic, _ := br.Peek(4)
	s := &spooler{name: name, r: br}
	if p := packingOf(magic); p != nil {
		s.from = &counter{r: br}
		d, err := p.open(bufio.NewReaderSize(s.from, 1<<16))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		defer d.Close()
		s.r, s.packed = d, p.name
	}
	head := bufio.NewReaderSize(s.r, 1<<16)
	first, err := head.Peek(1 << 16)
	if len(first) == 0 && err != nil && err != io.EOF {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if err := accept(first, err == io.EOF); err != nil {
		return nil, &FormatError{name, 0, err}
	}
	s.r = head
	in, err := s.spool()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if in.packed = s.packed; s.from != nil {
		in.stored = s.from.n
	}
	return in, nil
}

// spooler copies a stream to memory, or to a temporary file if it is large.
type spooler struct {
	name   string
	r      io.Reader
	packed string   // how the stream was compressed; "" for not at all
	from   *counter // the compressed input; nil if not compressed
}

// spool copies the stream. If the stream ends early or is damaged, the part before that is
// kept, and the trace appears as a truncated file. A stream that is too large is an error.
func (s *spooler) spool() (*input, error) {
	var head bytes.Buffer
	_, err := io.CopyN(&head, s.r, spoolMemory)
	if err != nil {
		if err != io.EOF && head.Len() == 0 {
			return nil, err
		}
		b := head.Bytes()
		in := &input{
			ReaderAt: bytes.NewReader(b), size: int64(len(b)), bytes: b,
			close: func() error { return nil },
		}
		if err != io.EOF {
			in.damage = err
		}
		return in, nil
	}
	f, err := os.CreateTemp("", "xray-spool-")
	if err != nil {
		return nil, err
	}
	// Where the system allows it, remove the name at once, so that nothing is left however
	// the program ends.
	unlinked := os.Remove(f.Name()) == nil
	closeSpool := func() error {
		err := f.Close()
		if !unlinked {
			err = errors.Join(err, os.Remove(f.Name()))
		}
		return err
	}
	size := int64(head.Len())
	if _, err := head.WriteTo(f); err != nil {
		return nil, errors.Join(err, closeSpool())
	}
	src := &readErrors{r: s.r}
	if size, err = s.copy(f, src, size); err != nil {
		return nil, errors.Join(fmt.Errorf("spooling to %s: %w", os.TempDir(), err), closeSpool())
	}
	in := newFileInput(s.name, f, size)
	in.damage = src.err
	if !in.mapped {
		in.close = closeSpool
		return in, nil
	}
	if err := closeSpool(); err != nil {
		return nil, errors.Join(err, in.close())
	}
	return in, nil
}

// copy appends the rest of a stream to a file of size bytes, and returns its size.
func (s *spooler) copy(f *os.File, src io.Reader, size int64) (int64, error) {
	limit, err := newSpoolLimit(f, size)
	if err != nil {
		return size, err
	}
	for {
		n, err := io.CopyN(f, src, spoolStep)
		size += n
		if err == io.EOF {
			return size, nil
		}
		if err != nil {
			return size, err
		}
		unpacked := int64(-1)
		if s.from != nil {
			unpacked = s.from.n
		}
		if err := limit.check(size, unpacked); err != nil {
			return size, err
		}
	}
}

// counter counts the bytes of r.
type counter struct {
	r io.Reader
	n int64
}

func (c *counter) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.n += int64(n)
	return n, err
}

// readErrors keeps errors of r and reports the end of the stream instead, so that io.Copy
// returns only write errors.
type readErrors struct {
	r   io.Reader
	err error
}

func (e *readErrors) Read(p []byte) (int, error) {
	n, err := e.r.Read(p)
	if err != nil && err != io.EOF {
		e.err, err = err, io.EOF
	}
	return n, err
}

// Spooled is a stream that has been copied to memory, or to a temporary file if it is large.
// It may be read concurrently.
type Spooled struct {
	io.ReaderAt
	Size int64
	// Close frees the memory and removes the file.
	Close func() error
}

// Spool copies a stream. Errors call it name. A stream that ends with an error is an error.
func Spool(name string, r io.Reader) (*Spooled, error) {
	s := &spooler{name: name, r: r}
	in, err := s.spool()
	if err == nil && in.damage != nil {
		err = errors.Join(in.damage, in.close())
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return &Spooled{in.ReaderAt, in.size, in.close}, nil
}
