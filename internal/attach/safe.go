package attach

import (
	"encoding/binary"
	"slices"
	"strings"
)

// process is what is known of the memory of a process.
type process struct {
	images []image
	libc   *image
	loader *image
	// allocators are the images other than libc that have a malloc. The program itself may be
	// one.
	allocators []*image
	program    *image
	// signalReturn is where handlers of signals return to, in libc: the code by which a thread
	// goes on as a signal frame says.
	signalReturn uint64
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

// find returns the address of a function that libc, or an older one's libdl, exports.
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

// allocating are functions of libc that hold locks that dlopen needs, or end up there.
var allocating = []string{
	"malloc", "calloc", "realloc", "free", "memalign", "aligned_alloc", "posix_memalign", "valloc", "pvalloc", "malloc_trim", "mallinfo",
	"mallinfo2", "malloc_info", "mallopt", "reallocarray", "fork", "vfork", "_Fork", "dlopen", "dlclose", "dlmopen", "dlsym", "dlvsym",
	"dladdr", "dlinfo", "dl_iterate_phdr", "__libc_dlopen_mode", "__libc_dlclose", "__libc_dlsym", "pthread_create", "exit",
	"__cxa_thread_atexit_impl", "pthread_exit", "__libc_freeres", "getaddrinfo", "iconv_open", "backtrace",
}

// waitSafe reports whether a thread that waits in a system call, with the given words on its
// stack, is outside of the loader, allocators and signal handlers. Words that are not return
// addresses may make it say no.
func (p *process) waitSafe(words []uint64, isReturn func(uint64) bool) bool {
	for _, w := range words {
		if (p.unsafeImage(w) || p.libc.has(w) && p.inAllocating(w)) && isReturn(w) {
			return false
		}
	}
	return !slices.Contains(words, p.signalReturn)
}

// computeSafe reports the same of a thread that was stopped at a place in the program. Nothing
// of libc and the loader may be on its stack but what began the thread.
func (p *process) computeSafe(at uint64, words []uint64, isReturn func(uint64) bool) bool {
	if p.program == nil || slices.Contains(p.allocators, p.program) || !p.program.has(at) {
		return false
	}
	began := false
	for _, w := range slices.Backward(words) {
		switch {
		case !isReturn(w):
		case began && (p.unsafeImage(w) || p.libc.has(w)):
			return false
		case p.program.has(w) && w-p.program.entry > startCode:
			began = true
		}
	}
	return !slices.Contains(words, p.signalReturn)
}

// startCode is more than the size of the code that begins a program, which calls libc, which
// calls main.
const startCode = 256

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

// isReturnAddress reports whether the code in front of an address is a call.
func isReturnAddress(before []byte) bool {
	n := len(before)
	if n < 7 {
		return false
	}
	indirect := func(length int) bool {
		b := before[n-length:]
		if b[0] == 0x41 { // a register above the eighth
			b = b[1:]
		}
		return len(b) >= 2 && b[0] == 0xff && b[1]>>3&7 == 2
	}
	return before[n-5] == 0xe8 || indirect(2) || indirect(3) || indirect(4) || indirect(6) || indirect(7)
}

// words are the 8-byte words of a stack.
func words(stack []byte) []uint64 {
	list := make([]uint64, len(stack)/8)
	for i := range list {
		list[i] = binary.LittleEndian.Uint64(stack[8*i:])
	}
	return list
}
