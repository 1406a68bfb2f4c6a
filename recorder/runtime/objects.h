/* The interface between objects.c, which finds the program's sleds, and patch.c, which switches
 * them. All functions need XR_LOCK_CONTROL unless they say otherwise. */
#ifndef XRAY_RECORDER_OBJECTS_H
#define XRAY_RECORDER_OBJECTS_H

#include <link.h>

#include "layout.h"

#pragma GCC visibility push(hidden)

/* Where the symbols of an object are in its file, and which file that is. */
struct xr_symbol_table {
	uint64_t offset, size, names_offset, names_size; /* 0 if the object is stripped */
	uint64_t dev, ino, mtime;
};
/* Private data of the recorder about an object. Same index as the object. */
struct xr_mapping {
	uint64_t key;      /* identifies the mapping: hash of address, path and build ID */
	uint64_t seg_first, seg_end; /* pages of the segment that holds the sleds */
	int prot;          /* of that segment */
	int seen;          /* by the current discovery */
	int program;       /* it is the program, and not a shared object */
	int late;          /* it was opened after the program's start, and may be closed */
	struct xr_symbol_table symbols;
	uint64_t old_first, old_end; /* code that BOLT has copied and rewritten elsewhere, or 0 */
	uint64_t unwind;   /* address of .eh_frame_hdr; 0 if it has none */
	uint64_t absent;   /* TSC at which it was not loaded; 0 if its sleds are on, or were from the start */
};
extern struct xr_mapping xr_mappings[XR_MAX_OBJECTS];
/* TSC of the latest search for objects while recording, or 0. */
extern uint64_t xr_last_scan;
/* Finds objects that were loaded or unloaded since the last call. Call it under xr_with_loader.
 * Returns how many changed. */
int xr_discover(void);
/* Objects that are found from now on are late. */
void xr_discovered_first(void);
int xr_has_late_objects(void);
/* Returns whether an object's functions call hooks of GCC, by which they are discovered. */
int xr_has_gcc_objects(void);
/* Returns the dynamic section of an object, an array of ElfW(Dyn), or null if it has none.
 * Needs no lock. */
struct dl_phdr_info;
const void *xr_dynamic_section(const struct dl_phdr_info *info);
/* Returns the segment with these flags that holds size bytes from address, or null. */
const ElfW(Phdr) *xr_segment_at(const struct dl_phdr_info *info, uint32_t flags, uint64_t address, uint64_t size);
/* Converts an address in the dynamic section. musl, and read-only sections, keep it as in the file. */
uint64_t xr_dynamic_address(const struct dl_phdr_info *info, uint64_t value);
/* Refuses an object, with a warning. Its sleds stay as they are from then on. */
void xr_refuse(struct xr_object *o, const char *why, int64_t error);
/* Prefetches a sled that is visited some sleds after sled i. Sleds are seldom in the caches when a process
 * starts, so waiting for memory takes most of the time. Without SSE, compilers leave out their builtin. */
static inline void xr_prefetch_sled(const struct xr_object *o, uint64_t i)
{
	enum { AHEAD = 16 };
	if (i + AHEAD < o->nsleds)
		__asm__ volatile("prefetcht0 (%0)" : : "r"(xr_sled_address((const struct xr_sled *)o->sleds + i + AHEAD)));
}
/* Allocates n consecutive IDs and returns the first, or 0 if there are not enough. Needs no
 * lock. */
uint32_t xr_take_ids(uint32_t n);
/* Returns whether the thunk pages are within 32-bit displacements of all sleds. */
static inline int xr_is_near(const struct xr_object *o, uint64_t thunks)
{
	uint64_t reach = 0x7fff0000, first = o->text_first, end = o->text_end;
	return (thunks < end ? end - thunks : thunks - end) < reach &&
	       (thunks < first ? first - thunks : thunks - first) < reach;
}

#pragma GCC visibility pop

#endif
