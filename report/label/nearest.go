package label

import (
	"cmp"
	"slices"
	"strings"
	"unicode"
)

// maxNearest is the maximum number of names to suggest for one that does not exist.
const maxNearest = 3

// Nearest suggests names for a mistyped regular expression that matched none: those most similar to
// it. Names have no parameters. A name that differs by more than a third is not suggested.
func Nearest(expression string, names map[string]bool) []string {
	want := plain(expression)
	if want == "" {
		return nil
	}
	distances := make(map[string]int)
	for name := range names {
		d := Distance(want, plain(name))
		if at := strings.LastIndex(name, "::"); at >= 0 {
			d = min(d, Distance(want, plain(name[at:])))
		}
		if 3*d <= len(want) {
			distances[name] = d
		}
	}
	list := make([]string, 0, len(distances))
	for name := range distances {
		list = append(list, name)
	}
	slices.SortFunc(list, func(a, b string) int { return cmp.Or(cmp.Compare(distances[a], distances[b]), cmp.Compare(a, b)) })
	return list[:min(len(list), maxNearest)]
}

// plain returns the letters and digits of a name or an expression, in lower case.
func plain(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsLetter(r) || unicode.IsDigit(r) {
			return unicode.ToLower(r)
		}
		return -1
	}, text)
}
