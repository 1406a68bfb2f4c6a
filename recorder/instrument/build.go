package instrument

import (
	"bufio"
	"context"
	"debug/elf"
	_ "embed"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/xray-tools/xray/recorder/build"
	"github.com/xray-tools/xray/symbolize/debuginfo"
)

//go:embed preload/exec.c
var execSource []byte

// Build is a build that is instrumented. Its folder holds what its processes share.
type Build struct{ folder string }

// New prepares a build. program is the path of a program that calls [Compile] with the arguments behind its name and
// word. New returns what the build needs in its environment. Close removes the folder.
func New(ctx context.Context, program, name, word string, o Options) (b *Build, env []string, err error) {
	folder, err := os.MkdirTemp("", "xray-build-*")
	if err != nil {
		return nil, nil, err
	}
	b = &Build{folder}
	defer func() {
		if err != nil {
			b.Close()
		}
	}()
	if o.Exclude != "" {
		if o.Exclude, err = filepath.Abs(o.Exclude); err != nil {
			return nil, nil, err
		}
	}
	options, err := json.Marshal(o)
	if err != nil {
		return nil, nil, err
	}
	source, library := filepath.Join(folder, "exec.c"), filepath.Join(folder, libraryFile)
	for path, data := range map[string][]byte{source: execSource, filepath.Join(folder, optionsFile): options, filepath.Join(folder, logFile): nil} {
		if err := os.WriteFile(path, data, 0o600); err != nil {
			return nil, nil, err
		}
	}
	if err := build.Shared(ctx, library, source); err != nil {
		return nil, nil, err
	}
	preload := library
	if already := os.Getenv("LD_PRELOAD"); already != "" {
		preload = already + ":" + library
	}
	return b, []string{"LD_PRELOAD=" + preload, programVariable + "=" + program, nameVariable + "=" + name, wordVariable + "=" + word, folderVariable + "=" + folder}, nil
}

// Close removes the folder.
func (b *Build) Close() error { return os.RemoveAll(b.folder) }

// Summary says what a build compiled. Sources that are gone at its end, as those of tests of a configuration, are
// left out, and one that was compiled several times counts once.
type Summary struct {
	Instrumented []string            // sources
	Left         map[string][]string // reason -> sources that are not instrumented
	Outputs      []Output            // programs before shared objects, those with more functions first
}

// Output is a program or shared object that was linked.
type Output struct {
	Path      string // below the working directory, else absolute
	Functions int    // with sleds
	Hooks     bool   // it has GCC's hooks, which do not say how many functions have them
	Shared    bool
}

// Summary reads the log of a build that has ended.
func (b *Build) Summary() (*Summary, error) {
	f, err := os.Open(filepath.Join(b.folder, logFile))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	s := &Summary{Left: make(map[string][]string)}
	reasons := make(map[string]string) // source -> why it is not instrumented; the last call decides
	outputs := make(map[string]bool)
	lines := bufio.NewReader(f)
	for {
		line, err := lines.ReadBytes('\n')
		if err == io.EOF {
			break
		} else if err != nil {
			return nil, err
		}
		var e entry
		if err := json.Unmarshal(line, &e); err != nil {
			return nil, fmt.Errorf("%s: %w", f.Name(), err)
		}
		add := func(paths []string, why string) {
			for _, path := range paths {
				if path = absolute(e.Folder, path); isFile(path) {
					reasons[path] = why
				}
			}
		}
		why := e.Why
		if why != "" {
			why = filepath.Base(e.Compiler) + ": " + why
		}
		add(e.Sources, why)
		add(e.Assembly, "assembly")
		add(e.Other, "another language")
		if path := absolute(e.Folder, e.Output); e.Output != "" && isFile(path) {
			outputs[path] = true
		}
	}
	for path, why := range reasons {
		if path = relative(path); why == "" {
			s.Instrumented = append(s.Instrumented, path)
		} else {
			s.Left[why] = append(s.Left[why], path)
		}
	}
	slices.Sort(s.Instrumented)
	for _, list := range s.Left {
		slices.Sort(list)
	}
	for path := range outputs {
		if o, ok := inspect(path); ok {
			s.Outputs = append(s.Outputs, o)
		}
	}
	slices.SortFunc(s.Outputs, func(a, b Output) int {
		switch {
		case a.Shared != b.Shared && b.Shared:
			return -1
		case a.Shared != b.Shared:
			return 1
		case a.Functions != b.Functions:
			return b.Functions - a.Functions
		}
		return strings.Compare(a.Path, b.Path)
	})
	return s, nil
}

func absolute(folder, path string) string {
	if !filepath.IsAbs(path) {
		path = filepath.Join(folder, path)
	}
	return filepath.Clean(path)
}

// isFile reports whether a file is there, and no build system's test of the compiler or step of its own.
func isFile(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular() &&
		!slices.ContainsFunc([]string{"/CompilerId", "CompilerABI.c", "/CMakeScratch/", "/meson-private/", "/build_script_"}, func(s string) bool { return strings.Contains(path, s) })
}

// relative returns a path below the working directory without it.
func relative(path string) string {
	if dir, err := os.Getwd(); err == nil {
		if r, err := filepath.Rel(dir, path); err == nil && filepath.IsLocal(r) {
			return r
		}
	}
	return path
}

// sizeOfIndex is the size of a function's entry in xray_fn_idx: where its sleds begin, and how many it has.
const sizeOfIndex = 16

// inspect reads a file that a linker wrote. It returns false if that is no program or shared object.
func inspect(path string) (o Output, ok bool) {
	if dir, name := filepath.Split(path); filepath.Base(dir) == "deps" {
		// Cargo links into deps, and gives what it was asked for a second name without a hash. Others are macros.
		if i := strings.LastIndexByte(name, '-'); i > 0 {
			name = name[:i]
		}
		second := filepath.Join(filepath.Dir(filepath.Clean(dir)), name)
		if !sameFile(path, second) {
			return o, false
		}
		path = second
	}
	err := debuginfo.ReadELF(path, func(f *elf.File) error {
		o.Path, o.Shared = relative(path), f.Type == elf.ET_DYN && !slices.ContainsFunc(f.Progs, func(p *elf.Prog) bool { return p.Type == elf.PT_INTERP })
		if ok = f.Type == elf.ET_EXEC || f.Type == elf.ET_DYN; !ok {
			return nil
		}
		if s := f.Section("xray_fn_idx"); s != nil {
			o.Functions = int(s.Size / sizeOfIndex)
		}
		return nil
	})
	o.Hooks = build.HasHooks(path)
	return o, ok && err == nil
}

func sameFile(a, b string) bool {
	x, errA := os.Stat(a)
	y, errB := os.Stat(b)
	return errA == nil && errB == nil && os.SameFile(x, y)
}
