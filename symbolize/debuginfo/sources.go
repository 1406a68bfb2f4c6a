package debuginfo

import "slices"

// SourceMD5 is the MD5 of a file of source code when it was compiled, by its path as in
// [Location]. It reports false where the line tables do not say: only those of DWARF 5 do.
func (b *Binary) SourceMD5(path string) ([16]byte, bool) {
	_ = b.Locate()
	sum, ok := b.md5[path]
	return sum, ok
}

// CompilationDirs are the directories that the units of the binary were compiled in
// (DW_AT_comp_dir), sorted, each once. There are none without debug information.
func (b *Binary) CompilationDirs() []string {
	var dirs []string
	// What is damaged hides only its own directory.
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

// SourceFiles are the files of source code, as in [Location], that the debug information
// places functions of the binary in, sorted, each once.
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
