package symbolize

import (
	"bytes"
	"debug/elf"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// lacking is what a file does not have of what describes its functions.
type lacking struct {
	names bool // a symbol table
	lines bool // line tables
}

// openDebug finds separate debug files for a table whose file was stripped. The
// places are tried in this order, until nothing is lacking: what .gnu_debuglink
// names, what has the build id in a debug directory, what has the file's name
// there, .gnu_debugdata, and what Options.Fetch gets.
func (t *Table) openDebug() {
	lack := lacking{t.elf.f.SectionByType(elf.SHT_SYMTAB) == nil, t.elf.section(".debug_line") == nil}
	if lack == (lacking{}) || t.elf.relocatable() {
		return
	}
	link := t.elf.debugLink()
	for _, c := range t.debugCandidates(link) {
		if lack == (lacking{}) {
			break
		}
		o, err := t.openDebugFile(c, link)
		switch {
		case err != nil:
			t.refuse(fmt.Errorf("%s: not taken as debug information of %s: %w", c.path, t.object.Path, err))
		case o != nil:
			t.takeDebug(o, &lack)
		}
	}
	if lack.names {
		if o, err := t.elf.miniDebug(); err != nil {
			t.refuse(fmt.Errorf("%s: %w", t.object.Path, err))
		} else if o != nil {
			t.takeDebug(o, &lack)
		}
	}
	if lack != (lacking{}) && t.opts.Fetch != nil && t.object.BuildID != "" {
		if o, err := t.fetchDebug(t.object.BuildID); err != nil {
			t.refuse(fmt.Errorf("%s: %w", t.object.Path, err))
		} else if o != nil {
			t.takeDebug(o, &lack)
		}
	}
	if lack == (lacking{}) {
		t.refused = nil // what was wrong elsewhere does not matter
	}
}

// takeDebug takes from a debug file what is lacking.
func (t *Table) takeDebug(o *object, lack *lacking) {
	if s := o.f.SectionByType(elf.SHT_SYMTAB); lack.names && s != nil {
		t.symbols = append([]*object{o}, t.symbols...)
		lack.names = false
	}
	if s := o.section(".debug_line"); lack.lines && s != nil && s.s.Type != elf.SHT_NOBITS {
		t.lines = o
		lack.lines = false
	}
}

// debugCandidate is a path where a debug file may be. Those that are found by a
// name alone are probably of something else, so that it is not worth a word if they are.
type debugCandidate struct {
	path   string
	byName bool
	linked bool // named by .gnu_debuglink, whose checksum is that of the file
}

// debugCandidates are the places where the debug file of the table's file may be.
func (t *Table) debugCandidates(link debugLink) []debugCandidate {
	var list []debugCandidate
	add := func(c debugCandidate) {
		if !slices.ContainsFunc(list, func(old debugCandidate) bool { return old.path == c.path }) {
			list = append(list, c)
		}
	}
	base := filepath.Base(t.object.Path)
	if link.name != "" {
		for _, dir := range fileDirs(t.object.Path) {
			add(debugCandidate{path: filepath.Join(dir, link.name), linked: true})
			add(debugCandidate{path: filepath.Join(dir, ".debug", link.name), linked: true})
			for _, debug := range t.opts.DebugDirs {
				// A debug directory mirrors the tree that it is in.
				root, _ := strings.CutSuffix(filepath.Clean(debug), "/usr/lib/debug")
				if below, err := filepath.Rel(filepath.Join("/", root), dir); err == nil && filepath.IsLocal(below) {
					add(debugCandidate{path: filepath.Join(debug, below, link.name), linked: true})
				}
				add(debugCandidate{path: filepath.Join(debug, dir, link.name), linked: true})
			}
		}
	}
	for _, debug := range t.opts.DebugDirs {
		if byID := buildIDPath(debug, t.object.BuildID); byID != "" {
			add(debugCandidate{path: byID + ".debug"})
		}
	}
	for _, debug := range t.opts.DebugDirs {
		if link.name != "" {
			add(debugCandidate{path: filepath.Join(debug, link.name), linked: true, byName: true})
		}
		if t.object.BuildID != "" {
			add(debugCandidate{path: filepath.Join(debug, base+".debug"), byName: true})
			add(debugCandidate{path: filepath.Join(debug, base), byName: true})
		}
	}
	return list
}

// fileDirs are the directories of a file: as it is called, and where links lead.
func fileDirs(path string) []string {
	abs, err := filepath.Abs(path)
	if err != nil {
		return nil
	}
	dirs := []string{filepath.Dir(abs)}
	if real, err := filepath.EvalSymlinks(abs); err == nil && filepath.Dir(real) != dirs[0] {
		dirs = append(dirs, filepath.Dir(real))
	}
	return dirs
}

// buildIDPath is where dir has the file with a build id; "" without one.
func buildIDPath(dir, id string) string {
	if len(id) < 3 {
		return ""
	}
	return filepath.Join(dir, ".build-id", id[:2], id[2:])
}

// openDebugFile opens a candidate if it is there, and is the table's file's: it has
// the same build id, or where neither has one, the checksum that .gnu_debuglink says.
func (t *Table) openDebugFile(c debugCandidate, link debugLink) (*object, error) {
	o, err := t.openOther(c.path)
	if o == nil {
		if c.byName {
			err = nil
		}
		return nil, err
	}
	var d Object
	o.describe(&d)
	switch {
	case d.BuildID != t.object.BuildID:
		err = fmt.Errorf("its build id is %s, that of the file %s", orNone(d.BuildID), orNone(t.object.BuildID))
	case d.BuildID == "" && c.linked:
		err = link.check(o)
	}
	if err == nil {
		return o, nil
	}
	if c.byName {
		err = nil
	}
	return nil, err
}

// openOther opens another ELF file, which stays open as long as the table; nil
// when there is none.
func (t *Table) openOther(path string) (*object, error) {
	f := openRegular(path)
	if f == nil {
		return nil, nil
	}
	size, err := fileSize(f)
	if t.sameFile(f) {
		return nil, f.Close()
	}
	var o *object
	if err == nil {
		err = guard(func() error {
			o, err = newObject(f, size)
			return err
		})
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	o.path = path
	o.shareLimit(t.opts.limit)
	t.others = append(t.others, f)
	return o, nil
}

// openRegular opens a file whose name others chose; nil for what is not there, or is a
// pipe, which would keep us waiting.
func openRegular(path string) *os.File {
	if info, err := os.Stat(path); err != nil || !info.Mode().IsRegular() {
		return nil
	}
	f, err := os.Open(path)
	if err != nil {
		return nil
	}
	return f
}

// sameFile reports whether f is the table's file.
func (t *Table) sameFile(f *os.File) bool {
	if t.file == nil {
		return false
	}
	a, err1 := t.file.Stat()
	b, err2 := f.Stat()
	return err1 == nil && err2 == nil && os.SameFile(a, b)
}

// fetchDebug asks Options.Fetch for the debug file of a build.
func (t *Table) fetchDebug(buildID string) (*object, error) {
	path, err := t.opts.Fetch(buildID, DebugInfo)
	if err != nil || path == "" {
		return nil, err
	}
	o, err := t.openOther(path)
	if o == nil {
		return nil, err
	}
	var d Object
	o.describe(&d)
	if d.BuildID != buildID {
		return nil, fmt.Errorf("%s: the server gave the file of build id %s for %s; remove it", path, orNone(d.BuildID), buildID)
	}
	return o, nil
}

// debugLink is what .gnu_debuglink says: the name of the debug file and its CRC.
type debugLink struct {
	name string
	crc  uint32
}

func (o *object) debugLink() debugLink {
	b, err := o.section(".gnu_debuglink").at(0, 1<<12)
	i := bytes.IndexByte(b, 0)
	if err != nil || i <= 0 {
		return debugLink{}
	}
	at := (i + 4) &^ 3
	name := string(b[:i])
	if len(b) < at+4 || name != filepath.Base(name) {
		return debugLink{} // the name of a file is all that it may be
	}
	return debugLink{name, o.f.ByteOrder.Uint32(b[at:])}
}

func (l debugLink) check(o *object) error {
	sum := crc32.NewIEEE()
	if _, err := io.Copy(sum, io.NewSectionReader(o.r, 0, o.size)); err != nil {
		return err
	}
	if sum.Sum32() != l.crc {
		return fmt.Errorf("its checksum is %08x, the debug link says %08x", sum.Sum32(), l.crc)
	}
	return nil
}
