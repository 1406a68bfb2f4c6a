package sql

import (
	"encoding/binary"
	"errors"
	"io"
	"os"
)

// blockStore keeps blocks of bytes: the first storeMemory bytes in memory, and the rest in
// a temporary file.
type blockStore struct {
	slabs    [][]byte
	size     int // of the slabs
	file     *os.File
	unlinked bool
	written  int64  // to the file
	pending  []byte // goes to the file next
}

const (
	storeMemory = 64 << 20
	slabSize    = 1 << 20
)

// add stores a block. It returns where the block is: a slab and a place in it, or less than
// 0 for a place in the file. After the last one, flush must be called.
func (s *blockStore) add(block []byte) (int64, error) {
	if s.size < storeMemory {
		last := len(s.slabs) - 1
		if last < 0 || cap(s.slabs[last])-len(s.slabs[last]) < len(block)+binary.MaxVarintLen64 {
			s.slabs = append(s.slabs, make([]byte, 0, max(slabSize, len(block)+binary.MaxVarintLen64)))
			last++
		}
		at := len(s.slabs[last])
		s.slabs[last] = append(binary.AppendUvarint(s.slabs[last], uint64(len(block))), block...)
		s.size += len(s.slabs[last]) - at
		return int64(last)<<32 | int64(at), nil
	}
	at := s.written + int64(len(s.pending))
	s.pending = append(binary.AppendUvarint(s.pending, uint64(len(block))), block...)
	if len(s.pending) < slabSize {
		return -at - 1, nil
	}
	return -at - 1, s.flush()
}

// flush writes the buffered rows to the file.
func (s *blockStore) flush() error {
	if len(s.pending) == 0 {
		return nil
	}
	if s.file == nil {
		f, err := os.CreateTemp("", "xray-sql-")
		if err != nil {
			return err
		}
		// Where the system allows it, remove the name at once, so that nothing is left
		// however the program ends.
		s.file, s.unlinked = f, os.Remove(f.Name()) == nil
	}
	n, err := s.file.Write(s.pending)
	s.written += int64(n)
	s.pending = s.pending[:0]
	return err
}

// read returns a block, in buf if it has room.
func (s *blockStore) read(at int64, buf []byte) ([]byte, error) {
	if at >= 0 {
		slab := s.slabs[at>>32][at&(1<<32-1):]
		size, n := binary.Uvarint(slab)
		return append(buf[:0], slab[n:n+int(size)]...), nil
	}
	var head [binary.MaxVarintLen64 + blockSize + 64]byte
	n, err := s.file.ReadAt(head[:], -at-1)
	if err != nil && err != io.EOF {
		return nil, err
	}
	size, prefix := binary.Uvarint(head[:n])
	buf = append(buf[:0], head[prefix:min(n, prefix+int(size))]...)
	if rest := int(size) - len(buf); rest > 0 {
		more := make([]byte, rest)
		if _, err := s.file.ReadAt(more, -at-1+int64(n)); err != nil {
			return nil, err
		}
		buf = append(buf, more...)
	}
	return buf, nil
}

// close removes the file.
func (s *blockStore) close() error {
	if s.file == nil {
		return nil
	}
	err := s.file.Close()
	if !s.unlinked {
		err = errors.Join(err, os.Remove(s.file.Name()))
	}
	s.file = nil
	return err
}
