// Package clock is the clock of package reader, under the name that analyses know
// it by.
package clock

import "github.com/xray-tools/xray/reader"

// Clock is [reader.Clock].
type Clock = reader.Clock
