//go:build !linux

package build

import (
	"context"
	"errors"
)

func lockFolder(context.Context, string) (unlock func(), err error) { return func() {}, nil }

func ownAlone(string) (release func(), err error) { return nil, errors.ErrUnsupported }
