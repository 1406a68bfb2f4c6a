package session

import (
	"errors"

	"github.com/spf13/pflag"

	"github.com/xray-tools/xray/cmd/xray/internal/cli"
	"github.com/xray-tools/xray/symbolize/source"
)

// SourceFlags select whether to show source code, and which files xray may read for it.
type SourceFlags struct {
	Source bool
	roots  []string
}

// AddFlags adds the flags.
func (f *SourceFlags) AddFlags(flags *pflag.FlagSet, usage string) {
	flags.BoolVar(&f.Source, "source", false, usage)
	flags.StringArrayVar(&f.roots, "source-root", nil,
		"with --source: also read source files under `DIR`, not only under the binary's compilation directory; repeatable")
}

// AddRoots adds only --source-root, for commands that always show source code.
func (f *SourceFlags) AddRoots(flags *pflag.FlagSet) {
	flags.StringArrayVar(&f.roots, "source-root", nil, "also read source files under `DIR`, not only under the binary's compilation directory; repeatable")
}

// Check rejects flags that contradict each other.
func (f *SourceFlags) Check() error {
	if len(f.roots) > 0 && !f.Source {
		return cli.Usagef("--source-root requires --source")
	}
	return nil
}

// Sources reads source code, and records what it could not read.
type Sources struct {
	s        *Session
	files    *source.Files // nil if names are from the trace
	unpacked bool          // source code was wanted that is not in the trace
}

// Sources finds the source code of the trace's functions. It returns nil if --source is not set.
// If names come from the trace, so does the source code: xray never reads a file because a trace
// names it.
func (s *Session) Sources(f *SourceFlags) (*Sources, error) {
	if !f.Source {
		return nil, nil
	}
	if s.packed {
		if len(f.roots) > 0 {
			return nil, cli.Usagef("--source-root does not apply to names and source code from the trace: pass the traced binary with -m")
		}
		return &Sources{s: s}, nil
	}
	files, err := source.New(f.roots, s.trusted)
	if err != nil {
		return nil, cli.Usagef("--source-root: %w", err)
	}
	return &Sources{s: s, files: files}, nil
}

// Read returns the text of a file, and the MD5 from the debug information that it matches, in hex.
func (s *Sources) Read(path string) (text []byte, md5 string, err error) {
	if s.files != nil {
		file, err := s.files.Read(path)
		return file.Text, file.MD5, err
	}
	text, packed := s.s.Trace.Source(path)
	if text == nil {
		s.unpacked = s.unpacked || !packed
		return nil, "", errors.New("no source of " + path + " was packed")
	}
	return text, "", nil
}

// Text is Read without the MD5.
func (s *Sources) Text(path string) ([]byte, error) {
	text, _, err := s.Read(path)
	return text, err
}

// Tell reports which source code is not shown, and why. It does nothing for nil.
func (s *Sources) Tell() {
	if s == nil {
		return
	}
	warn := s.s.Say
	if s.unpacked {
		warn("no source: the trace contains none, and xray does not read the files that a trace names: pass the traced binary with -m")
	}
	if s.files == nil {
		return
	}
	for _, path := range s.files.Failed(source.ErrChanged) {
		warn("warning: %s is omitted because it has changed since it was compiled: its MD5 differs from the one in the line table", path)
	}
	if newer := s.files.Newer(); len(newer) > 0 {
		warn("warning: newer than the program and possibly different from the compiled source: %s; the line table has no MD5 to check", cli.ShortList(newer, 4))
	}
	for _, c := range []struct {
		paths []string
		why   string
	}{
		{s.files.Failed(source.ErrOutside), "outside the binary's compilation directory; --source-root DIR allows files under DIR"},
		{s.files.Failed(source.ErrUnknown), "the binary was found by a path in the trace, and no build ID confirms it: pass it with -m"},
		{s.files.Failed(source.ErrKind), "no text files of at most 16 MB"},
		{s.files.Unread(), "not on this machine, or not readable"},
	} {
		if len(c.paths) > 0 {
			warn("no source of %s: %s", cli.ShortList(c.paths, 4), c.why)
		}
	}
}
