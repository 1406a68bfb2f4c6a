package parquetfile

import "io"

// largestFooter is the maximum size of a file's description.
const largestFooter = 64 << 20

// Metadata reads the pairs of keys and values of a file.
func Metadata(r io.ReaderAt, size int64) (map[string]string, error) {
	f, err := OpenReader(r, size)
	if err != nil {
		return nil, err
	}
	return f.Metadata, nil
}
