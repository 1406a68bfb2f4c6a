package debuginfo

import (
	"bytes"
	"cmp"
	"debug/elf"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
)

// lacking lists what a file does not have.
type lacking struct {
	names bool // a symbol table
	lines bool // line tables
}

// openDebug finds separate debug files of a stripped binary. It tries these candidates in
// order, until nothing is lacking: the file of .gnu_debuglink, files with the build ID in debug
// directories, files with the name there, and the file of Options.Fetch.
func (b *Binary) openDebug() {
	lack := lacking{b.elf.f.SectionByType(elf.SHT_SYMTAB) == nil, b.elf.section(".debug_line") == nil}
	if lack == (lacking{}) || b.elf.Relocatable() {
		return
	}
	link := b.elf.debugLink()
	for _, c := range b.debugCandidates(link) {
		if lack == (lacking{}) {
			break
		}
		o, err := b.openDebugFile(c, link)
		switch {
		case err != nil:
			b.refuse(fmt.Errorf("%s: ignored as debug file of %s: %w", c.path, b.path, err))
		case o != nil:
			b.takeDebug(o, &lack)
		}
	}
	if lack != (lacking{}) && b.opts.Fetch != nil && b.buildID != "" {
		if o, err := b.fetchDebug(b.buildID); err != nil {
			b.refuse(fmt.Errorf("%s: %w", b.path, err))
		} else if o != nil {
			b.takeDebug(o, &lack)
		}
	}
	if lack == (lacking{}) {
		b.refused = nil // nothing is missing
	}
}

// takeDebug takes what is lacking from a debug file, if the file has it.
func (b *Binary) takeDebug(o *ELF, lack *lacking) {
	if s := o.f.SectionByType(elf.SHT_SYMTAB); lack.names && s != nil {
		b.symbols = append([]*ELF{o}, b.symbols...)
		lack.names = false
	}
	if s := o.section(".debug_line"); lack.lines && s != nil && s.s.Type != elf.SHT_NOBITS {
		b.lines = o
		lack.lines = false
	}
}

// debugCandidate is a possible path of a debug file. A file that was found by its name alone is
// probably unrelated, so a mismatch is no error.
type debugCandidate struct {
	path   string
	byName bool
	linked bool // from .gnu_debuglink, which has the checksum of the file
}

// debugCandidates returns the possible paths of the debug file.
func (b *Binary) debugCandidates(link debugLink) []debugCandidate {
	var list []debugCandidate
	add := func(c debugCandidate) {
		if !slices.ContainsFunc(list, func(old debugCandidate) bool { return old.path == c.path }) {
			list = append(list, c)
		}
	}
	base := filepath.Base(b.path)
	if link.name != "" {
		for _, dir := range fileDirs(b.path) {
			add(debugCandidate{path: filepath.Join(dir, link.name), linked: true})
			add(debugCandidate{path: filepath.Join(dir, ".debug", link.name), linked: true})
			for _, debug := range b.opts.DebugDirs {
				// A debug directory mirrors the tree that contains it.
				root, _ := strings.CutSuffix(filepath.Clean(debug), "/usr/lib/debug")
				if below, err := filepath.Rel(filepath.Join("/", root), dir); err == nil && filepath.IsLocal(below) {
					add(debugCandidate{path: filepath.Join(debug, below, link.name), linked: true})
				}
				add(debugCandidate{path: filepath.Join(debug, dir, link.name), linked: true})
			}
		}
	}
	for _, debug := range b.opts.DebugDirs {
		if byID := BuildIDPath(debug, b.buildID); byID != "" {
			add(debugCandidate{path: byID + ".debug"})
		}
	}
	for _, debug := range b.opts.DebugDirs {
		if link.name != "" {
			add(debugCandidate{path: filepath.Join(debug, link.name), linked: true, byName: true})
		}
		if b.buildID != "" {
			add(debugCandidate{path: filepath.Join(debug, base+".debug"), byName: true})
			add(debugCandidate{path: filepath.Join(debug, base), byName: true})
		}
	}
	return list
}

// fileDirs returns the directories of a file: of its path, and of the target of links.
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

// BuildIDPath returns the path of a build ID in a debug directory, without the suffix ".debug"
// of debug files. It returns "" without a build ID.
func BuildIDPath(dir, id string) string {
	if len(id) < 3 {
		return ""
	}
	return filepath.Join(dir, ".build-id", id[:2], id[2:])
}

// openDebugFile opens a candidate and checks that it belongs to the binary: by build ID, or if
// there is none, by the checksum in .gnu_debuglink. It returns nil if there is no such file.
func (b *Binary) openDebugFile(c debugCandidate, link debugLink) (*ELF, error) {
	o, err := b.openOther(c.path)
	if o == nil {
		if c.byName {
			err = nil
		}
		return nil, err
	}
	switch id := o.BuildID(); {
	case id != b.buildID:
		err = fmt.Errorf("its build ID is %s instead of %s", cmp.Or(id, "none"), cmp.Or(b.buildID, "none"))
	case id == "" && c.linked:
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

// openOther opens another ELF file, which stays open until Close. It returns nil if there is no
// such file.
func (b *Binary) openOther(path string) (*ELF, error) {
	o, err := OpenELF(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case err != nil:
		return nil, err
	case o.sameFile(b.elf):
		return nil, o.Close()
	}
	o.share(b.opts.Limit)
	b.others = append(b.others, o)
	return o, nil
}

// fetchDebug asks Options.Fetch for the debug file of a build.
func (b *Binary) fetchDebug(buildID string) (*ELF, error) {
	path, err := b.opts.Fetch(buildID, DebugInfo)
	if err != nil || path == "" {
		return nil, err
	}
	o, err := b.openOther(path)
	if o == nil {
		return nil, err
	}
	if id := o.BuildID(); id != buildID {
		return nil, fmt.Errorf("%s: the server sent a file with build ID %s instead of %s: delete the file", path, cmp.Or(id, "none"), buildID)
	}
	return o, nil
}

// debugLink is the content of .gnu_debuglink: the name of the debug file and its CRC.
type debugLink struct {
	name string
	crc  uint32
}

func (o *ELF) debugLink() debugLink {
	b, err := o.section(".gnu_debuglink").at(0, 1<<12)
	i := bytes.IndexByte(b, 0)
	if err != nil || i <= 0 {
		return debugLink{}
	}
	at := (i + 4) &^ 3
	name := string(b[:i])
	if len(b) < at+4 || name != filepath.Base(name) {
		return debugLink{} // paths are not allowed
	}
	return debugLink{name, o.f.ByteOrder.Uint32(b[at:])}
}

func (l debugLink) check(o *ELF) error {
	sum := crc32.NewIEEE()
	if _, err := io.Copy(sum, io.NewSectionReader(o.r, 0, o.size)); err != nil {
		return err
	}
	if sum.Sum32() != l.crc {
		return fmt.Errorf("its checksum is %08x, but the debug link has %08x", sum.Sum32(), l.crc)
	}
	return nil
}
