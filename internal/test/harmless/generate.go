// Package harmless tests that recorded programs behave as they do unrecorded. It generates
// programs that use what compilers offer to functions: calling conventions, tail calls, and ways to
// leave a function.
package harmless

import (
	_ "embed"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
)

// prologue declares what all generated functions use.
//
//go:embed prologue.h
var prologue string

// epilogue runs them.
//
//go:embed epilogue.h
var epilogue string

// A program prints a checksum, and how often each of its functions was called.
type program struct {
	sources   []string // one, or two whose functions call each other
	cplusplus bool
}

// A signature is a type of functions. Only functions of the same type can be tail calls of each
// other.
type signature struct {
	convention string // attribute, or ""
	result     string
	arguments  []string
	variadic   bool
	functions  []*function
}

type function struct {
	*signature
	number int
	loops  bool // its first block is a loop
}

func (f *function) name() string {
	if f.loops {
		return fmt.Sprint("loop", f.number)
	}
	return fmt.Sprint("f", f.number)
}

// generator writes the functions of a program.
type generator struct {
	*rand.Rand
	strings.Builder
	program
	clang      int
	signatures []*signature
	functions  []*function
	labels     int
}

// generate returns the program of a seed for a version of clang.
func generate(seed uint64, clang int) program {
	g := &generator{Rand: rand.New(rand.NewPCG(seed, 0)), clang: clang}
	g.cplusplus = g.IntN(4) == 0
	parts := 1 + g.IntN(4)/3
	for i := range 3 + g.IntN(4) {
		g.signatures = append(g.signatures, g.signature(i == 0))
	}
	for i := range 8 + g.IntN(25) {
		s := g.signatures[g.IntN(len(g.signatures))]
		if i < len(g.signatures) {
			s = g.signatures[i]
		}
		f := &function{s, i, g.IntN(8) == 0}
		s.functions = append(s.functions, f)
		g.functions = append(g.functions, f)
	}
	for part := range parts {
		g.Reset()
		fmt.Fprintf(g, "#define FUNCTIONS %d\n#define PART %d\n#define THREADS %d\n#define TIMER %d\n#define END %d\n",
			len(g.functions), part, g.IntN(4), g.IntN(2), g.IntN(4))
		if parts == 1 {
			g.WriteString("#define LOCAL static\n")
		}
		g.WriteString(prologue)
		if part == 0 {
			g.WriteString("static const char *const names[] = {")
			for _, f := range g.functions {
				fmt.Fprintf(g, "%q, ", f.name())
			}
			g.WriteString("};\n")
		}
		g.declare()
		for _, f := range g.functions {
			if f.number%parts == part {
				g.define(f)
			}
		}
		if part == 0 {
			g.root()
		}
		g.WriteString("#ifdef __cplusplus\n}\n#endif\n")
		g.sources = append(g.sources, g.String())
	}
	return g.program
}

func (g *generator) pick(of ...string) string { return of[g.IntN(len(of))] }

// signature chooses a type of functions. The first of a program is one that C can call.
func (g *generator) signature(first bool) *signature {
	s := &signature{result: g.pick("void", "void", "u64", "u64", "i8", "i32", "f32", "f64", "f80", "i128", "ptr", "pair", "mixed", "large", "v16")}
	types := []string{"u64", "u64", "i8", "i32", "f32", "f64", "ptr"}
	conventions := []string{"", "sysv_abi", "swiftcall"}
	if !g.cplusplus { // exceptions restore only the registers of the usual convention
		conventions = append(conventions, "ms_abi", "regcall", "vectorcall", "intel_ocl_bicc")
		if g.clang >= 18 { // older versions make programs that vary
			conventions = append(conventions, "preserve_most", "preserve_most", "preserve_all", "no_caller_saved_registers")
		}
		if g.clang >= 19 {
			conventions = append(conventions, "preserve_none", "preserve_none", "preserve_none")
		}
	}
	if !first {
		s.convention = g.pick(conventions...)
	}
	switch {
	case s.convention == "no_caller_saved_registers": // and no others but general registers
		s.result, types = g.pick("void", "u64", "i32"), []string{"u64", "i32", "ptr"}
	case s.convention == "preserve_most" && g.clang < 19, s.convention == "preserve_all":
		s.result = "void" // other results would get lost
	case g.IntN(3) == 0:
		types = append(types, "f80", "i128", "pair", "mixed", "v16")
		if s.convention != "preserve_none" { // clang passes it in the caller's frame, which a tail call has left
			types = append(types, "large")
		}
	}
	for range g.IntN(15) {
		s.arguments = append(s.arguments, g.pick(types...))
	}
	s.variadic = s.convention == "" && len(s.arguments) > 0 && g.IntN(4) == 0
	return s
}

// isolated reports whether functions of this type call no others.
func (s *signature) isolated() bool { return s.convention == "no_caller_saved_registers" }

// simple reports whether compilers manage musttail.
func (s *signature) simple() bool {
	return !s.variadic && !slices.ContainsFunc(append(s.arguments, s.result), func(t string) bool {
		return slices.Contains([]string{"f80", "i128", "pair", "mixed", "large", "v16"}, t)
	})
}

// keeps reports whether functions of this type restore the registers of their arguments. Compilers
// do so in front of tail calls, too, which then get other arguments.
func (s *signature) keeps() bool {
	return s.isolated() || s.convention == "preserve_most" || s.convention == "preserve_all"
}

func (s *signature) attribute() string {
	if s.convention == "" {
		return ""
	}
	return "__attribute__((" + s.convention + "))"
}

// parameters returns the types of a function's parameters and, unless it is a type, their names.
func (s *signature) parameters(named bool) string {
	var list []string
	for i, t := range s.arguments {
		if named {
			t += fmt.Sprint(" a", i)
		}
		list = append(list, t)
	}
	if s.variadic {
		list = append(list, "...")
	}
	if list == nil {
		return "void"
	}
	return strings.Join(list, ", ")
}

// declare declares all functions, and for each type a table of its functions.
func (g *generator) declare() {
	for i, s := range g.signatures {
		fmt.Fprintf(g, "typedef %s %s type%d(%s);\n", s.result, s.attribute(), i, s.parameters(false))
		names := make([]string, len(s.functions))
		for j, f := range s.functions {
			names[j] = f.name()
			fmt.Fprintf(g, "LOCAL type%d %[2]s __asm__(\"%[2]s\");\n", i, f.name())
		}
		fmt.Fprintf(g, "static type%d *volatile table%d[] = {%s};\n", i, i, strings.Join(names, ", "))
	}
}

func (g *generator) line(format string, args ...any) { fmt.Fprintf(g, "\t"+format+"\n", args...) }

// define writes a function.
func (g *generator) define(f *function) {
	more := g.pick("", "", "", "cold", "minsize", "hot", "optnone")
	if f.isolated() {
		more = `target("general-regs-only")`
	}
	fmt.Fprintf(g, "\nATTRIBUTES(%s) %s LOCAL %s %s(%s)\n{\n", more, f.attribute(), f.result, f.name(), f.parameters(true))
	if f.loops {
		g.line("while (__atomic_sub_fetch(&turns, 1, __ATOMIC_RELAXED) > 0)\n\t\t;\n\tturns = 3;")
	}
	g.line("CALLED(%d);", f.number)
	fold := "0x9e3779b97f4a7c15"
	for i, t := range f.arguments {
		fold += fmt.Sprintf(" + %s * %d", folded(t, fmt.Sprint("a", i)), 2*i+1)
	}
	g.line("u64 x = %s;", fold)
	if f.variadic {
		g.line("va_list list;\n\tva_start(list, a%d);\n\tx += va_arg(list, u64);\n\tx += (u64)va_arg(list, f64);\n\tva_end(list);", len(f.arguments)-1)
	}
	g.line("if (--fuel < 0)")
	g.result(f, "\t")
	if g.IntN(5) < 3 { // else it has no frame
		for range 1 + g.IntN(5) {
			g.line("{")
			g.statement(f)
			g.line("}")
		}
	}
	g.end(f)
	g.WriteString("}\n")
}

// made returns an expression for a value of a type, and folded one for a number made of it. Only
// casts are possible in functions that may not use vector registers.
func made(t, x string) string {
	if slices.Contains(general, t) {
		return fmt.Sprintf("(%s)(%s)", t, x)
	}
	return fmt.Sprintf("make_%s(%s)", t, x)
}

func folded(t, value string) string {
	if slices.Contains(general, t) {
		return "(u64)" + value
	}
	return fmt.Sprintf("fold_%s(%s)", t, value)
}

// general are types that are passed in general registers.
var general = []string{"u64", "i8", "i32", "ptr"}

// result returns x.
func (g *generator) result(f *function, indent string) {
	if f.result == "void" {
		g.line("%sreturn (void)(sum += x);", indent)
		return
	}
	g.line("%sreturn %s;", indent, made(f.result, "x"))
}

// call returns the call of a function, by its name or through a pointer. A function calls itself only
// through a pointer: compilers make a loop of such a tail call.
func (g *generator) call(f *function, from *function) string {
	name := f.name()
	if f == from || g.IntN(3) == 0 {
		name = fmt.Sprintf("table%d[x %% %d]", slices.Index(g.signatures, f.signature), len(f.functions))
	}
	var list []string
	for i, t := range f.arguments {
		argument := made(t, fmt.Sprintf("x + %d", g.IntN(100)))
		if from != nil && from.signature == f.signature && g.IntN(3) > 0 {
			argument = fmt.Sprint("a", i) // stays where it is
		}
		list = append(list, argument)
	}
	if f.variadic {
		list = append(list, "x", "make_f64(x)")
	}
	return fmt.Sprintf("%s(%s)", name, strings.Join(list, ", "))
}

// calls returns a statement that adds the result of a call to x.
func (g *generator) calls(from *function) string {
	f := g.functions[g.IntN(len(g.functions))]
	if from.isolated() {
		f = from.functions[g.IntN(len(from.functions))]
	}
	if f.result == "void" {
		return g.call(f, from) + ";"
	}
	return fmt.Sprintf("x += %s;", folded(f.result, g.call(f, from)))
}

// statement writes a statement that changes x.
func (g *generator) statement(f *function) {
	kinds := 10
	if f.isolated() {
		kinds = 5 // not those that call the C library
	}
	g.labels++
	switch n := g.labels; g.IntN(kinds) {
	case 0, 1: // a call while many values are live
		live, after := "", ""
		for i := range g.IntN(14) {
			live += fmt.Sprintf(", l%d_%d = in[%d]", n, i, i)
			after += fmt.Sprintf(" + l%d_%d * %d", n, i, 2*i+3)
		}
		g.line("u64 y%d = x%s;\n\t%s\n\tx = (x ^ y%d)%s;", n, live, g.calls(f), n, after)
	case 2:
		g.line("for (int i = 0; i < (int)(x & 3); i++) {\n\t\tx = x * 5 + in[i];\n\t\t%s\n\t}", g.calls(f))
	case 3:
		g.line("switch (x %% 7) {\n\tcase 0: x ^= 5; break;\n\tcase 1: %s break;\n\tcase 2: x += in[2]; break;\n\tcase 3: case 6: %s break;\n\tdefault: x -= 3;\n\t}", g.calls(f), g.calls(f))
	case 4:
		g.line("static void *const go%d[] = {&&a%d, &&b%d, &&c%d};\n\tgoto *go%d[x %% 3];\na%d:\n\tx += 7;\nb%d:\n\t%s\nc%d:\n\tx ^= x >> 7;", n, n, n, n, n, n, n, g.calls(f), n)
	case 5:
		g.line("char *p%d = (char *)alloca(x %% 200 + 1);\n\tmemset(p%d, (int)x, x %% 200 + 1);\n\t%s\n\tx += (u64)p%d[x %% 1];", n, n, g.calls(f), n)
	case 6:
		g.line("jmp_buf here%d, *volatile before%d = jump;\n\tvolatile u64 kept%d = x;\n\tjump = &here%d;\n\tif (!setjmp(here%d)) {\n\t\t%s\n\t\tkept%d = x;\n\t}\n\tjump = before%d;\n\tx = kept%d + 1;", n, n, n, n, n, g.calls(f), n, n, n)
	case 7:
		g.line("if (jump && (x & 3) == 1)\n\t\tlongjmp(*jump, 1);")
	case 8:
		g.line("if ((x & 7) == 2)\n\t\traise(SIGUSR2);")
	case 9:
		if g.cplusplus {
			g.line("tries++;\n\tjmp_buf *const before = jump;\n\tjump = 0;\n\ttry {\n\t\t%s\n\t\t} catch (u64 e) {\n\t\tx ^= e;\n\t}\n\tjump = before;\n\ttries--;\n\tif (tries && !jump && (x & 3) == 2)\n\t\tthrow x;", g.calls(f))
			return
		}
		g.line("x = x * 0x5851f42d4c957f2d ^ x >> 29;")
	}
}

// end writes how the function ends: with a result or with calls of its own type, which become
// jumps.
func (g *generator) end(f *function) {
	tail := func() string { return g.call(f.functions[g.IntN(len(f.functions))], f) }
	if f.keeps() {
		g.line("%s", g.calls(f))
		g.result(f, "")
		return
	}
	switch g.IntN(5) {
	case 0:
		if f.simple() {
			g.line("__attribute__((musttail)) return %s;", tail())
			return
		}
		g.line("return %s;", tail())
		return
	case 1, 2:
		g.line("if (%s)\n\t\treturn %s;", g.pick("x & 1", "x % 5 == 0", "x & 64", "fuel & 1", "x > 1ul << 62"), tail())
		if g.IntN(3) == 0 {
			g.line("if (x & 2)\n\t\treturn %s;", tail())
		}
	case 3:
		g.line("return %s;", tail())
		return
	}
	g.result(f, "")
}

// root writes a function that calls every function.
func (g *generator) root() {
	g.WriteString("\nPLAIN static u64 run(u64 x)\n{\n")
	for _, f := range g.functions {
		call := g.call(f, nil)
		if f.result != "void" {
			call = "x += " + folded(f.result, call)
		}
		g.line("fuel = %d;\n\t%s;", 20+g.IntN(200), call)
	}
	g.line("return x ^ sum;\n}\n%s", epilogue)
}
