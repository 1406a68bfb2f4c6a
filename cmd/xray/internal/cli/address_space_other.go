//go:build !linux

package cli

import "math"

func addressLimit() uint64 { return math.MaxUint64 }
