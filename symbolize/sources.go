package symbolize

import (
	"slices"
)

// CompilationDirs are the directories that the units of the object were compiled in
// (DW_AT_comp_dir), sorted, each once. There are none without debug information.
func (t *Table) CompilationDirs() []string {
	if t == nil || t.elf == nil || t.info == nil {
		return nil
	}
	var dirs []string
	// What is damaged hides only its own directory.
	_ = guard(func() error {
		i := t.debugInfo()
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

// SourceFiles are the files of source code, as in [Symbol], that the debug information of
// an object places functions of the table in, sorted, each once. What a trace or a map says is no debug
// information.
func (t *Table) SourceFiles() []string {
	if t == nil || t.elf == nil {
		return nil
	}
	_ = t.Locate()
	var files []string
	last := ""
	for _, l := range t.locations {
		if l.file != last && l.file != "" {
			files = append(files, l.file)
		}
		last = l.file
	}
	slices.Sort(files)
	return slices.Compact(files)
}
