package build

import (
	"bufio"
	"bytes"
	"context"
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"github.com/xray-tools/xray/recorder/ring"
	"github.com/xray-tools/xray/symbolize/debuginfo"
)

// Program describes a program's file, to decide whether and how it can be recorded.
type Program struct {
	Path string
	// ELF is false for scripts, because their interpreter is the program.
	ELF bool
	// Interpreter is the dynamic loader, or "" if the program is static.
	Interpreter string
	// Linked means that the recorder is part of the program, or a library that it is linked with.
	Linked bool
	// Sanitizer is the runtime of a sanitizer that the program is linked with dynamically, or "". It must be
	// the first library, so it has to be preloaded before the recorder.
	Sanitizer string
	// Instrumented means that the file itself has sleds.
	Instrumented bool
}

// sledSection is the section of the table of sleds.
const sledSection = "xray_instr_map"

// Inspect reads the file of a program. With an error, it returns what it knows until then.
func Inspect(path string) (*Program, error) {
	p := &Program{Path: path}
	err := debuginfo.ReadELF(path, p.inspect)
	if errors.Is(err, debuginfo.ErrNotELF) {
		return p, nil // if it is not a script, executing it returns an error
	}
	return p, err
}

func (p *Program) inspect(f *elf.File) error {
	p.ELF, p.Instrumented = true, f.Section(sledSection) != nil
	if err := CheckMachine(f); err != nil {
		return fmt.Errorf("%s %w", p.Path, err)
	}
	for _, prog := range f.Progs {
		if prog.Type == elf.PT_INTERP && prog.Filesz <= 4096 {
			b := make([]byte, prog.Filesz)
			if _, err := io.ReadFull(prog.Open(), b); err != nil {
				return fmt.Errorf("%s: the name of its interpreter is truncated", p.Path)
			}
			p.Interpreter = string(bytes.TrimRight(b, "\x00"))
		}
	}
	needed, err := f.ImportedLibraries()
	if err != nil && p.Interpreter != "" {
		return fmt.Errorf("%s: %w", p.Path, err)
	}
	p.Linked = slices.Contains(needed, PreloadName) || hasRoot(f)
	if i := slices.IndexFunc(needed, isSanitizer); i >= 0 {
		p.Sanitizer = needed[i]
	}
	return nil
}

// CheckMachine returns an error if the recorder does not support a program's processor.
func CheckMachine(f *elf.File) error {
	switch {
	case f.Machine == elf.EM_X86_64 && f.Class == elf.ELFCLASS64:
		return nil
	case f.Class == elf.ELFCLASS32 && (f.Machine == elf.EM_386 || f.Machine == elf.EM_X86_64):
		return errors.New("is a 32-bit program: the recorder supports 64-bit x86 programs only")
	}
	return fmt.Errorf("is a program for %s: the recorder supports x86-64 only", strings.ToLower(strings.TrimPrefix(f.Machine.String(), "EM_")))
}

// hasRoot reports whether the runtime's root structure is in the file. It is initialized data.
func hasRoot(f *elf.File) bool {
	s := f.Section(".data")
	if s == nil || s.Type == elf.SHT_NOBITS {
		return false
	}
	found, err := contains(s.Open(), []byte(ring.RootMagic))
	return err == nil && found
}

// contains reports whether a stream contains what. It reads the stream piece by piece.
func contains(r io.Reader, what []byte) (bool, error) {
	buf := make([]byte, 64<<10)
	kept := 0
	for {
		n, err := r.Read(buf[kept:])
		if bytes.Contains(buf[:kept+n], what) {
			return true, nil
		}
		if err == io.EOF {
			return false, nil
		}
		if err != nil {
			return false, err
		}
		// Keep the end, which may be the beginning of a match.
		tail := min(kept+n, len(what)-1)
		copy(buf, buf[kept+n-tail:kept+n])
		kept = tail
	}
}

// CheckPreload returns an error with the reason if the runtime cannot be preloaded into the
// program, or into one with the runtime, the functions that record calls of libc.
func (p *Program) CheckPreload() error {
	if !p.ELF {
		return nil
	}
	what, flags := "the recorder", "flags"
	if p.Linked {
		what, flags = "what records calls of the C library", "flags --libcalls"
	}
	if p.Interpreter == "" {
		return fmt.Errorf("%s is linked statically, so %s cannot be preloaded. Link it in with the flags that `xray runtime %s` prints", p.Path, what, flags)
	}
	if why := privileged(p.Path); why != "" {
		return fmt.Errorf("%s %s, so the loader ignores preloaded libraries. Record a copy without that property, or link %s in with the flags that `xray runtime %s` prints", p.Path, why, what, flags)
	}
	return nil
}

// PreloadEnvironment returns the environment entry that preloads the library and sets of libc functions
// besides what is already preloaded, and the objects that it adds.
//
// The runtimes of sanitizers come first, because they require that. Then come the sets: the program's
// calls must reach them before they reach, for example, another allocator. The library comes last.
func PreloadEnvironment(l Library, already string, sets ...CallSet) (entry string, added []string, err error) {
	return preload(already, l.PreloadCalls(sets...), l.Preload())
}

// PreloadCallsEnvironment is PreloadEnvironment for a program with the recorder linked in.
func PreloadCallsEnvironment(l Library, already string, sets ...CallSet) (entry string, added []string, err error) {
	return preload(already, l.PreloadCalls(sets...))
}

func preload(already string, calls []string, library ...string) (entry string, added []string, err error) {
	added = slices.Concat(calls, library)
	for _, path := range added {
		if strings.ContainsAny(path, " :") {
			return "", nil, fmt.Errorf("%s: the loader cannot preload a path that contains a space or a colon; set XDG_CACHE_HOME to another directory", path)
		}
	}
	var first, others []string
	for _, path := range strings.FieldsFunc(already, func(r rune) bool { return r == ':' || r == ' ' }) {
		if isSanitizer(path) {
			first = append(first, path)
		} else {
			others = append(others, path)
		}
	}
	return "LD_PRELOAD=" + strings.Join(slices.Concat(first, calls, others, library), ":"), added, nil
}

// isSanitizer reports whether a library is the runtime of a sanitizer, by its name.
func isSanitizer(path string) bool {
	name := filepath.Base(path)
	return slices.ContainsFunc([]string{"libasan", "libhwasan", "liblsan", "libtsan", "libclang_rt."}, func(s string) bool { return strings.HasPrefix(name, s) })
}

// Objects lists the shared objects that the loader would load with the program, in the environment
// that the program will have. It does not run the program itself.
func (p *Program) Objects(ctx context.Context) ([]string, error) {
	if p.Interpreter == "" {
		return nil, nil
	}
	path, err := filepath.Abs(p.Path)
	if err != nil {
		return nil, err
	}
	out, err := run(ctx, "", []string{p.Interpreter}, "--list", path)
	if err != nil {
		return nil, fmt.Errorf("cannot find the shared objects of %s: %w", p.Path, err)
	}
	var objects []string
	for line := range strings.Lines(string(out)) {
		// "name => path (address)", or "path (address)".
		if _, after, ok := strings.Cut(line, "=>"); ok {
			line = after
		}
		line, _, _ = strings.Cut(strings.TrimSpace(line), " (0x")
		if strings.Contains(line, "/") {
			objects = append(objects, line)
		}
	}
	return objects, nil
}

// HasSleds reports whether a shared object or program is instrumented. It returns false if the file
// cannot be read.
func HasSleds(path string) (has bool) {
	_ = debuginfo.ReadELF(path, func(f *elf.File) error {
		has = f.Section(sledSection) != nil
		return nil
	})
	return has
}

// AlwaysInstrumented reports whether nearly all functions of a program or shared object are marked as
// always instrumented, as by rustc -Z instrument-xray=always. It returns false if the file cannot be
// read.
func AlwaysInstrumented(path string) (always bool) {
	_ = debuginfo.ReadELF(path, func(f *elf.File) error {
		section := f.Section(sledSection)
		if section == nil || section.Type == elf.SHT_NOBITS {
			return nil
		}
		const size, mark = 32, 17 // of a sled, and its position in it
		marked, sleds := 0, 0
		for r := bufio.NewReader(section.Open()); ; sleds++ {
			var sled [size]byte
			if _, err := io.ReadFull(r, sled[:]); err != nil {
				always = sleds > 0 && marked >= sleds-sleds/10
				return nil
			}
			if sled[mark] != 0 {
				marked++
			}
		}
	})
	return always
}

// HasHooks reports whether a shared object or program calls the hooks of GCC's
// -finstrument-functions in another object. It returns false if the file cannot be read.
func HasHooks(path string) (has bool) {
	_ = debuginfo.ReadELF(path, func(f *elf.File) error {
		symbols, err := f.ImportedSymbols()
		has = err == nil && slices.ContainsFunc(symbols, func(s elf.ImportedSymbol) bool { return s.Name == "__cyg_profile_func_enter" })
		return nil
	})
	return has
}

// ErrNotInstrumented means that a program has no function to record.
var ErrNotInstrumented = errors.New("no function is instrumented: compile and link with clang and -fxray-instrument " +
	"(add -fxray-instruction-threshold=1 to include short functions); `xray build` adds the flags to a build, and `xray doctor` says what a program lacks")
