package build

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/symbolize"
)

// CallSet is a set of libc's functions whose calls can be recorded. Functions with sleds replace them,
// because libc has none.
type CallSet string

// CallSets are all sets, in the order of their objects in a preload list.
var CallSets = []CallSet{"locks", "io", "sleep", "alloc", "copy"}

// DefaultCallSets are the sets to record if the user names none.
const DefaultCallSets = "locks,io,sleep"

// ParseCallSets parses a comma-separated list of sets. "all" means all of them. The result has the
// order of CallSets, without duplicates.
func ParseCallSets(list string) ([]CallSet, error) {
	var named []CallSet
	for _, name := range strings.Split(list, ",") {
		switch set := CallSet(strings.TrimSpace(name)); {
		case set == "all":
			named = append(named, CallSets...)
		case slices.Contains(CallSets, set):
			named = append(named, set)
		default:
			return nil, fmt.Errorf("%q is not one of locks, io, sleep, alloc, copy, all", name)
		}
	}
	return slices.DeleteFunc(slices.Clone(CallSets), func(s CallSet) bool { return !slices.Contains(named, s) }), nil
}

// callsDir is the folder of the sets' sources, below that of the runtime.
const callsDir = "libcalls"

func (s CallSet) objectName() string  { return "libxray-libcalls-" + string(s) + ".so" }
func (s CallSet) archiveName() string { return "libxray-libcalls-" + string(s) + ".a" }

// wrapName returns the name of the file with the linker's options for a set.
func (s CallSet) wrapName() string { return "libxray-libcalls-" + string(s) + ".wrap" }

// PreloadCalls returns the paths of the sets' shared objects for LD_PRELOAD, after [Library.Preload].
func (l Library) PreloadCalls(sets ...CallSet) []string {
	var paths []string
	for _, s := range sets {
		paths = append(paths, filepath.Join(l.dir, "lib", s.objectName()))
	}
	return paths
}

// LinkCalls returns the linker's flags for a program whose libc calls are recorded: calls in the
// program itself, not those in shared objects.
func (l Library) LinkCalls(sets ...CallSet) []string {
	var flags []string
	for _, s := range sets {
		flags = append(flags, "-Wl,@"+filepath.Join(l.dir, "lib", s.wrapName()),
			"-Wl,--whole-archive", filepath.Join(l.dir, "lib", s.archiveName()), "-Wl,--no-whole-archive")
	}
	return flags
}

// callFiles returns the names of the sets' files in the folder lib.
func callFiles() []string {
	var names []string
	for _, s := range CallSets {
		names = append(names, s.objectName(), s.archiveName(), s.wrapName())
	}
	return names
}

// buildCalls builds the files of all sets from the sources in dir.
func (c *compiler) buildCalls(ctx context.Context, dir string) error {
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(2)
	for _, s := range CallSets {
		g.Go(func() error {
			if err := c.buildCallSet(ctx, dir, s); err != nil {
				return fmt.Errorf("cannot build the recorder's functions for %s: %w", s, err)
			}
			return nil
		})
	}
	return g.Wait()
}

func (c *compiler) buildCallSet(ctx context.Context, dir string, s CallSet) error {
	lib := filepath.Join("..", "..", "lib")
	source, helpers := string(s)+".S", []string(nil)
	if s == "io" {
		helpers = []string{"names.c"}
	}
	shared := slices.Concat(c.flags(), []string{"-o", filepath.Join(lib, s.objectName()), source, "first.S", "find.c"}, helpers,
		[]string{"-shared", "-Wl,-soname," + s.objectName(), "-Wl,-z,nodelete,-z,now,-z,noexecstack"})
	if s == "locks" {
		shared = append(shared, "-Wl,--version-script=locks.map")
	}
	if _, err := run(ctx, dir, c.command, shared...); err != nil {
		return err
	}
	var objects []string
	for _, source := range append(helpers, source) {
		object := "wrap-" + strings.TrimSuffix(source, filepath.Ext(source)) + ".o"
		objects = append(objects, object)
		if _, err := run(ctx, dir, c.command, slices.Concat(c.flags(), []string{"-DXR_WRAP", "-c", "-o", object, source})...); err != nil {
			return err
		}
	}
	if _, err := run(ctx, dir, archiver(), slices.Concat([]string{"rcs", filepath.Join(lib, s.archiveName())}, objects)...); err != nil {
		return err
	}
	return writeWrap(filepath.Join(dir, objects[len(objects)-1]), filepath.Join(dir, lib, s.wrapName()))
}

// callNames caches the function names of the shared objects of call sets.
var callNames sync.Map

// NameCalls adds the names of libc functions to their objects, because readers of the trace on
// other machines lack the files.
func NameCalls(r *reader.Recording) {
	for i := range r.Objects {
		o := &r.Objects[i]
		if !slices.ContainsFunc(CallSets, func(s CallSet) bool { return filepath.Base(o.Path) == s.objectName() }) {
			continue
		}
		names, ok := callNames.Load(o.Path)
		if !ok {
			names, _ = callNames.LoadOrStore(o.Path, functionNames(o.Path))
		}
		if list := names.([]string); len(list) == int(o.Count) {
			o.Names = list
		}
	}
}

// functionNames returns the names of an object's functions, or nil if it cannot be read.
func functionNames(path string) []string {
	table, err := symbolize.Load(path, symbolize.Options{})
	if err != nil {
		return nil
	}
	defer table.Close()
	var names []string
	for _, f := range table.Map().Functions {
		s, _ := table.Func(f.ID)
		names = append(names, s.Name)
	}
	return names
}

// CallGroup returns the name of the group of a function of libc, or "". Calls of a group belong together: if
// the trace has only some of them, locks seem to be held, or memory to be used, by who no longer does.
func CallGroup(function string) string { return callGroups[function] }

var callGroups = func() map[string]string {
	groups := make(map[string]string)
	for group, names := range map[string]string{
		"mutex": "pthread_mutex_lock pthread_mutex_trylock pthread_mutex_timedlock pthread_mutex_clocklock pthread_mutex_unlock " +
			"pthread_cond_wait pthread_cond_timedwait pthread_cond_clockwait",
		"rwlock": "pthread_rwlock_rdlock pthread_rwlock_tryrdlock pthread_rwlock_timedrdlock pthread_rwlock_clockrdlock pthread_rwlock_wrlock " +
			"pthread_rwlock_trywrlock pthread_rwlock_timedwrlock pthread_rwlock_clockwrlock pthread_rwlock_unlock",
		"spin":   "pthread_spin_lock pthread_spin_trylock pthread_spin_unlock",
		"mtx":    "mtx_lock mtx_trylock mtx_timedlock mtx_unlock cnd_wait cnd_timedwait",
		"malloc": "malloc calloc realloc free posix_memalign aligned_alloc memalign valloc pvalloc reallocarray",
		"mmap":   "mmap mmap64 munmap mremap",
	} {
		for name := range strings.FieldsSeq(names) {
			groups[name] = group
		}
	}
	return groups
}()

var wrapped = regexp.MustCompile(`\x00__wrap_(\w+)`)

// writeWrap writes the linker's options for the functions of an object file. It takes their names from
// the file's string table.
func writeWrap(object, file string) error {
	data, err := os.ReadFile(object)
	if err != nil {
		return err
	}
	var options bytes.Buffer
	for _, m := range wrapped.FindAllSubmatch(data, -1) {
		fmt.Fprintf(&options, "--wrap=%s\n", m[1])
	}
	return os.WriteFile(file, options.Bytes(), 0o644)
}
