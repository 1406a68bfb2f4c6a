package iocalls

import (
	"fmt"
	"testing"
)

// Sockets to many ephemeral ports of a host have one name. Others keep theirs.
func TestGroupPorts(t *testing.T) {
	n := NewNames()
	for i := range 2500 {
		n.of[descriptor{0, 7, int32(i)}] = []naming{{1, fmt.Sprintf("socket to 127.0.0.1:%d", 32768+i)}}
	}
	others := []string{"socket to 127.0.0.1:8080", "socket to [::1]:50000", "socket to 10.0.0.1:40000", "socket at 127.0.0.1:40000", "/etc/hosts"}
	for i, name := range others {
		n.of[descriptor{0, 8, int32(i)}] = []naming{{1, name}}
	}
	n.Settle()
	for d, list := range n.of {
		want := "socket to 127.0.0.1, any port"
		if d.process == 8 {
			want = others[d.fd]
		}
		if list[0].name != want {
			t.Errorf("got %q, want %q", list[0].name, want)
		}
	}
}
