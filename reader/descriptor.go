package reader

import (
	"encoding/binary"
	"net/netip"
	"strconv"
	"strings"
)

// ParseResult reads the payload of a custom event as the result of the innermost open call.
// It returns false if the event is not a result.
func ParseResult(payload []byte) (value uint64, ok bool) {
	kind, body, ok := SplitMetadata(payload)
	if !ok || kind != MetadataResult || len(body) < 8 {
		return 0, false
	}
	return binary.LittleEndian.Uint64(body), true
}

// Descriptor says what a file descriptor of the process stands for, from its first use in a
// recorded call on.
type Descriptor struct {
	FD int32
	// Peer is the address of a socket's peer. Own is the address of a socket without a peer. Both
	// are empty if there is no address, or if its family is not supported.
	Peer, Own string
	// End is which end of a pipe it is, if that is known.
	End PipeEnd
	// Path is the path of a file, or what the kernel shows instead, such as "pipe:[77]".
	Path string
}

// PipeEnd is an end of a pipe.
type PipeEnd uint8

// Ends of pipes.
const (
	NoEnd PipeEnd = iota
	ReadEnd
	WriteEnd
)

// Pipe returns the inode of a pipe, or 0.
func (d Descriptor) Pipe() uint64 { return PipeInode(d.Path) }

// PipeInode returns the inode of a pipe that the kernel shows as "pipe:[77]", or 0.
func PipeInode(link string) uint64 {
	text, ok := strings.CutPrefix(link, "pipe:[")
	inode, err := strconv.ParseUint(strings.TrimSuffix(text, "]"), 10, 64)
	if !ok || err != nil {
		return 0
	}
	return inode
}

// What the address in the body is, or the end of a pipe.
const (
	peerAddress = 1
	ownAddress  = 2
	readEnd     = 3
	writeEnd    = 4
)

// ParseDescriptor reads the payload of a custom event as a descriptor. It returns false if
// the event is not a descriptor.
func ParseDescriptor(payload []byte) (Descriptor, bool) {
	kind, body, ok := SplitMetadata(payload)
	if !ok || kind != MetadataDescriptor || len(body) < 8 {
		return Descriptor{}, false
	}
	le := binary.LittleEndian
	d := Descriptor{FD: int32(le.Uint32(body))}
	size := int(le.Uint16(body[6:]))
	if size > len(body)-8 {
		return Descriptor{}, false
	}
	switch address := socketAddress(body[8 : 8+size]); le.Uint16(body[4:]) {
	case peerAddress:
		d.Peer = address
	case ownAddress:
		d.Own = address
	case readEnd:
		d.End = ReadEnd
	case writeEnd:
		d.End = WriteEnd
	}
	d.Path = string(body[8+size:])
	return d, true
}

// String describes what the descriptor stands for.
func (d Descriptor) String() string {
	switch kind, _, _ := strings.Cut(d.Path, ":["); {
	case d.Peer != "":
		return "socket to " + d.Peer
	case d.Own != "":
		return "socket at " + d.Own
	case kind == "socket", kind == "pipe":
		return kind
	}
	return d.Path
}

// socketAddress formats a struct sockaddr of Linux. It returns "" for other families, and
// for addresses that mean nothing.
func socketAddress(b []byte) string {
	const unix, inet, inet6 = 1, 2, 10
	if len(b) < 2 {
		return ""
	}
	var ip netip.Addr
	switch family := binary.LittleEndian.Uint16(b); {
	case family == unix && len(b) > 2:
		path := string(b[2:])
		if path[0] == 0 {
			return "@" + path[1:] // of the abstract namespace
		}
		path, _, _ = strings.Cut(path, "\x00")
		return path
	case family == inet && len(b) >= 8:
		ip = netip.AddrFrom4([4]byte(b[4:8]))
	case family == inet6 && len(b) >= 24:
		ip = netip.AddrFrom16([16]byte(b[8:24]))
	default:
		return ""
	}
	port := binary.BigEndian.Uint16(b[2:])
	if port == 0 && ip.IsUnspecified() {
		return ""
	}
	return netip.AddrPortFrom(ip.Unmap(), port).String()
}
