package cli

import (
	"fmt"

	"github.com/xray-tools/xray/report/label"
)

// leastAddressSpace is how much address space any command needs. Go reserves most of it and does not
// use it. With less, its runtime ends the program at any moment, and says only that memory is missing.
const leastAddressSpace = 1500 << 20

// AddressWarning returns a warning if the process's limit for the address space is too low, or "".
func AddressWarning() string { return addressWarning(addressLimit()) }

func addressWarning(limit uint64) string {
	if limit >= leastAddressSpace {
		return ""
	}
	return fmt.Sprintf("warning: the address space is limited to %s (ulimit -v). xray may run out of memory at once: allow %s and the size of the trace",
		label.Bytes(limit), label.Bytes(leastAddressSpace))
}
