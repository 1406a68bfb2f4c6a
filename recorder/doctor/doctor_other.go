//go:build !linux || !amd64

package doctor

import (
	"context"
	"errors"

	"github.com/xray-tools/xray/recorder"
)

// Machine says that nothing can be recorded here.
func Machine(context.Context) []Check {
	c := &checks{subject: "machine"}
	c.missing("system", "record on Linux, and analyze the traces here", "%v", recorder.Supported())
	return c.list
}

// Process fails.
func Process(context.Context, int) ([]Check, error) {
	return nil, errors.New("processes can be looked at on Linux only")
}
