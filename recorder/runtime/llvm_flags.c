/* The flags of compiler-rt's runtime, from environment variables and from the program. */
#define _GNU_SOURCE
#include "llvm_flags.h"
#include "syscall.h"
#include "text.h"
#include "warnings.h"

char *secure_getenv(const char *name);

struct xr_llvm_flags xr_llvm_flags = {.base = "xray-log.", .mode = "", .fdr_threshold = 5, .basic_threshold = 5};

struct option {
	const char *key;
	uint64_t *number; /* or 0 and 1 */
	char **text;
};

/* compiler-rt's flags end at any of these. */
static int is_separator(char c) { return c == ':' || c == ',' || c == ' ' || c == '\n' || c == '\t' || c == '\r'; }

static int parse_switch(const char *s, uint64_t *v)
{
	int on = xr_equal(s, "true") || xr_equal(s, "yes"), off = xr_equal(s, "false") || xr_equal(s, "no");
	*v = on;
	return on || off;
}

static void warn_of_flag(const char *key, const char *what)
{
	char room[128];
	struct xr_text t = xr_text_in(room, sizeof room - 1);
	xr_put(&t, key, xr_strnlen(key, 64));
	xr_put_text(&t, what);
	room[t.n] = 0;
	xr_warn("a flag of LLVM's runtime is ignored", room);
}

static void set_option(const struct option *options, const char *key, char *value)
{
	const struct option *o = options;
	uint64_t v;
	while (o->key && !xr_equal(o->key, key))
		o++;
	if (!o->key) {
		if (xr_llvm_flags.verbosity)
			warn_of_flag(key, " has no effect");
	} else if (o->text) {
		*o->text = value;
	} else if (xr_parse_number(value, &v) || parse_switch(value, &v)) {
		*o->number = v;
	} else {
		warn_of_flag(key, ": its value is not a number, true or false");
	}
}

/* Reads flags from n bytes. Returns the memory that text values point to, n + 1 bytes, or null. */
static char *read_flags(const struct option *options, const char *text, uint64_t n)
{
	char *copy = n ? xr_map(n + 1) : NULL, *p = copy;
	if (copy)
		xr_copy(copy, text, n);
	while (p && *p) {
		char *key = p, *value = NULL, *end;
		if (is_separator(*p)) {
			p++;
			continue;
		}
		while (*p && *p != '=' && !is_separator(*p))
			p++;
		if (*p == '=') {
			*p++ = 0;
			char quote = *p == '"' || *p == '\'' ? *p++ : 0;
			for (value = p; *p && (quote ? *p != quote : !is_separator(*p)); p++)
				;
		}
		end = p;
		p += *p != 0;
		*end = 0;
		if (value)
			set_option(options, key, value);
		else
			warn_of_flag(key, " has no value");
	}
	return copy;
}

static void read_numbers(const struct option *options, const char *text, uint64_t n)
{
	char *copy = read_flags(options, text, n);
	if (copy)
		xr_unmap(copy, n + 1);
}

struct xr_llvm_settings xr_read_llvm_settings(enum xr_llvm_mode mode, const char *config, uint64_t size)
{
	static const char *const variables[XR_LLVM_MODES] = {"XRAY_FDR_OPTIONS", "XRAY_BASIC_OPTIONS", "XRAY_PROFILING_OPTIONS"};
	struct xr_llvm_settings s = {0};
	const struct option options[] = {
		{"func_duration_threshold_us", &s.threshold_us, NULL}, {"buffer_size", &s.buffer_size, NULL},
		{"buffer_max", &s.buffers, NULL}, {"no_file_flush", &s.no_file, NULL}, {"no_flush", &s.no_file, NULL}, {0},
	};
	const char *variable = secure_getenv(variables[mode]);
	if (mode != XR_LLVM_PROFILING)
		s.threshold_us = mode == XR_LLVM_FDR ? xr_llvm_flags.fdr_threshold : xr_llvm_flags.basic_threshold;
	if (variable)
		read_numbers(options, variable, xr_strlen(variable));
	if (config)
		read_numbers(options, config, xr_strnlen(config, size ? size : UINT64_MAX));
	return s;
}

/* The program may define this. */
extern const char *__xray_default_options(void) __attribute__((weak));

void xr_read_llvm_flags(void)
{
	static const struct option options[] = {
		{"patch_premain", &xr_llvm_flags.patch, NULL}, {"verbosity", &xr_llvm_flags.verbosity, NULL},
		{"xray_logfile_base", NULL, &xr_llvm_flags.base}, {"xray_mode", NULL, &xr_llvm_flags.mode},
		{"xray_fdr_log_func_duration_threshold_us", &xr_llvm_flags.fdr_threshold, NULL},
		{"xray_naive_log_func_duration_threshold_us", &xr_llvm_flags.basic_threshold, NULL}, {0},
	};
	const char *text = __xray_default_options ? __xray_default_options() : NULL;
	if (text)
		read_flags(options, text, xr_strlen(text));
	text = secure_getenv("XRAY_OPTIONS");
	if (text)
		read_flags(options, text, xr_strlen(text));
}
