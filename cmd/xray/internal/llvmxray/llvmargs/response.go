package llvmargs

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
	"unicode/utf16"
)

// maxResponseBytes limits the total size of the response files of a command line. This ends
// files that include each other repeatedly.
const maxResponseBytes = 16 << 20

// expand replaces each argument @file by the arguments in that response file. Response
// files may include further ones. Relative names are relative to the working directory. If
// the file does not exist, the argument does not change. It corresponds to
// ExpansionContext::expandResponseFiles in LLVM's CommandLine.cpp.
func expand(args []string) ([]string, error) {
	e := expansion{left: maxResponseBytes}
	err := e.add(args)
	return e.args, err
}

// expansion is the state of expanding a command line.
type expansion struct {
	args []string
	open []os.FileInfo // the response files that are being expanded, outermost first
	left int64         // remaining bytes of the limit
}

func (e *expansion) add(args []string) error {
	for _, arg := range args {
		name, isFile := strings.CutPrefix(arg, "@")
		if isFile {
			info, err := os.Stat(name)
			if err == nil {
				if err := e.file(name, info); err != nil {
					return err
				}
				continue
			}
			if !errors.Is(err, fs.ErrNotExist) {
				return cannotOpen(name, err)
			}
		}
		e.args = append(e.args, arg)
	}
	return nil
}

func (e *expansion) file(name string, info os.FileInfo) error {
	if slices.ContainsFunc(e.open, func(o os.FileInfo) bool { return os.SameFile(o, info) }) {
		return fmt.Errorf("recursive expansion of: '%s'", name)
	}
	text, err := e.read(name)
	if err != nil {
		return err
	}
	e.open = append(e.open, info)
	err = e.add(tokenize(text))
	e.open = e.open[:len(e.open)-1]
	return err
}

// read returns the text of a response file in UTF-8.
func (e *expansion) read(name string) (string, error) {
	f, err := os.Open(name)
	if err != nil {
		return "", cannotOpen(name, err)
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, e.left+1))
	if err != nil {
		return "", cannotOpen(name, err)
	}
	if e.left -= int64(len(b)); e.left < 0 {
		return "", fmt.Errorf("'%s': response files hold more than %d MB", name, maxResponseBytes>>20)
	}
	switch {
	case bytes.HasPrefix(b, []byte("\xff\xfe")):
		return fromUTF16(name, b[2:], binary.LittleEndian)
	case bytes.HasPrefix(b, []byte("\xfe\xff")):
		return fromUTF16(name, b[2:], binary.BigEndian)
	}
	return string(bytes.TrimPrefix(b, []byte("\xef\xbb\xbf"))), nil
}

func fromUTF16(name string, b []byte, order binary.ByteOrder) (string, error) {
	if len(b)%2 != 0 {
		return "", fmt.Errorf("'%s': Could not convert UTF16 to UTF8", name)
	}
	units := make([]uint16, len(b)/2)
	for i := range units {
		units[i] = order.Uint16(b[2*i:])
	}
	return string(utf16.Decode(units)), nil
}

func cannotOpen(name string, err error) error {
	if path := (*fs.PathError)(nil); errors.As(err, &path) {
		err = path.Err
	}
	return fmt.Errorf("cannot open file '%s': %w", name, err)
}

// tokenize splits text into arguments like LLVM's TokenizeGNUCommandLine. Whitespace
// separates arguments. Single and double quotes preserve it. A backslash takes the next
// character literally, between quotes too. Empty arguments are dropped. A zero byte ends an
// argument.
func tokenize(text string) []string {
	var args []string
	var token []byte
	end := func() {
		if len(token) > 0 {
			arg, _, _ := strings.Cut(string(token), "\x00")
			args = append(args, arg)
		}
		token = token[:0]
	}
	quote := byte(0) // the open quote
	for i := 0; i < len(text); i++ {
		c := text[i]
		switch {
		case c == '\\' && i+1 < len(text):
			i++
			token = append(token, text[i])
		case quote != 0 && c == quote:
			quote = 0
		case quote != 0:
			token = append(token, c)
		case c == '\'' || c == '"':
			quote = c
		case c == ' ' || c == '\t' || c == '\r' || c == '\n':
			end()
		default:
			token = append(token, c)
		}
	}
	end()
	return args
}
