package iocalls

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/xray-tools/xray/report/label"
)

// errorNames are names of error numbers of Linux that I/O fails with.
var errorNames = map[uint16]string{
	2: "ENOENT", 3: "ESRCH", 4: "EINTR", 5: "EIO", 6: "ENXIO", 9: "EBADF", 11: "EAGAIN", 12: "ENOMEM", 13: "EACCES", 14: "EFAULT",
	16: "EBUSY", 17: "EEXIST", 18: "EXDEV", 19: "ENODEV", 20: "ENOTDIR", 21: "EISDIR", 22: "EINVAL", 23: "ENFILE", 24: "EMFILE",
	25: "ENOTTY", 26: "ETXTBSY", 27: "EFBIG", 28: "ENOSPC", 29: "ESPIPE", 30: "EROFS", 31: "EMLINK", 32: "EPIPE", 36: "ENAMETOOLONG",
	38: "ENOSYS", 39: "ENOTEMPTY", 40: "ELOOP", 71: "EPROTO", 75: "EOVERFLOW", 85: "ERESTART", 88: "ENOTSOCK", 89: "EDESTADDRREQ",
	90: "EMSGSIZE", 91: "EPROTOTYPE", 92: "ENOPROTOOPT", 93: "EPROTONOSUPPORT", 95: "EOPNOTSUPP", 97: "EAFNOSUPPORT",
	98: "EADDRINUSE", 99: "EADDRNOTAVAIL", 100: "ENETDOWN", 101: "ENETUNREACH", 103: "ECONNABORTED", 104: "ECONNRESET", 105: "ENOBUFS",
	106: "EISCONN", 107: "ENOTCONN", 110: "ETIMEDOUT", 111: "ECONNREFUSED", 112: "EHOSTDOWN", 113: "EHOSTUNREACH", 114: "EALREADY",
	115: "EINPROGRESS", 116: "ESTALE", 122: "EDQUOT", 125: "ECANCELED",
}

// Errors counts failed calls by their error number. nil has none.
type Errors map[uint16]uint64

// Add counts a call by its negative result. -1 says nothing: it is the result in traces without error numbers, and
// those of EPERM are not told from these.
func (e *Errors) Add(result int64) {
	if result < -1 && result > -4096 {
		e.Merge(Errors{uint16(-result): 1})
	}
}

// Merge adds the calls of o.
func (e *Errors) Merge(o Errors) {
	if *e == nil && len(o) > 0 {
		*e = make(Errors)
	}
	for number, calls := range o {
		(*e)[number] += calls
	}
}

// Failure is how many calls failed with an error.
type Failure struct {
	Error string // as "EAGAIN", or "error 133" if it has no name here
	Calls uint64
}

// List returns the errors, most frequent first.
func (e Errors) List() (list []Failure) {
	for number, calls := range e {
		name := errorNames[number]
		if name == "" {
			name = fmt.Sprintf("error %d", number)
		}
		list = append(list, Failure{name, calls})
	}
	slices.SortFunc(list, func(a, b Failure) int { return cmp.Or(cmp.Compare(b.Calls, a.Calls), cmp.Compare(a.Error, b.Error)) })
	return list
}

// Text lists errors for people.
func Text(list []Failure) string {
	var words []string
	for _, f := range list {
		words = append(words, f.Error+" "+label.Grouped(f.Calls))
	}
	return strings.Join(words, ", ")
}
