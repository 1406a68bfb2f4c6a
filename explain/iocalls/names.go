package iocalls

import (
	"cmp"
	"fmt"
	"maps"
	"net/netip"
	"path/filepath"
	"slices"
	"sort"
	"strconv"
	"strings"

	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/reader/calls"
)

// descriptor identifies a file descriptor of a process.
type descriptor struct {
	file, process int32
	fd            int32
}

// naming is a moment at which a descriptor was first used.
type naming struct {
	tsc  uint64
	name string
	pipe uint64 // inode; 0 for none
	end  reader.PipeEnd
}

// Names says which file or socket each descriptor refers to at any time. It is an analysis that
// needs only events.
type Names struct {
	of    map[descriptor][]naming
	bytes int64 // of the names and their lists
}

// Memory implements [calls.MemoryUser].
func (n *Names) Memory() int64 {
	const perDescriptor = 96
	return perDescriptor*int64(len(n.of)) + n.bytes
}

// NewNames returns Names without descriptors.
func NewNames() *Names { return &Names{of: make(map[descriptor][]naming)} }

// Calls implements calls.Sink.
func (n *Names) Calls(b *calls.Batch) error {
	for i := range b.Events {
		e := &b.Events[i]
		if e.Kind != reader.Custom {
			continue
		}
		if d, ok := reader.ParseDescriptor(e.Data); ok {
			k := descriptor{b.Thread.File, b.Thread.Process, d.FD}
			name := naming{e.TSC, d.String(), d.Pipe(), d.End}
			n.of[k] = append(n.of[k], name)
			n.bytes += 64 + int64(len(name.name))
		}
	}
	return nil
}

// Merge implements calls.Analysis.
func (n *Names) Merge(o *Names) {
	for k, list := range o.of {
		n.of[k] = append(n.of[k], list...)
	}
	n.bytes += o.bytes
}

// Settle ends the collection. Call it before passing Names to [New]. Sockets to many ports of a host
// that the system chose get one name. recording returns the recording of a file, or nil: with it, pipes are named by the
// processes that have the other end. It may be nil.
func (n *Names) Settle(recording func(file int) *reader.Recording) {
	n.groupPorts()
	if recording != nil {
		n.namePipes(recording)
	}
	for _, list := range n.of {
		slices.SortFunc(list, func(a, b naming) int { return cmp.Or(cmp.Compare(a.tsc, b.tsc), cmp.Compare(a.name, b.name)) })
	}
}

// namePipes names pipes by the processes that have the other end: those that use it in the trace, and those that xray
// record saw.
func (n *Names) namePipes(recording func(file int) *reader.Recording) {
	type holder struct{ file, process int32 }
	type end struct {
		pipe uint64
		end  reader.PipeEnd
	}
	used := make(map[end]map[holder]bool)
	for k, list := range n.of {
		for _, l := range list {
			if l.end == reader.NoEnd || l.pipe == 0 {
				continue
			}
			e := end{l.pipe, l.end}
			if used[e] == nil {
				used[e] = make(map[holder]bool)
			}
			used[e][holder{k.file, k.process}] = true
		}
	}
	for k, list := range n.of {
		own := recording(int(k.file))
		for i := range list {
			l := &list[i]
			if l.end == reader.NoEnd || l.pipe == 0 {
				continue
			}
			others := make(map[int32]string)
			if own != nil {
				for _, o := range own.Process.Ends {
					if o.Inode == l.pipe && o.Write == (l.end == reader.ReadEnd) {
						others[o.PID] = o.Name
					}
				}
			}
			for h := range used[end{l.pipe, reader.ReadEnd + reader.WriteEnd - l.end}] {
				r := recording(int(h.file))
				switch {
				case h.process == k.process && h.file == k.file: // perhaps to close it
				case own == nil || r == nil || own.Process.Session == 0 || own.Process.Session != r.Process.Session:
					// Perhaps of another machine or another time.
				case others[h.process] == "":
					others[h.process] = filepath.Base(r.Process.Exe)
				}
			}
			if len(others) == 0 && used[end{l.pipe, reader.ReadEnd + reader.WriteEnd - l.end}][holder{k.file, k.process}] {
				others[k.process] = "itself"
			}
			l.name = pipeName(l.end, others)
		}
	}
}

// pipeName names a pipe by the processes with the other end, by ID.
func pipeName(end reader.PipeEnd, others map[int32]string) string {
	const most = 2
	var list []string
	for _, pid := range slices.Sorted(maps.Keys(others)) {
		list = append(list, fmt.Sprintf("%s, process %d", others[pid], pid))
	}
	switch {
	case len(list) == 0:
		return "pipe"
	case len(list) > most:
		list = []string{fmt.Sprintf("%d processes", len(list))}
	}
	to := map[reader.PipeEnd]string{reader.ReadEnd: "from", reader.WriteEnd: "to"}[end]
	return fmt.Sprintf("pipe %s %s", to, strings.Join(list, " and "))
}

// firstEphemeral is the first port that Linux chooses for a connection by default, and manyPorts how
// many of them of a host get one name.
const firstEphemeral, manyPorts = 32768, 4

// groupPorts gives sockets to ephemeral ports of a host one name if there are many. A server sees a
// new port with each connection.
func (n *Names) groupPorts() {
	const prefix = "socket to "
	host := func(name string) (netip.Addr, bool) {
		address, ok := strings.CutPrefix(name, prefix)
		peer, err := netip.ParseAddrPort(address)
		return peer.Addr(), ok && err == nil && peer.Port() >= firstEphemeral
	}
	ports := make(map[netip.Addr]map[string]bool)
	for _, list := range n.of {
		for _, l := range list {
			if h, ok := host(l.name); ok {
				if ports[h] == nil {
					ports[h] = make(map[string]bool)
				}
				ports[h][l.name] = true
			}
		}
	}
	for _, list := range n.of {
		for i := range list {
			if h, ok := host(list[i].name); ok && len(ports[h]) >= manyPorts {
				list[i].name = prefix + h.String() + ", any port"
			}
		}
	}
}

// Used is the use of a descriptor by a call.
type Used struct {
	file, process int32
	fd            int32  // -1 for none
	tsc           uint64 // when the call began, or if it opened the descriptor, when it returned
	opened        bool
}

// UsedBy returns the descriptor that call i of a batch uses, by its role and its result, if that is known. It returns false for a
// function of the program with the name of one of the C library.
func UsedBy(b *calls.Batch, i int, role Role, result int64, known bool) (u Used, ok bool) {
	c := &b.Calls[i]
	u = Used{file: b.Thread.File, process: b.Thread.Process, fd: -1, tsc: c.Start, opened: role == Open}
	switch args := b.ArgsOf(i); {
	case role == Open && !known:
		return u, c.End > calls.TailExited
	case role == Open && result >= 0:
		u.fd, u.tsc = int32(result), c.Start+c.Duration
	case role == Open:
	case len(args) == 0:
		return u, false
	default:
		u.fd = int32(args[0].Value)
	}
	return u, true
}

// At returns the same use at a time, in ticks. Uses of a descriptor at one time are equal.
func (u Used) At(tsc uint64) Used {
	u.tsc = tsc
	return u
}

// Of returns the name of what a call uses: from the last event before it, or if it opened the descriptor, from the
// first one afterwards.
func (n *Names) Of(u Used) string {
	if u.opened && u.fd < 0 {
		return "(not opened)"
	}
	list := n.of[descriptor{u.file, u.process, u.fd}]
	i := sort.Search(len(list), func(i int) bool { return list[i].tsc > u.tsc || u.opened && list[i].tsc == u.tsc })
	if !u.opened {
		i--
	}
	if i >= 0 && i < len(list) {
		return list[i].name
	}
	return "descriptor " + strconv.Itoa(int(u.fd))
}
