// Preloaded into a build, this sends calls of compilers through xray, which adds the flags that
// instrument. Everything else executes as it is. The environment says how:
//
//	XRAY_BUILD_PROGRAM  the path of the program to execute instead
//	XRAY_BUILD_NAME     the name by which it is called
//	XRAY_BUILD_WORD     its first argument; the compiler's path, name and arguments follow
//	XRAY_BUILD_DONE     if set, the flags have been added already
//
// Functions here run in children of vfork, too: they write to their own stack only.
#define _GNU_SOURCE
#include <alloca.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

extern char **environ;

typedef int execve_fn(const char *, char *const[], char *const[]);
typedef int spawn_fn(pid_t *, const char *, const posix_spawn_file_actions_t *, const posix_spawnattr_t *, char *const[],
                     char *const[]);

static execve_fn *real_execve, *real_execvpe;
static spawn_fn *real_spawn, *real_spawnp;
static int (*real_execveat)(int, const char *, char *const[], char *const[], int);

__attribute__((constructor)) static void find(void) {
  real_execve = (execve_fn *)dlsym(RTLD_NEXT, "execve");
  real_execvpe = (execve_fn *)dlsym(RTLD_NEXT, "execvpe");
  real_spawn = (spawn_fn *)dlsym(RTLD_NEXT, "posix_spawn");
  real_spawnp = (spawn_fn *)dlsym(RTLD_NEXT, "posix_spawnp");
  real_execveat = (int (*)(int, const char *, char *const[], char *const[], int))dlsym(RTLD_NEXT, "execveat");
}

static const char *value(char *const env[], const char *name) {
  size_t n = strlen(name);
  for (; env && *env; env++)
    if (!strncmp(*env, name, n) && (*env)[n] == '=') return *env + n + 1;
  return NULL;
}

// The names of compilers, and of programs that start them. Before a name may be a target and a dash, and behind it
// a version: x86_64-linux-gnu-g++-14.
static const char *const compilers[] = {"cc", "c++", "gcc", "g++", "clang", "clang++", "rustc", "cargo", "ccache", "sccache", "distcc"};

static int is_compiler(const char *path) {
  const char *name = strrchr(path, '/');
  name = name ? name + 1 : path;
  size_t n = strlen(name), version = n;
  while (version && ((name[version - 1] >= '0' && name[version - 1] <= '9') || name[version - 1] == '.')) version--;
  if (version && version < n && name[version - 1] == '-') n = version - 1;
  for (size_t i = 0; i < sizeof compilers / sizeof *compilers; i++) {
    size_t m = strlen(compilers[i]);
    if (n >= m && !strncmp(name + n - m, compilers[i], m) && (n == m || name[n - m - 1] == '-')) return 1;
  }
  return 0;
}

// resolve finds a program in PATH, as execvp does. It returns NULL if there is none.
static const char *resolve(const char *file, char *buf, size_t size) {
  if (strchr(file, '/')) return access(file, X_OK) ? NULL : file;
  const char *path = value(environ, "PATH");
  if (!path) path = "/bin:/usr/bin";
  for (;;) {
    size_t n = strcspn(path, ":");
    int wrote = n ? snprintf(buf, size, "%.*s/%s", (int)n, path, file) : snprintf(buf, size, "%s", file);
    if (wrote > 0 && (size_t)wrote < size && !access(buf, X_OK)) return buf;
    if (!path[n]) return NULL;
    path += n + 1;
  }
}

static size_t length(char *const argv[]) {
  size_t n = 0;
  while (argv && argv[n]) n++;
  return n;
}

enum { ADDED = 3, LONGEST = 4096 };

// redirect returns the program to execute instead of a compiler, and fills in its arguments, for which args has
// room. It returns NULL for programs that are no compilers.
static const char *redirect(const char *file, int search, char *const argv[], char *const env[], const char **args, char *buf) {
  const char *program = value(env, "XRAY_BUILD_PROGRAM"), *name = value(env, "XRAY_BUILD_NAME"), *word = value(env, "XRAY_BUILD_WORD");
  if (!file || !argv || !program || !name || !word || value(env, "XRAY_BUILD_DONE") || !is_compiler(file)) return NULL;
  if (!(file = search ? resolve(file, buf, LONGEST) : access(file, X_OK) ? NULL : file)) return NULL;
  size_t n = length(argv);
  args[0] = name, args[1] = word, args[2] = file;
  // The name by which it was called, which may decide what it does, goes along.
  for (size_t i = 0; i <= n; i++) args[ADDED + i] = argv[i];
  return program;
}

#define REDIRECT(file, search, argv, env)                                                   \
  char buf[LONGEST];                                                                        \
  const char **args = alloca((length(argv) + ADDED + 1) * sizeof *args);                    \
  const char *program = redirect(file, search, argv, env, args, buf)

int execve(const char *path, char *const argv[], char *const env[]) {
  REDIRECT(path, 0, argv, env);
  return program ? real_execve(program, (char *const *)args, env) : real_execve(path, argv, env);
}

int execv(const char *path, char *const argv[]) { return execve(path, argv, environ); }

int execvpe(const char *file, char *const argv[], char *const env[]) {
  REDIRECT(file, 1, argv, env);
  return program ? real_execve(program, (char *const *)args, env) : real_execvpe(file, argv, env);
}

int execvp(const char *file, char *const argv[]) { return execvpe(file, argv, environ); }

int execveat(int dir, const char *path, char *const argv[], char *const env[], int flags) {
  if (real_execveat && (dir == AT_FDCWD || *path == '/') && !flags) return execve(path, argv, env);
  if (!real_execveat) {
    errno = ENOSYS;
    return -1;
  }
  return real_execveat(dir, path, argv, env, flags);
}

// LIST makes an array of the arguments of execl and its relatives.
#define LIST(arg)                                        \
  va_list list;                                          \
  va_start(list, arg);                                   \
  size_t n = 1;                                          \
  while (va_arg(list, char *)) n++;                      \
  va_end(list);                                          \
  char **argv = alloca((n + 1) * sizeof *argv);          \
  va_start(list, arg);                                   \
  argv[0] = (char *)arg;                                 \
  for (size_t i = 1; i <= n; i++) argv[i] = va_arg(list, char *)

int execl(const char *path, const char *arg, ...) {
  LIST(arg);
  va_end(list);
  return execve(path, argv, environ);
}

int execlp(const char *file, const char *arg, ...) {
  LIST(arg);
  va_end(list);
  return execvpe(file, argv, environ);
}

int execle(const char *path, const char *arg, ...) {
  LIST(arg);
  char *const *env = va_arg(list, char *const *);
  va_end(list);
  return execve(path, argv, env);
}

int posix_spawn(pid_t *pid, const char *path, const posix_spawn_file_actions_t *actions, const posix_spawnattr_t *attr,
                char *const argv[], char *const env[]) {
  REDIRECT(path, 0, argv, env);
  return program ? real_spawn(pid, program, actions, attr, (char *const *)args, env) : real_spawn(pid, path, actions, attr, argv, env);
}

int posix_spawnp(pid_t *pid, const char *file, const posix_spawn_file_actions_t *actions, const posix_spawnattr_t *attr,
                 char *const argv[], char *const env[]) {
  REDIRECT(file, 1, argv, env);
  return program ? real_spawn(pid, program, actions, attr, (char *const *)args, env) : real_spawnp(pid, file, actions, attr, argv, env);
}
