package html

import (
	"flag"
	"os"
	"os/exec"
	"testing"

	"github.com/evanw/esbuild/pkg/api"

	"github.com/xray-tools/xray/internal/test/testenv"
)

var update = flag.Bool("update", false, "write assets/page.js")

// assets/page.js is the bundle of the modules in page, so that building xray needs no bundler.
func TestBundle(t *testing.T) {
	result := api.Build(api.BuildOptions{
		EntryPoints: []string{"page/main.ts"}, Bundle: true, Format: api.FormatIIFE, GlobalName: "xray", Target: api.ES2022,
		MinifyWhitespace: true, MinifySyntax: true, MinifyIdentifiers: true, LineLimit: 160, Charset: api.CharsetUTF8, LegalComments: api.LegalCommentsNone,
	})
	for _, m := range append(result.Errors, result.Warnings...) {
		t.Errorf("%+v: %s", m.Location, m.Text)
	}
	if t.Failed() {
		return
	}
	want := result.OutputFiles[0].Contents
	if *update {
		if err := os.WriteFile("assets/page.js", want, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := os.ReadFile("assets/page.js"); err != nil || string(got) != string(want) {
		t.Errorf("assets/page.js is not the bundle of page (%v): run go test ./convert/html -run TestBundle -update", err)
	}
}

// The types of the modules are right. The bundler only removes them.
func TestTypes(t *testing.T) {
	t.Parallel()
	testenv.Need(t, "node")
	if out, err := exec.Command("node", testenv.Fetched(t, "typescript/package/lib/tsc.js"), "-p", "page").CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
