package observe

import (
	"cmp"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/xray-tools/xray/reader"
)

// pipes finds which processes have the other ends of a process's pipes.
type pipes struct {
	next  time.Time
	every time.Duration
	found map[reader.OtherEnd]bool
	known map[uint64]bool // inodes of pipes whose other ends were found
}

const (
	// Pipes are examined first after pipesFirst, and then after twice the time, up to pipesMost.
	pipesFirst, pipesMost = 50 * time.Millisecond, 10 * time.Second
	// maxPipeLinks limits the descriptors that are examined at a time, and maxOtherEnds what is kept.
	maxPipeLinks, maxOtherEnds = 16384, 256
)

// sample examines the pipes of a process if it is time to do so. root is where the system's files are, "/".
func (p *pipes) sample(root string, pid int) {
	now := time.Now()
	if p.every == 0 {
		p.every, p.next = pipesFirst, now.Add(pipesFirst)
	}
	if now.Before(p.next) {
		return
	}
	p.every = min(2*p.every, pipesMost)
	p.next = now.Add(p.every)
	p.read(root, pid)
}

// read examines the pipes of a process now. It looks at other processes only if some pipe is new.
func (p *pipes) read(root string, pid int) {
	proc := filepath.Join(root, "proc")
	left := maxPipeLinks
	wanted := make(map[uint64]reader.PipeEnd) // the other ends
	eachPipe(filepath.Join(proc, strconv.Itoa(pid)), &left, func(inode uint64, end reader.PipeEnd) {
		if !p.known[inode] {
			wanted[inode] = reader.ReadEnd + reader.WriteEnd - end
		}
	})
	if len(wanted) == 0 {
		return
	}
	list, err := os.ReadDir(proc)
	if err != nil {
		return
	}
	for _, entry := range list {
		other, err := strconv.Atoi(entry.Name())
		if err != nil || other == pid {
			continue
		}
		dir, name := filepath.Join(proc, entry.Name()), ""
		eachPipe(dir, &left, func(inode uint64, end reader.PipeEnd) {
			if wanted[inode] != end || len(p.found) >= maxOtherEnds {
				return
			}
			if name == "" {
				comm, _ := os.ReadFile(filepath.Join(dir, "comm"))
				name = strings.TrimSpace(string(comm))
			}
			if p.found == nil {
				p.found, p.known = make(map[reader.OtherEnd]bool), make(map[uint64]bool)
			}
			p.found[reader.OtherEnd{Inode: inode, Write: end == reader.WriteEnd, PID: int32(other), Name: name}] = true
			p.known[inode] = true
		})
	}
}

// eachPipe calls f with the pipes of a process, until left descriptors have been examined. dir is that of the process in
// /proc.
func eachPipe(dir string, left *int, f func(inode uint64, end reader.PipeEnd)) {
	files, err := os.Open(filepath.Join(dir, "fd"))
	if err != nil {
		return // not permitted, or it has ended
	}
	defer files.Close()
	names, _ := files.Readdirnames(max(1, *left))
	*left -= len(names)
	for _, name := range names {
		path := filepath.Join(dir, "fd", name)
		link, err := os.Readlink(path)
		inode := reader.PipeInode(link)
		if err != nil || inode == 0 {
			continue
		}
		info, err := os.Lstat(path)
		if err != nil {
			continue
		}
		switch info.Mode() & 0o600 {
		case 0o400:
			f(inode, reader.ReadEnd)
		case 0o200:
			f(inode, reader.WriteEnd)
		}
	}
}

// report returns what was found, in order.
func (p *pipes) report() (list []reader.OtherEnd) {
	for end := range p.found {
		list = append(list, end)
	}
	slices.SortFunc(list, func(a, b reader.OtherEnd) int {
		return cmp.Or(cmp.Compare(a.Inode, b.Inode), cmp.Compare(a.PID, b.PID))
	})
	return list
}
