// Calls LLVM's API and prints the results, to compare runtimes: llvm_api CASE.
#include <dlfcn.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "xray/xray_interface.h"
#include "xray/xray_log_interface.h"

#define TRACED __attribute__((noinline, xray_always_instrument))
#define PLAIN __attribute__((xray_never_instrument))
#define LOGGED __attribute__((noinline, xray_always_instrument, xray_log_args(1)))

#ifdef DEFAULT_OPTIONS
extern "C" PLAIN const char *__xray_default_options() { return "patch_premain=true:xray_mode=xray-basic:xray_logfile_base=log-:verbosity=1"; }
#endif

typedef float floats __attribute__((vector_size(16)));
typedef double doubles2 __attribute__((vector_size(16))), doubles4 __attribute__((vector_size(32))), doubles8 __attribute__((vector_size(64)));

volatile int sink;
TRACED void leaf() { sink = sink + 1; }
TRACED void middle()
{
	leaf();
	sink = sink + 2;
}
TRACED void outer()
{
	middle();
	leaf();
	sink = sink + 3;
}
TRACED void tail()
{
	sink = sink + 4;
	leaf();
}
LOGGED void logged(uint64_t x) { sink = sink + static_cast<int>(x); }

struct Counter {
	int value = 7;
	LOGGED void add() { value++; }
};

// A handler that prints.

PLAIN void print(int32_t id, XRayEntryType type) { printf("function %d, type %d\n", id, type); }
PLAIN void print1(int32_t id, XRayEntryType type, uint64_t argument)
{
	printf("function %d, type %d, argument %lu\n", id, type, static_cast<unsigned long>(argument));
}

PLAIN void patching()
{
	outer();
	printf("set %d\n", __xray_set_handler(print));
	outer();
	printf("patch %d\n", __xray_patch());
	outer();
	tail();
	printf("patch again %d\n", __xray_patch());
	leaf();
	printf("unpatch %d\n", __xray_unpatch());
	outer();
	printf("patch %d\n", __xray_patch());
	printf("remove %d\n", __xray_remove_handler());
	outer();
	printf("set %d\n", __xray_set_handler(print));
	leaf();
	printf("unpatch %d, again %d\n", __xray_unpatch(), __xray_unpatch());
	leaf();
}

// A handler that unpatches every function that it sees.

enum { FUNCTIONS = 64 };
bool seen[FUNCTIONS];
PLAIN void cover(int32_t id, XRayEntryType)
{
	static __thread bool busy;
	if (busy)
		return;
	busy = true;
	seen[id % FUNCTIONS] = true;
	if (__xray_unpatch_function(id) != SUCCESS)
		printf("cannot unpatch %d\n", id);
	busy = false;
}

PLAIN void print_seen(const char *when)
{
	printf("%s:", when);
	for (int id = 0; id < FUNCTIONS; id++)
		if (seen[id])
			printf(" %d", id);
	printf("\n");
}

PLAIN void coverage()
{
	__xray_set_handler(cover);
	__xray_patch();
	for (int i = 0; i < 3; i++)
		outer();
	__xray_unpatch();
	print_seen("covered");
	int32_t first = 0;
	for (int id = FUNCTIONS - 1; id > 0; id--)
		if (seen[id]) {
			seen[id] = false;
			first = id;
			printf("patch %d: %d\n", id, __xray_patch_function(id));
		}
	outer();
	tail();
	print_seen("covered again");
	memset(seen, 0, sizeof seen);
	printf("patch %d\n", __xray_patch());
	printf("unpatch %d\n", __xray_unpatch_function(first));
	outer();
	print_seen("without the first");
	__xray_unpatch();
	__xray_remove_handler();
	leaf();
}

// Returns the ID of a function, or 0.
PLAIN int32_t id_of(void (*function)())
{
	for (size_t i = __xray_max_function_id(); i > 0; i--)
		if (__xray_function_address(i) == reinterpret_cast<uintptr_t>(function))
			return i;
	return 0;
}

PLAIN void ids()
{
	size_t n = __xray_max_function_id();
	printf("%zu functions\n", n);
	printf("known %d %d %d, not instrumented %d\n", id_of(leaf), id_of(outer), id_of(tail), id_of(ids));
	printf("none %lu %lu\n", static_cast<unsigned long>(__xray_function_address(0)),
	       static_cast<unsigned long>(__xray_function_address(n + 1)));
	printf("no function %d %d\n", __xray_patch_function(0), __xray_patch_function(n + 1));
}

PLAIN void arguments()
{
	Counter c;
	static uint64_t self;
	self = reinterpret_cast<uint64_t>(&c);
	__xray_set_handler(print);
	__xray_patch();
	logged(1);
	printf("set %d\n", __xray_set_handler_arg1(print1));
	leaf();
	logged(0xcafef00d);
	logged(UINT64_MAX);
	__xray_set_handler_arg1([](int32_t id, XRayEntryType type, uint64_t argument) PLAIN {
		printf("function %d, type %d, this %d\n", id, type, argument == self);
	});
	c.add();
	printf("remove %d\n", __xray_remove_handler_arg1());
	logged(2);
	__xray_remove_handler();
	__xray_set_handler_arg1(print1);
	logged(3);
	__xray_unpatch();
	logged(4);
	__xray_remove_handler_arg1();
}

// Events in the middle of functions. The handler needs an aligned stack.

#if __clang_major__ >= 19
TRACED void custom(const char *text, size_t n)
{
	sink = sink + 1;
	__xray_customevent(text, n);
	sink = sink + 1;
}

PLAIN __attribute__((noinline)) bool aligned(floats *v)
{
	*v += *v;
	return reinterpret_cast<uintptr_t>(v) % 16 == 0;
}

PLAIN void print_custom(void *p, size_t n)
{
	floats v = {1, 2, 3, 4};
	printf("event '%.*s', aligned %d\n", static_cast<int>(n), static_cast<char *>(p), aligned(&v));
}

PLAIN void custom_events()
{
	custom("early", 5);
	printf("set %d\n", __xray_set_customevent_handler(print_custom));
	custom("not patched", 11);
	__xray_patch();
	custom("patched", 7);
	custom("", 0);
	__xray_set_handler(print);
	custom("with both", 9);
	__xray_remove_handler();
	printf("remove %d\n", __xray_remove_customevent_handler());
	custom("late", 4);
	__xray_unpatch();
}

TRACED void typed(size_t type, const char *text, size_t n)
{
	sink = sink + 1;
	__xray_typedevent(type, text, n);
	sink = sink + 1;
}

PLAIN void print_typed(size_t type, const void *p, size_t n)
{
	printf("event of type %zu '%.*s'\n", type, static_cast<int>(n), static_cast<const char *>(p));
}

PLAIN void typed_events()
{
	static const char first[] = "first", second[] = "second";
	printf("types %d %d %d\n", __xray_register_event_type(first), __xray_register_event_type(second), __xray_register_event_type(first));
	printf("set %d\n", __xray_set_typedevent_handler(print_typed));
	typed(1, "not patched", 11);
	__xray_patch();
	typed(42, "patched", 7);
	typed(65535, "", 0);
	printf("remove %d\n", __xray_remove_typedevent_handler());
	typed(3, "late", 4);
	__xray_unpatch();
}

// Prints numbers of types until there are no more, then those of the first two types again.
PLAIN void many_types()
{
	char type[16];
	for (int i = 0; i < 65540; i++) {
		snprintf(type, sizeof type, "type %d", i);
		int number = __xray_register_event_type(type);
		if (number != i)
			printf("type %d has number %d\n", i, number);
	}
	printf("first %d %d\n", __xray_register_event_type("type 0"), __xray_register_event_type("type 1"));
}
#else // older versions crash on events, or pass wrong payloads
PLAIN void custom_events() {}
PLAIN void typed_events() {}
PLAIN void many_types() {}
#endif

// Logs of the program.

long handled;
PLAIN void count(int32_t, XRayEntryType) { handled++; }
PLAIN XRayLogInitStatus my_init(size_t size, size_t n, void *config, size_t config_size)
{
	printf("init %zu %zu '%s' %zu\n", size, n, static_cast<char *>(config), config_size);
	return XRAY_LOG_INITIALIZED;
}
PLAIN XRayLogInitStatus my_finalize() { return XRAY_LOG_FINALIZED; }
PLAIN XRayLogFlushStatus my_flush() { return XRAY_LOG_FLUSHED; }
PLAIN XRayBuffer my_buffers(XRayBuffer b)
{
	static char text[] = "abc";
	if (!b.Data)
		return {text, 1};
	return b.Data == text + 2 ? XRayBuffer{nullptr, 0} : XRayBuffer{static_cast<const char *>(b.Data) + 1, 1};
}
PLAIN void print_buffer(const char *mode, XRayBuffer b)
{
	printf("buffer of %s: %.*s\n", mode ? mode : "none", static_cast<int>(b.Size), static_cast<const char *>(b.Data));
}
PLAIN void print_mode()
{
	const char *mode = __xray_log_get_current_mode();
	printf("mode %s\n", mode ? mode : "none");
}

PLAIN void modes()
{
	XRayLogImpl mine = {my_init, my_finalize, count, my_flush}, half = {my_init, nullptr, count, my_flush};
	print_mode();
	printf("without a mode %d %d %d\n", __xray_log_init_mode("mine", ""), __xray_log_finalize(), __xray_log_flushLog());
	char name[] = "mine";
	printf("register %d\n", __xray_log_register_mode(name, mine));
	name[0] = 'x';
	printf("again %d\n", __xray_log_register_mode("mine", mine));
	printf("as xray-fdr %d\n", __xray_log_register_mode("xray-fdr", mine));
	printf("half %d\n", __xray_log_register_mode("half", half));
	printf("unknown %d\n", __xray_log_select_mode("unknown"));
	print_mode();
	printf("select %d\n", __xray_log_select_mode("mine"));
	print_mode();
	printf("other %d\n", __xray_log_init_mode("xray-fdr", "a=b"));
	printf("no config %d\n", __xray_log_init_mode("mine", nullptr));
	printf("init %d\n", __xray_log_init_mode("mine", "a=b:c=d"));
	printf("init bin %d\n", __xray_log_init_mode_bin("mine", "a=b", 3));
	char config[] = "old";
	printf("old init %d\n", __xray_log_init(1, 2, config, 4));
	__xray_patch();
	outer();
	printf("handled %ld\n", handled);
	printf("no buffers %d\n", __xray_log_process_buffers(print_buffer));
	__xray_log_set_buffer_iterator(my_buffers);
	printf("buffers %d\n", __xray_log_process_buffers(print_buffer));
	__xray_log_remove_buffer_iterator();
	printf("no buffers %d\n", __xray_log_process_buffers(print_buffer));
	printf("finalize %d, flush %d\n", __xray_log_finalize(), __xray_log_flushLog());
	__xray_remove_log_impl();
	outer();
	printf("handled %ld\n", handled);
	printf("removed %d %d\n", __xray_log_init_mode("mine", ""), __xray_log_process_buffers(print_buffer));
	__xray_set_log_impl(mine);
	leaf();
	printf("handled %ld, finalize %d\n", handled, __xray_log_finalize());
	__xray_unpatch();
}

// The runtime's own logs.

PLAIN void *in_thread(void *)
{
	middle();
	logged(43);
	return nullptr;
}

PLAIN void work()
{
	outer();
	tail();
	logged(42);
	pthread_t thread;
	pthread_create(&thread, nullptr, in_thread, nullptr);
	pthread_join(thread, nullptr);
}

PLAIN void fdr()
{
	outer();
	printf("select %d\n", __xray_log_select_mode("xray-fdr"));
	print_mode();
	printf("no options %d\n", __xray_log_init(0, 0, nullptr, 0));
	printf("early finalize %d, flush %d\n", __xray_log_finalize(), __xray_log_flushLog());
	printf("init %d\n", __xray_log_init_mode("xray-fdr", "buffer_size=16384:buffer_max=10"));
	printf("again %d\n", __xray_log_init_mode("xray-fdr", ""));
	outer();
	printf("patch %d\n", __xray_patch());
	work();
	printf("early flush %d\n", __xray_log_flushLog());
	printf("finalize %d, again %d\n", __xray_log_finalize(), __xray_log_finalize());
	outer();
	printf("init before flush %d\n", __xray_log_init_mode("xray-fdr", ""));
	printf("flush %d, again %d\n", __xray_log_flushLog(), __xray_log_flushLog());
	outer();
	__xray_unpatch();
}

// One function is patched, and no other.
PLAIN void some()
{
	__xray_log_select_mode("xray-fdr");
	__xray_log_init_mode("xray-fdr", "");
	printf("patch %d\n", __xray_patch_function(id_of(leaf)));
	work();
	printf("finalize %d, flush %d\n", __xray_log_finalize(), __xray_log_flushLog());
}

FILE *file;
PLAIN void write_buffer(const char *mode, XRayBuffer b)
{
	if (strcmp(mode, "xray-fdr") != 0 || fwrite(b.Data, 1, b.Size, file) != b.Size)
		printf("wrong buffer\n");
}

PLAIN void memory()
{
	__xray_log_select_mode("xray-fdr");
	for (int i = 0; i < 3; i++) {
		printf("init %d\n", __xray_log_init_mode("xray-fdr", "no_file_flush=true func_duration_threshold_us=0"));
		__xray_patch();
		for (int k = 0; k <= i; k++)
			work();
		printf("finalize %d\n", __xray_log_finalize());
		char name[] = "buffers.0";
		name[sizeof name - 2] += i;
		file = fopen(name, "w");
		printf("process %d\n", __xray_log_process_buffers(write_buffer));
		fclose(file);
		printf("flush %d\n", __xray_log_flushLog());
	}
	__xray_unpatch();
}

volatile bool running;
PLAIN void *spin(void *)
{
	while (running)
		leaf();
	return nullptr;
}

PLAIN void reinit()
{
	pthread_t spinning;
	running = true;
	pthread_create(&spinning, nullptr, spin, nullptr);
	__xray_log_select_mode("xray-fdr");
	__xray_patch();
	for (int i = 0; i < 5; i++) {
		int status = __xray_log_init_mode("xray-fdr", "buffer_size=4096:buffer_max=10:no_file_flush=true");
		for (int k = 0; k < 10000; k++)
			leaf();
		int finalized = __xray_log_finalize(), flushed = __xray_log_flushLog();
		printf("init %d, finalize %d, flush %d\n", status, finalized, flushed);
	}
	running = false;
	pthread_join(spinning, nullptr);
	__xray_unpatch();
}

PLAIN void plain() { work(); }

PLAIN void forks()
{
	middle();
	pid_t child = fork();
	logged(child == 0);
	if (child)
		waitpid(child, nullptr, 0);
}

PLAIN void profiling()
{
	printf("select %d\n", __xray_log_select_mode("xray-profiling"));
	print_mode();
	printf("patch %d\n", __xray_patch());
	printf("init %d\n", __xray_log_init_mode("xray-profiling", ""));
	work();
	printf("finalize %d\n", __xray_log_finalize());
	static long buffers;
	printf("process %d\n", __xray_log_process_buffers([](const char *, XRayBuffer) PLAIN { buffers++; }));
	printf("buffers %d\n", buffers > 1);
	printf("flush %d\n", __xray_log_flushLog());
}

PLAIN void profiled_to_the_end()
{
	__xray_log_select_mode("xray-profiling");
	printf("init %d\n", __xray_log_init_mode("xray-profiling", ""));
	__xray_patch();
	work();
}

// Shared objects: one that is linked, and one that is opened.

#ifdef OBJECTS
extern "C" void linked();

PLAIN void objects(const char *path)
{
	__xray_set_handler(print);
	linked();
	leaf();
	printf("objects %zu, functions %zu\n", __xray_num_objects(), __xray_max_function_id_in_object(1));
	int32_t id = __xray_pack_id(1, 1);
	printf("id %d = %d of %d, address %d\n", id, __xray_unpack_function_id(id), __xray_unpack_object_id(id),
	       __xray_function_address(id) == reinterpret_cast<uintptr_t>(linked));
	printf("patch %d\n", __xray_patch());
	linked();
	leaf();
	printf("unpatch the object %d\n", __xray_unpatch_object(1));
	linked();
	leaf();
	printf("unpatch %d, patch the object %d\n", __xray_unpatch(), __xray_patch_object(1));
	linked();
	leaf();
	printf("unpatch the function %d\n", __xray_unpatch_function(id));
	linked();
	printf("patch it in its object %d\n", __xray_patch_function_in_object(1, 1));
	linked();
	printf("no such objects %d %d\n", __xray_patch_object(7), __xray_unpatch_object(-1));
	__xray_unpatch();
	void *plugin = dlopen(path, RTLD_NOW);
	void (*opened)() = reinterpret_cast<void (*)()>(dlsym(plugin, "opened"));
	opened();
	printf("objects %zu\n", __xray_num_objects());
	printf("patch %d\n", __xray_patch());
	opened();
	printf("address %d\n", __xray_function_address_in_object(1, 2) == reinterpret_cast<uintptr_t>(opened));
	dlclose(plugin);
	printf("closed: unpatch %d, the object %d\n", __xray_unpatch(), __xray_patch_object(2));
	leaf();
}

// An object that is opened with patch_premain is patched at once.
PLAIN void opening(const char *path)
{
	__xray_set_handler(print);
	linked();
	void *plugin = dlopen(path, RTLD_NOW);
	void (*opened)() = reinterpret_cast<void (*)()>(dlsym(plugin, "opened"));
	__xray_set_handler(print);
	opened();
	__xray_unpatch();
	opened();
}

#endif

// Not possible with compiler-rt: an instrumented handler, and handlers during a recording.

TRACED void instrumented(int32_t, XRayEntryType)
{
	handled++;
	leaf();
}

PLAIN void recursion()
{
	__xray_set_handler(instrumented);
	__xray_patch();
	middle();
	printf("handled %ld\n", handled);
	leaf();
	printf("handled %ld\n", handled);
}

PLAIN void beside()
{
	__xray_set_handler(count);
	for (int i = 0; i < 10; i++)
		leaf();
	printf("not patched %ld\n", handled);
	__xray_patch();
	for (int i = 0; i < 100; i++)
		leaf();
	printf("handled %ld\n", handled);
	__xray_unpatch_function(id_of(leaf));
	for (int i = 0; i < 1000; i++)
		leaf();
	middle();
	printf("handled %ld\n", handled);
	__xray_remove_handler();
	middle();
	__xray_unpatch();
	middle();
}

// Values in vector registers survive handlers and signals whose handlers are instrumented, while
// another thread patches.

TRACED double product(double a, double b, doubles2 c, float d) { return a * b + c[0] - c[1] + d; }
TRACED long double longer(long double x) { return x + 1; }

PLAIN void disturb(int32_t, XRayEntryType)
{
	volatile double x = 3;
	__asm__ volatile("pcmpeqd %%xmm0, %%xmm0\n\tmovdqa %%xmm0, %%xmm1\n\tmovdqa %%xmm0, %%xmm2\n\tmovdqa %%xmm0, %%xmm3\n\t"
			 "movdqa %%xmm0, %%xmm7\n\tmovdqa %%xmm0, %%xmm15\n\tfldpi\n\tfldpi\n\tfldpi\n\tfldpi\n\tfldpi\n\tfldpi\n\tfldpi\n\tfldpi\n\t"
			 "fmulp\n\tfmulp\n\tfmulp\n\tfmulp\n\tfmulp\n\tfmulp\n\tfmulp\n\tfstp %%st(0)"
			 : : : "xmm0", "xmm1", "xmm2", "xmm3", "xmm7", "xmm15");
	x = x * x;
	__atomic_fetch_add(&handled, 1, __ATOMIC_RELAXED);
}

__attribute__((target("avx"))) TRACED doubles4 twice(doubles4 v) { return v + v; }
__attribute__((target("avx"))) PLAIN __attribute__((noinline)) bool wide(double x)
{
	doubles4 v = twice(doubles4{x, x + 1, x + 2, x + 3});
	return v[0] != 2 * x || v[1] != 2 * x + 2 || v[2] != 2 * x + 4 || v[3] != 2 * x + 6;
}
__attribute__((target("avx"))) PLAIN void disturb_avx(int32_t id, XRayEntryType type)
{
	disturb(id, type);
	__asm__ volatile("vzeroall");
}

#define AVX512 __attribute__((target("avx512f,avx512bw")))
AVX512 TRACED doubles8 twice512(doubles8 v) { return v + v; }
AVX512 PLAIN __attribute__((noinline)) bool wide512(double x)
{
	doubles8 v = twice512(doubles8{x, x, x, x, x, x, x, x});
	return v[0] != 2 * x || v[7] != 2 * x;
}
AVX512 PLAIN void disturb_avx512(int32_t id, XRayEntryType type)
{
	disturb(id, type);
	__asm__ volatile(".irp r, 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31\n\t"
			 "vpternlogd $255, %%zmm\\r, %%zmm\\r, %%zmm\\r\n\t.endr\n\tkxnorq %%k1, %%k1, %%k1" : : : "memory");
	if (handled % 2)
		__asm__ volatile("vzeroupper");
}

// In the middle of a function, any register may be in use.
#if __clang_major__ >= 19
AVX512 PLAIN void disturb_event(void *, size_t) { disturb_avx512(0, CUSTOM_EVENT); }
AVX512 TRACED uint64_t middle_of_function()
{
	alignas(64) uint64_t v[8] = {1, 2, 3, 4, 5, 6, 7, 8};
	uint64_t mask = 5;
	__asm__ volatile("vmovdqa64 %0, %%zmm20\n\tkmovq %1, %%k1" : : "m"(v), "m"(mask));
	__xray_customevent("x", 1);
	__asm__ volatile("vmovdqa64 %%zmm20, %0\n\tkmovq %%k1, %1" : "=m"(v), "=m"(mask));
	return mask * 10 + v[7];
}
#else
AVX512 PLAIN void disturb_event(void *, size_t) {}
PLAIN uint64_t middle_of_function() { return 58; }
#endif

TRACED void on_signal(int) { leaf(); }

long wrong, rounds;
PLAIN void *compute(void *)
{
	bool avx = __builtin_cpu_supports("avx"), avx512 = __builtin_cpu_supports("avx512bw");
	while (running) {
		long different = 0;
		for (int i = 0; i < 1000; i++) {
			different += product(i, 2, doubles2{5, 4}, 3) != i * 2 + 4;
			different += longer(i) != i + 1;
			different += avx && wide(i);
			different += avx512 && wide512(i);
		}
		__atomic_fetch_add(&wrong, different, __ATOMIC_RELAXED);
		__atomic_fetch_add(&rounds, 1, __ATOMIC_RELAXED);
	}
	return nullptr;
}

PLAIN void storm()
{
	enum { THREADS = 3 };
	pthread_t threads[THREADS];
	bool avx512 = __builtin_cpu_supports("avx512bw");
	void (*handler)(int32_t, XRayEntryType) = avx512 ? disturb_avx512 : __builtin_cpu_supports("avx") ? disturb_avx : disturb;
	struct sigaction action = {};
	action.sa_handler = on_signal;
	action.sa_flags = SA_RESTART;
	sigaction(SIGALRM, &action, nullptr);
	struct itimerval often = {{0, 200}, {0, 200}}, never = {};
	setitimer(ITIMER_REAL, &often, nullptr);
	running = true;
	for (pthread_t &t : threads)
		pthread_create(&t, nullptr, compute, nullptr);
	for (int i = 0; i < 300; i++) {
		__xray_set_handler(handler);
		__xray_patch();
		if (i % 3 == 0)
			__xray_remove_handler();
		__xray_set_handler(handler);
		__xray_unpatch();
	}
	__xray_patch();
	for (long before = __atomic_load_n(&rounds, __ATOMIC_RELAXED); __atomic_load_n(&rounds, __ATOMIC_RELAXED) < before + 10;)
		sched_yield();
	running = false;
	for (pthread_t t : threads)
		pthread_join(t, nullptr);
	setitimer(ITIMER_REAL, &never, nullptr);
	long before = handled;
	for (int i = 0; i < 100; i++)
		leaf();
	printf("wrong %ld, handled %d, then %ld\n", wrong, before > 0, handled - before);
	__xray_set_customevent_handler(disturb_event);
	printf("registers %d\n", avx512 ? static_cast<int>(middle_of_function()) : 58);
}

PLAIN int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		void (*run)();
	} cases[] = {
		{"patching", patching}, {"coverage", coverage}, {"ids", ids}, {"arguments", arguments}, {"custom", custom_events},
		{"typed", typed_events}, {"types", many_types}, {"modes", modes}, {"fdr", fdr}, {"some", some}, {"memory", memory}, {"reinit", reinit},
		{"plain", plain}, {"forks", forks}, {"profiling", profiling}, {"end", profiled_to_the_end}, {"recursion", recursion},
		{"beside", beside}, {"storm", storm},
	};
	setvbuf(stdout, nullptr, _IOLBF, 0);
	for (auto &c : cases)
		if (argc == 2 && !strcmp(argv[1], c.name))
			return c.run(), 0;
#ifdef OBJECTS
	if (argc == 3 && !strcmp(argv[1], "objects"))
		return objects(argv[2]), 0;
	if (argc == 3 && !strcmp(argv[1], "opening"))
		return opening(argv[2]), 0;
#endif
	return 2;
}
