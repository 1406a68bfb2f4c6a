package debuginfo

import (
	"bufio"
	"fmt"
	"io"
	"runtime"
	"slices"
	"sync"
)

// sectionUnit is a unit of .debug_info or .debug_line.
type sectionUnit struct {
	at     uint64 // in the section
	head   int    // bytes of the length
	length uint64 // of the body
	body   []byte // valid until the worker returns
}

func (u *sectionUnit) wide() bool { return u.head == 12 }

// maxSectionUnits limits the units of a section. Programs with a unit for each type have some
// 100,000.
const maxSectionUnits = 1 << 20

// maxEmptyUnits limits units that are too short for a header, as padding is.
const (
	maxEmptyUnits = 1 << 16
	leastUnit     = 7 // bytes of the body
)

// unitCount counts the units of a section.
type unitCount struct{ all, empty int }

// add returns an error if there are too many.
func (n *unitCount) add(length uint64) error {
	if n.all++; length < leastUnit {
		n.empty++
	}
	if n.all > maxSectionUnits || n.empty > maxEmptyUnits {
		return fmt.Errorf("%d units, %d of them too short: this is not debug information", n.all, n.empty)
	}
	return nil
}

// eachUnit passes the wanted units of a section to workers, one per core. It calls newWorker
// for each worker. A few units are in memory at a time.
func (s *Section) eachUnit(want func(at uint64) bool, newWorker func() func(u *sectionUnit)) error {
	if err := s.o.check(s.s); err != nil {
		return err
	}
	workers := min(runtime.GOMAXPROCS(0), 8)
	units := make(chan sectionUnit, workers)
	var wg sync.WaitGroup
	var mu sync.Mutex
	var failed error
	for range workers {
		work := newWorker()
		wg.Go(func() {
			var buf []byte
			for u := range units {
				if u.body == nil {
					buf = slices.Grow(buf[:0], int(u.length))[:u.length]
					if _, err := s.o.r.ReadAt(buf, int64(s.s.Offset+u.at)+int64(u.head)); err != nil {
						mu.Lock()
						failed = fmt.Errorf("unit at %#x: %w", u.at, noEOF(err))
						mu.Unlock()
						continue
					}
					u.body = buf
				}
				work(&u)
			}
		})
	}
	err := s.dispatch(want, units)
	close(units)
	wg.Wait()
	if err == nil {
		err = failed
	}
	if err != nil {
		err = fmt.Errorf("section %s: %w", s.s.Name, err)
	}
	return err
}

// dispatch splits a section into units. It streams compressed sections. Workers read other
// sections, unless these are in memory.
func (s *Section) dispatch(want func(at uint64) bool, units chan<- sectionUnit) error {
	var stream *bufio.Reader
	var data []byte
	var err error
	switch {
	case s.compressed() && !s.relocated():
		var r io.Reader
		if r, err = s.unpack(); err == nil {
			stream = bufio.NewReaderSize(r, 64<<10)
		}
	case s.small():
		data, err = s.whole()
	}
	if err != nil {
		return err
	}
	size := s.s.Size
	var count unitCount
	for at := uint64(0); at+4 <= size; {
		u := sectionUnit{at: at}
		if u.head, u.length, err = s.unitLength(at, stream); err != nil {
			return err
		}
		at += uint64(u.head)
		if at > size || u.length > size-at {
			return fmt.Errorf("unit at %#x: its %d bytes exceed the section", u.at, u.length)
		}
		if err := count.add(u.length); err != nil {
			return err
		}
		wanted := u.length > 0 && want(u.at)
		switch {
		case stream != nil && wanted:
			u.body, err = readN(nil, stream, u.length)
		case stream != nil:
			_, err = io.CopyN(io.Discard, stream, int64(u.length))
		case data != nil:
			u.body = data[at:][:u.length]
		}
		if err != nil {
			return fmt.Errorf("unit at %#x: %w", u.at, noEOF(err))
		}
		if wanted {
			units <- u
		}
		at += u.length
	}
	return nil
}

// unitLength reads the initial length of a unit, from the stream if there is one.
func (s *Section) unitLength(at uint64, stream *bufio.Reader) (head int, length uint64, err error) {
	var b []byte
	if stream == nil {
		b, err = s.at(at, 12)
	} else if b, err = stream.Peek(12); err == io.EOF && len(b) >= 4 {
		err = nil // this is the end of the section
	}
	if err == nil && len(b) < 4 {
		err = io.ErrUnexpectedEOF
	}
	if err != nil {
		return 0, 0, noEOF(err)
	}
	head, length = 4, s.o.uint(b, 4)
	if length == 0xFFFFFFFF && len(b) == 12 {
		head, length = 12, s.o.uint(b[4:], 8)
	}
	if stream != nil {
		_, err = stream.Discard(head)
	}
	return head, length, err
}
