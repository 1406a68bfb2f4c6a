// Package iocalls analyzes the C library's I/O calls: which files and sockets a program used,
// how many bytes it read and wrote, how long that took, and which call paths did it.
//
// The recorder records these calls with the descriptor and the result, and records which file
// or socket a descriptor refers to before the call that first uses it. [NewNames] collects these events in a
// first pass, and [New] the calls in a second one.
package iocalls

import (
	"cmp"
	"slices"

	"github.com/xray-tools/xray/internal/quantile"
	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/reader/calls"
)

// Role is what a function does.
type Role uint8

const (
	None  Role = iota
	Read       // the result is bytes read from the descriptor
	Write      // the result is bytes written to the descriptor
	Use        // other uses of the descriptor: sync, close, connect and the like
	Open       // the result is a new descriptor
	Wait       // waits for events or connections
)

// roles are the functions of the C library that the recorder knows, by name.
var roles = map[string]Role{
	"read": Read, "pread": Read, "pread64": Read, "readv": Read, "preadv": Read, "preadv64": Read, "preadv2": Read, "preadv64v2": Read,
	"recv": Read, "recvfrom": Read, "recvmsg": Read,
	"__read_chk": Read, "__pread_chk": Read, "__pread64_chk": Read, "__recv_chk": Read, "__recvfrom_chk": Read,
	"splice": Read, "tee": Read, "copy_file_range": Read,
	"write": Write, "pwrite": Write, "pwrite64": Write, "writev": Write, "pwritev": Write, "pwritev64": Write, "pwritev2": Write, "pwritev64v2": Write,
	"send": Write, "sendto": Write, "sendmsg": Write, "sendfile": Write, "sendfile64": Write, "vmsplice": Write,
	"sendmmsg": Use, "recvmmsg": Use,
	"fsync": Use, "fdatasync": Use, "syncfs": Use, "sync_file_range": Use, "ftruncate": Use, "ftruncate64": Use,
	"fallocate": Use, "fallocate64": Use, "posix_fallocate": Use, "posix_fallocate64": Use, "flock": Use, "shutdown": Use,
	"close": Use, "fclose": Use, "connect": Use, "dup": Use, "dup2": Use, "dup3": Use,
	"open": Open, "open64": Open, "openat": Open, "openat64": Open, "creat": Open, "creat64": Open, "socket": Open,
	"__open_2": Open, "__open64_2": Open, "__openat_2": Open, "__openat64_2": Open,
	"poll": Wait, "ppoll": Wait, "__poll_chk": Wait, "__ppoll_chk": Wait, "select": Wait, "pselect": Wait,
	"epoll_wait": Wait, "epoll_pwait": Wait, "epoll_pwait2": Wait, "accept": Wait, "accept4": Wait,
}

// RoleOf returns the role of a function of the C library, by name, or None for other functions.
func RoleOf(name string) Role { return roles[name] }

// Options of an [Analysis].
type Options struct {
	// Role is what a function does. It may be called concurrently.
	Role func(reader.FuncID) Role
	// Names are the files and sockets of descriptors, from a first pass.
	Names *Names
	// OffCPU divides times into running, blocked and queued. It needs calls.Options.OffCPU.
	OffCPU bool
}

// sums adds up some calls.
type sums struct {
	count, failed, open uint64
	read, written       uint64
	times               quantile.Sample
	ticks, longest      uint64
	off                 calls.Off // of ticks
	errors              Errors    // of failed
}

func (s *sums) add(c *calls.Call, off calls.Off, role Role, result int64, known bool) {
	s.off.Add(off)
	if c.Partial() {
		s.open++
	} else {
		s.count++
		s.times.Add(c.Duration)
	}
	s.ticks += c.Duration
	s.longest = max(s.longest, c.Duration)
	switch {
	case !known:
	case result < 0:
		s.failed++
		s.errors.Add(result)
	case role == Read:
		s.read += uint64(result)
	case role == Write:
		s.written += uint64(result)
	}
}

func (s *sums) merge(o *sums) {
	s.count, s.failed, s.open = s.count+o.count, s.failed+o.failed, s.open+o.open
	s.read, s.written = s.read+o.read, s.written+o.written
	s.times.Merge(&o.times)
	s.ticks += o.ticks
	s.longest = max(s.longest, o.longest)
	s.off.Add(o.off)
	s.errors.Merge(o.errors)
}

// several stands for the file name of a path that uses several files.
const several = "(several)"

// path has the calls of a call path that ends with a function of the C library.
type path struct {
	sums
	frames []reader.FuncID // without that function
	fn     reader.FuncID
	role   Role
	file   string
}

// file has the calls for a file or socket.
type file struct {
	sums
	name string
}

// Analysis adds up the calls. It needs calls.Options.Paths.
type Analysis struct {
	opts  Options
	roles map[reader.FuncID]Role
	paths map[calls.PathID]*path
	files map[string]*file
	// merged are the paths of other shards, by their frames.
	merged []*path
	frames int64 // of all paths
}

// Memory implements [calls.MemoryUser]. It counts paths, because each has a list of its frames.
func (a *Analysis) Memory() int64 {
	const perPath, perFile, perFrame = 1200, 1000, 4
	return perPath*int64(len(a.paths)+len(a.merged)) + perFile*int64(len(a.files)) + perFrame*a.frames
}

// New returns an analysis.
func New(opts Options) *Analysis {
	return &Analysis{
		opts: opts, roles: make(map[reader.FuncID]Role), paths: make(map[calls.PathID]*path), files: make(map[string]*file),
	}
}

func (a *Analysis) role(fn reader.FuncID) Role {
	r, ok := a.roles[fn]
	if !ok {
		r = a.opts.Role(fn)
		a.roles[fn] = r
	}
	return r
}

// Calls implements calls.Sink.
func (a *Analysis) Calls(b *calls.Batch) error {
	results, waits := b.Results, b.Waits
	for i := range b.Calls {
		c := &b.Calls[i]
		result, known := int64(0), false
		for ; len(results) > 0 && results[0].Call <= i; results = results[1:] {
			result, known = int64(results[0].Value), results[0].Call == i
		}
		var off calls.Off
		if len(waits) > 0 && waits[0].Call == i {
			off, waits = waits[0].Total, waits[1:]
		}
		if role := a.role(c.Func); role != None {
			a.add(b, i, off, role, result, known)
		}
	}
	return nil
}

// add adds call i of a batch.
func (a *Analysis) add(b *calls.Batch, i int, off calls.Off, role Role, result int64, known bool) {
	c := &b.Calls[i]
	use, ok := UsedBy(b, i, role, result, known)
	if !ok {
		return
	}
	name := ""
	if role != Wait {
		name = a.opts.Names.Of(use)
	}
	p := a.paths[c.Path]
	if p == nil {
		p = &path{fn: c.Func, role: role, file: name, frames: b.Paths.Frames(nil, b.Paths.Parent(c.Path))}
		a.paths[c.Path] = p
		a.frames += int64(len(p.frames))
	}
	if p.file != name {
		p.file = several
	}
	p.sums.add(c, off, role, result, known)
	if role == Wait {
		return
	}
	f := a.files[name]
	if f == nil {
		f = &file{name: name}
		a.files[name] = f
	}
	f.sums.add(c, off, role, result, known)
}

// Merge implements calls.Analysis.
func (a *Analysis) Merge(o *Analysis) {
	for name, f := range o.files {
		if mine := a.files[name]; mine != nil {
			mine.merge(&f.sums)
		} else {
			a.files[name] = f
		}
	}
	for _, p := range o.paths {
		a.merged = append(a.merged, p)
	}
	a.merged = append(a.merged, o.merged...)
}

// all returns the paths of all shards. Equal paths are added up.
func (a *Analysis) all() []*path {
	list := a.merged
	for _, p := range a.paths {
		list = append(list, p)
	}
	slices.SortFunc(list, func(p, q *path) int {
		return cmp.Or(slices.Compare(p.frames, q.frames), cmp.Compare(p.fn, q.fn), cmp.Compare(p.file, q.file))
	})
	n := 0
	for _, p := range list {
		if n > 0 && list[n-1].fn == p.fn && slices.Equal(list[n-1].frames, p.frames) {
			last := list[n-1]
			if last.file != p.file {
				last.file = several
			}
			last.merge(&p.sums)
			continue
		}
		list[n] = p
		n++
	}
	return list[:n]
}
