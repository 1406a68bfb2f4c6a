package reader

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
	"slices"
)

// The first event of a block of this project's recorder has the checksum of the block. If the first
// block of a file has one, all have, so that no single damage hides another.

// ChecksumSize is the size of the event's body: the checksum; how many bytes before the event it
// covers; how many after it; zeros.
const ChecksumSize = 16

const checksumRecord = metadataSize + len(MetadataHead) + 2 + ChecksumSize

// ChecksumTable is the polynomial of the checksum: CRC-32C.
var ChecksumTable = crc32.MakeTable(crc32.Castagnoli)

// maxBefore limits the bytes before the event: the header of the file, and the head of a block.
const maxBefore = headerSize + maxHead + metadataSize

// blockSum compares a block with its checksum, piece by piece.
type blockSum struct {
	seen      bool
	head      []byte // before the event
	want, got uint32
	left      int64 // bytes that are missing in got; -1 if it is complete
}

// begin reads the body of the event at pos, which takes size bytes and is in a block that ends at end.
// It returns the number of bytes before the event.
func (s *blockSum) begin(body []byte, pos, size, end int64) (before int64, err error) {
	if s.seen || len(body) != ChecksumSize {
		return 0, errors.New("its checksum is damaged")
	}
	le := binary.LittleEndian
	before = int64(le.Uint32(body[4:]))
	*s = blockSum{seen: true, want: le.Uint32(body), left: int64(le.Uint32(body[8:]))}
	if before > min(maxBefore, pos) {
		s.left = -1
		return 0, errors.New("its checksum is damaged")
	}
	if pos+size+s.left > end {
		s.left = -1
		return 0, errShortBlock
	}
	return before, nil
}

var (
	errShortBlock = errors.New("its end is missing")
	errSum        = errors.New("")
	errNoSum      = errors.New("it has no checksum")
)

// add adds the next bytes of the block. It returns an error if they are the last ones and the checksum
// differs.
func (s *blockSum) add(b []byte) error {
	if s.left < 0 {
		return nil
	}
	n := min(int64(len(b)), s.left)
	s.got = crc32.Update(s.got, ChecksumTable, b[:n])
	if s.left -= n; s.left > 0 {
		return nil
	}
	s.left = -1
	if crc32.Update(s.got, ChecksumTable, s.head) != s.want {
		return errSum
	}
	return nil
}

// isChecksum returns the body of a record with a checksum.
func isChecksum(r *Record) (body []byte, ok bool) {
	if r.Kind != CustomEvent {
		return nil, false
	}
	kind, body, ok := SplitMetadata(r.Data)
	return body, ok && kind == MetadataChecksum
}

// differs returns the loss of a block that differs from its checksum.
func (f *file) differs(b *fdrBlock, err error) Loss {
	return Loss{Cause: Checksum, File: f.name, Offset: b.start, Detail: err.Error()}
}

// cut reports whether the file ends inside of a block, which is another loss.
func (f *file) cut(b *fdrBlock) bool { return b.end == f.in.size && b.declared > b.end }

// checksum begins to compare the block with its checksum, which is in the record here.
func (d *fdrDecoder) checksum(body []byte, size int) error {
	before, err := d.sum.begin(body, d.pos, int64(size), d.block.end)
	if err == nil {
		d.sum.head = d.head[:before]
		if n, err := readFull(d.file.in, d.sum.head, d.pos-before); err != nil || n < len(d.sum.head) {
			return &FormatError{d.file.name, d.pos, errors.Join(err, errShrinks)}
		}
		err = d.sum.add(d.buf[d.rpos+size : d.wpos])
	}
	d.compared(err)
	d.advance(size)
	return nil
}

// compared notes a block that differs from its checksum.
func (d *fdrDecoder) compared(err error) {
	if err != nil && !d.file.cut(&d.block) {
		d.lose(d.file.differs(&d.block, err))
	}
}

// checkMetadata compares a block of metadata with the checksum in the record at pos.
func (l *fdrLog) checkMetadata(w *window, b *fdrBlock, body []byte, pos, size int64) error {
	var sum blockSum
	before, err := sum.begin(body, pos, size, b.end)
	head, readErr := w.at(pos-before, int(before))
	sum.head = slices.Clone(head)
	for from := pos + size; err == nil && readErr == nil && sum.left >= 0; {
		var data []byte
		data, readErr = w.at(from, int(min(sum.left, scanWindow)))
		from += int64(len(data))
		err = sum.add(data)
	}
	if readErr != nil {
		return readErr
	}
	if err != nil && !l.file.cut(b) {
		l.file.losses.add(l.file.differs(b, err))
	}
	return nil
}
