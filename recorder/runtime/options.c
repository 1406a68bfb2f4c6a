/* Reads the options in the environment. */
#define _GNU_SOURCE
#include <unistd.h>

#include "layout.h"
#include "options.h"
#include "state.h"
#include "syscall.h"
#include "text.h"
#include "warnings.h"

/* stdlib.h has inline floating-point functions, and these files are compiled without floating
 * point. */
char *secure_getenv(const char *name);
int setenv(const char *name, const char *value, int overwrite);

#define VARIABLE "XRAY_RECORDER"

struct xr_options xr_options = {
	.mode = XR_RECORD,
	.stream = 1,
	.follow = 1,
	.start = 1,
	.offcpu = 1,
	.ring = XR_NCHUNKS * XR_CHUNK_SIZE,
	.budget = XR_RING_BUDGET,
};

static char option_text[XR_MAX_OPTIONS];

/* Returns null, or the error in a value. */
static const char *read_switch(const char *s, int *to)
{
	uint64_t v;
	if (!xr_parse_number(s, &v) || v > 1)
		return "must be 0 or 1";
	*to = v;
	return NULL;
}

/* Where the values of options are stored. read_option handles mode separately. */
static const struct {
	const char *key;
	char **text;
	uint64_t *number;
	int *on;
} known_options[] = {
	{"output", .text = &xr_options.output}, {"filter", .text = &xr_options.filter}, {"select", .text = &xr_options.select}, {"preload", .text = &xr_options.preload}, {"given", .text = &xr_options.given}, {"shm", .text = &xr_options.shm},
	{"observer", .text = &xr_options.observer}, {"control", .text = &xr_options.control}, {"dump", .text = &xr_options.dump},
	{"threshold", .number = &xr_options.threshold_ns}, {"depth", .number = &xr_options.depth}, {"ring", .number = &xr_options.ring}, {"memory", .number = &xr_options.memory},
	{"limit", .number = &xr_options.limit}, {"budget", .number = &xr_options.budget}, {"pid", .number = &xr_options.pid},
	{"session", .number = &xr_options.session}, {"restore", .number = &xr_options.restore}, {"window", .number = &xr_options.window}, {"every", .number = &xr_options.every}, {"stream", .on = &xr_options.stream}, {"follow", .on = &xr_options.follow},
	{"dontdump", .on = &xr_options.dontdump}, {"quiet", .on = &xr_quiet}, {"start", .on = &xr_options.start}, {"offcpu", .on = &xr_options.offcpu}, {"fibers", .on = &xr_options.fibers},
	{"limited", .number = &xr_options.limited}, {"await", .number = &xr_options.await},
};
enum { KNOWN_OPTIONS = sizeof known_options / sizeof *known_options };

/* Returns the index of a key, KNOWN_OPTIONS for mode, or -1 for an unknown key. */
static int find_option(const char *key)
{
	for (int i = 0; i < KNOWN_OPTIONS; i++)
		if (xr_equal(key, known_options[i].key))
			return i;
	return xr_equal(key, "mode") ? KNOWN_OPTIONS : -1;
}

static const char *read_option(int i, char *value)
{
	if (i == KNOWN_OPTIONS)
		return xr_parse_mode(value, &xr_options.mode) ? NULL : "is not record, prune, count, profile, depth or off";
	if (known_options[i].text)
		*known_options[i].text = value;
	else if (known_options[i].number)
		return xr_parse_number(value, known_options[i].number) ? NULL : "is not a number";
	else
		return read_switch(value, known_options[i].on);
	return NULL;
}

/* Warns of an invalid option, with its position in the variable, counted from 1. */
static void warn_of_option(const char *key, const char *value, const char *what, uint64_t at)
{
	char room[256];
	struct xr_text t = xr_text_in(room, sizeof room - 1);
	xr_put_text(&t, "character ");
	xr_put_number(&t, at + 1);
	xr_put_text(&t, ": ");
	xr_put(&t, key, xr_strnlen(key, 64));
	if (value) {
		xr_put_text(&t, "=");
		xr_put(&t, value, xr_strnlen(value, 64));
	}
	xr_put_text(&t, " ");
	xr_put_text(&t, what);
	room[t.n] = 0;
	xr_warn(VARIABLE " has an invalid option", room);
}

static void read_options(const char *text)
{
	uint64_t n = xr_strlen(text);
	if (n >= sizeof option_text) {
		xr_warn(VARIABLE " is too long and was ignored", NULL);
		return;
	}
	xr_copy(option_text, text, n + 1);
	xr_options.asked = 1;
	for (char *p = option_text, *end; *p; p = end) {
		char *value = NULL;
		for (end = p; *end && *end != ','; end++)
			if (*end == '=' && !value) {
				*end = 0;
				value = end + 1;
			}
		if (*end)
			*end++ = 0;
		if (!*p && !value)
			continue;
		int option = find_option(p);
		const char *bad = NULL, *wrong = NULL;
		if (option < 0)
			warn_of_option(p, NULL, "is not an option", p - option_text);
		else if (!value)
			warn_of_option(p, NULL, "has no value", p - option_text);
		else if ((bad = xr_decode(value)))
			warn_of_option(p, NULL, "has a % without two hexadecimal digits", bad - option_text);
		else if ((wrong = read_option(option, value)))
			warn_of_option(p, value, wrong, value - option_text);
	}
}

/* Without follow, sets the process ID in the environment, so that other processes do not record
 * themselves. */
static void keep_to_itself(const char *text)
{
	static char longer[XR_MAX_OPTIONS + 32];
	struct xr_text t = xr_text_in(longer, sizeof longer - 1);
	xr_put_text(&t, text);
	xr_put_text(&t, ",pid=");
	xr_put_number(&t, xr_root.pid);
	setenv(VARIABLE, longer, 1);
}

/* Makes the template an absolute path, because the program may change its directory. */
static void make_template(void)
{
	struct xr_text t = xr_text_in(xr_options.template, sizeof xr_options.template - 1);
	if (xr_options.output[0] != '/' && getcwd(xr_options.template, sizeof xr_options.template - 1)) {
		/* A percent sign in the path would otherwise be part of the template. */
		static char directory[sizeof xr_options.template];
		uint64_t n = xr_strlen(xr_options.template);
		xr_copy(directory, xr_options.template, n);
		for (uint64_t i = 0; i < n; i++) {
			xr_put(&t, &directory[i], 1);
			if (directory[i] == '%')
				xr_put_text(&t, "%");
		}
		xr_put_text(&t, "/");
	}
	xr_put_text(&t, xr_options.output);
	xr_options.template[t.n] = 0;
	if (t.cut)
		xr_warn("the path of the output is too long", NULL);
	if (t.cut)
		xr_options.template[0] = 0;
}

static const char *find(const char *text, const char *what)
{
	uint64_t n = xr_strlen(what);
	for (; *text; text++)
		if (!xr_strncmp(text, what, n))
			return text;
	return NULL;
}

/* Puts back the environment that the program was given, in place: main has the same list as environ. See
 * interpose_exec.c. */
static void restore_environment(void)
{
	static char preload[XR_MAX_OPTIONS];
	struct xr_text t = xr_text_in(preload, sizeof preload - 1);
	int kept = 0;
	if (xr_options.given) {
		xr_put_text(&t, "LD_PRELOAD=");
		xr_put_text(&t, xr_options.given);
	}
	for (int i = 0; environ[i]; i++) {
		char *entry = environ[i];
		int is_preload = !xr_strncmp(entry, "LD_PRELOAD=", 11), is_own = !xr_strncmp(entry, VARIABLE "=", sizeof VARIABLE);
		if (is_own && xr_options.restore == 1)
			entry = (char *)find(entry, ",restore="); /* a second variable of that name has none */
		if (entry && (is_preload || is_own))
			xr_zero(entry, xr_strlen(entry)); /* also in /proc/self/environ */
		if (is_preload && xr_options.given)
			environ[kept++] = preload;
		else if (!is_preload && !(is_own && xr_options.restore == 2))
			environ[kept++] = environ[i];
	}
	environ[kept] = NULL;
}

/* Keeps the variable as xray record has set it. */
static void note_own(const char *text)
{
	static char own[XR_MAX_OPTIONS];
	const char *end = find(text, ",restore=");
	uint64_t n = end ? (uint64_t)(end - text) : xr_strlen(text);
	if (!xr_options.preload || n >= sizeof own)
		return;
	xr_copy(own, text, n);
	xr_options.own = own;
}

void xr_read_options(const char *text)
{
	if (!text)
		text = secure_getenv(VARIABLE);
	if (text) {
		read_options(text);
		note_own(text);
	}
	if (xr_options.restore && !xray_recorder_late)
		restore_environment();
	if (xr_options.pid && xr_options.pid != xr_root.pid)
		xr_options.asked = 0;
	else if (xr_options.asked && !xr_options.follow && !xr_options.pid && !xray_recorder_late)
		keep_to_itself(text);
	if (xr_options.output && xr_options.asked)
		make_template();
}
