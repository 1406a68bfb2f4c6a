package instrument

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// kind is what a compiler understands.
type kind uint8

const (
	unknown kind = iota
	clang
	gcc
	rustc
)

// invocation is what a command line of a compiler of C's family asks for.
type invocation struct {
	sources  []string // that it compiles and that can be instrumented
	assembly []string // that it assembles
	other    []string // in languages whose compilers have no flag
	output   string   // of -o
	links    bool
	debug    bool     // it makes debug information
	target   []string // arguments that choose a processor
	own      string   // an argument that instruments already, or forbids it
	bare     bool     // the program has no C library
}

// separate are the options whose argument may be the next word.
var separate = map[string]bool{
	"-o": true, "-x": true, "-I": true, "-D": true, "-U": true, "-L": true, "-l": true, "-F": true, "-B": true, "-T": true, "-u": true,
	"-z": true, "-e": true, "-G": true, "-A": true, "-MF": true, "-MT": true, "-MQ": true, "-MJ": true, "-include": true, "-imacros": true, "-isystem": true,
	"-idirafter": true, "-iprefix": true, "-iquote": true, "-iwithprefix": true, "-iwithprefixbefore": true, "-isysroot": true,
	"-imultilib": true, "-cxx-isystem": true, "-Xclang": true, "-Xlinker": true, "-Xpreprocessor": true, "-Xassembler": true,
	"-mllvm": true, "-arch": true, "-target": true, "--target": true, "--param": true, "-aux-info": true, "--sysroot": true, "-gcc-toolchain": true,
	"-dumpbase": true, "-dumpbase-ext": true, "-dumpdir": true, "-wrapper": true, "-specs": true, "-framework": true, "-include-pch": true,
	"-serialize-diagnostics": true, "--serialize-diagnostics": true, "-install_name": true, "-rpath": true, "-soname": true, "-index-store-path": true,
}

// compiled are the suffixes and the names for -x of languages that can be instrumented.
var compiled = strings.Fields(".c .i .cc .cp .cpp .cxx .c++ .C .CPP .ii .m .mi .mm .mii .ixx .cppm .ccm .cxxm .c++m .bc .ll " +
	"c c++ cpp-output c++-cpp-output objective-c objective-c++ c++-module ir .h .hh .hpp .hxx .h++ .H c-header c++-header c++-system-header c++-user-header")

var assembled = strings.Fields(".s .S .sx assembler assembler-with-cpp")

// otherLanguages are those that drivers of C compilers hand to other compilers.
var otherLanguages = strings.Fields(".f .F .f90 .F90 .f95 .for .d .go .adb .ads .cu .hip .cl f77 f95 f77-cpp-input f95-cpp-input d go ada cuda hip cl")

// parse reads a command line without the compiler's name. It returns false if nothing is compiled or linked.
func parse(args []string) (v invocation, ok bool) {
	v.links = true
	args = expand(args)
	language, inputs := "", false
	for i := 0; i < len(args); i++ {
		arg := args[i]
		next := ""
		if separate[arg] && i+1 < len(args) {
			i++
			next = args[i]
		}
		switch {
		case arg == "--":
			for _, path := range args[i+1:] {
				inputs = v.input(path, language) || inputs
			}
			i = len(args)
		case arg == "-E" || arg == "-M" || arg == "-MM" || arg == "-###" || arg == "-fsyntax-only" || arg == "--analyze" || arg == "-cc1" || arg == "-cc1as" ||
			arg == "--version" || arg == "-emit-ast" || strings.HasPrefix(arg, "-print-") || strings.HasPrefix(arg, "--print-") ||
			strings.HasPrefix(arg, "-dump") && next == "" || strings.HasPrefix(arg, "--help"):
			return v, false
		case arg == "-c" || arg == "-S" || arg == "--precompile":
			v.links = false
		case arg == "-o":
			v.output = next
		case strings.HasPrefix(arg, "-o") && arg != "-object" && !strings.HasPrefix(arg, "-objc"):
			v.output = arg[len("-o"):]
		case arg == "-x":
			language = next
		case strings.HasPrefix(arg, "-x") && !strings.HasPrefix(arg, "-xarch"):
			language = arg[len("-x"):]
		case arg == "-m32" || arg == "-mx32" || arg == "-m16" || strings.HasPrefix(arg, "--target="):
			v.target = append(v.target, arg)
		case arg == "-target" || arg == "--target" || arg == "-arch":
			v.target = append(v.target, arg, next)
		case strings.HasPrefix(arg, "-fxray-instrument") || arg == "-fno-xray-instrument" || arg == "-fnoxray-instrument" ||
			strings.HasPrefix(arg, "-finstrument-functions") && !strings.HasPrefix(arg, "-finstrument-functions-exclude") || arg == "-pg" || arg == "-mfentry":
			v.own = arg
		case arg == "-nostdlib" || arg == "-ffreestanding":
			v.bare = true
		case isDebug(arg):
			v.debug = arg != "-g0" && arg != "-ggdb0"
		case strings.HasPrefix(arg, "-") && arg != "-":
		default:
			inputs = v.input(arg, language) || inputs
		}
	}
	return v, inputs
}

// isDebug reports whether an argument chooses how much debug information there is.
func isDebug(arg string) bool {
	level, ok := strings.CutPrefix(arg, "-g")
	if !ok {
		return false
	}
	return level == "" || len(level) == 1 && level >= "0" && level <= "3" || strings.HasPrefix(level, "gdb") || level == "lldb" || level == "dbx" ||
		level == "line-tables-only" || level == "mlt" || strings.HasPrefix(level, "dwarf") && !strings.HasPrefix(level, "dwarf-aranges")
}

// input adds an operand, and reports whether it is one.
func (v *invocation) input(path, language string) bool {
	if language == "" || language == "none" {
		if language = filepath.Ext(path); path == "-" {
			return true
		}
	}
	switch {
	case slices.Contains(compiled, language):
		v.sources = append(v.sources, path)
	case slices.Contains(assembled, language):
		v.assembly = append(v.assembly, path)
	case slices.Contains(otherLanguages, language):
		v.other = append(v.other, path)
	}
	return true
}

// maxResponse is the size of the largest response file that is read.
const maxResponse = 16 << 20

// expand replaces @FILE by the words of the file. A word in quotes may contain spaces.
func expand(args []string) []string {
	if !slices.ContainsFunc(args, func(a string) bool { return len(a) > 1 && a[0] == '@' }) {
		return args
	}
	var out []string
	for _, arg := range args {
		if len(arg) > 1 && arg[0] == '@' {
			if info, err := os.Stat(arg[1:]); err == nil && info.Mode().IsRegular() && info.Size() <= maxResponse {
				if data, err := os.ReadFile(arg[1:]); err == nil {
					out = append(out, words(string(data))...)
					continue
				}
			}
		}
		out = append(out, arg)
	}
	return out
}

// words splits the text of a response file as GCC and clang do.
func words(text string) (list []string) {
	var word []byte
	quote, in := byte(0), false
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case c == '\\' && quote != '\'' && i+1 < len(text):
			i++
			word, in = append(word, text[i]), true
		case quote != 0 && c == quote:
			quote = 0
		case quote != 0:
			word = append(word, c)
		case c == '\'' || c == '"':
			quote, in = c, true
		case c == ' ' || c == '\t' || c == '\n' || c == '\r':
			if in {
				list = append(list, string(word))
			}
			word, in = nil, false
		default:
			word, in = append(word, c), true
		}
	}
	if in {
		list = append(list, string(word))
	}
	return list
}
