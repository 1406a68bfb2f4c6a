package symbolize

import (
	"testing"

	"github.com/xray-tools/xray/internal/test/elftest"
)

func TestMain(m *testing.M) { elftest.Main(m) }

func load(t testing.TB, path string) *Table {
	t.Helper()
	table, err := Load(path, Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { table.Close() })
	return table
}
