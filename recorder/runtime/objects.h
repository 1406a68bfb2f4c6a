/* Between objects.c, which finds the program's sleds, and patch.c, which switches
 * them. XR_LOCK_CONTROL is held everywhere. */
#ifndef XRAY_RECORDER_OBJECTS_H
#define XRAY_RECORDER_OBJECTS_H

#include "internal.h"

#pragma GCC visibility push(hidden)

/* An entry of the sled table, which is not aligned. Offsets are relative to their own
 * addresses. */
struct xr_sled {
	int64_t sled, function;
	uint8_t kind, always, version;
	uint8_t call; /* of functions of libc, XR_CALL_...; else 0 */
	uint8_t padding[12];
} __attribute__((packed));
enum { XR_SLED_ENTRY, XR_SLED_EXIT, XR_SLED_TAIL, XR_SLED_ARG, XR_SLED_CUSTOM, XR_SLED_TYPED, XR_SLED_KINDS };

static inline uint64_t xr_sled_address(const struct xr_sled *s) { return (uintptr_t)&s->sled + s->sled; }
static inline uint64_t xr_sled_function(const struct xr_sled *s) { return (uintptr_t)&s->function + s->function; }

/* What is known of an object besides what others may see; same index. */
struct xr_mapping {
	uint64_t key;      /* of what is mapped: hash of place, path and build id */
	uint64_t seg_first, seg_end; /* pages of the segment with the sleds */
	int prot;          /* of that segment */
	int seen;          /* by the discovery that is going on */
	uint64_t absent;   /* TSC: not there then; 0 if its sleds are on, or were from the start */
};
extern struct xr_mapping xr_mappings[XR_MAX_OBJECTS];

/* When objects were last looked for while recording: TSC, or 0. */
extern uint64_t xr_last_scan;

/* Calls what with arg while no object can come or go, with XR_LOCK_LOADER held. Forking
 * takes that too: a child must not find the loader locked by a thread that it does not
 * have. */
void xr_with_loader(void (*what)(void *arg), void *arg);
/* Finds objects that came and went since the last time; under xr_with_loader.
 * Returns how many. */
int xr_discover(void);
/* The dynamic section of an object, an array of ElfW(Dyn); null if it has none. No lock need
 * be held. */
struct dl_phdr_info;
const void *xr_dynamic_section(const struct dl_phdr_info *info);
/* How many objects came and went so far. */
uint64_t xr_loader_changes(void);
/* Whether any did since the last discovery. No lock need be held. */
int xr_objects_changed(void);
/* Notes that what will be found is not there yet, if that is so. No lock need be held. */
void xr_before_open(void);
/* Refuses an object, with a warning: from here on its sleds stay as they are. */
void xr_refuse(struct xr_object *o, const char *why, int64_t error);

/* patch.c: makes the two pages of near thunks of an object. Returns -errno. */
int xr_make_thunks(struct xr_object *o);
/* Whether the filter keeps the function with this ID. */
int xr_filter_wants(uint32_t id);
/* Applies the filter to an object's ids. */
void xr_filter_object(const struct xr_object *o);

/* Takes n ids in a row that are nobody's yet, and returns the first; 0 if there are not
 * so many. Needs no lock. */
uint32_t xr_take_ids(uint32_t n);

/* Once, before the first xr_patch. */
void xr_patch_init(void);

/* Whether the thunk's page is near enough to all sleds for 32-bit displacements. */
static inline int xr_is_near(const struct xr_object *o, uint64_t thunks)
{
	uint64_t reach = 0x7fff0000, first = o->text_first, end = o->text_end;
	return (thunks < end ? end - thunks : thunks - end) < reach &&
	       (thunks < first ? first - thunks : thunks - first) < reach;
}

#pragma GCC visibility pop

#endif
