package symbolize

import (
	"debug/elf"
	"os"
	"path/filepath"
)

// openDebug finds the separate debug file of a table whose file was stripped. A
// file that cannot be used is passed over: names are missing then, as without it.
func (t *Table) openDebug() {
	names, lines := t.elf.f.SectionByType(elf.SHT_SYMTAB) == nil, t.elf.section(".debug_line") == nil
	if t.object.BuildID == "" || !names && !lines {
		return
	}
	for _, dir := range t.opts.DebugDirs {
		for _, path := range debugPaths(dir, t.object) {
			f, o := openBuild(path, t.object.BuildID)
			if o == nil {
				continue
			}
			t.debugFile = f
			if names {
				t.symbols = o
			}
			if lines {
				t.lines = o
			}
			return
		}
	}
}

// debugPaths are the places in dir where the debug file of an object may be.
func debugPaths(dir string, o Object) []string {
	paths := []string{filepath.Join(dir, filepath.Base(o.Path)+".debug"), filepath.Join(dir, filepath.Base(o.Path))}
	if byID := buildIDPath(dir, o.BuildID); byID != "" {
		paths = append([]string{byID + ".debug"}, paths...)
	}
	return paths
}

// buildIDPath is where dir has the file with a build id; "" without one.
func buildIDPath(dir, id string) string {
	if len(id) < 3 {
		return ""
	}
	return filepath.Join(dir, ".build-id", id[:2], id[2:])
}

// openBuild opens the ELF file at path if it has the build id and a symbol table.
func openBuild(path, id string) (*os.File, *object) {
	f, err := os.Open(path)
	if err != nil {
		return nil, nil
	}
	if size, err := fileSize(f); err == nil {
		var o *object
		var d Object
		err := guard(func() (err error) {
			if o, err = newObject(f, size); err == nil {
				o.describe(&d)
			}
			return err
		})
		if err == nil && d.BuildID == id && o.f.SectionByType(elf.SHT_SYMTAB) != nil {
			return f, o
		}
	}
	f.Close()
	return nil, nil
}
