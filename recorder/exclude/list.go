package exclude

import (
	"bufio"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"

	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/symbolize"
)

// Form is the format of a list of functions to leave out.
type Form string

const (
	AttrList   Form = "attr-list"       // clang -fxray-attr-list=FILE
	IgnoreList Form = "xray-ignorelist" // clang -fxray-never-instrument=FILE
	GCC        Form = "gcc"             // gcc @FILE, for -finstrument-functions
	Uftrace    Form = "uftrace"         // uftrace record --opt-file=FILE
	Regexp     Form = "regexp"          // xray record --exclude
)

// Forms returns all formats.
func Forms() []string {
	return []string{string(AttrList), string(IgnoreList), string(GCC), string(Uftrace), string(Regexp)}
}

// namer returns the names of functions in the forms that lists need.
type namer struct{ symbolize.Names }

// Skipped is a function that a list does not name, and the reason.
type Skipped struct {
	ID  reader.FuncID
	Why string
}

// WriteList writes the functions to leave out in a format. It returns the functions that
// cannot be listed, for example because their names also match others, or the error of w.
// Names must be full.
func (p *Plan) WriteList(w io.Writer, form Form, names symbolize.Names) ([]Skipped, error) {
	n := namer{names}
	b := bufio.NewWriter(w)
	var skipped []Skipped
	switch form {
	case AttrList, IgnoreList:
		var names []string
		names, skipped = p.choose(n, n.linkage, equal)
		if form == AttrList {
			b.WriteString("[never]\n")
		}
		for _, name := range names {
			// Old versions of clang read $ as the end of a line.
			fmt.Fprintf(b, "fun:%s\n", strings.ReplaceAll(name, "$", `\$`))
		}
	case GCC:
		var names []string
		names, skipped = p.choose(n, n.gcc, strings.Contains)
		if len(names) > 0 {
			for i := range names {
				names[i] = strings.ReplaceAll(names[i], ",", `\,`)
			}
			list := "-finstrument-functions-exclude-function-list=" + strings.Join(names, ",")
			b.WriteString(gccFile.Replace(list) + "\n")
		}
	case Uftrace:
		skipped = p.writeUftrace(b, n)
	case Regexp:
		var names []string
		names, skipped = p.choose(n, n.label, sameLabel)
		for i := range names {
			names[i] = regexp.QuoteMeta(names[i])
		}
		if len(names) > 0 {
			fmt.Fprintf(b, "^(%s)$\n", strings.Join(names, "|"))
		}
	default:
		return nil, fmt.Errorf("unknown list format %q", form)
	}
	return skipped, b.Flush()
}

// gccFile quotes special characters in option files.
var gccFile = strings.NewReplacer(`\`, `\\`, " ", `\ `, "'", `\'`, `"`, `\"`)

func equal(name, excluded string) bool { return name == excluded }

// sameLabel reports whether the recorder's --exclude would also match a name, full or short.
func sameLabel(name, excluded string) bool {
	return name == excluded || symbolize.Shorten(name) == excluded
}

// alsoExcludes says that a list with the name of one function would exclude another one, too.
func (n namer) alsoExcludes(id, stays reader.FuncID) string {
	if label := symbolize.Label(n.Names, stays); label != symbolize.Label(n.Names, id) {
		return "the list would also exclude " + label
	}
	place := symbolize.Location(n.Names, stays)
	if object := symbolize.ObjectName(n.Names, stays); object != symbolize.ObjectName(n.Names, id) {
		place = strings.TrimSuffix(object+", "+place, ", ")
	}
	if place == "" {
		return "the list would also exclude another function of this name"
	}
	return "the list would also exclude the function of this name in " + place
}

// choose returns the names of the functions to leave out, sorted and without duplicates. It
// skips names that would match a function that stays. name returns the name of a function,
// and why it cannot be on the list, or "".
func (p *Plan) choose(n namer, name func(reader.FuncID) (text, why string), hits func(name, excluded string) bool) ([]string, []Skipped) {
	type kept struct {
		id   reader.FuncID
		text string
	}
	var stay []kept
	for _, id := range p.Remaining {
		if text, _ := name(id); text != "" {
			stay = append(stay, kept{id, text})
		}
	}
	var names []string
	var skipped []Skipped
	for i := range p.Functions {
		id := p.Functions[i].ID
		text, why := name(id)
		if why == "" {
			if at := slices.IndexFunc(stay, func(s kept) bool { return hits(s.text, text) }); at >= 0 {
				why = n.alsoExcludes(id, stay[at].id)
			}
		}
		if why != "" {
			skipped = append(skipped, Skipped{id, why})
			continue
		}
		names = append(names, text)
	}
	slices.Sort(names)
	return slices.Compact(names), skipped
}

// label returns the name of a function in reports.
func (n namer) label(id reader.FuncID) (text, why string) {
	return symbolize.Label(n.Names, id), ""
}

// linkage returns the linkage name of a function. Maps without symbols have only source
// names, which are equal to linkage names in C.
func (n namer) linkage(id reader.FuncID) (text, why string) {
	var s symbolize.Symbol
	if n.Names != nil {
		s, _ = n.Names.Func(id)
	}
	switch {
	case s.Linkage != "":
		return s.Linkage, ""
	case s.Name == "":
		return "", "its name is unknown"
	case strings.ContainsAny(s.Name, "(:<~ "):
		return "", "its linkage name is unknown: pass the binary with -m"
	}
	return s.Name, ""
}

// gcc returns the name of a function as gcc prints it: without parameters.
func (n namer) gcc(id reader.FuncID) (text, why string) {
	if n.Names == nil {
		return "", "its name is unknown"
	}
	s, _ := n.Names.Func(id)
	switch {
	case s.Name == "":
		return "", "its name is unknown"
	case strings.ContainsAny(s.Name, "<$'"):
		return symbolize.Shorten(s.Name), "GCC names templates and lambdas differently"
	}
	return symbolize.Shorten(s.Name), ""
}

// writeUftrace writes options for uftrace, which takes mangled names, but compares them
// without parameters and template arguments.
func (p *Plan) writeUftrace(w io.Writer, n namer) []Skipped {
	linkages := make(map[string][]string) // by the name that uftrace compares
	leaves := make(map[reader.FuncID]bool)
	for i := range p.Functions {
		leaves[p.Functions[i].ID] = p.Functions[i].Leaf
	}
	simple := func(id reader.FuncID) (text, why string) {
		text = symbolize.Shorten(symbolize.Label(n.Names, id))
		linkage, why := n.linkage(id)
		leaf, excluded := leaves[id]
		switch {
		case why != "":
		case strings.ContainsAny(linkage, ".$"):
			why = "uftrace would read its name as a regular expression"
		case excluded && !leaf:
			why = "uftrace would also leave out its callees"
		case excluded:
			linkages[text] = append(linkages[text], linkage)
		}
		return text, why
	}
	names, skipped := p.choose(n, simple, equal)
	var lines []string
	for _, name := range names {
		for _, linkage := range linkages[name] {
			lines = append(lines, "-N "+linkage+"\n")
		}
	}
	slices.Sort(lines)
	for _, line := range lines {
		io.WriteString(w, line)
	}
	return skipped
}
