/* Finds the boundaries of instructions and the targets of jumps. Knows all instructions of 64-bit code in
 * the maps of 1 byte, 0f, 0f 38 and 0f 3a, and those with VEX and EVEX prefixes. */
#include "code.h"

/* For each opcode: whether it has a ModRM byte, and how many immediate bytes. */
enum { M = 1, I1 = 2, I2 = 4, IZ = 8, /* 4 bytes, or 2 with an operand-size prefix */ BAD = 16 };
#define X8(v) v, v, v, v, v, v, v, v
#define ARITHMETIC M, M, M, M, I1, IZ, BAD, BAD

static const uint8_t one_byte[256] = {
	ARITHMETIC, ARITHMETIC, ARITHMETIC, ARITHMETIC, ARITHMETIC, ARITHMETIC, ARITHMETIC, ARITHMETIC,
	X8(0), X8(0), X8(0), X8(0), /* REX, push, pop */
	BAD, BAD, BAD, M, 0, 0, 0, 0, IZ, M | IZ, I1, M | I1, 0, 0, 0, 0,
	X8(I1), X8(I1), /* jcc */
	M | I1, M | IZ, BAD, M | I1, M, M, M, M, X8(M),
	X8(0), 0, 0, BAD, 0, 0, 0, 0, 0,
	0, 0, 0, 0, 0, 0, 0, 0, I1, IZ, 0, 0, 0, 0, 0, 0, /* a0 to a3: see below */
	X8(I1), X8(IZ), /* mov: see below */
	M | I1, M | I1, I2, 0, BAD, BAD, M | I1, M | IZ, I1 | I2, 0, I2, 0, 0, I1, BAD, 0,
	M, M, M, M, BAD, BAD, BAD, 0, X8(M), /* x87 */
	I1, I1, I1, I1, I1, I1, I1, I1, IZ, IZ, BAD, I1, 0, 0, 0, 0,
	0, 0, 0, 0, 0, 0, M, M, 0, 0, 0, 0, 0, 0, M, M, /* f6 and f7: see below */
};

static const uint8_t two_bytes[256] = {
	M, M, M, M, BAD, 0, 0, 0, 0, 0, BAD, 0, BAD, M, 0, BAD,
	X8(M), X8(M),
	M, M, M, M, BAD, BAD, BAD, BAD, X8(M),
	0, 0, 0, 0, 0, 0, BAD, 0, BAD, BAD, BAD, BAD, BAD, BAD, BAD, BAD,
	X8(M), X8(M), X8(M), X8(M), X8(M), X8(M),
	M | I1, M | I1, M | I1, M | I1, M, M, M, 0, M, M, BAD, BAD, M, M, M, M,
	X8(IZ), X8(IZ), /* jcc */
	X8(M), X8(M), /* setcc */
	0, 0, 0, M, M | I1, M, BAD, BAD, 0, 0, 0, M, M | I1, M, M, M,
	M, M, M, M, M, M, M, M, M, M, M | I1, M, M, M, M, M,
	M, M, M | I1, M, M | I1, M | I1, M | I1, M, X8(0),
	X8(M), X8(M), X8(M), X8(M), X8(M), X8(M),
};

enum { OPERAND_SIZE = 1, ADDRESS_SIZE = 2, WIDE = 4 };

/* Returns how many bytes a ModRM byte and what belongs to it take. */
static int modrm_size(const uint8_t *p)
{
	int mod = p[0] >> 6, rm = p[0] & 7, n = 1 + (mod == 1) + 4 * (mod == 2);
	if (mod == 3)
		return 1;
	if (rm == 4)
		return n + 1 + 4 * (mod == 0 && (p[1] & 7) == 5);
	return n + 4 * (mod == 0 && rm == 5);
}

/* An instruction with a VEX or EVEX prefix. p is at the opcode. In map 1, the table for 0f holds but for
 * conditional moves, which are mask operations there. */
static int extended_size(const uint8_t *p, int map)
{
	if (map == 1 && p[0] == 0x77)
		return 1; /* vzeroupper */
	int immediate = map == 3 || (map == 1 && two_bytes[p[0]] & I1);
	return map < 1 || map > 7 ? 0 : 1 + modrm_size(p + 1) + immediate;
}

struct xr_instruction xr_instruction_at(const uint8_t *code)
{
	struct xr_instruction none = {0}, in = {0};
	const uint8_t *p = code, *limit = code + 10;
	unsigned prefixes = 0, flags;
	for (; p < limit; p++) {
		if (*p == 0x66)
			prefixes |= OPERAND_SIZE;
		else if (*p == 0x67)
			prefixes |= ADDRESS_SIZE;
		else if (*p != 0xf2 && *p != 0xf3 && *p != 0xf0 && *p != 0x2e && *p != 0x36 && *p != 0x3e && *p != 0x26 && *p != 0x64 && *p != 0x65)
			break;
	}
	int n = p - code;
	if (*p == 0xc5 || *p == 0xc4 || *p == 0x62) {
		int size = *p == 0xc5 ? 2 : *p == 0xc4 ? 3 : 4, map = *p == 0xc5 ? 1 : p[1] & (*p == 0x62 ? 7 : 31);
		in.size = extended_size(p + size, map);
		if (in.size)
			in.size += n + size;
		return in;
	}
	if (p[0] >> 4 == 4) {
		prefixes |= p[0] & 8 ? WIDE : 0;
		p++;
	}
	int two = p[0] == 0x0f, third = two && (p[1] == 0x38 || p[1] == 0x3a);
	uint8_t opcode = p[two ? 1 + third : 0];
	flags = third ? M | (p[1] == 0x3a ? I1 : 0) : two ? two_bytes[opcode] : one_byte[opcode];
	p += 1 + two + third;
	if (flags & BAD || (!two && opcode >> 4 == 4)) /* or a second REX prefix */
		return none;
	int immediate = (flags & I1 ? 1 : 0) + (flags & I2 ? 2 : 0) + (flags & IZ ? prefixes & OPERAND_SIZE ? 2 : 4 : 0);
	int jump = two ? opcode >> 4 == 8 : opcode >> 4 == 7 || opcode >> 2 == 0xe0 >> 2 || opcode == 0xe8 || opcode == 0xe9 || opcode == 0xeb;
	if (third)
		jump = 0;
	if (!two) {
		if (opcode >> 2 == 0xa0 >> 2)
			immediate = prefixes & ADDRESS_SIZE ? 4 : 8;
		if (opcode >> 3 == 0xb8 >> 3 && prefixes & WIDE)
			immediate = 8;
		if ((opcode & 0xfe) == 0xf6 && !(p[0] >> 3 & 6))
			immediate = opcode & 1 ? prefixes & OPERAND_SIZE ? 2 : 4 : 1;
	}
	if (jump && immediate == 2)
		immediate = 4; /* an operand-size prefix does not shorten jumps, at least on Intel's processors */
	in.ends = two ? opcode == 0x0b /* ud2 */ : opcode == 0xe9 || opcode == 0xeb || opcode == 0xc2 || opcode == 0xc3 ||
		opcode == 0xcc || opcode == 0xf4 || opcode == 0xcf || (opcode == 0xff && (p[0] >> 3 & 7) == 4);
	if (flags & M)
		p += modrm_size(p);
	if (jump && opcode != 0xe8) {
		int32_t displacement = (int8_t)p[0];
		if (immediate == 4)
			__builtin_memcpy(&displacement, p, 4);
		in.target = (uintptr_t)p + immediate + displacement;
	}
	in.size = p + immediate - code;
	return in;
}

/* .eh_frame_hdr, with the encodings that all linkers choose. The table is sorted. Addresses in it are
 * relative to the header. */
struct header {
	uint8_t version, frames_encoding, count_encoding, table_encoding;
	int32_t frames;
	uint32_t count;
	struct {
		int32_t function, frame;
	} table[];
};

int xr_has_unwind_table(const uint8_t *header, uint64_t size)
{
	const struct header *h = (const struct header *)header;
	return !((uintptr_t)h & 3) && size >= sizeof *h && h->version == 1 && h->frames_encoding == 0x1b && h->count_encoding == 0x03 &&
		h->table_encoding == 0x3b && h->count <= (size - sizeof *h) / sizeof *h->table;
}

uint64_t xr_next_unwind(const uint8_t *header, uint64_t address)
{
	const struct header *h = (const struct header *)header;
	uint64_t first = 0, end = h->count;
	while (first < end) {
		uint64_t middle = (first + end) / 2;
		if ((uintptr_t)h + h->table[middle].function > address)
			end = middle;
		else
			first = middle + 1;
	}
	return first < h->count ? (uintptr_t)h + h->table[first].function : UINT64_MAX;
}
