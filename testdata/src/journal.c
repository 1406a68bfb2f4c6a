/* A program that keeps its records in files: what xray io and xray alloc are shown on. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#define STEP __attribute__((noinline))

enum { RECORDS = 64, PAGE = 4096 };

struct record {
	struct record *next;
	char key[48], value[96];
};

static struct record *newest;
static char *index_of;
static size_t index_size, index_room;

STEP static char *formatKey(int i)
{
	char *key = malloc(64);
	snprintf(key, 64, "record-%08d", i);
	return key;
}

STEP static void growIndex(void)
{
	index_room = index_room ? 8 * index_room : 64;
	index_of = realloc(index_of, index_room);
	memset(index_of + index_size, 0, index_room - index_size);
}

STEP static struct record *addRecord(const char *key)
{
	struct record *r = calloc(1, sizeof *r);
	strcpy(r->key, key);
	r->next = newest;
	newest = r;
	if (index_size + 48 > index_room)
		growIndex();
	memcpy(index_of + index_size, key, strlen(key));
	index_size += 48;
	return r;
}

STEP static void appendRecord(int fd, const struct record *r)
{
	if (write(fd, r->key, sizeof r->key + sizeof r->value) < 0)
		abort();
}

STEP static void flushJournal(int fd)
{
	fsync(fd);
}

STEP static uint64_t verifyPages(const char *path)
{
	static char page[PAGE];
	uint64_t sum = 0;
	int fd = open(path, O_RDONLY);
	for (off_t at = 0; pread(fd, page, PAGE, at) > 0; at += PAGE)
		sum += page[0];
	close(fd);
	return sum;
}

STEP static void *answer(void *pair)
{
	char request[32];
	int fd = ((int *)pair)[1];
	while (recv(fd, request, sizeof request, 0) > 0)
		if (send(fd, "ok", 2, 0) < 0)
			break;
	return NULL;
}

STEP static void ask(int fd, int epoll)
{
	char reply[8];
	struct epoll_event event;
	if (send(fd, "how many records?", 17, 0) < 0 || epoll_wait(epoll, &event, 1, 1000) != 1 || recv(fd, reply, sizeof reply, 0) < 0)
		abort();
}

STEP static void fill(int fd)
{
	for (int i = 0; i < RECORDS; i++) {
		char *key = formatKey(i);
		appendRecord(fd, addRecord(key));
		free(key);
		if (i % 16 == 15)
			flushJournal(fd);
	}
}

int main(int argc, char **argv)
{
	const char *path = argc > 1 ? argv[1] : "journal.log";
	int fd = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600), pair[2];
	fill(fd);
	close(fd);
	pthread_t thread;
	if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair))
		return 1;
	int epoll = epoll_create1(0);
	struct epoll_event readable = {.events = EPOLLIN};
	epoll_ctl(epoll, EPOLL_CTL_ADD, pair[0], &readable);
	pthread_create(&thread, NULL, answer, pair);
	for (int i = 0; i < 20; i++)
		ask(pair[0], epoll);
	shutdown(pair[0], SHUT_RDWR);
	pthread_join(thread, NULL);
	printf("%d records, %d\n", RECORDS, (int)verifyPages(path));
	free(index_of);
	return 0;
}
