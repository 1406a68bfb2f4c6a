/* Other code changes a sled while the program is recorded. The recorder leaves off the sled's function, and
 * records the others. Then the other code changes all functions, and the recorder refuses the object. */
#define _GNU_SOURCE
#include <sys/mman.h>

#include "objects.h"
#include "walk.h"

static volatile long sink;

TRACED static void called(void) { sink++; }
TRACED static void changed(void) { sink += 2; }

PLAIN static long count_on(const struct xr_object *o)
{
	long n = 0;
	for (uint64_t i = 0; i < o->nsleds; i++)
		n += *(uint16_t *)xr_sled_address((const struct xr_sled *)o->sleds + i) == 0x04eb;
	return n;
}

/* Changes a byte of the last sled of each function from this one on. */
PLAIN static void change(const struct xr_object *o, uint64_t function)
{
	const struct xr_sled *s = (const struct xr_sled *)o->sleds;
	uint64_t page = -4096ul, n = 0;
	mprotect((void *)(o->text_first & page), o->text_end - (o->text_first & page), PROT_READ | PROT_WRITE | PROT_EXEC);
	for (uint64_t i = 0; i < o->nsleds; i++) {
		int last = i + 1 == o->nsleds || xr_sled_function(&s[i]) != xr_sled_function(&s[i + 1]);
		if (last && n++ >= function)
			*(uint8_t *)(xr_sled_address(&s[i]) + 2) ^= 0x10;
	}
	xr_switch(XR_COUNT, 0, 0);
	xr_switch(XR_RECORD, 0, 0);
}

PLAIN int main(int argc, char **argv)
{
	struct xr_object *o = &xr_root.objects[0];
	(void)argv;
	if (argc > 2)
		changed(); /* never happens, but the compiler does not know that */
	if (xr_start(XR_RECORD, 0, 0, -1, 0))
		return 2;
	called();
	printf("functions %u\nbefore %ld\n", o->nfunctions, count_on(o));
	change(o, o->nfunctions - 1);
	printf("after %ld\nleft %lu\nrefused %d\n", count_on(o), xr_left_off(o, XR_CHANGED), o->state == XR_OBJECT_REFUSED);
	called();
	change(o, 0);
	printf("all %d\n", o->state == XR_OBJECT_REFUSED);
	xr_stop();
	printf("calls %ld\n", sink);
	return 0;
}
