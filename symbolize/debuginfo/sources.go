package debuginfo

import "slices"

// SourceMD5 returns the MD5 that a source file had when it was compiled. path is as in
// [Location]. It returns false if the line tables have no MD5: only those of DWARF 5 do.
func (b *Binary) SourceMD5(path string) ([16]byte, bool) {
	_ = b.Locate()
	sum, ok := b.md5[path]
	return sum, ok
}

// CompilationDirs returns the compilation directories (DW_AT_comp_dir) of all units, sorted and
// without duplicates. It returns nil without debug information.
func (b *Binary) CompilationDirs() []string {
	var dirs []string
	// Damage affects only its own directory.
	_ = Guard(func() error {
		i := b.info()
		i.mu.Lock()
		defer i.mu.Unlock()
		units, err := i.main.units()
		last := ""
		for _, u := range units {
			if !u.readRoot() {
				continue
			}
			if dir := u.dir.String(); dir != last {
				dirs, last = append(dirs, dir), dir
			}
		}
		return err
	})
	slices.Sort(dirs)
	return slices.Compact(dirs)
}

// SourceFiles returns the source files of functions of the binary, as in [Location], sorted and
// without duplicates.
func (b *Binary) SourceFiles() []string {
	_ = b.Locate()
	var files []string
	last := ""
	for _, l := range b.locations {
		if l.File != last && l.File != "" {
			files = append(files, l.File)
		}
		last = l.File
	}
	slices.Sort(files)
	return slices.Compact(files)
}
