package symbolize

import (
	"debug/elf"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
)

// registers is what shared objects with LLVM's runtime call to get a number.
const registers = "__xray_register_dso"

// LinkedObjects returns the paths of the instrumented shared objects that a program
// is linked with, in the order in which their constructors run, so that LLVM's
// runtime gives them the numbers 1, 2 and so on: dependencies first, and what has
// none of each other as glibc 2.35 and later do. Objects that are loaded by dlopen
// come after them. certain tells that every loader would take this order.
//
// They are looked for where the loader does it: in the run paths of the files, in
// Dirs by name, and in the system's folders, all below Sysroot. It is an error if one
// is not there, since then nobody knows whether it had a number.
func LinkedObjects(program string, s Search) (paths []string, certain bool, err error) {
	g := &linkGraph{search: s, byName: make(map[string]*linked)}
	err = guard(func() error { return g.read(program) })
	if err != nil {
		return nil, false, err
	}
	var order []*linked
	for _, l := range slices.Backward(g.list) {
		order = l.construct(order)
	}
	certain = true
	var before *linked
	for _, l := range order {
		if !l.instrumented || l == g.list[0] {
			continue
		}
		certain = certain && (before == nil || l.dependsOn(before, make(map[*linked]bool)))
		before = l
		paths = append(paths, l.path)
	}
	return paths, certain, nil
}

// linked is a file that takes part in a link.
type linked struct {
	path         string
	needs        []*linked
	names        []string // of needs, as DT_NEEDED says
	runPath      []string
	oldRunPath   []string // is that of dependencies, too
	instrumented bool
	done         bool
}

// linkGraph holds the files in the order in which the loader maps them: the program,
// what it needs, what that needs, and so on.
type linkGraph struct {
	search Search
	list   []*linked
	byName map[string]*linked
}

// maxLinked bounds the files of a link.
const maxLinked = 10_000

func (g *linkGraph) read(program string) error {
	root, err := g.open(program)
	if err != nil {
		return fmt.Errorf("%s: %w", program, err)
	}
	g.list = []*linked{root}
	for i := 0; i < len(g.list) && i < maxLinked; i++ {
		l := g.list[i]
		for _, name := range l.names {
			dep := g.byName[name]
			if dep == nil {
				if dep, err = g.find(l, name); err != nil {
					return err
				}
				g.byName[name] = dep
				g.list = append(g.list, dep)
			}
			l.needs = append(l.needs, dep)
		}
	}
	return nil
}

// find opens the first file of a name that could be linked with l.
func (g *linkGraph) find(l *linked, name string) (*linked, error) {
	var paths []string
	in := func(dirs ...string) {
		for _, dir := range dirs {
			paths = append(paths, filepath.Join(dir, name))
		}
	}
	if strings.Contains(name, "/") {
		paths = append(paths, filepath.Join(g.search.Sysroot, name))
	} else {
		in(g.search.Dirs...)
		in(l.runPath...)
		if l.runPath == nil {
			in(l.oldRunPath...)
			in(g.list[0].oldRunPath...)
		}
		for _, dir := range systemDirs(g.list[0].path) {
			in(filepath.Join(g.search.Sysroot, dir))
		}
	}
	for _, path := range paths {
		if dep, err := g.open(path); err == nil {
			return dep, nil
		}
	}
	return nil, fmt.Errorf("%s, which %s is linked with, is not to be found: "+
		"say with --symbols DIR where it is, or number the objects yourself with --object N=FILE", name, l.path)
}

// systemDirs are the folders that the loader looks into at last.
func systemDirs(program string) []string {
	dirs := []string{"/lib64", "/usr/lib64", "/lib", "/usr/lib", "/usr/local/lib"}
	triple := ""
	if f, err := elf.Open(program); err == nil {
		triple = map[elf.Machine]string{elf.EM_X86_64: "x86_64-linux-gnu", elf.EM_AARCH64: "aarch64-linux-gnu"}[f.Machine]
		f.Close()
	}
	if triple != "" {
		dirs = append([]string{"/lib/" + triple, "/usr/lib/" + triple}, dirs...)
	}
	return dirs
}

func (g *linkGraph) open(path string) (*linked, error) {
	f, err := elf.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	l := &linked{path: path}
	if l.names, err = f.DynString(elf.DT_NEEDED); err != nil {
		return nil, err
	}
	origin, err := filepath.Abs(filepath.Dir(path))
	if err != nil {
		return nil, err
	}
	expand := func(tag elf.DynTag) (dirs []string) {
		list, _ := f.DynString(tag)
		for _, dirList := range list {
			for dir := range strings.SplitSeq(dirList, ":") {
				here := strings.NewReplacer("$ORIGIN", origin, "${ORIGIN}", origin).Replace(dir)
				if here == dir {
					here = filepath.Join(g.search.Sysroot, dir)
				}
				dirs = append(dirs, here)
			}
		}
		return dirs
	}
	l.runPath, l.oldRunPath = expand(elf.DT_RUNPATH), expand(elf.DT_RPATH)
	l.instrumented = f.Section(mapSection) != nil && imports(f, registers)
	return l, nil
}

func imports(f *elf.File, name string) bool {
	symbols, err := f.ImportedSymbols()
	return err == nil && slices.ContainsFunc(symbols, func(s elf.ImportedSymbol) bool { return s.Name == name })
}

// construct appends a file behind what it needs, as glibc does.
func (l *linked) construct(order []*linked) []*linked {
	if l.done {
		return order
	}
	l.done = true
	for _, dep := range l.needs {
		order = dep.construct(order)
	}
	return append(order, l)
}

func (l *linked) dependsOn(other *linked, seen map[*linked]bool) bool {
	if seen[l] {
		return false
	}
	seen[l] = true
	return slices.ContainsFunc(l.needs, func(d *linked) bool { return d == other || d.dependsOn(other, seen) })
}

// IsSharedObject reports whether the file is a shared object with a number of its
// own, whose ids are not those of a program.
func IsSharedObject(path string) bool {
	return hasKind(path, func(f *elf.File) bool { return !isProgram(f) && f.Type == elf.ET_DYN && imports(f, registers) })
}

// IsProgram reports whether the file is a program, whose ids have no number of a shared
// object.
func IsProgram(path string) bool { return hasKind(path, isProgram) }

func isProgram(f *elf.File) bool {
	if f.Type == elf.ET_EXEC || slices.ContainsFunc(f.Progs, func(p *elf.Prog) bool { return p.Type == elf.PT_INTERP }) {
		return true
	}
	flags, err := f.DynValue(elf.DT_FLAGS_1)
	return err == nil && len(flags) > 0 && elf.DynFlag1(flags[0])&elf.DF_1_PIE != 0
}

// hasKind asks about an ELF file; false for what is none.
func hasKind(path string, is func(*elf.File) bool) bool {
	file := openRegular(path)
	if file == nil {
		return false
	}
	defer file.Close()
	yes := false
	_ = guard(func() error {
		var f *elf.File
		size, err := fileSize(file)
		if err == nil {
			f, err = newELF(file, size)
		}
		yes = err == nil && is(f)
		return err
	})
	return yes
}
