package summary

import (
	"encoding/json"
	"errors"
	"fmt"
)

// NoLabels are the Labels of a key without labels.
const NoLabels = "{}"

// The units of a key.
const (
	Nanoseconds = "ns"
	Ticks       = "ticks"
)

var errUnits = errors.New("some summaries have times in ns and others in ticks, because their traces do not state the clock frequency: " +
	"analyze them separately")

// Labels returns the Labels of a key.
func Labels(labels map[string]string) string {
	if len(labels) == 0 {
		return NoLabels
	}
	text, err := json.Marshal(labels) // in the order of the keys
	if err != nil {
		panic(fmt.Sprintf("summary: labels are not JSON: %v", err)) // strings always are
	}
	return string(text)
}
