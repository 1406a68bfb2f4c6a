// Package xray_test holds tests of the module as a whole.
package xray_test

import (
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/xray-tools/xray"

// floors lists the folders of the module from the ground up. A package may import what is on a lower
// floor, or in its own folder. A folder includes those below it that are not listed themselves.
var floors = [][]string{
	{"internal/parallel", "internal/frames", "internal/texttab", "internal/yamltext", "internal/fileio", "internal/remote", "symbolize/demangle", "recorder", "recorder/args/value", "recorder/proc", "recorder/ranking"},
	{"internal/quantile", "symbolize/debuginfo", "tables/parquetfile", "graph/layered", "recorder/attach"},
	{"reader", "symbolize/debuginfod", "recorder/args"},
	{"reader/calls", "reader/arrivals", "internal/tracewrite", "symbolize", "sched/kernel"},
	{"sched", "tables", "internal/tracetext", "symbolize/source", "symbolize/lookup", "explain/invocation", "explain/machines", "recorder/ring"},
	{"report/label", "recorder/build"},
	{"report", "recorder/core", "recorder/client"},
	{"explain/locks", "explain/iocalls", "account"},
	{"graph", "stack", "explain", "convert", "tables/sql", "tables/parquet", "tables/summary", "symbolize/coverage", "recorder/exclude", "recorder/budget", "recorder/instrument", "recorder/doctor"},
	{"recorder/observe", "recorder/live"},
	{"cmd/xray/internal/cli", "cmd/xray/internal/llvmxray/llvmargs", "cmd/xray/internal/tui"},
	{"cmd/xray/internal/session", "cmd/xray/internal/web"},
	{"cmd/xray/internal/launch", "cmd/xray/internal/llvmxray"},
	{"cmd/xray/internal/browse", "cmd/xray/internal/watch", "cmd/xray/internal/ctl"},
	{"cmd/xray/internal/top"},
	{"cmd/xray", "docs"},
}

// programs are the floors from here on. Only they, and folders in system, use files, standard streams and exit codes.
const programs = 10

var system = []string{"internal", "reader", "symbolize", "sched/kernel", "recorder/attach", "recorder/build", "recorder/budget", "recorder/client", "recorder/core", "recorder/doctor", "recorder/instrument", "recorder/live", "recorder/observe", "recorder/proc", "tables/sql"}

// floorOf returns the floor of a package, and the folder of the list that it is in.
func floorOf(pkg string) (floor int, folder string) {
	floor = -1
	for i, folders := range floors {
		for _, f := range folders {
			if (pkg == f || strings.HasPrefix(pkg, f+"/")) && len(f) > len(folder) {
				floor, folder = i, f
			}
		}
	}
	return floor, folder
}

func TestImports(t *testing.T) {
	list := exec.Command("go", "list", "-pgo=off", "-json=ImportPath,Imports", "./...")
	list.Env = append(os.Environ(), "CGO_ENABLED=1") // with it, which is Go's default, a package must not have C files
	var failed strings.Builder
	list.Stderr = &failed
	out, err := list.Output()
	if err != nil {
		t.Fatalf("%v\n%s", err, &failed)
	}
	used := map[string]bool{}
	for d := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p struct {
			ImportPath string
			Imports    []string
		}
		if err := d.Decode(&p); err == io.EOF {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		pkg := strings.TrimPrefix(strings.TrimPrefix(p.ImportPath, module), "/")
		if pkg == "" || strings.HasPrefix(pkg, "internal/test/") {
			continue // for tests and benchmarks alone
		}
		floor, folder := floorOf(pkg)
		if used[folder] = true; floor < 0 {
			t.Errorf("%s is in no folder of floors", pkg)
		}
		for _, imp := range p.Imports {
			dep, ours := strings.CutPrefix(imp, module+"/")
			switch below, _ := floorOf(dep); {
			case ours && (below < 0 || below >= floor) && !strings.HasPrefix(dep, pkg+"/"):
				t.Errorf("%s must not import %s", pkg, dep)
			case floor < programs && (imp == "os" || imp == "os/exec" || imp == "syscall") &&
				!slices.ContainsFunc(system, func(s string) bool { return pkg == s || strings.HasPrefix(pkg, s+"/") }):
				t.Errorf("%s must not import %s", pkg, imp)
			case imp == "debug/dwarf":
				t.Errorf("%s must not import %s, but read debug information with symbolize/debuginfo", pkg, imp)
			}
		}
	}
	for _, folder := range slices.Concat(floors...) {
		if !used[folder] {
			t.Errorf("floors names %s, which has no package", folder)
		}
	}
}
