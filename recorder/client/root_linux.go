package client

import (
	"fmt"
	"os"

	"github.com/xray-tools/xray/recorder/attach"
	"github.com/xray-tools/xray/recorder/proc"
	"github.com/xray-tools/xray/recorder/ring"
)

// FindRoot finds the root of the runtime that records a process, in its /proc/PID/mem. It also returns
// its address. A copy that a child has from its parent, or shares with it, is not found.
func FindRoot(mem *os.File, p *Process) (*ring.Image, uint64, *ring.Root, error) {
	ranges, err := attach.WritableMemory(p.PID)
	if err != nil {
		return nil, 0, nil, err
	}
	inner, err := proc.InnerPID(p.PID)
	if err != nil {
		return nil, 0, nil, err
	}
	writable := &ring.Image{Name: p.String(), In: mem, Size: ring.UserSpace}
	for _, r := range ranges {
		if r[1] <= ring.UserSpace {
			writable.Segments = append(writable.Segments, ring.Segment{Address: r[0], Memory: r[1] - r[0], Offset: r[0], Bytes: r[1] - r[0], Writable: true})
		}
	}
	// /proc/PID/mem has all of the memory. Unmapped parts cannot be read.
	all := &ring.Image{Name: p.String(), In: mem, Size: ring.UserSpace, Segments: []ring.Segment{{Memory: ring.UserSpace, Bytes: ring.UserSpace}}}
	for _, address := range writable.Search(ring.RootMagic, ring.MaxRoots) {
		if root, err := all.ParseRoot(address); err == nil && int(root.PID) == inner && root.Nobjects > 0 {
			return all, address, root, nil
		}
	}
	return nil, 0, nil, fmt.Errorf("%s: found no recorder data in its memory", p)
}
