/* Decoding of instructions, and where functions end. */
#ifndef XRAY_RECORDER_CODE_H
#define XRAY_RECORDER_CODE_H

#include <stdint.h>

#pragma GCC visibility push(hidden)

struct xr_instruction {
	int size;        /* in bytes; 0: it is not known */
	uint64_t target; /* of a jump, conditional or not, to a fixed address; otherwise 0 */
	int ends;        /* it never goes on behind it: a jump without a condition, a return, or a trap */
};

/* Decodes the instruction at code. May read 24 bytes. */
struct xr_instruction xr_instruction_at(const uint8_t *code);

/* Whether .eh_frame_hdr has a search table that xr_next_unwind can read. */
int xr_has_unwind_table(const uint8_t *header, uint64_t size);
/* Returns the address of the first function, or part of one, behind an address, by the search table.
 * Returns UINT64_MAX if there is none. */
uint64_t xr_next_unwind(const uint8_t *header, uint64_t address);

#pragma GCC visibility pop

#endif
