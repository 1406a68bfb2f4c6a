//go:build !linux

package main

import "math"

func addressLimit() uint64 { return math.MaxUint64 }
