/* Other code changes a sled while the program is recorded. The recorder gives up the object and
 * switches off its sleds. Prints how many sleds are on afterwards. */
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

PLAIN int main(int argc, char **argv)
{
	const struct xr_object *o = &xr_root.objects[0];
	(void)argv;
	if (argc > 2)
		changed(); /* never happens, but the compiler does not know that */
	if (xr_start(XR_RECORD, 0, 0, -1, 0))
		return 2;
	called();
	printf("before %ld\n", count_on(o));

	const struct xr_sled *last = (const struct xr_sled *)o->sleds + o->nsleds - 1;
	uint8_t *id = (uint8_t *)xr_sled_address(last) + 2;
	if (mprotect((void *)((uintptr_t)id & -4096ul), 4096, PROT_READ | PROT_WRITE | PROT_EXEC))
		return 2;
	*id ^= 0x10;
	xr_switch(XR_COUNT, 0, 0);
	printf("after %ld\nrefused %d\n", count_on(o), o->state == XR_OBJECT_REFUSED);
	called();
	xr_stop();
	printf("calls %ld\n", sink);
	return 0;
}
