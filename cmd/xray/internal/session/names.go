package session

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"github.com/xray-tools/xray/cmd/xray/internal/cli"
	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/symbolize"
	"github.com/xray-tools/xray/symbolize/debuginfod"
	"github.com/xray-tools/xray/symbolize/source"
)

// NameFlags are the flags that select the files that names come from.
type NameFlags struct {
	DebugFlags
	StyleFlags
	TraceFlags
	maps          []string
	objects       []string
	ignoreBuildID bool
}

// AddFlags adds the flags.
func (f *NameFlags) AddFlags(flags *pflag.FlagSet) {
	flags.StringArrayVarP(&f.maps, "instr-map", "m", nil,
		"read names from `FILE`, the traced binary or a map from xray extract; N=FILE is for shared object N")
	flags.StringArrayVar(&f.objects, "object", nil,
		"read names of shared object N from the file in `N=FILE`; auto finds and numbers the objects that the program is linked with; repeatable")
	f.DebugFlags.AddFlags(flags)
	f.TraceFlags.AddFlags(flags)
	flags.BoolVar(&f.ignoreBuildID, "ignore-build-id", false, "read names even if the build ID of a file does not match; names may be wrong")
	f.addForReports(flags)
}

// StyleFlags select the style of function names. Style is "" unless the flag is given.
type StyleFlags struct{ Style string }

// addForReports adds the flag for reports, which show short names to people by default.
func (f *StyleFlags) addForReports(flags *pflag.FlagSet) {
	cli.AddChoice(flags, &f.Style, "names", "", "`STYLE` of function names (default short in reports, full in data formats)", "full", "short", "mangled")
}

// AddFlags adds the flag for other outputs, which have full names by default.
func (f *StyleFlags) AddFlags(flags *pflag.FlagSet) {
	cli.AddChoice(flags, &f.Style, "names", "", "`STYLE` of function names (default full)", "full", "short", "mangled")
}

// AddDemangle adds the flags of llvm-xray. The last one on the command line wins.
func (f *StyleFlags) AddDemangle(flags *pflag.FlagSet) {
	flags.BoolFunc("no-demangle", "show mangled names, like --names mangled", func(string) error {
		f.Style = "mangled"
		return nil
	})
	flags.BoolFunc("demangle", "show demangled names (default)", func(string) error { f.Style = "full"; return nil })
}

// DebugFlags select where to look for binaries and debug files.
type DebugFlags struct {
	sysroot string
	Symbols []string
}

// AddFlags adds the flags.
func (f *DebugFlags) AddFlags(flags *pflag.FlagSet) {
	f.AddDirs(flags)
	flags.StringVar(&f.sysroot, "sysroot", "", "look under `DIR` for the binaries that the trace names")
}

// AddDirs adds --symbols alone.
func (f *DebugFlags) AddDirs(flags *pflag.FlagSet) {
	more := func(dir string) error { f.Symbols = append(f.Symbols, dir); return nil }
	flags.Func("symbols", "search `DIR` for binaries and debug files by build ID (.build-id/xx/...), path and name; repeatable", more)
}

// DirsFor returns where to search for the files of a running process: also below its own root, because
// it may have another one or other mounts, as in a container.
func (f *DebugFlags) DirsFor(pid int) []string { return append(slices.Clip(f.Symbols), RootOf(pid)) }

// RootOf returns the directory below which the files of a running process are, as the process sees them.
func RootOf(pid int) string { return fmt.Sprintf("/proc/%d/root", pid) }

// Options returns the options for loading names from a file. It downloads debug files if
// $DEBUGINFOD_URLS is set.
func (f *DebugFlags) Options(streams *cli.Streams) symbolize.Options {
	var opts symbolize.Options
	opts.DebugDirs = append(slices.Clone(f.Symbols), filepath.Join("/", f.sysroot, "usr/lib/debug"))
	if client := debuginfod.FromEnvironment(); client != nil {
		client.Progress = streams.Downloads()
		opts.Fetch = client.Fetch
	}
	return opts
}

// Search returns the options for finding the files of a trace.
func (f *NameFlags) Search(streams *cli.Streams) symbolize.Search {
	opts := f.Options(streams)
	opts.Style = symbolize.Style(f.Style)
	return symbolize.Search{Options: opts, Sysroot: f.sysroot, Dirs: f.Symbols, IgnoreBuildID: f.ignoreBuildID}
}

// given returns the files that -m and --object name, by the number of the object. auto
// reports whether to find the others.
func (f *NameFlags) given() (files map[int]string, auto bool, err error) {
	files = make(map[int]string)
	add := func(flag, arg string, plain bool) error {
		object, path := 0, arg
		number, file, pair := strings.Cut(arg, "=")
		n, err := strconv.ParseUint(number, 10, 8)
		if pair && err == nil {
			object, path = int(n), file
		} else if !plain {
			return cli.Usagef("%s %s: write N=FILE, where N is the number of the object from 0 to 255, or auto", flag, arg)
		}
		if path == "" {
			return cli.Usagef("%s: the file name is empty", flag)
		}
		if files[object] != "" {
			return cli.Usagef("two maps for object %d: pass the number of each object, for example --object 1=libcodec.so", object)
		}
		files[object] = path
		return nil
	}
	for _, arg := range f.maps {
		if err := add("-m", arg, true); err != nil {
			return nil, false, err
		}
	}
	for _, arg := range f.objects {
		if arg == "auto" {
			auto = true
		} else if err := add("--object", arg, false); err != nil {
			return nil, false, err
		}
	}
	return files, auto, nil
}

// openNames finds the names of the trace's functions: in the files that -m and --object
// name, or in the trace if it is packed, or in the objects that the recorder of the trace
// named.
func (s *Session) openNames(f *NameFlags) error {
	files, auto, err := f.given()
	if err != nil {
		return err
	}
	recorded := false // by xray's recorder, which has its own numbers of objects
	if s.Trace != nil {
		objects, _, err := s.Trace.Objects()
		if err != nil {
			return err
		}
		recorded = len(objects) > 0
	}
	search := f.Search(s.Streams)
	if !recorded {
		if auto {
			if err := s.numberObjects(files, search); err != nil {
				return err
			}
		}
		if err := checkKinds(files); err != nil {
			return err
		}
	}
	opened, err := symbolize.Open(s.Trace, files, search)
	if errors.Is(err, symbolize.ErrNoObject) {
		return cli.Usagef("-m %w", err)
	}
	if err != nil {
		return err
	}
	s.Names, s.missing = opened.Names, opened.Missing
	s.closers = append(s.closers, opened.Close)
	_, s.packed = opened.Names.(*symbolize.Stored)
	s.tables = opened.Tables()
	if s.tails = opened.TailCalls(); s.tails != nil {
		s.Code.Continue = func(from, to reader.FuncID) bool { return s.tails().Continue(from, to) }
	}
	if s.Trace != nil && s.unnoted() {
		if callers := opened.Callers(); callers != nil {
			s.Code.CanCall = func(from, to reader.FuncID) bool { return callers().CanCall(from, to) }
			s.Code.CanReach = func(from, to reader.FuncID) bool { return callers().CanReach(from, to) }
		}
	}
	if s.Trace != nil {
		if s.trusted, err = source.Trusted(s.Trace, s.tables, files); err != nil {
			return err
		}
	}
	s.warnOfMissing()
	WarnOfRefused(s.Streams, s.tables...)
	if s.Trace != nil && !s.packed && !f.ignoreBuildID {
		if err := s.warnOfPacked(); err != nil {
			return err
		}
	}
	if names, ok := s.Names.(*symbolize.Packed); ok {
		return s.checkGiven(names, auto, search)
	}
	return nil
}

// unnoted reports whether no recorder of the trace notes which calls exceptions and longjmp leave.
func (s *Session) unnoted() bool {
	for _, r := range s.Trace.Recordings() {
		if !r.Foreign() {
			return false
		}
	}
	return true
}

// numberObjects numbers the shared objects that the program is linked with, except those
// whose file was given, and reports the result.
func (s *Session) numberObjects(files map[int]string, search symbolize.Search) error {
	program := files[0]
	if program == "" {
		return cli.Usagef("--object auto needs the program: pass it with -m")
	}
	paths, certain, err := symbolize.LinkedObjects(program, search)
	if err != nil {
		return fmt.Errorf("--object auto: %w", err)
	}
	var list []string
	for i, path := range paths {
		if n := i + 1; n < 256 && files[n] == "" {
			files[n] = path
			list = append(list, fmt.Sprintf("%d is %s", n, filepath.Base(path)))
		}
	}
	switch {
	case len(list) == 0:
		s.Say("%s is not linked with any instrumented shared object", program)
	case certain:
		s.Say("by the order of their constructors, object %s", strings.Join(list, ", "))
	default:
		s.Say("by the order in which glibc 2.35 and later run their constructors, object %s", strings.Join(list, ", "))
	}
	return nil
}

// WarnOfRefused warns of debug files that exist and could not be used.
func WarnOfRefused(streams *cli.Streams, tables ...*symbolize.Table) {
	for _, t := range tables {
		for _, err := range t.Refused() {
			// Of several servers, each may have failed.
			streams.Say("warning: %s", strings.ReplaceAll(err.Error(), "\n", "; "))
		}
	}
}

// warnOfPacked warns if a given file is of another build than the packed names.
func (s *Session) warnOfPacked() error {
	functions, err := s.Trace.Functions()
	if err != nil {
		return err
	}
	f, ok := symbolize.Disagrees(s.Names, functions)
	if !ok {
		return nil
	}
	s.Say("warning: function %d was packed as %s at 0x%x, and is elsewhere in %s: "+
		"that is another build, and names may be wrong", f.ID, f.Name, uint64(f.Address), symbolize.TableOf(s.Names, f.ID).Object().Path)
	return nil
}

// warnOfMissing warns of objects without names: of each one whose file is of another build,
// and of all others in one line.
func (s *Session) warnOfMissing() {
	var gone []string
	for _, m := range s.missing {
		if !m.Changed {
			gone = append(gone, m.Object.Path)
			continue
		}
		what := "its functions are shown by number"
		if m.Given {
			what = "names from it may be wrong"
		}
		s.Say("warning: %s does not match the recording: %v; %s: "+
			"pass the right file with -m %d=FILE or --symbols DIR, or use --ignore-build-id to override", m.Path, m.Err, what, m.Number)
	}
	if len(gone) > 0 {
		s.Say("no names for %s: pass the files with -m N=FILE, --sysroot or --symbols; run xray info for details",
			cli.ShortList(gone, 4))
	}
}

// Words returns the flags that select names as words of a command line, for messages that
// suggest another command.
func (f *NameFlags) Words() []string {
	var words []string
	add := func(flag string, values ...string) {
		for _, v := range values {
			words = append(words, flag, v)
		}
	}
	add("-m", f.maps...)
	add("--symbols", f.Symbols...)
	if f.sysroot != "" {
		add("--sysroot", f.sysroot)
	}
	return words
}
