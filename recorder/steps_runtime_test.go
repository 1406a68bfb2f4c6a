//go:build linux && amd64

package recorder_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/xray-tools/xray/internal/test/elftest"
	"github.com/xray-tools/xray/internal/test/testenv"
	"github.com/xray-tools/xray/recorder"
)

// clangs maps each compiler to its flag that omits compiler-rt's runtime.
var clangs = map[string]string{
	"clang-14": "-fnoxray-link-deps",
	"clang-19": "-fno-xray-link-deps",
	"clang-22": "-fno-xray-link-deps",
}

// prunable are flags for programs that mark functions as always instrumented. Without these flags,
// such functions are never pruned.
var prunable = []string{"-Dxray_always_instrument=noinline", "-fxray-instruction-threshold=1"}

// edit replaces text in a file of the runtime. The text must occur exactly once.
type edit struct{ file, old, new string }

// buildArchive returns the archive of the runtime, compiled with edits of its sources if there are
// any.
func buildArchive(t *testing.T, edits ...edit) string {
	t.Helper()
	l := library(t)
	if len(edits) == 0 {
		return l.Archive()
	}
	src := t.TempDir()
	if err := os.CopyFS(src, recorder.Sources()); err != nil {
		t.Fatal(err)
	}
	archive := filepath.Join(src, filepath.Base(l.Archive()))
	data, err := os.ReadFile(l.Archive())
	if err := errors.Join(err, os.WriteFile(archive, data, 0o666)); err != nil {
		t.Fatal(err)
	}
	files, objects := applyEdits(t, src, edits), []string{"rs", archive}
	for _, f := range files {
		objects = append(objects, strings.TrimSuffix(f, filepath.Ext(f))+".o")
	}
	elftest.Keep(t, "gcc", src, slices.Concat(recorder.CompileFlags(true), objects), archive, func() {
		for _, cmd := range []*exec.Cmd{exec.Command("gcc", slices.Concat(recorder.CompileFlags(true), []string{"-c"}, files)...), exec.Command("ar", objects...)} {
			cmd.Dir = src
			if said, err := cmd.CombinedOutput(); err != nil {
				t.Fatalf("%q: %v\n%s", cmd.Args, err, said)
			}
		}
	})
	return archive
}

// applyEdits edits sources and returns the files to recompile.
func applyEdits(t *testing.T, src string, edits []edit) (files []string) {
	t.Helper()
	for _, e := range edits {
		path := filepath.Join(src, e.file)
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if n := strings.Count(string(data), e.old); n != 1 {
			t.Fatalf("%s: got %d occurrences, want 1, of\n%s", e.file, n, e.old)
		}
		if err := os.WriteFile(path, []byte(strings.Replace(string(data), e.old, e.new, 1)), 0o666); err != nil {
			t.Fatal(err)
		}
		if e.file == "values_amd64.h" {
			files = append(files, "trampoline_amd64.S")
		} else if e.file == "trampoline_amd64.h" {
			files = append(files, "trampoline_amd64.S", "gcc_amd64.S", "handlers_amd64.S")
		} else {
			files = append(files, e.file)
		}
	}
	slices.Sort(files)
	return slices.Compact(files)
}

// buildLinked compiles a program of testdata that links the archive and reads the runtime's memory.
func buildLinked(t *testing.T, clang, archive, source string, flags ...string) string {
	t.Helper()
	args := slices.Concat([]string{"-O2", "-Wall", "-Werror", "-Wno-unused-function", "-Iruntime", "-Itestdata", "-fxray-instrument", clangs[clang]},
		flags, []string{
			filepath.Join("testdata", source),
			"-Wl,--whole-archive", archive, "-Wl,--no-whole-archive", "-pthread", "-ldl",
		})
	return elftest.Build(t, clang, strings.TrimSuffix(source, ".c"), args...)
}

// numbers runs a program and parses its output, lines of a name and a number.
func numbers(t *testing.T, program string, args ...string) map[string]int64 {
	t.Helper()
	m, err := runNumbers(program, args...)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// runNumbers is numbers for a program that may fail.
func runNumbers(program string, args ...string) (map[string]int64, error) {
	out, err := exec.Command(program, args...).CombinedOutput()
	if err != nil {
		return nil, fmt.Errorf("%s %v: %w\n%s", filepath.Base(program), args, err, out)
	}
	m := map[string]int64{}
	for line := range strings.Lines(string(out)) {
		var name string
		var n int64
		if _, err := fmt.Sscan(line, &name, &n); err != nil {
			return nil, fmt.Errorf("%s %v says %q", filepath.Base(program), args, line)
		}
		m[name] = n
	}
	return m, nil
}

// steps are the arguments for runs of testdata/steps.c.
var steps = [][]string{
	{"record"}, {"record", "arg"}, {"record", "toggle"}, {"record", "budget"}, {"prune"}, {"prune", "toggle"}, {"depth"},
}

// checkSteps runs the program with all arguments. Each run can be interrupted after about 45
// instructions for each of two calls: two sleds of 2, two thunks of 2, two trampolines of 20.
func checkSteps(t *testing.T, program string, steps [][]string) {
	t.Helper()
	for _, args := range steps {
		n := numbers(t, program, args...)
		if n["interruptions"] < 90 || n["faults"] != 0 || n["missing"] != 0 {
			t.Errorf("%v: %v", args, n)
		}
		if n["unwound"] < 40 || n["lost"] != 0 {
			t.Errorf("%v: an unwinder did not find the caller: %v", args, n)
		}
	}
}

// checkValuesSteps does the same with a call that has values.
func checkValuesSteps(t *testing.T, program string, args ...string) {
	t.Helper()
	n := numbers(t, program, args...)
	if n["interruptions"] < 20 || n["faults"]+n["missing"]+n["lost"] != 0 {
		t.Errorf("%v: %v", args, n)
	}
}

// After a signal at any instruction of a recorded call, nothing in the rings is missing, unmatched or
// out of order. Signal handlers are recorded, or switch sleds. The trampolines are the same with each
// compiler, so without XRAY_SOAK=1 only the programs of one compiler run with all arguments.
func TestSignalAfterEveryInstruction(t *testing.T) {
	t.Parallel()
	archive := buildArchive(t)
	for clang := range clangs {
		t.Run(clang, func(t *testing.T) {
			t.Parallel()
			program := buildLinked(t, clang, archive, "steps.c", prunable...)
			ways := steps
			if every := "37"; clang == "clang-22" {
				if testenv.Soak() {
					every = "1"
				}
				for _, mode := range []string{"record", "depth"} {
					for _, what := range []string{"values", "jump"} {
						checkValuesSteps(t, program, mode, what, every)
					}
				}
			}
			if clang != "clang-22" && !testenv.Soak() {
				ways = [][]string{{"record", "toggle"}, {"prune"}}
			}
			checkSteps(t, program, ways)
		})
	}
}

// The same holds at any instruction of a call that a handler of the program also gets.
func TestSignalAfterEveryInstructionBesideHandlers(t *testing.T) {
	t.Parallel()
	checkSteps(t, buildLinked(t, "clang-22", buildArchive(t), "steps.c", prunable...), [][]string{{"record", "handler"}})
}

// The same holds at any instruction while the exit of a call that a jump has left is written.
func TestSignalAfterEveryInstructionOfALanding(t *testing.T) {
	t.Parallel()
	for _, edits := range [][]edit{nil, {noRseq}, {noRseq, noRdpid}} {
		n := numbers(t, buildLinked(t, "clang-22", buildArchive(t, edits...), "steps.c", prunable...), "record", "left")
		if n["interruptions"] < 60 || n["unwound"] < 10 || n["faults"]+n["missing"]+n["lost"] > 0 {
			t.Error(n)
		}
	}
}

// Processors without rdpid, and programs without restartable sequences.
var (
	noRdpid = edit{"ring.c", "state.rdpid = c >> 22 & 1;", "state.rdpid = 0;"}
	noRseq  = edit{"options.c", ".offcpu = 1,", ".offcpu = 0,"}
)

// These use other trampolines.
func TestSignalAfterEveryInstructionWithoutRseq(t *testing.T) {
	t.Parallel()
	for _, edits := range [][]edit{{noRseq}, {noRseq, noRdpid}} {
		program := buildLinked(t, "clang-22", buildArchive(t, edits...), "steps.c", prunable...)
		checkSteps(t, program, steps)
	}
}

// Trampolines with their steps in another order, or that write a tail twice, fail the tests above.
func TestSignalsFindWrongOrders(t *testing.T) {
	t.Parallel()
	const load = "	movq	XR_THREAD_CURSOR(%r11), %rcx\n	testw	%cx, %cx\n	jz	4f\n"
	mutations := map[string]struct {
		args  []string
		edits []edit
	}{
		"StoreThenCommit": {[]string{"record"}, []edit{{
			"trampoline_amd64.S",
			"	movq	%rcx, %rax\n	addq	$\\n, %rcx\n	cmpxchgq %rcx, XR_THREAD_CURSOR(%r11)\n	jne	2b\n	.endm\n",
			"	movq	%rdx, (%rcx)\n	movq	%rcx, %rax\n	addq	$\\n, %rcx\n	movq	%rcx, XR_THREAD_CURSOR(%r11)\n	.endm\n",
		}}},
		"StampThenLoad": {[]string{"record"}, []edit{
			{"trampoline_amd64.S", "	.macro STAMP by\n" + load, "	.macro STAMP by\n"},
			{"trampoline_amd64.S", "	cmpl	%edx, XR_THREAD_EPOCH(%r11)\n	jne	4f\n	.if",
				"	cmpl	%edx, XR_THREAD_EPOCH(%r11)\n	jne	4f\n" + load + "	.if"},
		}},
		"TakeWithoutLooking": {[]string{"record", "left"}, []edit{{
			"trampoline_amd64.S",
			"	cmpxchgq %rsi, XR_THREAD_CURSOR(%r11)\n	jne	2b\n	ret\n", "	movq	%rsi, XR_THREAD_CURSOR(%r11)\n	ret\n",
		}}},
		"PruneWithoutPuttingBack": {[]string{"prune"}, []edit{
			{"trampoline_amd64.S", "6:	movq	%rdx, (%rcx)\n", "6:\n"},
		}},
		"NoteOnce": {[]string{"record", "budget"}, []edit{{
			"trampoline_amd64.S",
			"	addq	$16, XR_THREAD_TOP(%r11)\n	movq	%rax, (%rdx)\n	movq	%r10, 8(%rdx)\n", "	addq	$16, XR_THREAD_TOP(%r11)\n",
		}}},
		"PushesWithoutCFI": {[]string{"record"}, []edit{
			{"trampoline_amd64.h", "	.cfi_adjust_cfa_offset 8\n	.cfi_rel_offset \\reg, 0\n", ""},
			{"trampoline_amd64.h", "	.cfi_adjust_cfa_offset -8\n	.cfi_restore \\reg\n", ""},
		}},
		"TailsWrittenAgain": {[]string{"record", "toggle"}, []edit{
			{"patch.c", "uint64_t thunk = w->o->thunks + (is_event", "static uint64_t again; uint64_t thunk = again++ % 7 * 32 + w->o->thunks + (is_event"},
			{"patch.c", "enum condition c = condition(&t);", "enum condition c = t.want ? FRESH : OURS;"},
		}},
	}
	for name, m := range mutations {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			program := buildLinked(t, "clang-22", buildArchive(t, m.edits...), "steps.c", prunable...)
			// A busy machine can make short calls long and hide the fault.
			for range 10 {
				n, err := runNumbers(program, m.args...)
				if err != nil || n["faults"]+n["missing"]+n["lost"] > 0 {
					return // a crash also counts
				}
			}
			t.Error("the broken runtime passed")
		})
	}
}

// Sleds are switched while threads run through them. With XRAY_SOAK=1, this runs long enough to be
// reliable.
func TestToggleStorm(t *testing.T) {
	t.Parallel()
	toggles := many(1000, 100000)
	archive := buildArchive(t)
	for clang := range clangs {
		t.Run(clang, func(t *testing.T) {
			t.Parallel()
			program := buildLinked(t, clang, archive, "storm.c", prunable...)
			// Start with short runs, which test the first events of threads.
			for _, times := range append(slices.Repeat([]string{"100"}, 5), toggles) {
				n := numbers(t, program, times)
				if times == toggles && (n["handled"] == 0 || n["rounds"] == 0 || n["snapshots"] == 0) {
					t.Errorf("the storm did not run: %v", n)
				}
			}
		})
	}
}

// registersLost returns how many calls of testdata/registers.c found a changed register in a mode, or
// took the other way at a conditional tail exit, and how many calls took the slow path.
func registersLost(t *testing.T, program, mode string) (lost, slow int64) {
	t.Helper()
	n := numbers(t, program, mode)
	return n["differences"] + n["flags"] + n["ways"], n["slow"]
}

// These edits clobber all registers that C functions need not preserve, because the compiler chooses
// which ones they use.
var (
	scratch   = "	.irp r, rcx,rdx,rsi,rdi,r8,r9,r10,r11\n	movq	$-1, %\\r\n	.endr\n"
	clobbered = []edit{
		{"trampoline_amd64.h", "	call	\\function\n", "	call	\\function\n" + scratch},
		{"trampoline_amd64.S", "	call	xr_slow\n", "	call	xr_slow\n" + scratch},
		{"values_amd64.h", "	call	\\function\n", "	call	\\function\n" + scratch},
		{"handlers_amd64.S", "	call	xr_handler_begin\n", "	call	xr_handler_begin\n" + scratch},
		{"handlers_amd64.S", "	call	xr_handler_end\n", "	call	xr_handler_end\n" + scratch},
	}
)

// Sleds preserve all registers, and the flags where they can be in use: on the fast and slow paths, with
// and without restartable sequences and rdpid, whatever registers the C functions use.
func TestRegisters(t *testing.T) {
	t.Parallel()
	for _, edits := range [][]edit{
		nil, clobbered, slices.Concat(clobbered, []edit{noRseq}), slices.Concat(clobbered, []edit{noRseq, noRdpid}),
	} {
		program := buildLinked(t, "clang-22", buildArchive(t, edits...), "registers.c")
		for _, mode := range []string{"off", "record", "prune", "depth", "count", "profile", "handlers", "budget", "values"} {
			lost, slow := registersLost(t, program, mode)
			if lost != 0 {
				t.Errorf("%s: %d calls found a changed register", mode, lost)
			}
			if mode == "record" && slow < 10 {
				t.Errorf("%s: wrong number of slow paths: %d", mode, slow)
			}
		}
	}
}

// Trampolines that do not restore r10, r11 or flags, a slow path that does not restore what the fast path
// leaves alone, and conditional tail exits that do not mind the condition, fail the test above.
func TestRegistersFindsWhatIsClobbered(t *testing.T) {
	t.Parallel()
	r11 := edit{"trampoline_amd64.h", "	UNSAVE3\n	UNSAVE	r11\n", "	UNSAVE3\n	leaq	8(%rsp), %rsp\n	.cfi_adjust_cfa_offset -8\n"}
	for name, m := range map[string]struct {
		edit  edit
		modes []string
	}{
		"R10":         {edit{"trampoline_amd64.h", "	UNSAVE	r10\n	ret\n", "	leaq	8(%rsp), %rsp\n	ret\n"}, []string{"record", "prune", "depth", "count", "profile", "budget"}},
		"R10Off":      {edit{"trampoline_amd64.S", "	movq	-8(%rsp), %r10\n	ret\n", "	ret\n"}, []string{"off"}},
		"Flags":       {edit{"trampoline_amd64.h", "	addb	$127, %al\n	sahf\n", "	addb	$127, %al\n"}, []string{"record", "handlers"}},
		"Overflow":    {edit{"trampoline_amd64.h", "	addb	$127, %al\n", ""}, []string{"record"}},
		"Condition":   {edit{"patch.c", "t->shape.on |= held ^ 1;", "t->shape.on |= held;"}, []string{"record"}},
		"Holding":     {edit{"patch.c", "hold(held, t->p, to + 5);", "hold(held ^ 1, t->p, to + 5);"}, []string{"record"}},
		"R11":         {r11, []string{"record", "prune", "profile"}},
		"R9OfProfile": {edit{"trampoline_amd64.S", "	UNSAVE	r9\n	UNSAVE	r8\n	UNSAVE	rdi\n	UNSAVE	rsi\n	UNSAVE4\n	DONE\n	END	xr_profile", "	addq	$8, %rsp\n	UNSAVE	r8\n	UNSAVE	rdi\n	UNSAVE	rsi\n	UNSAVE4\n	DONE\n	END	xr_profile"}, []string{"profile"}},
		"R11OfDepth":  {edit{"trampoline_amd64.h", "	.macro UNSAVE_ALL\n	UNSAVE	r11\n", "	.macro UNSAVE_ALL\n	UNSAVE	r11\n	movl	$0, %r11d\n"}, []string{"depth"}},
		"R9OfValues":  {edit{"values_amd64.h", "	UNSAVE	r9\n", "	leaq	8(%rsp), %rsp\n"}, []string{"values"}},
		"Vectors":     {edit{"handlers_amd64.S", "	EACH_VECTOR 0, 15, movups, xmm, \\back\n", "	EACH_VECTOR 0, 14, movups, xmm, \\back\n"}, []string{"handlers"}},
		"R11OfTails":  {edit{"handlers_amd64.S", "	UNSAVE	rbp\n	UNSAVE_ALL\n", "	UNSAVE	rbp\n	UNSAVE_ALL\n	movl	$0, %r11d\n"}, []string{"handlers"}},
		"Slow":        {edit{"trampoline_amd64.S", "	UNSAVE	r8\n	UNSAVE	rdi\n	UNSAVE	rsi\n	UNSAVE	rdx\n	UNSAVE	rcx\n	ret\n	END	slow", "	addq	$8, %rsp\n	UNSAVE	rdi\n	UNSAVE	rsi\n	UNSAVE	rdx\n	UNSAVE	rcx\n	ret\n	END	slow"}, []string{"record"}},
	} {
		program := buildLinked(t, "clang-22", buildArchive(t, slices.Concat(clobbered, []edit{m.edit})...), "registers.c")
		for _, mode := range m.modes {
			if lost, _ := registersLost(t, program, mode); lost == 0 {
				t.Errorf("%s: %s: the broken runtime passed", name, mode)
			}
		}
	}
}

// If other code changes a sled, the recorder leaves its function off and records the others. If all
// functions of an object have changed, the recorder refuses the object.
func TestForeignSledsAreLeftOff(t *testing.T) {
	program := buildLinked(t, "clang-22", buildArchive(t), "foreign.c")
	t.Setenv(recorder.EnvVar, "start=0,quiet=1")
	n := numbers(t, program)
	if n["functions"] != 2 || n["before"] != 4 || n["after"] != 3 || n["left"] != 1 || n["refused"] != 0 || n["all"] != 1 || n["calls"] != 2 {
		t.Errorf("wrong result: %v", n)
	}
}
