package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/xray-tools/xray/recorder"
	"github.com/xray-tools/xray/recorder/proc"
)

// Process is a process with the runtime. Each command uses its own connection, so several may run
// at once.
type Process struct {
	PID    int // 0 if the path of its socket was given
	socket string
	owner  uint32 // of the socket at a path
	anyone bool   // the listener must be verified
}

// Dial finds the runtime of a process. target is the process ID, or the path of the socket that the
// runtime was told to use.
func Dial(target string) (*Process, error) {
	if strings.Contains(target, "/") {
		info, err := os.Stat(target)
		if err != nil {
			return nil, err
		}
		return &Process{socket: target, owner: info.Sys().(*syscall.Stat_t).Uid}, nil
	}
	pid, err := strconv.Atoi(target)
	if err != nil || pid <= 0 {
		return nil, fmt.Errorf("%q is neither a process ID nor the path of a socket", target)
	}
	socket, err := socketOf(pid)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ESRCH) {
		return nil, fmt.Errorf("process %d does not exist", pid)
	} else if err != nil {
		return nil, fmt.Errorf("process %d: %w", pid, err)
	}
	return &Process{PID: pid, socket: socket}, nil
}

// socketPrefix begins the names of recorders' sockets. The process ID follows.
const socketPrefix = "@xray-recorder-"

// socketOf returns the name under which the recorder of a process usually listens. If that is taken, the
// recorder appends a hyphen and a number: that of its PID namespace, because containers that share a network
// may have processes with the same IDs, or a random one, because any user can take the others.
func socketOf(pid int) (string, error) {
	inner, err := proc.InnerPID(pid)
	return socketPrefix + strconv.Itoa(inner), err
}

// isSocketOf reports whether a recorder that usually listens at one socket may listen at another one.
func isSocketOf(socket, usual string) bool {
	return socket == usual || strings.HasPrefix(socket, usual+"-")
}

// Alive reports whether the process has not ended.
func (p *Process) Alive() bool {
	if p.PID == 0 {
		conn, err := p.connect(context.Background())
		if err == nil {
			conn.Close()
		}
		return err == nil
	}
	fields, err := proc.StatusFields(p.PID)
	state := fields["State"]
	return err == nil && len(state) > 0 && state[0] != "Z" && state[0] != "X"
}

// maxAnswer limits an answer, which is one packet.
const maxAnswer = 256 << 10

// timeout limits a whole command. The longest is a snapshot of all rings to a slow disk.
const timeout = 2 * time.Minute

// Do sends a command to the runtime, with the files that the command needs, and decodes the answer
// into v unless v is nil. It returns the raw answer.
func (p *Process) Do(ctx context.Context, v any, command string, files ...*os.File) ([]byte, error) {
	data, conn, err := p.exchange(ctx, command, files)
	if err == nil {
		conn.Close()
		err = answer(data, v)
	}
	if err != nil {
		return data, fmt.Errorf("%s: %w", p, err)
	}
	return data, nil
}

// Hold starts a recording that the runtime ends when Held is closed, even if this process is killed. The
// command is from [recorder.Settings.StartCommand], and files are those that it needs. Hold also returns the raw
// answer.
func (p *Process) Hold(ctx context.Context, command string, files ...*os.File) ([]byte, *Held, error) {
	data, conn, err := p.exchange(ctx, command+" hold=1", files)
	if err == nil {
		err = errors.Join(answer(data, nil), conn.SetDeadline(time.Time{}))
		if err == nil {
			return data, hold(conn), nil
		}
		conn.Close()
	}
	return data, nil, fmt.Errorf("%s: %w", p, err)
}

// String names the process in messages.
func (p *Process) String() string {
	if p.PID == 0 {
		return p.socket
	}
	return "process " + strconv.Itoa(p.PID)
}

// Target returns what to pass to [Dial] to reach the process again.
func (p *Process) Target() string {
	if p.PID == 0 {
		return p.socket
	}
	return strconv.Itoa(p.PID)
}

// exchange sends a command and returns the answer and the connection.
func (p *Process) exchange(ctx context.Context, command string, files []*os.File) ([]byte, *net.UnixConn, error) {
	conn, err := p.connect(ctx)
	if err != nil {
		return nil, nil, err
	}
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	data, err := converse(conn, command, files, make([]byte, maxAnswer))
	if !stop() && err == nil {
		err = ctx.Err()
	}
	if err != nil {
		conn.Close()
		return nil, nil, err
	}
	return data, conn, nil
}

// converse sends a command with files on a connection, and returns the answer in buf.
func converse(conn *net.UnixConn, command string, files []*os.File, buf []byte) ([]byte, error) {
	if err := conn.SetDeadline(time.Now().Add(timeout)); err != nil {
		return nil, err
	}
	var rights []byte
	if len(files) > 0 {
		fds := make([]int, len(files))
		for i, f := range files {
			fds[i] = int(f.Fd())
		}
		rights = unix.UnixRights(fds...)
	}
	// A recorder that refuses this user may already have answered and closed the connection.
	if _, _, err := conn.WriteMsgUnix([]byte(command), rights, nil); err != nil && !errors.Is(err, syscall.EPIPE) {
		return nil, gone(err)
	}
	n, flags, err := readPacket(conn, buf)
	switch {
	case err != nil:
		return nil, gone(err)
	case flags&unix.MSG_TRUNC != 0:
		return nil, fmt.Errorf("the recorder's response is longer than %d bytes", len(buf))
	}
	return buf[:n], nil
}

// readPacket reads a packet into buf. The flags are those of recvmsg(2). At the end it reads once more:
// Linux reports the end although a packet is queued, if both arrive while a non-blocking read is between
// looking for the packet and looking for the end.
func readPacket(conn *net.UnixConn, buf []byte) (n, flags int, err error) {
	n, _, flags, _, err = conn.ReadMsgUnix(buf, nil)
	if errors.Is(err, io.EOF) {
		n, _, flags, _, err = conn.ReadMsgUnix(buf, nil)
	}
	return n, flags, err
}

// Connection is a connection to a process for several commands. Only one goroutine may use it.
type Connection struct {
	process *Process
	conn    *net.UnixConn // nil before the first command, and after an error
	buf     [4 << 10]byte // for answers
}

// Connection returns a connection for several commands. It begins with the first one.
func (p *Process) Connection() *Connection { return &Connection{process: p} }

// Do is like [Process.Do]. If ctx ends during the command, it closes the connection.
func (c *Connection) Do(ctx context.Context, v any, command string) (err error) {
	if c.conn == nil {
		if c.conn, err = c.process.connect(ctx); err != nil {
			c.conn = nil
			return err
		}
	}
	conn := c.conn
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	data, err := converse(conn, command, nil, c.buf[:])
	if !stop() && err == nil {
		err = ctx.Err()
	}
	if err == nil {
		err = answer(data, v)
	}
	if err != nil {
		c.Close()
	}
	return err
}

// Close closes the connection. The next command opens another one.
func (c *Connection) Close() {
	if c.conn != nil {
		c.conn.Close()
		c.conn = nil
	}
}

// gone replaces errors of a connection by an explanation.
func gone(err error) error {
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		return fmt.Errorf("the recorder did not respond within %v; is the program stopped?", timeout)
	case errors.Is(err, io.EOF), errors.Is(err, syscall.EPIPE), errors.Is(err, syscall.ECONNRESET):
		return errors.New("the recorder closed the connection without a response: the program may have exited")
	}
	return err
}

// connect opens a connection and checks that the listener is the process, because another process may
// have taken the name first.
func (p *Process) connect(ctx context.Context) (*net.UnixConn, error) {
	conn, err := p.connectTo(ctx, p.socket)
	silent := errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, syscall.ENOENT)
	if p.PID != 0 && (silent || errors.Is(err, ErrNoRecorder)) {
		for _, socket := range p.others() {
			if conn, err := p.connectTo(ctx, socket); err == nil {
				return conn, nil
			}
		}
	}
	if silent {
		return nil, p.explainAbsence()
	}
	return conn, err
}

// others returns the names under which the recorder may listen if another process has taken the usual one.
func (p *Process) others() []string {
	table, _ := os.ReadFile("/proc/net/unix")
	return slices.DeleteFunc(listeningSockets(string(table)), func(socket string) bool { return socket == p.socket || !isSocketOf(socket, p.socket) })
}

func (p *Process) connectTo(ctx context.Context, socket string) (*net.UnixConn, error) {
	var d net.Dialer
	c, err := d.DialContext(ctx, "unixpacket", socket)
	if err != nil {
		return nil, err
	}
	conn := c.(*net.UnixConn)
	if err := p.checkPeer(conn); err != nil {
		conn.Close()
		return nil, err
	}
	return conn, nil
}

func (p *Process) checkPeer(conn *net.UnixConn) error {
	peer, err := peerOf(conn)
	switch {
	case err != nil:
		return err
	case p.anyone:
	case p.PID == 0 && peer.Uid != p.owner:
		return fmt.Errorf("user %d listens there instead of the process's owner, user %d: not connecting", peer.Uid, p.owner)
	case p.PID != 0 && int(peer.Pid) != p.PID:
		return fmt.Errorf("%w: process %d listens in its place", ErrNoRecorder, peer.Pid)
	}
	return nil
}

// peerOf returns the credentials of the process at the other end, from when it began to listen.
func peerOf(conn *net.UnixConn) (*unix.Ucred, error) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return nil, err
	}
	var peer *unix.Ucred
	if controlErr := raw.Control(func(fd uintptr) {
		peer, err = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
	}); controlErr != nil {
		return nil, controlErr
	}
	return peer, err
}

func peerProcess(conn *net.UnixConn) (int, error) {
	peer, err := peerOf(conn)
	if err != nil {
		return 0, err
	}
	return int(peer.Pid), nil
}

// explainAbsence returns an error with the likely reason why no recorder is listening.
func (p *Process) explainAbsence() error {
	remedy := fmt.Sprintf("`xray ctl %d start` and `xray record -p %[1]d` load one into a running process", p.PID)
	if p.PID == 0 {
		remedy = "link the recorder into the program (`xray runtime flags`) and start it with " + recorder.EnvVar + "=control=PATH"
	}
	if fields, err := proc.StatusFields(p.PID); err == nil && p.PID != 0 && len(fields["Seccomp"]) == 1 && fields["Seccomp"][0] != "0" {
		return fmt.Errorf("%w: it has a seccomp filter. If the recorder was already in it when it installed the filter, the recorder's thread has ended, "+
			"and the recording continues unchanged", ErrNoRecorder)
	}
	if p.PID != 0 {
		parent := parentOf(p.PID)
		if why := silence(p.PID, exeOf(parent) == exeOf(p.PID) && listens(parent)); why != nil {
			return why
		}
	}
	if p.PID != 0 && !sameNetwork(p.PID) {
		remedy = inNetworkOf(p.PID)
	}
	return fmt.Errorf("%w: %s", ErrNoRecorder, remedy)
}

// sameNetwork reports whether a process is in the network namespace of this one. It returns true if
// that is unknown.
func sameNetwork(pid int) bool {
	theirs, err := os.Readlink("/proc/" + strconv.Itoa(pid) + "/ns/net")
	ours, _ := os.Readlink("/proc/self/ns/net")
	return err != nil || theirs == ours
}

func inNetworkOf(pid int) string {
	return "it is in another network namespace: run xray there, with nsenter -n -t " + strconv.Itoa(pid) + " xray ..."
}

// listens reports whether a process's recorder listens.
func listens(pid int) bool {
	usual, err := socketOf(pid)
	table, tableErr := os.ReadFile("/proc/net/unix")
	return err == nil && tableErr == nil && slices.ContainsFunc(listeningSockets(string(table)), func(socket string) bool {
		return isSocketOf(socket, usual)
	})
}
