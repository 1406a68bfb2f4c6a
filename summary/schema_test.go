package summary

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/parquet-go/parquet-go"
)

// docs/summaries.md lists the columns in their order, with their types.
func TestDocumentedSchema(t *testing.T) {
	text, err := os.ReadFile("../docs/summaries.md")
	if err != nil {
		t.Fatal(err)
	}
	var documented []string
	for _, m := range regexp.MustCompile("(?m)^\\| `([a-z_.]+)` \\| ([a-z0-9, ]+) \\|").FindAllStringSubmatch(string(text), -1) {
		documented = append(documented, m[1]+" "+m[2])
	}
	schema := parquet.SchemaOf(row{})
	var columns []string
	for _, f := range schema.Fields() {
		if f.Leaf() {
			columns = append(columns, f.Name()+" "+typeName(f))
			continue
		}
		columns = append(columns, f.Name()+" list of struct")
		for _, part := range f.Fields()[0].Fields()[0].Fields() {
			columns = append(columns, f.Name()+"."+part.Name()+" "+typeName(part))
		}
	}
	if diff := cmp.Diff(documented, columns); diff != "" {
		t.Errorf("(-docs/summaries.md +program):\n%s", diff)
	}
	if version := fmt.Sprintf("The schema has version %d.", Version); !strings.Contains(string(text), version) {
		t.Errorf("docs/summaries.md does not say %q", version)
	}
}

func typeName(f parquet.Field) string {
	name := map[parquet.Kind]string{parquet.ByteArray: "string", parquet.Int32: "int32", parquet.Int64: "int64"}[f.Type().Kind()]
	if f.Optional() {
		name += ", nullable"
	}
	return name
}
