// Long bodies are slow, in C: the time grows with a member of what a pointer points to.
#include <stdint.h>
#include <stdlib.h>
#include <time.h>

enum method { GET, POST };
struct body { const unsigned char *data; uint32_t len; };
struct request { enum method method; struct body body; unsigned tries : 3; };

static unsigned noise(uint64_t id)
{
	id = (id ^ id >> 30) * 0xbf58476d1ce4e5b9;
	return (id ^ id >> 27) * 0x94d049bb133111eb >> 33;
}

__attribute__((noinline)) void checksum(const struct request *r)
{
	struct timespec t = {0, r->body.len * 2000l};
	nanosleep(&t, NULL);
	__asm__ volatile("");
}

__attribute__((noinline)) void handle(struct request *r)
{
	checksum(r);
	for (volatile int i = 0; i < 3000; i++);
}

int main(int argc, char **argv)
{
	uint64_t seed = atoi(argv[2]) * 1000003ull;
	static unsigned char text[8192];
	for (uint64_t i = seed; i < seed + 1000; i++) {
		int rare = noise(i) % 40 == 0;
		struct request r = {noise(i + 1) % 2, {text, rare ? 4000 + noise(i + 2) % 4000 : 400 + noise(i + 2) % 800}, noise(i + 3) % 8};
		handle(&r);
	}
	return argc > 2 ? 0 : 1;
}
