/* Stands in for the rest of the runtime to test the writer: fills rings by hand, with
 * records of every kind and made-up timestamps.
 *
 *   rings snapshot FILE SEED THREADS CALLS CHUNKS [SINCE]   all, or from this percentage of the time on
 *   rings core FILE SEED THREADS CALLS CHUNKS [SINCE]       a snapshot, and then the program aborts
 *   rings stream FILE SEED THREADS CALLS CHUNKS
 *   rings limit FILE SEED THREADS CALLS CHUNKS BYTES        stream with a limit
 *   rings live FILE SNAPSHOTS CHUNKS                        snapshots of two running threads
 *   rings flip FILE SNAPSHOTS                               snapshots of a thread that removes its records
 *   rings cost FILE ROUNDS                                  cost of encoding a record, in ns
 *
 * Prints the contents of the file: a line "call ID COUNT" for each function, and "event",
 * "argument", "back" and "dropped" with their counts. "sum" is the sum of the upper halves
 * of the arguments. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "arena.h"
#include "budget.h"
#include "clock.h"
#include "counters.h"
#include "gcc.h"
#include "layout.h"
#include "later.h"
#include "objects.h"
#include "locks.h"
#include "offcpu.h"
#include "profile.h"
#include "ring.h"
#include "sleds.h"
#include "state.h"
#include "sums.h"
#include "syscall.h"
#include "text.h"
#include "warnings.h"
#include "window.h"
#include "writer.h"

void xr_counters_dump(void (*put)(void *, const void *, uint64_t), void *to) { (void)put, (void)to; }
uint32_t xr_limited;
int xr_budget_is_own(void) { return 0; }
void xr_budget_dump(uint64_t from, int complete, void (*put)(void *, const void *, uint64_t), void *to) { (void)from, (void)complete, (void)put, (void)to; }
void xr_profile_dump(void (*put)(void *, const void *, uint64_t), void *to) { (void)put, (void)to; }
void xr_profile_dump_off(void (*put)(void *, const void *, uint64_t), void *to) { (void)put, (void)to; }
int xr_offcpu_on(void) { return 0; }
int xr_offcpu_waits(const struct xr_thread *t, struct xr_switch *s) { (void)t, (void)s; return 0; }
void xr_sums_dump(void (*put)(void *, const void *, uint64_t), void *to) { (void)put, (void)to; }
void xr_put_offcpu(struct xr_text *t) { (void)t; }
int xr_sums_any(void) { return 0; }
void xr_warn(const char *what, const char *detail) { fprintf(stderr, "%s: %s\n", what, detail); }
uint64_t xr_profile_lost(void) { return 0; }
uint64_t xr_ended_lost(void) { return 0; }
uint64_t xr_later_until;
const struct xr_chunk *xr_later_chunk(const struct xr_thread *t, uint64_t until, uint64_t number) { (void)t, (void)until, (void)number; return NULL; }
uint64_t xr_later_first(uint64_t until) { (void)until; return UINT64_MAX; }
struct xr_memory xr_memory;
uint64_t xr_arena_written(const struct xr_thread *t, int *unsure) { (void)t; *unsure = 0; return 0; }
const char *const xr_unsafe_texts[XR_UNSAFE_KINDS];
enum xr_unsafe xr_unsafe(const struct xr_object *o, uint64_t i) { (void)o, (void)i; return XR_SAFE; }
uint64_t xr_left_off(const struct xr_object *o, enum xr_unsafe why) { (void)o, (void)why; return 0; }
uint64_t xr_gcc_functions(void) { return 0; }
uint64_t xr_values_changes;
void xr_put_values(struct xr_text *t) { (void)t; }
void xr_put_schedule(struct xr_text *t) { (void)t; }
int xr_window_at(uint64_t tsc, struct xr_window *w) { (void)tsc, (void)w; return 1; }
uint64_t xr_windows_from(const struct xr_trace *trace) { (void)trace; return 0; }
void xr_put_windows(struct xr_text *t, struct xr_trace *trace) { (void)t, (void)trace; }
void xr_gcc_dump(void (*put)(void *, const void *, uint64_t), void *to) { (void)put, (void)to; }

static void die(const char *what)
{
	fprintf(stderr, "rings: %s\n", what);
	exit(1);
}

static uint64_t random_state;
static uint64_t rnd(uint64_t below)
{
	random_state = random_state * 6364136223846793005ull + 1442695040888963407ull;
	return (random_state >> 33) % below;
}

/* A thread and the state of its records. */
struct thread {
	struct xr_thread t;
	uint64_t tsc;
	uint64_t before; /* TSC of the latest record */
	uint16_t cpu;
};

#define FUNCTIONS 100
static uint64_t calls[FUNCTIONS + 1], events, arguments, argument_sum;
static uint64_t back; /* number of backward steps in time */
static int steps_back; /* whether to make backward steps */

static struct xr_chunk *current(struct xr_thread *t)
{
	return (struct xr_chunk *)(t->ring + (t->taken - 1) % t->nchunks * XR_CHUNK_SIZE);
}

static void put_stamp(struct thread *th)
{
	uint64_t *p = (uint64_t *)th->t.cursor;
	__atomic_store_n(&th->t.cursor, th->t.cursor + 16, __ATOMIC_RELEASE);
	__atomic_store_n(&p[0], XR_REC_STAMP << 1 | 1 | (uint64_t)th->cpu << 16, __ATOMIC_RELEASE);
	__atomic_store_n(&p[1], th->tsc << 1 | 1, __ATOMIC_RELEASE);
	th->t.epoch = th->tsc >> 32;
	th->t.cpu = th->cpu;
}

static void next_chunk(struct thread *th)
{
	struct xr_thread *t = &th->t;
	if (t->taken) {
		struct xr_chunk *c = current(t);
		c->used = t->cursor - (uint64_t)c;
		if (xr_root.stream) {
			uint64_t signals = xr_block_signals();
			xr_lock_one(XR_LOCK_THREAD, &t->lock);
			xr_stream(t, 0);
			xr_unlock_one(XR_LOCK_THREAD, &t->lock);
			xr_restore_signals(signals);
		}
		t->last = c->last = th->tsc;
	}
	uint64_t number = t->taken + 1;
	struct xr_chunk *c = (struct xr_chunk *)(t->ring + (number - 1) % t->nchunks * XR_CHUNK_SIZE);
	__atomic_store_n(&c->seq, 2 * number - 1, __ATOMIC_SEQ_CST);
	memset((char *)c + 8, 0, XR_CHUNK_SIZE - 8);
	c->first = th->tsc;
	c->tid = t->tid;
	c->pid = t->pid;
	c->thread = t;
	c->magic = XR_CHUNK_MAGIC;
	__atomic_store_n(&t->cursor, (uint64_t)c + XR_CHUNK_HEADER, __ATOMIC_RELEASE);
	put_stamp(th);
	__atomic_store_n(&c->seq, 2 * number, __ATOMIC_RELEASE);
	__atomic_store_n(&t->taken, number, __ATOMIC_RELEASE);
	if (!t->first)
		t->first = th->tsc;
}

/* Makes room for n bytes after a valid stamp. */
static void room(struct thread *th, uint64_t n)
{
	back += th->tsc < th->before;
	th->before = th->tsc;
	if (!th->t.taken || th->t.cursor + n + 16 > (uint64_t)current(&th->t) + XR_CHUNK_SIZE)
		next_chunk(th);
	else if (th->t.epoch != th->tsc >> 32 || th->t.cpu != th->cpu)
		put_stamp(th);
}

static void put_function(struct thread *th, uint32_t id, uint32_t kind)
{
	room(th, 8);
	uint64_t *p = (uint64_t *)th->t.cursor;
	__atomic_store_n(&th->t.cursor, th->t.cursor + 8, __ATOMIC_RELEASE);
	__atomic_store_n(p, id << 4 | kind << 1 | th->tsc << 32, __ATOMIC_RELEASE);
}

static void put_entry_with_argument(struct thread *th, uint32_t id, uint64_t value)
{
	room(th, 24);
	put_function(th, id, XR_ENTER_ARG);
	uint64_t *p = (uint64_t *)th->t.cursor;
	p[0] = XR_REC_ARG << 1 | 1 | value >> 63 << 8;
	p[1] = value << 1 | 1;
	th->t.cursor += 16;
}

static void put_event(struct thread *th, int typed, uint32_t n)
{
	uint64_t padded = (n + 7) & ~7u;
	room(th, 24 + padded);
	uint8_t *p = (uint8_t *)th->t.cursor;
	uint64_t head[2] = {
		(typed ? XR_REC_TYPED : XR_REC_CUSTOM) << 1 | 1 | (uint64_t)(typed ? 77 : 0) << 16 | (uint64_t)n << 32,
		th->tsc << 1 | 1,
	};
	memcpy(p, head, 16);
	for (uint32_t i = 0; i < n; i++)
		p[16 + i] = 'a' + i % 26;
	uint64_t trailer = XR_TRAILER | n << 1 | 1;
	memcpy(p + 16 + padded, &trailer, 8);
	th->t.cursor += 24 + padded;
}

/* Reserves a slot and never writes it. */
static void leave_slot(struct thread *th)
{
	room(th, 8);
	th->t.cursor += 8;
}

static void pass(struct thread *th)
{
	th->tsc += 1 + rnd(1000);
	if (steps_back && rnd(500) == 0)
		th->tsc -= 5000;
	switch (rnd(2000)) {
	case 0: th->tsc += 1ull << 31; break;
	case 1: th->tsc += 1ull << 32; break;
	case 2: th->tsc += 5ull << 32; break;
	case 3: case 4: th->cpu = rnd(64); break;
	}
}

static void call(struct thread *th, int depth, uint64_t *left, int odd)
{
	uint32_t id = 1 + rnd(FUNCTIONS);
	if (odd && rnd(10) == 0) {
		uint64_t value = rnd(2) ? ~0ull - id : id;
		put_entry_with_argument(th, id, value);
		arguments++;
		argument_sum += value >> 32;
	} else {
		put_function(th, id, XR_ENTER);
	}
	calls[id]++;
	pass(th);
	while (*left && depth < 20 && rnd(100) < 48) {
		--*left;
		call(th, depth + 1, left, odd);
		pass(th);
	}
	if (odd && rnd(50) == 0) {
		put_event(th, rnd(2), rnd(20) ? rnd(60) : rnd(XR_MAX_PAYLOAD + 1));
		events++;
		pass(th);
	}
	put_function(th, id, odd && rnd(20) == 0 ? XR_TAIL : XR_EXIT);
}

static struct thread *threads;

static void make_threads(int n, uint64_t chunks)
{
	/* Just before a new epoch, but after the beginning of the stream. */
	uint64_t start = (xr_rdtsc() + (1ull << 32)) | 0xffffffff;
	threads = calloc(n, sizeof *threads);
	xr_root.threads = calloc(n, sizeof *xr_root.threads);
	xr_root.min_tsc = start - 5000;
	for (int i = 0; i < n; i++) {
		struct thread *th = &threads[i];
		th->t.tid = 1 + rnd(4000000);
		th->t.pid = 4242;
		th->t.state = XR_THREAD_DEAD;
		th->t.nchunks = chunks;
		th->t.ring = aligned_alloc(XR_CHUNK_SIZE, chunks * XR_CHUNK_SIZE);
		snprintf(th->t.name, sizeof th->t.name, "worker %d", i % 100);
		th->tsc = start - rnd(5000);
		xr_root.threads[i] = &th->t;
	}
	xr_root.nthreads = n;
}

static void fill(struct thread *th, uint64_t n, int odd)
{
	uint64_t left = n;
	while (left) {
		--left;
		call(th, 1, &left, odd);
		pass(th);
	}
}

static void report(void)
{
	uint64_t dropped = 0;
	for (int i = 1; i <= FUNCTIONS; i++)
		printf("call %d %lu\n", i, calls[i]);
	for (uint64_t i = 0; i < xr_root.nthreads; i++)
		dropped += xr_root.threads[i]->dropped;
	printf("event %lu\nargument %lu\nsum %lu\nback %lu\ndropped %lu\n", events, arguments, argument_sum, back, dropped);
}

static int create(const char *path)
{
	int fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0600);
	if (fd < 0)
		die("cannot open the file");
	return fd;
}

static int snapshot(int argc, char **argv)
{
	random_state = atoi(argv[3]);
	steps_back = argc == 7;
	make_threads(atoi(argv[4]), atoi(argv[6]));
	for (uint64_t i = 0; i < xr_root.nthreads; i++)
		fill(&threads[i], atoi(argv[5]), 1);
	uint64_t since = 0;
	if (argc > 7) {
		uint64_t end = 0;
		for (uint64_t i = 0; i < xr_root.nthreads; i++)
			end = threads[i].tsc > end ? threads[i].tsc : end;
		since = xr_root.min_tsc + (end - xr_root.min_tsc) / 100 * atoi(argv[7]);
		printf("since %lu\n", since);
	}
	struct xr_written w;
	int64_t n = xr_snapshot(create(argv[2]), since, &w);
	if (n < 0)
		die(strerror(-n));
	printf("records %lu\nbytes %lu\ntorn %lu\n", w.records, w.bytes, w.torn);
	report();
	return 0;
}

static int stream(char **argv, uint64_t limit)
{
	random_state = atoi(argv[3]);
	make_threads(atoi(argv[4]), atoi(argv[6]));
	/* Earlier records in the rings do not belong to the stream. */
	uint64_t start = threads[0].tsc;
	threads[0].tsc = xr_rdtsc();
	put_function(&threads[0], 99, XR_EXIT);
	put_function(&threads[0], 98, XR_ENTER);
	threads[0].tsc = start;
	int fd = create(argv[2]);
	xr_root.stream_limit = limit;
	if (xr_stream_begin(fd))
		die("no stream");
	fill(&threads[0], 10, 1);
	leave_slot(&threads[0]); /* an unwritten record: lost */
	fill(&threads[0], 10, 1);
	leave_slot(&threads[0]); /* the same at the end of a chunk */
	next_chunk(&threads[0]);
	for (uint64_t i = 0; i < xr_root.nthreads; i++)
		fill(&threads[i], atoi(argv[5]), 1);
	leave_slot(&threads[0]); /* at the end of what is flushed: no loss */
	if (xr_stream_metadata() || xr_stream_end())
		die("no metadata");
	report();
	return 0;
}

static volatile int done;

/* Pairs of calls that every reader can check: a call of function k inside one of function 1. */
static void *hammer(void *arg)
{
	struct thread *th = arg;
	for (uint32_t k = 2; !done; k = k < FUNCTIONS ? k + 1 : 2) {
		th->tsc = xr_rdtsc();
		put_function(th, 1, XR_ENTER);
		th->tsc = xr_rdtsc();
		put_function(th, k, XR_ENTER);
		if (k % 10 == 0) {
			th->tsc = xr_rdtsc();
			put_event(th, 0, k);
		}
		th->tsc = xr_rdtsc();
		put_function(th, k, XR_EXIT);
		th->tsc = xr_rdtsc();
		put_function(th, 1, XR_EXIT);
	}
	return NULL;
}

/* Entries of 5 and 6, or of 7 and 8, with others between, but never of 5 and 8 or 7 and 6.
 * As in prune mode, a slot is zeroed before it is reused, and never gets its old contents.
 * Unlike there, only some slots are removed and rewritten. */
static void *flip(void *arg)
{
	struct thread *th = arg;
	uint64_t *first = (uint64_t *)th->t.cursor, *last = first + 1000;
	for (int i = 0; i <= 1000; i++)
		put_function(th, 9, XR_ENTER);
	for (uint64_t id = 5, t = th->tsc; !done; id = 12 - id, t += id == 5) {
		__atomic_store_n(last, 0, __ATOMIC_RELEASE);
		__atomic_store_n(first, id << 4 | t << 32, __ATOMIC_RELEASE);
		__atomic_store_n(last, (id + 1) << 4 | t << 32, __ATOMIC_RELEASE);
		for (int i = 0; i < 500; i++)
			__asm__ volatile("");
	}
	return NULL;
}

/* Snapshots of n running threads. */
static int live(char **argv, int n, uint64_t chunks, void *(*work)(void *))
{
	make_threads(n, chunks);
	pthread_t ids[2];
	for (int i = 0; i < n; i++) {
		threads[i].tsc = xr_rdtsc();
		next_chunk(&threads[i]);
		pthread_create(&ids[i], NULL, work, &threads[i]);
	}
	uint64_t torn = 0, records = 0;
	for (int i = 0, snapshots = atoi(argv[3]); i < snapshots; i++) {
		char path[4096];
		struct xr_written w;
		snprintf(path, sizeof path, "%s.%d", argv[2], i);
		int fd = create(path);
		int64_t r = xr_snapshot(fd, work == hammer ? xr_rdtsc() - 3000000 : 0, &w);
		if (r < 0)
			die(strerror(-r));
		close(fd);
		torn += w.torn;
		records += w.records;
		usleep(1000);
	}
	done = 1;
	for (int i = 0; i < n; i++)
		pthread_join(ids[i], NULL);
	printf("torn %lu\nrecords %lu\n", torn, records);
	return 0;
}

static uint64_t cpu_ns(void)
{
	struct timespec t;
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return t.tv_sec * 1000000000ull + t.tv_nsec;
}

static int compare(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
	return x < y ? -1 : x > y;
}

static int cost(char **argv)
{
	int rounds = atoi(argv[3]);
	uint64_t *ns = calloc(rounds, sizeof *ns);
	random_state = 1;
	make_threads(1, 4);
	struct thread *th = &threads[0];
	next_chunk(th);
	while (th->t.cursor + 8 <= (uint64_t)current(&th->t) + XR_CHUNK_SIZE - 32) {
		put_function(th, 7, th->t.cursor & 8 ? XR_EXIT : XR_ENTER);
		th->tsc += 50;
	}
	struct xr_chunk *c = current(&th->t);
	uint64_t n = (th->t.cursor - (uint64_t)c - XR_CHUNK_HEADER - 16) / 8;
	if (xr_stream_begin(create(argv[2])))
		die("no stream");
	xr_root.stream_limit = 1; /* writes nothing, because write() has its own cost */
	for (int i = 0; i < rounds; i++) {
		c->streamed = 0;
		uint64_t before = cpu_ns();
		xr_stream(&th->t, 1);
		ns[i] = cpu_ns() - before;
	}
	qsort(ns, rounds, sizeof *ns, compare);
	printf("%lu records in %lu ns: %.2f ns each\n", n, ns[rounds / 2], (double)ns[rounds / 2] / n);
	return 0;
}

int main(int argc, char **argv)
{
	xr_root.mode = XR_RECORD;
	xr_anchor(&xr_root.start);
	if (argc >= 7 && !strcmp(argv[1], "snapshot"))
		return snapshot(argc, argv);
	if (argc >= 7 && !strcmp(argv[1], "core")) {
		snapshot(argc, argv);
		fflush(stdout);
		abort();
	}
	if (argc == 7 && !strcmp(argv[1], "stream"))
		return stream(argv, 0);
	if (argc == 8 && !strcmp(argv[1], "limit"))
		return stream(argv, atol(argv[7]));
	if (argc == 5 && !strcmp(argv[1], "live"))
		return live(argv, 2, atoi(argv[4]), hammer);
	if (argc == 4 && !strcmp(argv[1], "flip"))
		return live(argv, 1, 2, flip);
	if (argc == 4 && !strcmp(argv[1], "cost"))
		return cost(argv);
	die("usage");
}
