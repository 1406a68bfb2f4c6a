// Package doctor says what can be recorded on this machine, of a program's file, or of a running process, and what
// to do where something is missing. It looks and changes nothing.
package doctor

import (
	"context"
	"debug/elf"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/xray-tools/xray/recorder/build"
	"github.com/xray-tools/xray/report/label"
	"github.com/xray-tools/xray/symbolize"
	"github.com/xray-tools/xray/symbolize/debuginfo"
)

// State is the result of a check.
type State string

const (
	OK      State = "ok"
	Missing State = "missing" // a feature does not work without it
	Note    State = "note"    // what may matter, and is neither right nor wrong
)

// Check is one thing that was looked at.
type Check struct {
	Subject string // the machine, a program or a process
	Name    string // of the check: "clock"
	State   State
	Text    string
	Remedy  string // a command or a setting that mends it; "" where there is none
}

// checks collects those of a subject.
type checks struct {
	subject string
	list    []Check
}

func (c *checks) ok(name, format string, args ...any) {
	c.list = append(c.list, Check{c.subject, name, OK, fmt.Sprintf(format, args...), ""})
}

func (c *checks) note(name, remedy, format string, args ...any) {
	c.list = append(c.list, Check{c.subject, name, Note, fmt.Sprintf(format, args...), remedy})
}

func (c *checks) missing(name, remedy, format string, args ...any) {
	c.list = append(c.list, Check{c.subject, name, Missing, fmt.Sprintf(format, args...), remedy})
}

// Program looks at the file of a program or shared object. It returns an error if the file cannot be read.
func Program(ctx context.Context, path string) ([]Check, error) {
	c := &checks{subject: path}
	p, err := build.Inspect(path)
	if err != nil {
		return nil, err
	}
	if !p.ELF {
		c.missing("program", "xray doctor INTERPRETER", "it is not an ELF file: if it is a script, its interpreter is the program")
		return c.list, nil
	}
	c.instrumentation(p)
	c.files(ctx, p)
	switch err := p.CheckPreload(); {
	case p.Linked:
		c.ok("recorder", "it is linked in")
	case symbolize.IsSharedObject(path):
	case err != nil:
		c.missing("recorder", "xray runtime flags", "%v", err)
	default:
		c.ok("recorder", "it can be preloaded: the program is linked dynamically")
	}
	return c.list, nil
}

// instrumentation looks for sleds, hooks and the names of functions.
func (c *checks) instrumentation(p *build.Program) {
	var stripped, debug, llvm, bolt bool
	err := debuginfo.ReadELF(p.Path, func(f *elf.File) error {
		stripped = f.Section(".symtab") == nil
		debug = f.Section(".debug_info") != nil || f.Section(".zdebug_info") != nil
		bolt = f.Section(".bolt.org.text") != nil
		symbols, err := f.Symbols()
		llvm = err == nil && slices.ContainsFunc(symbols, func(s elf.Symbol) bool { return s.Name == "__xray_init" && s.Section != elf.SHN_UNDEF }) && !p.Linked
		return nil
	})
	if err != nil {
		c.missing("file", "", "%v", err)
		return
	}
	const compile = "xray build make, or compile and link with clang -g -fxray-instrument -fxray-instruction-threshold=1"
	m, err := symbolize.LoadMap(p.Path)
	switch {
	case err == nil && bolt:
		c.missing("sleds", "record the program as it was before BOLT", "BOLT has moved the code, and the map of its sleds is wrong")
	case err == nil && len(m.Functions) > 0:
		c.ok("sleds", "%s", label.Count(uint64(len(m.Functions)), "function", "functions"))
		if build.AlwaysInstrumented(p.Path) {
			c.note("always", "for Rust: -Z instrument-xray=instruction-threshold=1", "all functions are marked as always instrumented: --prune drops no calls, and --budget leaves none out")
		}
	case build.HasHooks(p.Path):
		c.ok("sleds", "none, but GCC's hooks (-finstrument-functions): --func, --exclude and --depth have no effect")
	case p.Instrumented && err != nil:
		c.missing("sleds", compile, "%v", err)
	default:
		c.missing("sleds", compile, "no function is instrumented")
	}
	if llvm {
		c.note("LLVM's runtime", "link with the flags of xray runtime flags", "it is linked in: xray record replaces it, and the program's own calls of its API reach it")
	}
	separate := ""
	if !debug {
		separate = separateDebug(p.Path)
	}
	switch {
	case debug:
		c.ok("debug information", "in the file")
	case separate != "":
		c.ok("debug information", "%s", separate)
	case stripped:
		c.missing("debug information", "keep the file from before strip, and pass it with -m", "the file is stripped: functions have no names, unless they are exported")
	default:
		c.missing("debug information", "compile with -g", "functions have names, but no files and lines, and --args has no names of parameters")
	}
}

// separateDebug returns the path of a file of its debug information in the usual folder, or "".
func separateDebug(path string) string {
	f, err := debuginfo.OpenELF(path)
	if err != nil {
		return ""
	}
	defer f.Close()
	if path = debuginfo.BuildIDPath("/usr/lib/debug", f.BuildID()); path == "" {
		return ""
	}
	path += ".debug"
	if _, err := os.Stat(path); err != nil {
		return ""
	}
	return path
}

// files looks at the shared objects.
func (c *checks) files(ctx context.Context, p *build.Program) {
	objects, err := p.Objects(ctx)
	if err != nil {
		c.missing("shared objects", "ldd "+p.Path, "%v", err)
		return
	}
	var with []string
	for _, path := range objects {
		if build.HasSleds(path) {
			with = append(with, filepath.Base(path))
		}
	}
	if len(with) > 0 {
		c.ok("shared objects", "with sleds: %s", strings.Join(with, ", "))
	}
	if p.Sanitizer != "" {
		c.note("sanitizer", "", "%s is loaded first, as it requires", p.Sanitizer)
	}
}
