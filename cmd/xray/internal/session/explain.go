package session

import (
	"bytes"
	"errors"
	"fmt"
	"regexp"

	"github.com/xray-tools/xray/internal/fileio"
	"github.com/xray-tools/xray/reader"
)

var (
	mapYAML = regexp.MustCompile(`^(---\s*)?(#.*\s*)*- *\{? *(id|address|function|kind|function-name|always-instrument): `)
	notYAML = regexp.MustCompile(`as YAML: .* is not a mapping$`)
)

// ExplainTrace says in the user's terms why a file is not a trace. Files that are
// often taken for one are told by how they begin.
func ExplainTrace(err error) error {
	var format *reader.FormatError
	if !errors.As(err, &format) {
		return err
	}
	because := func(text string) error { return fmt.Errorf("%s: %s", format.File, text) }
	switch head := beginning(format.File); {
	case bytes.HasPrefix(head, []byte("\x7fELF")):
		return because("this is a program, not a trace: pass it with -m")
	case mapYAML.Match(head):
		return because("this is an instrumentation map, not a trace: pass it with -m")
	case notYAML.MatchString(err.Error()):
		return because("not an XRay trace: neither a header of version and type nor trace YAML")
	}
	return err
}

// beginning reads the first bytes of a file; none if that cannot be done again,
// as with standard input and pipes.
func beginning(path string) []byte {
	f, _, err := fileio.OpenRegular(path)
	if err != nil {
		return nil
	}
	defer f.Close()
	head := make([]byte, 512)
	n, _ := f.Read(head)
	return head[:n]
}
