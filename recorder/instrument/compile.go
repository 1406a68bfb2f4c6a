package instrument

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/xray-tools/xray/internal/fileio"
	"github.com/xray-tools/xray/recorder/build"
)

// Options choose what is instrumented.
type Options struct {
	// Threshold is the number of instructions from which clang and rustc instrument a function. They instrument
	// functions with loops, too.
	Threshold int
	// Exclude is the path of a list of functions for clang's -fxray-attr-list, or "".
	Exclude string
}

// Variables of the environment below a build. exec.c reads the first four.
const (
	programVariable = "XRAY_BUILD_PROGRAM"
	nameVariable    = "XRAY_BUILD_NAME"
	wordVariable    = "XRAY_BUILD_WORD"
	doneVariable    = "XRAY_BUILD_DONE"
	folderVariable  = "XRAY_BUILD_FOLDER" // of the build's options, log and what is known of compilers
)

// Files in the folder of a build.
const (
	optionsFile = "options.json"
	logFile     = "log"
	libraryFile = "libxray-build.so"
)

// entry is a line of the log: a call of a compiler.
type entry struct {
	Compiler string
	Folder   string   // in which it ran
	Sources  []string `json:",omitempty"`
	Why      string   `json:",omitempty"` // why the sources are not instrumented; "" means that they are
	Assembly []string `json:",omitempty"`
	Other    []string `json:",omitempty"` // in languages that cannot be instrumented
	Output   string   `json:",omitempty"` // of a linker
}

// call is a compiler's execution.
type call struct {
	Options
	folder string
	path   string   // of the compiler, or of what starts it
	args   []string // with its name
	env    []string
	log    entry
}

// Compile becomes a compiler, with the flags that instrument. args are the compiler's path, its name and its
// arguments, as exec.c passes them. It returns only if the compiler cannot be executed. If anything else fails, the
// compiler runs without the flags, and the log says why.
func Compile(args []string) error {
	if len(args) < 2 {
		return errors.New("this command is for builds below xray build")
	}
	c := call{folder: os.Getenv(folderVariable), path: args[0], args: args[1:], env: os.Environ()}
	c.log.Compiler = c.path
	if data, err := os.ReadFile(filepath.Join(c.folder, optionsFile)); err == nil && json.Unmarshal(data, &c.Options) == nil {
		c.change()
		c.write()
	}
	if err := syscall.Exec(c.path, c.args, c.env); err != nil {
		return fmt.Errorf("%s: %w", c.path, err)
	}
	return nil
}

// change adds the flags.
func (c *call) change() {
	name := filepath.Base(c.path)
	switch {
	case isNamed(name, "cargo"):
		c.cargo()
	case isNamed(name, "rustc"):
		c.rustc()
	case isNamed(name, "ccache"), isNamed(name, "sccache"), isNamed(name, "distcc"):
		c.launcher()
	default:
		c.family(c.path, 1)
	}
}

// isNamed reports whether a program is a tool, perhaps with a target before its name and a version behind.
func isNamed(program, tool string) bool {
	if before, version, ok := strings.Cut(program, tool+"-"); ok && strings.Trim(version, "0123456789.") == "" {
		program = before + tool
	}
	return program == tool || strings.HasSuffix(program, "-"+tool)
}

// done says that children of this compiler need no more flags.
func (c *call) done() { c.setenv(doneVariable, "1") }

func (c *call) setenv(name, value string) {
	c.env = slices.DeleteFunc(c.env, func(entry string) bool { return strings.HasPrefix(entry, name+"=") })
	c.env = append(c.env, name+"="+value)
}

// launcher changes the command line of a compiler that the arguments of a cache are.
func (c *call) launcher() {
	for i, arg := range c.args {
		switch {
		case i == 0 || strings.Contains(arg, "=") && !strings.HasPrefix(arg, "-"):
		case strings.HasPrefix(arg, "-"):
			return // a command to the cache itself
		case isNamed(filepath.Base(arg), "rustc"):
			return
		default:
			if path, err := exec.LookPath(arg); err == nil {
				c.family(path, i+1)
			}
			return
		}
	}
}

// family changes the command line of a compiler of C's family, whose arguments begin at first.
func (c *call) family(compiler string, first int) {
	c.done()
	v, ok := parse(c.args[first:])
	if !ok {
		return
	}
	c.log.Compiler, c.log.Sources, c.log.Assembly, c.log.Other = compiler, v.sources, v.assembly, v.other
	if v.links {
		if c.log.Output = v.output; v.output == "" {
			c.log.Output = "a.out"
		}
	}
	if len(v.sources) == 0 {
		return
	}
	flags, why := c.flags(compiler, &v)
	if c.log.Why = why; why != "" {
		return
	}
	if !v.debug {
		flags = append(flags, "-g")
	}
	at := first + len(c.args[first:])
	if i := slices.Index(c.args[first:], "--"); i >= 0 {
		at = first + i
	}
	c.args = slices.Concat(c.args[:at], flags, c.args[at:])
}

// flags returns the flags that instrument, or why there are none.
func (c *call) flags(compiler string, v *invocation) (flags []string, why string) {
	switch {
	case strings.HasPrefix(v.own, "-fno"):
		return nil, "the build forbids it: " + v.own
	case strings.HasPrefix(v.own, "-fxray") || strings.HasPrefix(v.own, "-finstrument"):
		return nil, ""
	case v.own != "":
		return nil, "the build uses " + v.own
	}
	known := c.ask(compiler, v.target)
	switch {
	case known.Why != "":
		return nil, known.Why
	case known.Kind == gcc && v.bare:
		return nil, "GCC's hooks need a C library, and the build uses -nostdlib or -ffreestanding"
	case known.Kind == gcc:
		return gccFlags, ""
	}
	flags = []string{"-fxray-instrument", "-fxray-instruction-threshold=" + strconv.Itoa(c.Threshold)}
	if c.Exclude != "" {
		flags = append(flags, "-fxray-attr-list="+c.Exclude)
	}
	if v.links {
		flags = append(flags, known.Links)
	}
	return flags, ""
}

// gccFlags leave out what comes from headers of the system: small functions of C++'s library, which are inlined
// and would be recorded nevertheless.
var gccFlags = []string{"-finstrument-functions", "-finstrument-functions-exclude-file-list=/usr/include/,/usr/lib/gcc/"}

// compiler is what is known of a compiler that compiles for a target.
type compiler struct {
	Kind  kind
	Links string // flag for a link that keeps LLVM's runtime out
	Why   string // why it cannot instrument
}

// ask finds out about a compiler, and remembers it for the build.
func (c *call) ask(path string, target []string) (known compiler) {
	info, err := os.Stat(path)
	if err != nil {
		return compiler{Why: err.Error()}
	}
	sum := sha256.Sum256(fmt.Appendf(nil, "%s\n%d\n%d\n%q", path, info.Size(), info.ModTime().UnixNano(), target))
	file := filepath.Join(c.folder, fmt.Sprintf("%x.json", sum[:8]))
	if data, err := os.ReadFile(file); err == nil && json.Unmarshal(data, &known) == nil {
		return known
	}
	known = question(path, target, c.env)
	if data, err := json.Marshal(known); err == nil {
		fill := func(f *os.File) error { _, err := f.Write(data); return err }
		_ = fileio.Replace(file, fileio.Mode(0o600), fill) // or the next call asks again
	}
	return known
}

func question(path string, target, env []string) (known compiler) {
	run := func(args ...string) (string, error) {
		cmd := exec.Command(path, append(slices.Clone(target), args...)...)
		cmd.Env = env
		var said bytes.Buffer
		cmd.Stdout, cmd.Stderr = &said, &said
		err := cmd.Run()
		return said.String(), err
	}
	macros, err := run("-dM", "-E", "-x", "c", os.DevNull)
	has := func(name string) bool { return strings.Contains(macros, "#define "+name+" ") }
	switch {
	case err != nil || !has("__GNUC__"):
		return compiler{Why: "it is neither clang nor GCC"}
	case !has("__x86_64__") || has("__ILP32__"):
		return compiler{Why: "the recorder needs x86-64, and this is for another processor"}
	case !has("__linux__"):
		return compiler{Why: "the recorder needs Linux, and this is for another system"}
	case !has("__clang__"):
		return compiler{Kind: gcc}
	}
	var said string
	for _, flag := range build.NoStockRuntime {
		if said, err = run("-fxray-instrument", "-fxray-instruction-threshold=1", flag, "-x", "c", "-c", os.DevNull, "-o", os.DevNull); err == nil {
			return compiler{Kind: clang, Links: flag}
		}
	}
	first, _, _ := strings.Cut(strings.TrimSpace(said), "\n")
	return compiler{Why: "it does not accept -fxray-instrument: " + first}
}

// rustc changes the command line of a Rust compiler that Cargo did not start.
func (c *call) rustc() {
	args := c.args[1:]
	if slices.ContainsFunc(args, func(a string) bool { return strings.HasPrefix(a, "--print") || a == "-" || a == "-vV" || a == "-V" }) {
		return
	}
	for _, arg := range args {
		if strings.HasSuffix(arg, ".rs") {
			c.log.Sources = append(c.log.Sources, arg)
		}
	}
	if len(c.log.Sources) == 0 || slices.ContainsFunc(args, func(a string) bool { return strings.Contains(a, "instrument-xray") }) {
		return
	}
	c.args = append(c.args, c.rustFlags()...)
	c.setenv("RUSTC_BOOTSTRAP", "1")
}

func (c *call) rustFlags() []string {
	return []string{"-Zinstrument-xray=instruction-threshold=" + strconv.Itoa(c.Threshold), "-Cdebuginfo=2", "-Cstrip=none"}
}

// cargo passes the flags to Cargo, because Cargo must know them to tell what it has compiled with them.
func (c *call) cargo() {
	if slices.ContainsFunc(c.args, func(a string) bool { return strings.Contains(a, "instrument-xray") }) {
		return // rustup's cargo starts that of a toolchain
	}
	flags := c.rustFlags()
	c.setenv("RUSTC_BOOTSTRAP", "1")
	for _, v := range []struct{ name, between string }{{"CARGO_ENCODED_RUSTFLAGS", "\x1f"}, {"RUSTFLAGS", " "}} {
		if old, ok := os.LookupEnv(v.name); ok {
			if !strings.Contains(old, "instrument-xray") {
				c.setenv(v.name, strings.TrimPrefix(old+v.between+strings.Join(flags, v.between), v.between))
			}
			return
		}
	}
	// Cargo joins this with what its files say. If they have flags for a target, it ignores those for all.
	key := "build.rustflags"
	if targetFlags() {
		key = "target.'cfg(all())'.rustflags"
	}
	at := 1
	if len(c.args) > 1 && strings.HasPrefix(c.args[1], "+") {
		at = 2
	}
	c.args = slices.Insert(slices.Clone(c.args), min(at, len(c.args)), "--config", key+`=["`+strings.Join(flags, `","`)+`"]`)
}

// targetFlags reports whether a file of Cargo's configuration has flags for a target.
func targetFlags() bool {
	home := os.Getenv("CARGO_HOME")
	if user, err := os.UserHomeDir(); home == "" && err == nil {
		home = filepath.Join(user, ".cargo")
	}
	folders := []string{home}
	for dir, err := os.Getwd(); err == nil; dir = filepath.Dir(dir) {
		folders = append(folders, filepath.Join(dir, ".cargo"))
		if dir == filepath.Dir(dir) {
			break
		}
	}
	for _, dir := range folders {
		for _, name := range []string{"config.toml", "config"} {
			data, err := os.ReadFile(filepath.Join(dir, name))
			if _, after, ok := strings.Cut(string(data), "[target."); err == nil && ok && strings.Contains(after, "rustflags") {
				return true
			}
		}
	}
	return false
}

// write adds the entry to the log. A write of a line is atomic.
func (c *call) write() {
	if len(c.log.Sources)+len(c.log.Assembly)+len(c.log.Other) == 0 && c.log.Output == "" {
		return
	}
	c.log.Folder, _ = os.Getwd()
	line, err := json.Marshal(c.log)
	if err != nil {
		return
	}
	f, err := os.OpenFile(filepath.Join(c.folder, logFile), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		return
	}
	_, _ = f.Write(append(line, '\n'))
	f.Close()
}
