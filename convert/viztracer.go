package convert

import (
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/symbolize"
)

// NewVizTracer starts the JSON of a trace for VizTracer's vizviewer: that of [NewChrome] with the
// source files, and the file and line of each function that was called.
func NewVizTracer(w io.Writer, opts Options) *Chrome {
	c := NewChrome(w, opts)
	c.sources = newSources(opts.Names, opts.Source)
	return c
}

// sources has the source locations of functions, and reads their files.
type sources struct {
	names  symbolize.Names
	read   func(path string) ([]byte, error)
	places map[string]symbolize.Symbol // by the label of the function
	left   int                         // remaining bytes that may be read
}

func newSources(names symbolize.Names, read func(path string) ([]byte, error)) *sources {
	return &sources{names: names, read: read, places: map[string]symbolize.Symbol{}, left: 32 << 20}
}

// add keeps the source location of a function, unless it has one for this label.
func (s *sources) add(label string, id reader.FuncID) {
	if s == nil || s.names == nil {
		return
	}
	if _, known := s.places[label]; known {
		return
	}
	if symbol, ok := s.names.Func(id); ok && symbol.File != "" && symbol.Line > 0 {
		s.places[label] = symbol
	}
}

// write appends file_info for vizviewer.
func (s *sources) write(out *output) {
	if s == nil {
		return
	}
	files := map[string]bool{}
	for _, place := range s.places {
		files[place.File] = true
	}
	buf := append(out.buf, ",\n"+`"file_info":{"files":{`...)
	for i, path := range slices.Sorted(maps.Keys(files)) {
		text := s.text(path)
		buf = appendJSON(appendMember(buf, i, path), text)
		buf = strconv.AppendInt(append(buf, ','), int64(strings.Count(text, "\n")), 10)
		buf = out.spill(append(buf, ']'))
	}
	buf = append(buf, "},\n"+`"functions":{`...)
	for i, label := range slices.Sorted(maps.Keys(s.places)) {
		place := s.places[label]
		buf = appendJSON(appendMember(buf, i, label), place.File)
		buf = strconv.AppendInt(append(buf, ','), int64(place.Line), 10)
		buf = out.spill(append(buf, ']'))
	}
	out.buf = append(buf, "}}"...)
}

// text returns the text of a file, or "" if it is not available.
func (s *sources) text(path string) string {
	if s.read == nil {
		return ""
	}
	text, err := s.read(path)
	if err != nil || len(text) > s.left {
		return ""
	}
	s.left -= len(text)
	return string(text)
}

// appendMember starts the i-th member of an object. Its value is an array.
func appendMember(dst []byte, i int, key string) []byte {
	if i > 0 {
		dst = append(dst, ',')
	}
	return append(appendJSON(append(dst, '\n'), key), ":["...)
}
