package summary

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/xray-tools/xray/tables/parquetfile"
)

// docs/summaries.md lists the columns in their order, with their types.
func TestDocumentedSchema(t *testing.T) {
	text, err := os.ReadFile("../../docs/summaries.md")
	if err != nil {
		t.Fatal(err)
	}
	var documented []string
	for _, m := range regexp.MustCompile("(?m)^\\| `([a-z_.]+)` \\| ([a-z0-9, ]+) \\|").FindAllStringSubmatch(string(text), -1) {
		documented = append(documented, m[1]+" "+m[2])
	}
	var listed []string
	for i, c := range columns() {
		if c.In == "" {
			listed = append(listed, c.Name+" "+typeName(c))
			continue
		}
		if i == 0 || columns()[i-1].In != c.In {
			listed = append(listed, c.In+" list of struct")
		}
		listed = append(listed, c.In+"."+c.Name+" "+typeName(c))
	}
	if diff := cmp.Diff(documented, listed); diff != "" {
		t.Errorf("(-docs/summaries.md +program):\n%s", diff)
	}
	if version := fmt.Sprintf("The schema has version %d.", Version); !strings.Contains(string(text), version) {
		t.Errorf("docs/summaries.md does not say %q", version)
	}
}

func typeName(c parquetfile.Column) string {
	name := map[parquetfile.Kind]string{parquetfile.String: "string", parquetfile.Int32: "int32", parquetfile.Int64: "int64"}[c.Kind]
	if c.Optional {
		name += ", nullable"
	}
	return name
}
