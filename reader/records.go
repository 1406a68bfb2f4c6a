package reader

import (
	"bytes"
	"errors"
)

// maxDamage limits the bytes of one Damage record.
const maxDamage = 64 << 10

// recordScanner walks the records of a file, one after the other.
type recordScanner struct {
	file *file
	buf  []byte
	r, w int
	pos  int64 // of buf[r] in the file
}

func (s *recordScanner) bytes() []byte { return s.buf[s.r:s.w] }

// fill makes n bytes available, or fewer at the end of the file.
func (s *recordScanner) fill(n int) error {
	if s.w-s.r >= n {
		return nil
	}
	left := s.file.in.size - s.pos - int64(s.w-s.r)
	if left <= 0 {
		return nil
	}
	if n > len(s.buf) {
		grown := make([]byte, min(int64(n), int64(s.w-s.r)+left))
		s.w = copy(grown, s.bytes())
		s.buf = grown
	} else {
		s.w = copy(s.buf, s.bytes())
	}
	s.r = 0
	got, err := readFull(s.file.in, s.buf[s.w:min(int64(len(s.buf)), int64(s.w)+left)], s.pos+int64(s.w))
	if err != nil {
		return &FormatError{s.file.name, s.pos, err}
	}
	s.w += got
	return nil
}

func (s *recordScanner) take(n int) {
	s.r += n
	s.pos += int64(n)
}

func newRecordScanner(f *file) *recordScanner {
	return &recordScanner{file: f, buf: make([]byte, min(maxDamage, f.in.size)), pos: headerSize}
}

func (l *basicLog) records(yield func(Record, error) bool) {
	s := newRecordScanner(l.file)
	for {
		if err := s.fill(basicRecordSize); err != nil {
			yield(Record{}, err)
			return
		}
		b := s.bytes()
		if len(b) == 0 {
			return
		}
		r := Record{Offset: s.pos}
		_, err := ParseRecord(b, &l.file.header, &r)
		if err != nil {
			r = damage(s.pos, b[:min(len(b), basicRecordSize)])
		}
		s.take(r.Size)
		if !yield(r, err) {
			return
		}
	}
}

func damage(pos int64, b []byte) Record {
	return Record{Kind: Damage, Offset: pos, Size: len(b), Data: b}
}

// records of an FDR log finds the ends of blocks as the index does: by their sizes, or by
// the next plausible block if there is something else.
func (l *fdrLog) records(yield func(Record, error) bool) {
	s := newRecordScanner(l.file)
	w := &window{in: l.file.in}
	fail := func(err error) { yield(Record{}, err) }
	blockEnd := int64(headerSize) // as declared by the block
	ahead := int64(0)             // the first block after s.pos, if known
	var r Record
	for {
		err := s.fdrRecord(&r)
		if err == errEnd {
			return
		}
		parse, ok := err.(*parseError)
		if err != nil && !ok {
			fail(err)
			return
		}
		if s.pos == blockEnd && !l.begins(s.bytes()) && parse == nil {
			parse = &parseError{errors.New("not the start of a block")}
		}
		if parse != nil {
			// The damage extends to the next block, or, if it begins with zeros, to the
			// first byte that is not zero. Search it only once, because a long run of
			// padding comes in many pieces.
			if ahead <= s.pos {
				if ahead, err = l.nextBlock(w, s.pos+1); err != nil {
					fail(err)
					return
				}
			}
			next := ahead
			if err := s.fill(maxDamage); err != nil {
				fail(err)
				return
			}
			b := s.bytes()
			if zeros := len(b) - len(bytes.TrimLeft(b, "\x00")); zeros > 0 {
				next = min(next, s.pos+int64(zeros))
			}
			if s.pos == blockEnd {
				blockEnd = next
			}
			if !s.damaged(next, parse, yield) {
				return
			}
			continue
		}
		if r.Kind == BufferExtents || r.Kind == NewBuffer && l.file.header.Version < 2 {
			if _, blockEnd, err = l.blockAt(w, r.Offset); err != nil {
				fail(err)
				return
			}
		}
		s.take(r.Size)
		if !yield(r, nil) {
			return
		}
		if r.Kind == EndOfBuffer && l.file.header.Version < 2 && blockEnd > s.pos {
			if !s.damaged(min(blockEnd, l.file.in.size), errors.New("unused rest of the buffer"), yield) {
				return
			}
		}
	}
}

var errEnd = errors.New("end of file")

// parseError says what is wrong with bytes that are not a record.
type parseError struct{ error }

func (e *parseError) Unwrap() error { return e.error }

// fdrRecord parses the record at s.pos into r, without moving on.
func (s *recordScanner) fdrRecord(r *Record) error {
	// The number of bytes to check where a block should begin.
	if err := s.fill(maxHead); err != nil {
		return err
	}
	if len(s.bytes()) == 0 {
		return errEnd
	}
	r.Offset = s.pos
	_, err := ParseRecord(s.bytes(), &s.file.header, r)
	if err != nil {
		if short := (*ShortRecordError)(nil); errors.As(err, &short) && int64(short.Need) <= s.file.in.size-s.pos {
			if err := s.fill(short.Need); err != nil {
				return err
			}
			_, err = ParseRecord(s.bytes(), &s.file.header, r)
		}
	}
	if err == nil && r.Kind == Function && r.Func == 0 && r.FuncKind == Enter && r.Delta == 0 {
		err = errors.New("zero padding")
	}
	if err != nil {
		return &parseError{err}
	}
	return nil
}

// damaged yields the bytes up to end as Damage. It returns false if yield stops.
func (s *recordScanner) damaged(end int64, cause error, yield func(Record, error) bool) bool {
	for s.pos < end {
		if err := s.fill(int(min(end-s.pos, maxDamage))); err != nil {
			yield(Record{}, err)
			return false
		}
		b := s.bytes()
		if len(b) == 0 {
			return true
		}
		r := damage(s.pos, b[:min(int64(len(b)), end-s.pos)])
		s.take(r.Size)
		if !yield(r, cause) {
			return false
		}
	}
	return true
}
