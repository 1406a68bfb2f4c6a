/* Decoding of instructions. */
#ifndef XRAY_RECORDER_CODE_H
#define XRAY_RECORDER_CODE_H

#include <stdint.h>

struct xr_instruction {
	int size;        /* in bytes; 0: it is not known */
	uint64_t target; /* of a jump, conditional or not, to a fixed address; otherwise 0 */
	int ends;        /* it never goes on behind it: a jump without a condition, a return, or a trap */
};

/* Decodes the instruction at code. May read 24 bytes. */
__attribute__((visibility("hidden"))) struct xr_instruction xr_instruction_at(const uint8_t *code);

#endif
