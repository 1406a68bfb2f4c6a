package build

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/xray-tools/xray/internal/fileio"
)

// Flags are the compiler and linker flags for recordable programs.
type Flags struct{ Compile, Link []string }

// NoStockRuntime are the spellings of clang's flag that prevents linking compiler-rt's XRay runtime.
// The second is for clang 15 and later, the first for older versions.
var NoStockRuntime = []string{"-fnoxray-link-deps", "-fno-xray-link-deps"}

// XRayFlags returns the flags for the compiler cc. It asks the compiler which it supports. If cc is
// empty, it is $CC, or the first of cc and clang that can instrument.
func XRayFlags(ctx context.Context, cc string, l Library) (Flags, error) {
	c, err := findInstrumenting(ctx, cc)
	if err != nil {
		return Flags{}, err
	}
	for _, flag := range NoStockRuntime {
		if c.knows(ctx, flag) {
			return Flags{
				Compile: []string{"-fxray-instrument", "-I" + l.Include()},
				Link:    append([]string{"-fxray-instrument", flag}, linkArchive(l.Archive(), exportedSleds...)...),
			}, nil
		}
	}
	return Flags{}, fmt.Errorf("%s instruments (-fxray-instrument), but always links compiler-rt's runtime: it supports none of %s",
		c, strings.Join(NoStockRuntime, ", "))
}

// Shared objects that the program opens find in it what they need of the recorder. Linkers export a
// symbol of the program on their own only if an object that they link it with needs it.
var (
	// exportedAPI is for objects that use xray/recorder.h.
	exportedAPI = []string{"xray_recorder_api"}
	// exportedSleds are for objects that were built with -fxray-shared, or that have events.
	exportedSleds = []string{"__xray_register_dso", "__xray_deregister_dso", "__xray_CustomEvent", "__xray_TypedEvent",
		"_ZN6__xray19XRayPatchedFunctionE", "_ZN6__xray13XRayArgLoggerE",
		"_ZN6__xray22XRayPatchedCustomEventE", "_ZN6__xray21XRayPatchedTypedEventE"}
	// exportedHooks are GCC's. Objects would otherwise use those of libc, which record nothing.
	exportedHooks = []string{"__cyg_profile_func_enter", "__cyg_profile_func_exit", "__fentry__", "__return__"}
)

// linkArchive returns the flags that link the archive and export these symbols, too.
func linkArchive(archive string, exported ...string) []string {
	flags := []string{"-Wl,--whole-archive", archive, "-Wl,--no-whole-archive", "-pthread", "-ldl"}
	for _, name := range slices.Concat(exported, exportedAPI) {
		flags = append(flags, "-Wl,--export-dynamic-symbol="+name)
	}
	return flags
}

// GCCFlags returns the flags for GCC and other compilers without XRay.
func GCCFlags(l Library) Flags {
	return Flags{
		Compile: []string{"-finstrument-functions", "-I" + l.Include()},
		Link:    linkArchive(l.Archive(), exportedHooks...),
	}
}

// knows reports whether the compiler accepts a flag.
func (c *compiler) knows(ctx context.Context, flag string) bool {
	_, err := run(ctx, "", c.command, "-###", flag, "-x", "c", os.DevNull, "-o", os.DevNull)
	return err == nil
}

func findInstrumenting(ctx context.Context, cc string) (*compiler, error) {
	if cc = strings.TrimSpace(cc); cc == "" {
		cc = strings.TrimSpace(os.Getenv("CC"))
	}
	candidates := []string{"cc", "clang"}
	if cc != "" {
		candidates = []string{cc}
	}
	for _, candidate := range candidates {
		c, err := newCompiler(ctx, strings.Fields(candidate))
		switch {
		case err == nil && c.knows(ctx, "-fxray-instrument"):
			return c, nil
		case err != nil && !errors.Is(err, exec.ErrNotFound):
			return nil, err
		case err != nil && cc != "":
			return nil, err
		}
	}
	return nil, fmt.Errorf("%s does not support -fxray-instrument: name a clang with --cc, for example --cc clang-19, or use --gcc",
		strings.Join(candidates, ", nor "))
}

// Install copies the library to dir: lib, include and lib/pkgconfig. It replaces existing files one
// by one.
func (l Library) Install(dir string) error {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return err
	}
	header := filepath.Join("include", "xray", "recorder.h")
	files := map[string]os.FileMode{
		filepath.Join("lib", PreloadName): 0o755,
		filepath.Join("lib", archiveName): 0o644,
		header:                            0o644,
	}
	for _, name := range callFiles() {
		mode := os.FileMode(0o644)
		if strings.HasSuffix(name, ".so") {
			mode = 0o755
		}
		files[filepath.Join("lib", name)] = mode
	}
	for name, mode := range files {
		data, err := os.ReadFile(filepath.Join(l.dir, name))
		if err != nil {
			return err
		}
		if err := replace(filepath.Join(dir, name), data, mode); err != nil {
			return err
		}
	}
	return replace(filepath.Join(dir, "lib", "pkgconfig", "xray-recorder.pc"), []byte(pkgConfig), 0o644)
}

// Installed returns the library that [Library.Install] put into dir.
func Installed(dir string) (Library, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return Library{}, err
	}
	l := Library{dir}
	if _, err := os.Stat(l.Archive()); err != nil {
		return Library{}, fmt.Errorf("%w; install it there with `xray runtime install`", err)
	}
	return l, nil
}

// replace writes a new file in place of the old one. Programs that have the old file mapped keep it.
func replace(path string, data []byte, mode os.FileMode) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return fileio.Replace(path, fileio.Mode(mode), func(file *os.File) error {
		_, err := file.Write(data)
		return err
	})
}

// pkgConfig describes the archive. It omits the shared object, which is for preloading, and the flags
// for instrumentation, which depend on the version of clang.
var pkgConfig = `prefix=${pcfiledir}/../..
libdir=${prefix}/lib
includedir=${prefix}/include

Name: xray-recorder
Description: records function calls of programs built with clang -fxray-instrument
URL: https://github.com/xray-tools/xray
Version: 1
Cflags: -I${includedir}
Libs: ` + strings.Join(linkArchive("${libdir}/"+archiveName, slices.Concat(exportedSleds, exportedHooks)...), " ") + "\n"

// Instruments returns why a compiler cannot instrument, or nil.
func Instruments(ctx context.Context, cc string) error {
	c, err := newCompiler(ctx, strings.Fields(cc))
	if err != nil {
		return err
	}
	_, err = run(ctx, "", c.command, "-fxray-instrument", "-x", "c", "-c", os.DevNull, "-o", os.DevNull)
	return err
}
