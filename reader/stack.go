package reader

import "encoding/binary"

// ParseStack reads the payload of a custom event. If the thread is on another stack from here on, it returns the
// number of the fiber, 0 for the thread's own stack. It returns false for other events, and for those of recorders
// that do not know which stack it is.
func ParseStack(payload []byte) (fiber uint32, ok bool) {
	const size = 16 // number and address
	kind, body, ok := SplitMetadata(payload)
	if !ok || kind != MetadataStacks || len(body) < size {
		return 0, false
	}
	number := binary.LittleEndian.Uint64(body)
	return uint32(number), number < 1<<30
}

// AppendStack appends the payload of such an event. Address is one of the stack.
func AppendStack(dst []byte, fiber uint32, address uint64) []byte {
	le := binary.LittleEndian
	dst = le.AppendUint16(append(dst, MetadataHead...), uint16(MetadataStacks))
	return le.AppendUint64(le.AppendUint64(dst, uint64(fiber)), address)
}
