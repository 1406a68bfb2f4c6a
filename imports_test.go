// Package xray_test holds tests of the module as a whole.
package xray_test

import (
	"encoding/json"
	"io"
	"os/exec"
	"strings"
	"testing"
)

const module = "github.com/xray-tools/xray"

// layers says what each package may import of this module. Packages that are
// not listed (internal ones) may be imported by all, and import what is listed
// under internal.
var layers = []struct {
	pkg  string
	from []string
}{
	{"reader", []string{"internal/yamltree"}},
	{"reader/calls", []string{"reader"}},
	{"symbolize", []string{"reader"}},
	{"symbolize/debuginfod", []string{"symbolize"}},
	{"account", []string{"reader", "reader/calls", "symbolize"}},
	{"graph", []string{"reader", "reader/calls", "symbolize"}},
	{"stack", []string{"reader", "reader/calls", "symbolize"}},
	{"slowest", []string{"reader", "reader/calls", "symbolize"}},
	{"shapes", []string{"reader", "reader/calls", "symbolize"}},
	{"why", []string{"reader", "reader/calls", "symbolize"}},
	{"diff", []string{"reader", "reader/calls", "symbolize"}},
	{"locks", []string{"reader", "reader/calls", "symbolize"}},
	{"residency", []string{"reader", "reader/calls", "symbolize"}},
	{"exclude", []string{"reader", "reader/calls", "symbolize"}},
	{"requests", []string{"reader", "reader/calls", "symbolize"}},
	{"pack", []string{"reader", "symbolize"}},
	{"convert", []string{"reader", "reader/calls", "symbolize"}},
	{"html", []string{"reader", "reader/calls", "symbolize"}},
	{"recorder", []string{"reader", "symbolize"}},
	{"docs/slowwrites", []string{"reader", "reader/calls", "symbolize"}},
	{"internal/benchrecorder", []string{"recorder"}},
	{"internal", []string{"reader", "reader/calls", "symbolize"}},
	{"cmd/xray", []string{"reader", "reader/calls", "symbolize", "symbolize/debuginfod", "account", "graph", "stack", "slowest", "shapes", "why", "diff", "locks", "residency", "exclude", "requests", "pack", "convert", "html", "recorder"}},
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

// Imports point one way: from the program over the analyses to the reader.
func TestImportDirections(t *testing.T) {
	seen := map[string]bool{}
	for _, p := range listPackages(t) {
		name := strings.TrimPrefix(strings.TrimPrefix(p.ImportPath, module), "/")
		internal := strings.HasPrefix(name, "internal/")
		var allowed []string
		known := name == ""
		for _, l := range layers {
			if l.pkg == name || l.pkg == "internal" && internal && !known {
				allowed, known = l.from, true
				seen[l.pkg] = true
			}
		}
		if !known {
			t.Errorf("package %s is in no layer: give it one", name)
		}
		for _, imp := range p.Imports {
			dep, ours := strings.CutPrefix(imp, module+"/")
			if !ours || strings.HasPrefix(dep, "internal/") && name != "reader" {
				continue
			}
			ok := false
			for _, a := range allowed {
				ok = ok || a == dep
			}
			if !ok {
				t.Errorf("%s imports %s", name, dep)
			}
		}
	}
	for _, l := range layers {
		if !seen[l.pkg] {
			t.Errorf("no package %s", l.pkg)
		}
	}
}

// Files, streams and exit codes are the program's business.
func TestAnalysesDoNotTouchTheSystem(t *testing.T) {
	pure := map[string]bool{"reader/calls": true, "account": true, "graph": true, "stack": true, "slowest": true, "shapes": true, "why": true, "locks": true, "residency": true, "diff": true, "exclude": true, "requests": true, "pack": true, "convert": true, "html": true}
	for _, p := range listPackages(t) {
		if !pure[strings.TrimPrefix(p.ImportPath, module+"/")] {
			continue
		}
		for _, imp := range p.Imports {
			if imp == "os" || imp == "os/exec" || imp == "syscall" {
				t.Errorf("%s imports %s", p.ImportPath, imp)
			}
		}
	}
}
