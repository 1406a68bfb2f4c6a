package session

import (
	"cmp"
	"slices"
	"strings"
	"unicode"

	"github.com/xray-tools/xray/internal/label"
)

// maxNearest is the maximum number of names to suggest for one that does not exist.
const maxNearest = 3

// nearest returns the names that are most like a regular expression that matched none, for
// one that was mistyped. Names are without parameters. Those of which more than a third differs are not.
func nearest(expression string, names map[string]bool) []string {
	want := plain(expression)
	if want == "" {
		return nil
	}
	distances := make(map[string]int)
	for name := range names {
		d := label.Distance(want, plain(name))
		if at := strings.LastIndex(name, "::"); at >= 0 {
			d = min(d, label.Distance(want, plain(name[at:])))
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
