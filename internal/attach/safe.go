package attach

import (
	"slices"
	"strings"
)

// process describes the memory of a process.
type process struct {
	images []image
	libc   *image
	loader *image
	// allocators are the images other than libc that have a malloc. The program itself may be
	// one.
	allocators []*image
	program    *image
}

func newProcess(images []image, exe string) *process {
	p := &process{images: images}
	for i := range images {
		img := &images[i]
		switch name := img.name(); {
		case strings.HasPrefix(name, "libc.so."), strings.HasPrefix(name, "libc-2."):
			p.libc = img
		case strings.HasPrefix(name, "ld-linux"), strings.HasPrefix(name, "ld-2."):
			p.loader = img
		case img.find("malloc") != 0:
			p.allocators = append(p.allocators, img)
		}
		if img.path == exe {
			p.program = img
		}
	}
	return p
}

// find returns the address of a function that libc exports, or libdl of an older libc.
func (p *process) find(name string) uint64 {
	if a := p.libc.find(name); a != 0 {
		return a
	}
	for i := range p.images {
		if strings.HasPrefix(p.images[i].name(), "libdl") {
			if a := p.images[i].find(name); a != 0 {
				return a
			}
		}
	}
	return 0
}

// allocating are functions of libc that hold locks that dlopen needs, or call such functions.
var allocating = []string{
	"malloc", "calloc", "realloc", "free", "memalign", "aligned_alloc", "posix_memalign", "valloc", "pvalloc", "malloc_trim", "mallinfo",
	"mallinfo2", "malloc_info", "mallopt", "reallocarray", "fork", "vfork", "_Fork", "dlopen", "dlclose", "dlmopen", "dlsym", "dlvsym",
	"dladdr", "dlinfo", "dl_iterate_phdr", "__libc_dlopen_mode", "__libc_dlclose", "__libc_dlsym", "pthread_create", "exit",
	"__cxa_thread_atexit_impl", "pthread_exit", "__libc_freeres", "getaddrinfo", "iconv_open", "backtrace",
}

// isSafe reports whether a thread may load an object where it is: outside of the loader,
// allocators, and functions of libc that hold their locks. The stack has the innermost place
// first. If the thread does not wait in a system call, it must be in the program's own code,
// with no libc on its stack except the code that started it.
func (p *process) isSafe(stack []pc, waits bool) bool {
	for i, at := range stack {
		interrupted := at.interrupted && !at.inCall && (i > 0 || !waits)
		if p.unsafeImage(at.address) || interrupted && p.isUnknown(at.address) || p.libc.has(at.address) && p.inAllocating(at.address) {
			return false
		}
	}
	return waits || p.computes(stack)
}

func (p *process) computes(stack []pc) bool {
	if p.program == nil || slices.Contains(p.allocators, p.program) || !p.program.has(stack[0].address) {
		return false
	}
	began := false
	for _, at := range slices.Backward(stack) {
		switch {
		case at.handler, began && p.libc.has(at.address):
			return false
		case p.program.has(at.address) && at.address-p.program.entry > startCode:
			began = true
		}
	}
	return true
}

// startCode is an upper bound for the size of the code that starts a program: it calls libc, which
// calls main.
const startCode = 256

// isUnknown reports whether an address is in a function of libc that is not known by name. A
// thread that is interrupted there may hold a lock that dlopen needs.
func (p *process) isUnknown(at uint64) bool {
	known := func(s imageSymbol) bool { return s.start <= at && at < s.end }
	return p.libc.has(at) && !slices.ContainsFunc(p.libc.symbols, known)
}

func (p *process) unsafeImage(w uint64) bool {
	if p.loader != nil && p.loader.has(w) {
		return true
	}
	return slices.ContainsFunc(p.allocators, func(a *image) bool { return a != p.program && a.has(w) })
}

func (p *process) inAllocating(w uint64) bool {
	for _, s := range p.libc.symbols {
		if s.start < w && w <= s.end && slices.Contains(allocating, s.name) {
			return true
		}
	}
	return false
}

// returnsFromSignal is mov $15, %rax; syscall.
var returnsFromSignal = []byte{0x48, 0xc7, 0xc0, 0x0f, 0, 0, 0, 0x0f, 0x05}
