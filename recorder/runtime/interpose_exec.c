/* Programs that the process executes are recorded, too, even if it drops or replaces LD_PRELOAD or
 * XRAY_RECORDER for them, as hardened servers and `env -i` do. The recorder adds both to the environment
 * of the new program, and the recorder in that program takes them out again before main. So the program
 * sees the environment that it was given.
 *
 * In a child of vfork, the parent's memory is in use: only the stack, new mappings and what is atomic are
 * written. Signal handlers on small stacks execute programs, too, so all of this runs on a stack of the
 * recorder's. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <spawn.h>
#include <stdarg.h>
#include <sys/stat.h>
#include <unistd.h>

#include "arena.h"
#include "later.h"
#include "options.h"
#include "ring.h"
#include "syscall.h"
#include "text.h"

#define EXPORT __attribute__((visibility("default")))

#ifdef __GLIBC__

/* What is known about a program before it is executed. */
enum kind { UNKNOWN, LIKE_THIS, OTHER };

struct program {
	enum kind kind;
	char sanitizer[64]; /* a sanitizer's runtime, which must be loaded first */
};

static int64_t read_at(int fd, void *to, uint64_t n, uint64_t at) { return xr_sys4(SYS_pread64, fd, (intptr_t)to, n, at); }

static int begins(const char *s, const char *with) { return !xr_strncmp(s, with, xr_strlen(with)); }

static int is_sanitizer(const char *path)
{
	static const char *const names[] = {"libasan", "libhwasan", "liblsan", "libtsan", "libclang_rt."};
	const char *name = path;
	for (; *path; path++)
		if (*path == '/')
			name = path + 1;
	for (unsigned i = 0; i < sizeof names / sizeof *names; i++)
		if (begins(name, names[i]))
			return 1;
	return 0;
}

/* Looks for a sanitizer's runtime among the libraries that a program needs. */
static void find_sanitizer(int fd, const ElfW(Phdr) *headers, int n, struct program *p)
{
	enum { MAX_ENTRIES = 128 };
	ElfW(Dyn) entries[MAX_ENTRIES];
	uint64_t strings = 0;
	int64_t size = 0;
	for (int i = 0; i < n && !size; i++)
		if (headers[i].p_type == PT_DYNAMIC)
			size = read_at(fd, entries, headers[i].p_filesz < sizeof entries ? headers[i].p_filesz : sizeof entries, headers[i].p_offset);
	int count = size / (int64_t)sizeof *entries;
	for (int i = 0; i < count; i++)
		if (entries[i].d_tag == DT_STRTAB)
			strings = entries[i].d_un.d_ptr;
	for (int i = 0; i < n; i++)
		if (headers[i].p_type == PT_LOAD && strings - headers[i].p_vaddr < headers[i].p_filesz) {
			strings += headers[i].p_offset - headers[i].p_vaddr;
			break;
		}
	for (int i = 0; i < count && entries[i].d_tag != DT_NULL; i++) {
		if (entries[i].d_tag != DT_NEEDED)
			continue;
		int64_t k = read_at(fd, p->sanitizer, sizeof p->sanitizer - 1, strings + entries[i].d_un.d_val);
		p->sanitizer[k > 0 ? k : 0] = 0;
		if (is_sanitizer(p->sanitizer))
			return;
	}
	p->sanitizer[0] = 0;
}

/* The loader of this process. Another one, such as musl's, cannot load the recorder. */
static char own_loader[128];

static int note_loader(struct dl_phdr_info *info, size_t size, void *arg)
{
	(void)size;
	(void)arg;
	for (int i = 0; i < info->dlpi_phnum; i++)
		if (info->dlpi_phdr[i].p_type == PT_INTERP && info->dlpi_phdr[i].p_filesz < sizeof own_loader)
			xr_copy(own_loader, (const void *)(info->dlpi_addr + info->dlpi_phdr[i].p_vaddr), info->dlpi_phdr[i].p_filesz);
	return 1;
}

static int is_privileged(const struct stat *st, int fd)
{
	char capabilities[64];
	return (st->st_mode & S_ISUID && st->st_uid != (uid_t)xr_sys0(SYS_geteuid)) ||
	       (st->st_mode & S_ISGID && st->st_gid != (gid_t)xr_sys0(SYS_getegid)) ||
	       (xr_sys0(SYS_geteuid) && xr_sys4(SYS_fgetxattr, fd, (intptr_t)"security.capability", (intptr_t)capabilities, sizeof capabilities) > 0);
}

/* Examines an open program. For a script, interpreter becomes the path of the program that runs it. */
static enum kind examine(int fd, struct program *p, char *interpreter, uint64_t room)
{
	enum { MAX_HEADERS = 32 };
	union {
		ElfW(Ehdr) e;
		char text[128];
	} head = {.text = ""};
	ElfW(Phdr) headers[MAX_HEADERS];
	struct stat st;
	int64_t n = read_at(fd, &head, sizeof head, 0);
	if (xr_sys2(SYS_fstat, fd, (intptr_t)&st) < 0 || n < 2 || !(st.st_mode & 0111))
		return UNKNOWN; /* nobody can execute it */
	if (head.text[0] == '#' && head.text[1] == '!') {
		int from = 2, to;
		while (from < n && (head.text[from] == ' ' || head.text[from] == '\t'))
			from++;
		for (to = from; to < n && head.text[to] > ' ' && (uint64_t)(to - from) < room - 1; to++)
			;
		xr_copy(interpreter, head.text + from, to - from);
		interpreter[to - from] = 0;
		return UNKNOWN;
	}
	if (n < (int64_t)sizeof head.e || xr_memcmp(head.text, ELFMAG, SELFMAG))
		return UNKNOWN;
	if (head.e.e_machine != EM_X86_64 || head.e.e_ident[EI_CLASS] != ELFCLASS64 || is_privileged(&st, fd))
		return OTHER;
	int count = head.e.e_phnum < MAX_HEADERS ? head.e.e_phnum : MAX_HEADERS;
	n = read_at(fd, headers, count * sizeof *headers, head.e.e_phoff);
	count = n > 0 ? n / (int64_t)sizeof *headers : 0;
	for (int i = 0; i < count; i++) {
		char loader[sizeof own_loader] = "";
		if (headers[i].p_type != PT_INTERP || headers[i].p_filesz >= sizeof loader)
			continue;
		if (read_at(fd, loader, headers[i].p_filesz, headers[i].p_offset) < 0 || !xr_equal(loader, own_loader))
			return OTHER;
		find_sanitizer(fd, headers, count, p);
		return LIKE_THIS;
	}
	return OTHER;
}

/* Examines the program that a descriptor and a path name, as in execveat. */
static void look_at(int dir, const char *path, int flags, struct program *p)
{
	char interpreter[128] = "";
	p->kind = UNKNOWN;
	p->sanitizer[0] = 0;
	for (int scripts = 0; scripts < 5; scripts++) {
		int fd = !(flags & AT_EMPTY_PATH) || *path ? (int)xr_sys4(SYS_openat, dir, (intptr_t)path, O_RDONLY | O_CLOEXEC | O_NONBLOCK, 0) : dir;
		if (fd < 0)
			return; /* it may run though this user cannot read it */
		interpreter[0] = 0;
		p->kind = examine(fd, p, interpreter, sizeof interpreter);
		if (p->kind == OTHER && xr_options.observer)
			xr_arena_left(xr_options.observer, fd);
		if (fd != dir)
			xr_close(fd);
		if (!interpreter[0])
			return;
		path = interpreter;
		dir = AT_FDCWD;
		flags = 0;
	}
}

/* A program that is about to be executed. */
struct execution {
	int dir;
	const char *path;
	int flags, in_path;
	char *const *envp;
	void *mapped; /* memory of envp, or null */
	uint64_t size;
};

static const char *value_of(char *const *list, const char *name, int *at)
{
	uint64_t n = xr_strlen(name);
	for (int i = 0; list && list[i]; i++)
		if (!xr_strncmp(list[i], name, n) && list[i][n] == '=') {
			*at = i;
			return list[i] + n + 1;
		}
	*at = -1;
	return NULL;
}

/* Returns the end of an element of a list, which colons or spaces separate. */
static const char *end_of(const char *s)
{
	while (*s && *s != ':' && *s != ' ')
		s++;
	return s;
}

/* Returns whether a list has an element. */
static int lists(const char *list, const char *element, uint64_t n)
{
	for (const char *end; list && *list; list = *end ? end + 1 : end) {
		end = end_of(list);
		if ((uint64_t)(end - list) == n && !xr_strncmp(list, element, n))
			return 1;
	}
	return 0;
}

static int lists_all(const char *list, const char *wanted)
{
	for (const char *end; *wanted; wanted = *end ? end + 1 : end) {
		end = end_of(wanted);
		if (!lists(list, wanted, end - wanted))
			return 0;
	}
	return 1;
}

/* Whether an element comes before the objects that the environment preloads. */
static int is_first(const char *element) { return is_sanitizer(element); }

static void put_element(struct xr_text *t, uint64_t first, const char *element, uint64_t n)
{
	if (t->n > first)
		xr_put_text(t, ":");
	xr_put(t, element, n);
}

/* Puts the elements of a list for which the test of their names has this result, but not those of
 * another list. */
static void put_elements(struct xr_text *t, uint64_t first, const char *list, const char *without, int (*test)(const char *), int result)
{
	for (const char *end; list && *list; list = *end ? end + 1 : end) {
		end = end_of(list);
		char element[512];
		uint64_t n = end - list;
		if (!n || n >= sizeof element || lists(without, list, n))
			continue;
		xr_copy(element, list, n);
		element[n] = 0;
		if (!test(element) == !result)
			put_element(t, first, element, n);
	}
}

static int is_of_libcalls(const char *path)
{
	const char *name = path;
	for (; *path; path++)
		if (*path == '/')
			name = path + 1;
	return begins(name, "libxray-libcalls-");
}

/* The order of recorder.PreloadEnvironment. */
static void put_preload(struct xr_text *t, const char *given, const char *ours, const char *sanitizer)
{
	xr_put_text(t, "LD_PRELOAD=");
	uint64_t first = t->n;
	if (*sanitizer && !lists(given, sanitizer, xr_strlen(sanitizer)))
		put_element(t, first, sanitizer, xr_strlen(sanitizer));
	put_elements(t, first, given, ours, is_first, 1);
	put_elements(t, first, ours, NULL, is_of_libcalls, 1);
	put_elements(t, first, given, ours, is_first, 0);
	put_elements(t, first, ours, NULL, is_of_libcalls, 0);
}

static void put_escaped(struct xr_text *t, const char *s)
{
	for (; *s; s++) {
		if (*s == ',' || *s == '%')
			xr_put_text(t, *s == ',' ? "%2C" : "%25");
		else
			xr_put(t, s, 1);
	}
}

/* Makes the environment with which the program loads the recorder. */
static void prepare(struct execution *e, const struct program *p)
{
	char *const *given = e->envp;
	const char *own = xr_options.own;
	char *entry;
	if (given && xr_copy_from(&entry, given, sizeof entry) != sizeof entry)
		return; /* the call fails, too */
	int preload_at, options_at, n = 0;
	const char *preload = value_of(given, "LD_PRELOAD", &preload_at), *options = value_of(given, "XRAY_RECORDER", &options_at);
	if (p->kind != LIKE_THIS || !own || (options && !xr_equal(options, own)) ||
	    (options && lists_all(preload, xr_options.preload) && !*p->sanitizer))
		return;
	while (given && given[n])
		n++;
	uint64_t pointers = (n + 3) * sizeof *given, texts = 3 * xr_strlen(own) + 4 * (preload ? xr_strlen(preload) : 0) + 256;
	char **list = xr_map(pointers + texts);
	if (!list)
		return;
	e->mapped = list;
	e->size = pointers + texts;
	struct xr_text t = xr_text_in((char *)list + pointers, texts);
	if (n)
		xr_copy(list, given, n * sizeof *given);
	list[preload_at < 0 ? n++ : preload_at] = (char *)t.p;
	put_preload(&t, preload, xr_options.preload, p->sanitizer);
	xr_put(&t, "", 1);
	list[options_at < 0 ? n++ : options_at] = (char *)t.p + t.n;
	xr_put_text(&t, "XRAY_RECORDER=");
	uint64_t first = t.n;
	xr_put_text(&t, own);
	xr_put_text(&t, options ? ",restore=1" : ",restore=2");
	if (preload) {
		xr_put_text(&t, ",given=");
		put_escaped(&t, preload);
	}
	xr_put(&t, "", 1);
	list[n] = NULL;
	if (!t.cut && t.n - first <= XR_MAX_OPTIONS)
		e->envp = list;
}

static int follows(void) { return xr_options.preload && xr_options.follow && !xr_sealed; }

/* libc's functions. Found by the constructor, because a child of vfork must not call dlsym. */
static int (*real_execve)(const char *, char *const *, char *const *);
static int (*real_execvpe)(const char *, char *const *, char *const *);
static int (*real_fexecve)(int, char *const *, char *const *);
static int (*real_execveat)(int, const char *, char *const *, char *const *, int);
static __typeof(posix_spawn) *real_spawn, *real_spawnp;

__attribute__((constructor(101))) static void find_exec(void)
{
	if (real_execve)
		return;
	real_execvpe = dlsym(RTLD_NEXT, "execvpe");
	real_fexecve = dlsym(RTLD_NEXT, "fexecve");
	real_execveat = dlsym(RTLD_NEXT, "execveat");
	real_spawn = dlsym(RTLD_NEXT, "posix_spawn");
	real_spawnp = dlsym(RTLD_NEXT, "posix_spawnp");
	dl_iterate_phdr(note_loader, NULL);
	real_execve = dlsym(RTLD_NEXT, "execve");
}

/* Finds a program as execvp does. */
static void look_in_path(const char *file, struct program *p)
{
	int at;
	for (const char *c = file; *c; c++)
		if (*c == '/') {
			look_at(AT_FDCWD, file, 0, p);
			return;
		}
	p->kind = UNKNOWN;
	const char *path = value_of(environ, "PATH", &at);
	if (!path)
		path = "/bin:/usr/bin";
	for (const char *end = path; *file; path = end + 1) {
		char room[1024];
		struct xr_text t = xr_text_in(room, sizeof room - 1);
		for (end = path; *end && *end != ':'; end++)
			;
		xr_put(&t, path, end - path);
		xr_put_text(&t, end > path ? "/" : "");
		xr_put_text(&t, file);
		room[t.n] = 0;
		if (!t.cut && !xr_sys2(SYS_access, (intptr_t)room, X_OK)) {
			look_at(AT_FDCWD, room, 0, p);
			return;
		}
		if (!*end)
			return;
	}
}

static uint64_t look_and_prepare(uint64_t execution, uint64_t b, uint64_t c, uint64_t d)
{
	struct execution *e = (struct execution *)execution;
	struct program p = {.kind = UNKNOWN};
	(void)b, (void)c, (void)d;
	if (e->in_path)
		look_in_path(e->path, &p);
	else
		look_at(e->dir, e->path, e->flags, &p);
	prepare(e, &p);
	return 1;
}

/* Memory of the environment of a program that a child of vfork has executed. The child shares it with its
 * parent, and cannot unmap it. */
static __thread struct {
	void *p;
	uint64_t size;
} left __attribute__((tls_model("initial-exec")));

static void discard_left(void)
{
	void *p = left.p;
	left.p = NULL;
	if (p)
		xr_unmap(p, left.size);
}

static void begin(struct execution *e)
{
	find_exec();
	discard_left();
	xr_later_flush();
	if (follows())
		xr_inside(look_and_prepare, (uintptr_t)e, 0, 0, 0);
	left.size = e->size;
	left.p = e->mapped;
}

static int end(int r)
{
	int saved = errno;
	discard_left();
	errno = saved;
	return r;
}

/* The call takes its environment from e. */
#define EXECUTE(call, ...) \
	struct execution e = {.envp = envp, __VA_ARGS__}; \
	begin(&e); \
	return end(call)

EXPORT int execve(const char *path, char *const *argv, char *const *envp)
{
	EXECUTE(real_execve(path, argv, e.envp), .dir = AT_FDCWD, .path = path);
}

EXPORT int execvpe(const char *file, char *const *argv, char *const *envp)
{
	EXECUTE(real_execvpe(file, argv, e.envp), .path = file, .in_path = 1);
}

EXPORT int fexecve(int fd, char *const *argv, char *const *envp)
{
	EXECUTE(real_fexecve(fd, argv, e.envp), .dir = fd, .path = "", .flags = AT_EMPTY_PATH);
}

EXPORT int execveat(int dir, const char *path, char *const *argv, char *const *envp, int flags)
{
	EXECUTE(real_execveat ? real_execveat(dir, path, argv, e.envp, flags) : (errno = ENOSYS, -1), .dir = dir, .path = path, .flags = flags);
}

EXPORT int posix_spawn(pid_t *pid, const char *path, const posix_spawn_file_actions_t *actions, const posix_spawnattr_t *attributes,
		       char *const *argv, char *const *envp)
{
	EXECUTE(real_spawn(pid, path, actions, attributes, argv, e.envp), .dir = AT_FDCWD, .path = path);
}

EXPORT int posix_spawnp(pid_t *pid, const char *file, const posix_spawn_file_actions_t *actions, const posix_spawnattr_t *attributes,
			char *const *argv, char *const *envp)
{
	EXECUTE(real_spawnp(pid, file, actions, attributes, argv, e.envp), .path = file, .in_path = 1);
}

EXPORT int execv(const char *path, char *const *argv) { return execve(path, argv, environ); }
EXPORT int execvp(const char *file, char *const *argv) { return execvpe(file, argv, environ); }

/* Counts the arguments of execl and the like, with the terminating null. */
static int count(va_list list)
{
	int n = 2;
	while (va_arg(list, char *))
		n++;
	return n;
}

#define COLLECT(first) \
	va_list list; \
	va_start(list, first); \
	int n = count(list); \
	va_end(list); \
	char *argv[n]; \
	argv[0] = (char *)first; \
	va_start(list, first); \
	for (int i = 1; i < n; i++) \
		argv[i] = va_arg(list, char *)

EXPORT int execl(const char *path, const char *arg, ...)
{
	COLLECT(arg);
	va_end(list);
	return execve(path, argv, environ);
}

EXPORT int execlp(const char *file, const char *arg, ...)
{
	COLLECT(arg);
	va_end(list);
	return execvpe(file, argv, environ);
}

EXPORT int execle(const char *path, const char *arg, ...)
{
	COLLECT(arg);
	char *const *envp = va_arg(list, char *const *);
	va_end(list);
	return execve(path, argv, envp);
}

#endif
