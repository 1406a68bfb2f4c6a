package reader

import (
	"errors"
	"io"
	"strings"
)

var errKind = errors.New("not a file of the expected kind")

// Input is a file of any kind, opened as traces are: mapped if possible, and decompressed
// if it is gzip or zstd. Its methods, except Close, may be called concurrently.
type Input struct{ in *input }

// OpenInput opens path, or stdin for "-". A pipe or a compressed file is spooled only if
// its contents begin with magic.
func OpenInput(path string, stdin io.Reader, magic string) (*Input, error) {
	in, err := openInput(path, stdin, func(head []byte, whole bool) error {
		if !strings.HasPrefix(string(head), magic) {
			return errKind
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	if err := in.closeFile(); err != nil {
		return nil, errors.Join(err, in.close())
	}
	return &Input{in}, nil
}

// ReadAt implements io.ReaderAt. It returns an error if the file shrank.
func (i *Input) ReadAt(p []byte, off int64) (int, error) { return i.in.ReadAt(p, off) }

// Size is the number of bytes after decompression.
func (i *Input) Size() int64 { return i.in.size }

// Damage is the reason why decompression was incomplete, or nil if it was complete.
func (i *Input) Damage() error { return i.in.damage }

// Close releases the input.
func (i *Input) Close() error { return i.in.close() }
