package graph

import (
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/xray-tools/xray/internal/texttab"
	"github.com/xray-tools/xray/reader"
)

// cut shortens a name to at most limit bytes and marks it. It does not split characters.
func cut(name string, limit int) string {
	if limit < 0 || len(name) <= limit {
		return name
	}
	for limit > 0 && !utf8.RuneStart(name[limit]) {
		limit--
	}
	return name[:limit] + "..."
}

var (
	// Graphviz takes XML entities in every label, and backslash escapes.
	labelEscapes = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", `"`, `\"`, `\`, `\\`)
	// Labels of records have additional special characters.
	recordEscapes = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", `"`, `\"`, `\`, `\\`,
		"{", `\{`, "}", `\}`, "|", `\|`)
)

// quoted escapes a name for a quoted label or tooltip of any shape except record.
func quoted(name string) string { return labelEscapes.Replace(texttab.Printable(name)) }

// record escapes a name for a quoted label of a record.
func record(name string) string { return recordEscapes.Replace(texttab.Printable(name)) }

// node returns the DOT identifier of a function. IDs of shared objects may be negative and
// need quotes.
func node(id reader.FuncID) string {
	s := "F" + strconv.Itoa(int(id))
	if id < 0 {
		return `"` + s + `"`
	}
	return s
}
