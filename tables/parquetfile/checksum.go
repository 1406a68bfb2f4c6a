package parquetfile

import (
	"bytes"
	"encoding/hex"
	"errors"
	"hash/crc32"
	"strings"
)

// Each page header has the checksum of its page, as the format defines it. The headers and the
// description of the file, which has minima and maxima, have none in the format. So a pair of
// metadata has them: the CRC-32C of the description, in which these digits are zeros, and that of the
// page headers of each column of each row group. Each takes eight hexadecimal digits.
const (
	checksumsKey   = "xray.checksums"
	checksumDigits = 8
	noChecksum     = "00000000"
	// checksummedBy begins the name of the program that wrote a file with them. Other programs copy
	// metadata to files that they change.
	checksummedBy = "xray"
)

var (
	castagnoli = crc32.MakeTable(crc32.Castagnoli)
	errChanged = errors.New("the file was changed after it was written: its checksums differ")
)

func appendChecksum(dst []byte, sum uint32) []byte {
	return hex.AppendEncode(dst, []byte{byte(sum >> 24), byte(sum >> 16), byte(sum >> 8), byte(sum)})
}

// sealFooter sets the checksum of a description that has zeros there.
func sealFooter(footer, checksums []byte) {
	at := bytes.LastIndex(footer, append([]byte(noChecksum), checksums...))
	appendChecksum(footer[:at], crc32.Checksum(footer, castagnoli))
}

// checksums verifies the checksum of the file's description, and sets those of its columns. value is
// the part of the footer that has them, or nil.
func (f *Reader) checksums(footer, value []byte) error {
	if value == nil || !strings.HasPrefix(f.CreatedBy, checksummedBy) {
		return nil
	}
	if len(value) != checksumDigits*(1+len(f.chunks)) {
		return errChanged
	}
	stated := string(value[:checksumDigits])
	copy(value, noChecksum)
	if string(appendChecksum(nil, crc32.Checksum(footer, castagnoli))) != stated {
		return errChanged
	}
	for i := range f.chunks {
		f.chunks[i].headers = value[checksumDigits*(1+i):][:checksumDigits]
	}
	return nil
}
