package attach

import (
	"fmt"
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

// whyUnsafe returns where a thread is that may not load an object there, or "". It may outside of the
// loader, allocators, and functions of libc that hold their locks. The stack has the innermost place
// first. If the thread does not wait in a system call, it must be in code of the program or of a
// library, with no libc on its stack except the code that started it.
func (p *process) whyUnsafe(stack []pc, waits bool) string {
	for i, at := range stack {
		interrupted := at.interrupted && !at.inCall && (i > 0 || !waits)
		if p.unsafeImage(at.address) || interrupted && p.isUnknown(at.address) || p.libc.has(at.address) && p.inAllocating(at.address) {
			return "in " + p.where(at.address)
		}
	}
	if waits {
		return ""
	}
	return p.whyNotComputing(stack)
}

func (p *process) whyNotComputing(stack []pc) string {
	if at := stack[0].address; !p.isComputing(at) {
		return "in " + p.where(at)
	}
	began := false
	for _, at := range slices.Backward(stack) {
		switch {
		case at.handler:
			return "in a signal handler"
		case began && p.libc.has(at.address):
			return "in code that " + p.where(at.address) + " has called"
		case !p.libc.has(at.address) && !p.isStart(at.address):
			began = true
		}
	}
	return ""
}

// isComputing reports whether an address is in code that holds no lock that dlopen needs: not in an
// allocator, the C library and what belongs to it, or an unwinder, with which the loader's objects register.
func (p *process) isComputing(at uint64) bool {
	img := p.imageAt(at)
	if img == nil || img == p.libc || img == p.loader || slices.Contains(p.allocators, img) {
		return false
	}
	return !slices.ContainsFunc([]string{"libpthread", "libdl", "librt", "libgcc_s", "libunwind"}, func(name string) bool {
		return strings.HasPrefix(img.name(), name+".") || strings.HasPrefix(img.name(), name+"-")
	})
}

// isStart reports whether an address is in the code that starts the program: it calls libc, which calls main.
func (p *process) isStart(at uint64) bool {
	return p.program != nil && p.program.has(at) && at-p.program.entry <= startCode
}

// where describes a place in messages.
func (p *process) where(at uint64) string {
	img := p.imageAt(at)
	if img == nil {
		return "code that belongs to no file"
	}
	for _, s := range img.symbols {
		if s.start <= at && at < s.end {
			return s.name + " of " + img.name()
		}
	}
	return fmt.Sprintf("%s+%#x", img.name(), at-img.base)
}

// startCode is an upper bound for the size of the code that starts a program.
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
