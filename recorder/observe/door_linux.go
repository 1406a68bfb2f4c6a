package observe

import (
	"context"
	"errors"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/xray-tools/xray/recorder/ring"
)

// door lets visitors in, side by side. Any user can connect to the observer's socket. So the door reads
// one short packet from a visitor, and nobody waits for a visitor who sends none.
type door struct {
	welcome func(v *visitor, packet []byte) error // serves a visitor who has sent a packet

	mu     sync.Mutex
	silent []*visitor // have sent nothing yet, the oldest first
}

// visitor is a process that has connected.
type visitor struct {
	conn *os.File
	unix.Ucred
	handle int // a pidfd
}

const (
	// visitorPatience is how long a visitor may be silent.
	visitorPatience = 2 * time.Second
	// maxSilent limits the silent visitors of each user. The oldest one must leave for another.
	maxSilent = 64
	// maxPacket is more than the longest first packet.
	maxPacket = ring.QuestionSize + 1
)

// run accepts visitors until ctx ends. It closes the socket.
func (d *door) run(ctx context.Context, fd int, problem func(error)) error {
	socket := os.NewFile(uintptr(fd), "socket")
	raw, err := socket.SyscallConn()
	if err != nil {
		return errors.Join(err, socket.Close())
	}
	defer context.AfterFunc(ctx, func() { _ = socket.SetReadDeadline(time.Now()) })()
	var visits sync.WaitGroup
	defer visits.Wait()
	for ctx.Err() == nil {
		fd := -1
		if err = raw.Read(func(socket uintptr) bool {
			fd, _, err = unix.Accept4(int(socket), unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK)
			return err != unix.EAGAIN
		}); err != nil && ctx.Err() == nil {
			return errors.Join(err, socket.Close())
		}
		if fd < 0 {
			time.Sleep(time.Millisecond) // accept failed, for example for lack of descriptors
			continue
		}
		v, err := newVisitor(fd)
		if err != nil {
			continue // it has ended
		}
		d.let(v)
		visits.Go(func() {
			if err := d.receive(v); err != nil {
				problem(err)
			}
		})
	}
	return socket.Close()
}

func newVisitor(fd int) (*visitor, error) {
	peer, err := unix.GetsockoptUcred(fd, unix.SOL_SOCKET, unix.SO_PEERCRED)
	handle := -1
	if err == nil {
		handle, err = peerHandle(fd, peer)
	}
	if err != nil {
		unix.Close(fd)
		return nil, err
	}
	return &visitor{conn: os.NewFile(uintptr(fd), "visitor"), Ucred: *peer, handle: handle}, nil
}

// peerHandle returns a pidfd of the process at the other end.
func peerHandle(fd int, peer *unix.Ucred) (int, error) {
	handle, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_PEERPIDFD)
	if errors.Is(err, unix.ENOPROTOOPT) { // before Linux 6.5
		return unix.PidfdOpen(int(peer.Pid), 0)
	}
	return handle, err
}

func (v *visitor) close() {
	v.conn.Close()
	unix.Close(v.handle)
}

// let adds a visitor to the silent ones. If its user has too many, the oldest of these must leave.
func (d *door) let(v *visitor) {
	d.mu.Lock()
	defer d.mu.Unlock()
	oldest, n := -1, 0
	for i, other := range d.silent {
		if other.Uid == v.Uid {
			if n++; oldest < 0 {
				oldest = i
			}
		}
	}
	if n >= maxSilent {
		_ = d.silent[oldest].conn.SetReadDeadline(time.Now())
		d.silent = append(d.silent[:oldest], d.silent[oldest+1:]...)
	}
	_ = v.conn.SetDeadline(time.Now().Add(visitorPatience))
	d.silent = append(d.silent, v)
}

// receive waits for the packet of a visitor and serves it.
func (d *door) receive(v *visitor) error {
	defer v.close()
	packet, n := make([]byte, maxPacket), 0
	raw, err := v.conn.SyscallConn()
	if err == nil {
		err = raw.Read(func(fd uintptr) bool {
			var received error
			n, _, received = unix.Recvfrom(int(fd), packet, 0)
			return received != unix.EAGAIN
		})
	}
	d.mu.Lock()
	for i, other := range d.silent {
		if other == v {
			d.silent = append(d.silent[:i], d.silent[i+1:]...)
			break
		}
	}
	d.mu.Unlock()
	if err != nil || n <= 0 {
		return nil
	}
	return d.welcome(v, packet[:n])
}

// send answers a visitor, with a file unless fd is -1.
func (v *visitor) send(answer []byte, fd int) error {
	var rights []byte
	if fd >= 0 {
		rights = unix.UnixRights(fd)
	}
	raw, err := v.conn.SyscallConn()
	if err != nil {
		return err
	}
	if controlErr := raw.Control(func(conn uintptr) {
		err = unix.Sendmsg(int(conn), answer, rights, nil, unix.MSG_NOSIGNAL|unix.MSG_DONTWAIT)
	}); controlErr != nil {
		return controlErr
	}
	return err
}

// isOwner reports whether a user is that of this process or root.
func isOwner(uid uint32) bool { return uid == 0 || int(uid) == os.Geteuid() }
