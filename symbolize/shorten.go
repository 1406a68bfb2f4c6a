package symbolize

import "github.com/xray-tools/xray/symbolize/demangle"

// Shorten is [demangle.Short] of a label: names of functions get short, and numbers of
// functions without a name stay.
func Shorten(label string) string { return demangle.Short(label) }
