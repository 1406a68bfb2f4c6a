package symbolize

import (
	"debug/elf"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/xray-tools/xray/symbolize/debuginfo"
)

// registers is the function that shared objects with LLVM's runtime call to get an object number.
const registers = "__xray_register_dso"

// LinkedObjects returns the paths of the instrumented shared objects that a program is linked
// with, in the order of their constructors. LLVM's runtime gives them the numbers 1, 2 and so
// on in this order: dependencies first, and independent objects as in glibc 2.35 and later.
// Objects loaded by dlopen come after them. certain reports whether every loader would use this
// order.
//
// LinkedObjects searches as the loader does: in the run paths of the files, in Dirs by name,
// and in system directories, all below Sysroot. It returns an error if it cannot find one of
// them, since that object might have a number.
func LinkedObjects(program string, s Search) (paths []string, certain bool, err error) {
	g := &linkGraph{search: s, byName: make(map[string]*linked)}
	err = debuginfo.Guard(func() error { return g.follow(program) })
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

// linked is a program or shared object.
type linked struct {
	path         string
	needs        []*linked
	names        []string // of needs, from DT_NEEDED
	runPath      []string
	oldRunPath   []string // also applies to dependencies
	machine      elf.Machine
	instrumented bool
	done         bool
}

// linkGraph holds the files in the order in which the loader maps them: the program, its
// dependencies, their dependencies, and so on.
type linkGraph struct {
	search Search
	list   []*linked
	byName map[string]*linked
}

// maxLinked limits the files of a program.
const maxLinked = 10_000

func (g *linkGraph) follow(program string) error {
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

// find opens the first file with a name that the loader would accept for l.
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
		for _, dir := range systemDirs(g.list[0].machine) {
			in(filepath.Join(g.search.Sysroot, dir))
		}
	}
	for _, path := range paths {
		if dep, err := g.open(path); err == nil {
			return dep, nil
		}
	}
	return nil, fmt.Errorf("%s, a dependency of %s, was not found: "+
		"pass its directory with --symbols, or number the objects with --object N=FILE", name, l.path)
}

// systemDirs returns the directories that the loader searches last.
func systemDirs(machine elf.Machine) []string {
	dirs := []string{"/lib64", "/usr/lib64", "/lib", "/usr/lib", "/usr/local/lib"}
	triple := map[elf.Machine]string{elf.EM_X86_64: "x86_64-linux-gnu", elf.EM_AARCH64: "aarch64-linux-gnu"}[machine]
	if triple != "" {
		dirs = append([]string{"/lib/" + triple, "/usr/lib/" + triple}, dirs...)
	}
	return dirs
}

func (g *linkGraph) open(path string) (l *linked, err error) {
	err = debuginfo.Guard(func() error {
		e, err := debuginfo.OpenELF(path)
		if err != nil {
			return err
		}
		defer e.Close()
		l, err = g.read(path, e)
		return err
	})
	return l, err
}

// Limits of the dependencies of a file. The search tries each name in each directory.
const (
	maxNeeded   = 4096
	maxRunPaths = 64
)

func (g *linkGraph) read(path string, e *debuginfo.ELF) (*linked, error) {
	l := &linked{path: path, machine: e.Header().Machine}
	origin, err := filepath.Abs(filepath.Dir(path))
	if err != nil {
		return nil, err
	}
	expand := func(list string) (dirs []string) {
		for dir := range strings.SplitSeq(list, ":") {
			here := strings.NewReplacer("$ORIGIN", origin, "${ORIGIN}", origin).Replace(dir)
			if here == dir {
				here = filepath.Join(g.search.Sysroot, dir)
			}
			dirs = append(dirs, here)
		}
		return dirs
	}
	err = e.Dynamic(func(tag elf.DynTag, text func() string, _ uint64) error {
		switch tag {
		case elf.DT_NEEDED:
			l.names = append(l.names, text())
		case elf.DT_RUNPATH:
			l.runPath = append(l.runPath, expand(text())...)
		case elf.DT_RPATH:
			l.oldRunPath = append(l.oldRunPath, expand(text())...)
		}
		if len(l.names) > maxNeeded || len(l.runPath) > maxRunPaths || len(l.oldRunPath) > maxRunPaths {
			return fmt.Errorf("more than %d dependencies, or %d run paths", maxNeeded, maxRunPaths)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	l.instrumented = len(e.SectionsNamed(mapSection)) > 0 && e.Imports(registers)
	return l, nil
}

// construct appends a file after its dependencies, as glibc does.
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

// IsSharedObject reports whether the file is a shared object with an object number of its own.
func IsSharedObject(path string) bool {
	return hasKind(path, func(e *debuginfo.ELF) bool {
		return !e.IsProgram() && e.Header().Type == elf.ET_DYN && e.Imports(registers)
	})
}

// IsProgram reports whether the file is a program. The ids of programs have object number 0.
func IsProgram(path string) bool { return hasKind(path, (*debuginfo.ELF).IsProgram) }

// hasKind calls is for an ELF file. It returns false for other files.
func hasKind(path string, is func(*debuginfo.ELF) bool) (yes bool) {
	_ = debuginfo.Guard(func() error {
		e, err := debuginfo.OpenELF(path)
		if err != nil {
			return err
		}
		defer e.Close()
		yes = is(e)
		return nil
	})
	return yes
}
