/* The interface between objects.c, which finds the program's sleds, and patch.c, which switches
 * them. All functions need XR_LOCK_CONTROL unless they say otherwise. */
#ifndef XRAY_RECORDER_OBJECTS_H
#define XRAY_RECORDER_OBJECTS_H

#include <link.h>

#include "internal.h"

#pragma GCC visibility push(hidden)

/* An entry of the sled table, possibly unaligned. Offsets are relative to their own addresses. */
struct xr_sled {
	int64_t sled, function;
	uint8_t kind, always, version;
	uint8_t call; /* XR_CALL_... for libc functions; otherwise 0 */
	uint8_t padding[12];
} __attribute__((packed));
enum { XR_SLED_ENTRY, XR_SLED_EXIT, XR_SLED_TAIL, XR_SLED_ARG, XR_SLED_CUSTOM, XR_SLED_TYPED, XR_SLED_KINDS };

static inline uint64_t xr_sled_address(const struct xr_sled *s) { return (uintptr_t)&s->sled + s->sled; }
static inline uint64_t xr_sled_function(const struct xr_sled *s) { return (uintptr_t)&s->function + s->function; }

/* Where the symbols of an object are in its file, and which file that is. */
struct xr_symbol_table {
	uint64_t offset, size, names_offset, names_size; /* 0 if the object is stripped */
	uint64_t dev, ino, mtime;
};

/* Returns the ID of the function whose entry sled is at p and on, or 0. See patch.c. */
static inline uint32_t xr_id_in_entry(const uint8_t *p)
{
	uint32_t id;
	if (p[0] != 0xeb || p[1] != 4 || p[6] != 0xe8)
		return 0;
	__builtin_memcpy(&id, p + 2, sizeof id);
	return id;
}

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

/* Calls what(arg) with XR_LOCK_LOADER held, while no object can be loaded or unloaded. Fork
 * takes this lock too, because otherwise a child could find the loader locked by a thread that
 * the child does not have. */
void xr_with_loader(void (*what)(void *arg), void *arg);
/* Returns whether the caller cannot lock the loader. Then xr_with_loader calls what(arg) without, and
 * what may not touch late objects. See threads.h. */
int xr_loader_is_barred(void);
/* Starts a thread of libc, unless there is one, that locks the loader for the raw thread. */
void xr_loader_help(void);
int xr_loader_is_helped(void);
/* Makes this thread end, and waits for that. */
void xr_loader_dismiss(void);
void xr_loader_end_help(void);
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
/* Returns how many objects have been loaded and unloaded so far. */
uint64_t xr_loader_changes(void);
/* Finds the loader's lock. */
void xr_loader_init(void);
/* Called in a forked child, whose parent had several threads or one. */
void xr_loader_forked(int had_threads);
/* Returns whether the loader's list is out of reach, because a thread that stayed behind in the
 * parent may hold its lock. Then xr_with_loader does nothing, and there are no changes. */
int xr_loader_is_lost(void);
/* Returns whether objects were loaded or unloaded since the last discovery. Needs no lock. */
int xr_objects_changed(void);
/* If no unknown objects are loaded, notes the time. So the next discovery knows when the objects
 * that it finds were absent. Needs no lock. */
void xr_before_open(void);
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

/* sleds.c: why the sleds of a function cannot be switched. Only events stay on. */
enum xr_unsafe { XR_SAFE, XR_ONE_SIDED /* recorded, without duration */, XR_FOLDED, XR_SHARES_EXIT, XR_IS_LOOP, XR_POPS, XR_UNKNOWN_CODE, XR_RED_ZONE, XR_MOVED, XR_CHANGED, XR_UNSAFE_KINDS };
extern const char *const xr_unsafe_texts[XR_UNSAFE_KINDS];
/* Finds such functions of an object. */
struct dl_phdr_info;
void xr_examine(const struct xr_object *o, const struct dl_phdr_info *info);
/* The reason for the function with this index, from 0, and a way to set it. */
enum xr_unsafe xr_unsafe(const struct xr_object *o, uint64_t i);
void xr_leave_off(const struct xr_object *o, uint64_t i, enum xr_unsafe why);
/* Returns the number of functions with this reason. */
uint64_t xr_left_off(const struct xr_object *o, enum xr_unsafe why);

/* patch.c: makes the near thunks of an object. Returns -errno. */
int xr_make_thunks(struct xr_object *o);
/* Copies the pages of an object's code if all its sleds are about to be switched on. Copying takes less time
 * before the pages are read. */
void xr_copy_code(const struct xr_object *o);
/* Returns whether the filter keeps the function with this ID. */
int xr_filter_wants(uint32_t id);
/* Applies the filter to an object's IDs. */
void xr_filter_object(const struct xr_object *o);

/* Allocates n consecutive IDs and returns the first, or 0 if there are not enough. Needs no
 * lock. */
uint32_t xr_take_ids(uint32_t n);

/* parts.c: returns the function of which the code at start is a part, or 0 if it is none. object is the
 * index of its object. Needs no lock. */
uint64_t xr_function_of_part(uint64_t object, uint64_t start);

/* parts.c: sets a bit for each byte from first to end, addresses in the object's file, at which a function begins
 * according to its symbols. Returns 0 if it has none. */
int xr_mark_functions(uint64_t object, uint64_t first, uint64_t end, uint8_t *bits);

/* Called once, before the first xr_patch. */
void xr_patch_init(void);

/* Returns whether the thunk pages are within 32-bit displacements of all sleds. */
static inline int xr_is_near(const struct xr_object *o, uint64_t thunks)
{
	uint64_t reach = 0x7fff0000, first = o->text_first, end = o->text_end;
	return (thunks < end ? end - thunks : thunks - end) < reach &&
	       (thunks < first ? first - thunks : thunks - first) < reach;
}

#pragma GCC visibility pop

#endif
