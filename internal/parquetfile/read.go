package parquetfile

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/parquet-go/parquet-go/encoding/thrift"
	"github.com/parquet-go/parquet-go/format"
)

// largestFooter is how many bytes of a file's description are read.
const largestFooter = 64 << 20

// Metadata reads the pairs of keys and values of a file.
func Metadata(r io.ReaderAt, size int64) (map[string]string, error) {
	var tail [8]byte
	if size < int64(len(magic)+len(tail)) {
		return nil, errors.New("not a Parquet file")
	}
	if _, err := r.ReadAt(tail[:], size-8); err != nil {
		return nil, err
	}
	n := int64(binary.LittleEndian.Uint32(tail[:4]))
	if string(tail[4:]) != magic || n > size-12 {
		return nil, errors.New("not a Parquet file")
	}
	if n > largestFooter {
		return nil, fmt.Errorf("its description has %d bytes, more than %d", n, largestFooter)
	}
	footer := make([]byte, n)
	if _, err := r.ReadAt(footer, size-8-n); err != nil {
		return nil, err
	}
	var meta format.FileMetaData
	if err := thrift.Unmarshal(&compact, footer, &meta); err != nil {
		return nil, fmt.Errorf("damaged Parquet file: %w", err)
	}
	values := map[string]string{}
	for _, kv := range meta.KeyValueMetadata {
		values[kv.Key] = kv.Value
	}
	return values, nil
}
