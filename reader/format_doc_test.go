package reader_test

import (
	"cmp"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/xray-tools/xray/reader"
)

// The tables in docs/dev/format.md match those that the decoder uses.
func TestFormatDocument(t *testing.T) {
	data, err := os.ReadFile("../docs/dev/format.md")
	if err != nil {
		t.Fatal(err)
	}
	doc := string(data)
	for _, table := range []string{
		fixedTable(reader.BasicFunction.Spec()), fixedTable(reader.BasicArgument.Spec()), bitsTable(reader.Function.Spec()), metadataTable(),
	} {
		if !strings.Contains(doc, "\n\n"+table+"\n") {
			t.Errorf("docs/dev/format.md lacks this table:\n%s", table)
		}
	}
	rows := 0
	for kind := range reader.MetadataKind(100) {
		if name := kind.String(); name != fmt.Sprint(uint16(kind)) {
			rows++
			if row := fmt.Sprintf("\n| %d %s | ", kind, name); strings.Count(doc, row) != 1 {
				t.Errorf("docs/dev/format.md must have this row once: %s", row)
			}
		}
	}
	if rows < 16 {
		t.Errorf("got %d kinds of metadata", rows)
	}
}

// sortedFields returns fields in the order of a record's bytes.
func sortedFields(s *reader.RecordSpec) []reader.RecordField {
	return slices.SortedStableFunc(slices.Values(s.Fields), func(a, b reader.RecordField) int {
		return cmp.Or(cmp.Compare(a.Offset, b.Offset), cmp.Compare(a.Shift, b.Shift), cmp.Compare(a.First, b.First))
	})
}

func fieldText(f *reader.RecordField) string {
	text := f.String()
	if f.ID == reader.FieldRecordType {
		text = fmt.Sprintf("%s: %d", text, f.Fixed)
	}
	return text
}

// qualities returns what the table says about a field after its size.
func qualities(f *reader.RecordField, first, last uint16) string {
	var list []string
	if f != nil && f.Signed {
		list = append(list, "signed")
	}
	switch {
	case first != 0 && first == last || last == 1:
		list = append(list, fmt.Sprintf("version %d", last))
	case first != 0:
		list = append(list, fmt.Sprintf("since version %d", first))
	case last != 0:
		list = append(list, fmt.Sprintf("up to version %d", last))
	}
	return strings.Join(list, ", ")
}

// fixedTable returns the table of all bytes of a record.
func fixedTable(s *reader.RecordSpec) string {
	lines := []string{"| offset | size | field |", "|---|---|---|"}
	unused := s.Unused(5)
	skip := func(before int) {
		for len(unused) > 0 && unused[0].From < before {
			lines = append(lines, fmt.Sprintf("| %d | %d | unused |", unused[0].From, unused[0].To-unused[0].From))
			unused = unused[1:]
		}
	}
	for _, f := range sortedFields(s) {
		skip(f.Offset)
		lines = append(lines, strings.TrimSuffix(fmt.Sprintf("| %d | %d | %s, %s", f.Offset, f.Size, fieldText(&f), qualities(&f, f.First, f.Last)), ", ")+" |")
	}
	skip(s.Size)
	return strings.Join(lines, "\n") + "\n"
}

// bitsTable returns the table of a record with bit fields.
func bitsTable(s *reader.RecordSpec) string {
	lines := []string{"| offset | size | bits | field |", "|---|---|---|---|"}
	for _, f := range sortedFields(s) {
		bits := "all"
		if f.Bits != 0 {
			bits = fmt.Sprintf("%d to %d", f.Shift, f.Shift+f.Bits-1)
		}
		lines = append(lines, fmt.Sprintf("| %d | %d | %s | %s |", f.Offset, f.Size, bits, fieldText(&f)))
	}
	return strings.Join(lines, "\n") + "\n"
}

// metadataTable returns the table of an FDR metadata record.
func metadataTable() string {
	lines := []string{"| first byte | kind | text | fields, by offset and size |", "|---|---|---|---|"}
	for k := range reader.Damage {
		s := k.Spec()
		if !s.Metadata() {
			continue
		}
		name := s.Name
		if q := qualities(nil, s.First, s.Last); q != "" {
			name += " (" + q + ")"
		}
		var fields []string
		for _, f := range sortedFields(s) {
			text := fmt.Sprintf("%d: %s, %d", f.Offset, fieldText(&f), f.Size)
			if q := qualities(&f, f.First, f.Last); q != "" {
				text += " (" + q + ")"
			}
			fields = append(fields, text)
		}
		lines = append(lines, fmt.Sprintf("| 0x%02x | %s | `%s` | %s |", reader.MetadataByte(k, nil), name, s.Word, strings.Join(fields, "; ")))
	}
	return strings.Join(lines, "\n") + "\n"
}
