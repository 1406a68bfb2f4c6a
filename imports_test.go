// Package xray_test holds tests of the module as a whole.
package xray_test

import (
	"encoding/json"
	"io"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/xray-tools/xray"

// foundations lists what the packages below the analyses may import from this module.
var foundations = map[string][]string{
	"reader":               {"internal/yamltree", "internal/bytesize", "internal/frames", "internal/freespace"},
	"reader/calls":         {"reader"},
	"reader/sched":         {"reader"},
	"symbolize/demangle":   {},
	"symbolize/debuginfo":  {},
	"symbolize/debuginfod": {"symbolize/debuginfo"},
	"symbolize":            {"reader", "symbolize/demangle", "symbolize/debuginfo"},
	"report":               {"reader", "symbolize"},
	"recorder":             {"reader", "symbolize", "symbolize/debuginfo"},
}

// summary is an analysis and a file format. It is a package of its own, and not part of
// reader, so that what decodes traces stays free of Parquet.

// base is what analyses and internal packages may import.
var base = []string{"reader", "reader/calls", "reader/sched", "symbolize", "symbolize/demangle", "report"}

// mayImport reports whether a package may import another one of this module. Packages that are
// neither foundations nor internal nor commands are analyses, which do not import each other.
func mayImport(pkg, dep string) bool {
	allowed, foundation := foundations[pkg]
	switch {
	case isTestHelper(pkg):
		return true
	case isTestHelper(dep):
		return false
	case foundation:
		return slices.Contains(allowed, dep) || isInternal(dep) && pkg != "reader"
	case pkg == "", strings.HasPrefix(pkg, "cmd/"):
		return true
	case isInternal(dep):
		return true
	}
	return slices.Contains(base, dep)
}

// isTestHelper reports whether a package is for tests and benchmarks alone. The program
// contains none of them.
func isTestHelper(pkg string) bool { return strings.HasPrefix(pkg, "internal/test/") }

func isInternal(pkg string) bool { return strings.HasPrefix(pkg, "internal/") }

// isAnalysis reports whether a package is an analysis or an output of calls.
func isAnalysis(pkg string) bool {
	_, foundation := foundations[pkg]
	return pkg == "reader/calls" || pkg == "report" ||
		!foundation && pkg != "" && !isInternal(pkg) && !strings.HasPrefix(pkg, "cmd/") && !strings.HasPrefix(pkg, "docs/")
}

type goPackage struct {
	ImportPath string
	Imports    []string
}

func listPackages(t *testing.T) []goPackage {
	t.Helper()
	out, err := exec.Command("go", "list", "-pgo=off", "-json=ImportPath,Imports", "./...").Output()
	if err != nil {
		t.Fatal(err)
	}
	var pkgs []goPackage
	for d := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p goPackage
		if err := d.Decode(&p); err == io.EOF {
			return pkgs
		} else if err != nil {
			t.Fatal(err)
		}
		pkgs = append(pkgs, p)
	}
}

// Imports point one way: from the program through the analyses to the reader.
func TestImportDirections(t *testing.T) {
	known := map[string]bool{}
	for _, p := range listPackages(t) {
		name := nameOf(p)
		known[name] = true
		for _, imp := range p.Imports {
			if dep, ours := strings.CutPrefix(imp, module+"/"); ours && !mayImport(name, dep) {
				t.Errorf("%s must not import %s", name, dep)
			}
		}
	}
	for name := range foundations {
		if !known[name] {
			t.Errorf("foundations names %s, which is not a package", name)
		}
	}
}

func nameOf(p goPackage) string {
	return strings.TrimPrefix(strings.TrimPrefix(p.ImportPath, module), "/")
}

// Only the program may use files, standard streams and exit codes.
func TestAnalysesDoNotTouchTheSystem(t *testing.T) {
	for _, p := range listPackages(t) {
		if !isAnalysis(nameOf(p)) {
			continue
		}
		for _, imp := range p.Imports {
			if imp == "os" || imp == "os/exec" || imp == "syscall" {
				t.Errorf("%s must not import %s", p.ImportPath, imp)
			}
		}
	}
}
