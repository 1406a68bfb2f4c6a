package recorder

import (
	"fmt"
	"os"

	"github.com/xray-tools/xray/recorder/attach"
)

// findRoot finds the root of the runtime that records a process, in its /proc/PID/mem. It also returns
// its address. A copy that a child has from its parent, or shares with it, is not found.
func findRoot(mem *os.File, p *Process) (*image, uint64, *runtimeRoot, error) {
	ranges, err := attach.WritableMemory(p.PID)
	if err != nil {
		return nil, 0, nil, err
	}
	inner, err := innerPID(p.PID)
	if err != nil {
		return nil, 0, nil, err
	}
	writable := &image{name: p.String(), in: mem, size: userSpace}
	for _, r := range ranges {
		if r[1] <= userSpace {
			writable.segments = append(writable.segments, segment{address: r[0], memory: r[1] - r[0], offset: r[0], bytes: r[1] - r[0], writable: true})
		}
	}
	// /proc/PID/mem has all of the memory. Unmapped parts cannot be read.
	all := &image{name: p.String(), in: mem, size: userSpace, segments: []segment{{memory: userSpace, bytes: userSpace}}}
	for _, address := range writable.search(rootMagic, maxRoots) {
		if root, err := all.parseRoot(address); err == nil && int(root.pid) == inner && root.nobjects > 0 {
			return all, address, root, nil
		}
	}
	return nil, 0, nil, fmt.Errorf("%s: found no recorder data in its memory", p)
}
