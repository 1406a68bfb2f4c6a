package sql

import (
	"strings"
	"testing"
)

// What a query may take has limits: texts, aggregates, regular expressions, quantiles.
func TestMemory(t *testing.T) {
	opts, _ := openTrace(t, "kvserver", "kvserver-fdr.xray")
	db := openDB(t, opts)
	const numbers = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 300) "
	for query, want := range map[string]string{
		"SELECT " + strings.Repeat("json_group_array(printf('%.*c', 40000000, 'x')), ", 9) + "1": "more than 256 MB of memory",
		numbers + "SELECT 'a' REGEXP hex(zeroblob(100000 + i)) FROM n":                           "is too large",
		numbers + "SELECT 'a' REGEXP printf('(%s){1000}', hex(zeroblob(100))) || i FROM n":       "is too large",
		"SELECT count(*) FROM calls WHERE function REGEXP '(' || hex(zeroblob(100)) || '){900}'": "is too large",
		numbers + "SELECT quantile(i + 0.5, 0.5) FROM n":                                         "",
	} {
		rows, err := db.Query(t.Context(), query)
		if err == nil {
			for row := []any{1}; row != nil && err == nil; {
				row, err = rows.Next()
			}
			rows.Close()
		}
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got error %v, want %q", query, err, want)
		}
	}
	// Many expressions, none of which is too large, are not all kept.
	rows, err := db.Query(t.Context(), numbers+"SELECT sum('a' REGEXP printf('(%s){50}', hex(zeroblob(100))) || i) FROM n")
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	if _, err := rows.Next(); err != nil || db.expressions.size > mostPatterns || db.others != 0 {
		t.Errorf("expressions of size %d are kept, %d values, error %v", db.expressions.size, db.others, err)
	}
}
