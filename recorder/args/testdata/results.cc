// Results of each class of the calling convention. The expressions of results follow //~.
#include "types.h"
#include <optional>
#include <string_view>
#include <vector>

//@ none: a
//~ integer: result
//~ boolean: result
//~ real: result
//~ single: result
//~ wide: result
//~ text: result
//~ string: result, result.size()
//~ view: result
//~ one: result.a
//~ floats: result.a, result.b
//~ mixed: result.a, result.b
//~ big: result.a, result.c
//~ bits: result.b
//~ copied: result.a
//~ color: result
//~ reference: result
//~ pointer: result->a
//~ optional: result
//~ vector: result.size(), result[1]
//~ local: result
//~ extended: result
//~ nothing: result

#define EXTERN __attribute__((noinline))

EXTERN void none(int a) { ENTER(none); SHOW(a); LEAVE(); }
EXTERN long integer(long a) { return a - 7; }
EXTERN bool boolean(int a) { return a > 3; }
EXTERN double real(double a) { return a / 4; }
EXTERN float single(float a) { return a / 2; }
EXTERN __int128 wide(long a) { return (__int128)a * 10000000000 * 10000000000; }
EXTERN const char *text(int a) { return a ? "yes" : nullptr; }
EXTERN std::string string(const char *a) { return std::string(a) + "!"; }
EXTERN std::string_view view(const std::string &a) { return std::string_view(a).substr(1); }
EXTERN One one(int a) { return {a}; }
EXTERN Floats floats(float a) { return {a, -a}; }
EXTERN Mixed mixed(double a, long b) { return {a, b}; }
EXTERN Big big(long a) { return {a, a + 1, a + 2}; }
EXTERN Bits bits(int a) { return {1, a, 3, true}; }
EXTERN Copied copied(int a) { return Copied(a); }
EXTERN Color color(int a) { return a ? green : blue; }
EXTERN int &reference(int &a) { return a; }
EXTERN One *pointer(One *a) { return a; }
EXTERN std::optional<int> optional(int a) { return a ? std::optional<int>(a) : std::nullopt; }
EXTERN std::vector<int> vector(int a) { return {a, a + 1, a + 2}; }
static EXTERN int local(int a) { asm volatile("" : "+r"(a)); return a * 3; }
EXTERN long double extended(long double a) { return a; }
EXTERN void nothing(int a) { asm volatile("" : : "r"(a)); }

#define CALL(f, value, shows) \
	do { \
		auto &&result = value; \
		fputs("~" #f, stdout); \
		shows; \
		LEAVE(); \
	} while (0)

static void put(std::string_view s) { printf("\"%.*s\"", (int)s.size(), s.data()); }
static void put(const std::optional<int> &o) {
	if (o)
		put(*o);
	else
		fputs("(none)", stdout);
}

int main(int argc, char **) {
	none(argc);
	CALL(integer, integer(argc), SHOW(result));
	CALL(boolean, boolean(argc), SHOW(result));
	CALL(real, real(argc), SHOW(result));
	CALL(single, single(argc), SHOW(result));
	CALL(wide, wide(-argc), SHOW(result));
	CALL(text, text(argc), SHOW(result));
	CALL(text, text(argc - 1), SHOW(result));
	CALL(string, string("some"), (SHOW(result), SHOW(result.size())));
	std::string s = "a view";
	CALL(view, view(s), SHOW(result));
	CALL(one, one(argc), SHOW(result.a));
	CALL(floats, floats(argc), (SHOW(result.a), SHOW(result.b)));
	CALL(mixed, mixed(argc, -3), (SHOW(result.a), SHOW(result.b)));
	CALL(big, big(argc), (SHOW(result.a), SHOW(result.c)));
	CALL(bits, bits(-argc), SHOW(result.b));
	CALL(copied, copied(argc), SHOW(result.a));
	CALL(color, color(argc), SHOW(result));
	CALL(color, color(argc - 1), SHOW(result));
	int i = 12;
	CALL(reference, reference(i), SHOW(result));
	One o = {13};
	CALL(pointer, pointer(&o), SHOW(result->a));
	CALL(optional, optional(argc), SHOW(result));
	CALL(optional, optional(argc - 1), SHOW(result));
	CALL(vector, vector(argc), (SHOW(result.size()), SHOW(result[1])));
	CALL(local, local(argc), SHOW(result));
	extended(argc);
	nothing(argc);
}
