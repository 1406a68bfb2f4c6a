package observe

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/xray-tools/xray/internal/fileio"
	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/recorder/ring"
	"github.com/xray-tools/xray/symbolize"
)

// selections are the answers so far. An object is looked up once for a recording, whatever the number of
// processes that execute it, unless processes ask about more than mostSelections objects, or mostSelected
// functions: then further ones are looked up each time.
type selections struct {
	mu        sync.Mutex
	known     map[string]*selection
	selected  int      // functions in known
	functions int      // selected so far, without those of the C library
	objects   []string // without those of the C library
}

// Limits of the memory for selections, about 100 MB. A program may ask about any file.
const (
	mostSelections = 4096
	mostSelected   = 1 << 24
)

// selection is which functions of an object to record.
type selection struct {
	once   sync.Once
	ids    []reader.FuncID
	values []byte // lines of the filter
	err    error
}

// size is how much of mostSelected a selection takes.
func (s *selection) size() int { return len(s.ids) + len(s.values)/4 }

// answerSelect answers a question of a process. The answer has no file if xray cannot know, and then the
// process warns.
func (ob *Observer) answerSelect(pid int, question []byte) ([]byte, error) {
	f := ring.Fields(question)
	filter := ob.options.Filter
	if f.U64(ring.QuestionSessionAt) != ob.options.Session || filter == nil {
		return nil, nil
	}
	path := f.Text(ring.QuestionPathAt, ring.QuestionPathSize)
	if strings.Contains(path, "\n") {
		return nil, fmt.Errorf("%q: a filter cannot name a path of several lines", path)
	}
	id := question[ring.QuestionBuildIDAt:][:min(f.U32(ring.QuestionBuildIDSizeAt), 32)]
	key := hex.EncodeToString(id) + strconv.FormatUint(f.U64(ring.QuestionFunctionsAt), 10)
	if len(id) == 0 {
		key += path
	}
	s := &ob.selections
	s.mu.Lock()
	if s.known == nil {
		s.known = make(map[string]*selection)
	}
	one := s.known[key]
	if one == nil {
		one = &selection{}
		if len(s.known) < mostSelections {
			s.known[key] = one
		}
	}
	s.mu.Unlock()
	one.once.Do(func() {
		one.ids, one.values, one.err = filter.chooseFor(pid, path, id)
		s.mu.Lock()
		defer s.mu.Unlock()
		s.settle(key, path, one, slices.Contains(filter.Chosen, path))
	})
	if one.err != nil {
		return nil, one.err
	}
	var text bytes.Buffer
	fmt.Fprintf(&text, "object %s\n", path)
	writeRanges(&text, one.ids)
	text.Write(one.values)
	return text.Bytes(), nil
}

// settle keeps an answer, or forgets it if it is an error, which says nothing about the files of other
// processes, or beyond the limits. ofC means that the object is for calls of the C library.
func (s *selections) settle(key, path string, one *selection, ofC bool) {
	if s.known[key] == one && (one.err != nil || s.selected+one.size() > mostSelected) {
		delete(s.known, key)
	}
	if s.known[key] == one {
		s.selected += one.size()
	}
	if one.err == nil && !ofC {
		s.functions += len(one.ids)
		if len(s.objects) < mostSelections {
			s.objects = append(s.objects, path)
		}
	}
}

// unselected returns the objects that processes asked about, if all functions of all of them are off.
func (s *selections) unselected() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.functions > 0 {
		return nil
	}
	return slices.Sorted(slices.Values(s.objects))
}

// serveSelect answers the question of a visitor.
func (ob *Observer) serveSelect(v *visitor, question []byte) {
	text, err := ob.answerSelect(int(v.Pid), question)
	fd := -1
	if text != nil {
		var file *os.File
		if file, err = memoryFile(text); err == nil {
			defer file.Close()
			fd = int(file.Fd())
		}
	}
	if err != nil {
		ob.problem(err)
	}
	_ = v.send([]byte{0}, fd) // it may have ended
}

// chooseFor returns the functions that the filter selects of an object of a process, which may see other
// files than this one, and the lines of their values.
func (f *Filter) chooseFor(pid int, path string, buildID []byte) ([]reader.FuncID, []byte, error) {
	err := error(os.ErrNotExist)
	for _, file := range filesOf(pid, path) {
		table, failed := symbolize.Load(file, f.Names)
		if errors.Is(failed, fs.ErrNotExist) || errors.Is(failed, fileio.ErrNotRegular) {
			continue
		} else if err = failed; err != nil {
			continue
		}
		if !strings.HasPrefix(table.Object().BuildID, hex.EncodeToString(buildID)) {
			err = fmt.Errorf("%s: its file is not the one that is mapped", path)
			table.Close()
			continue
		}
		ids := f.keep(table, slices.Contains(f.Chosen, path), nil)
		var values bytes.Buffer
		err = f.writeValues(&values, table, ids)
		return ids, values.Bytes(), errors.Join(err, table.Close())
	}
	return nil, nil, fmt.Errorf("which functions of %s to record: %w", path, err)
}
