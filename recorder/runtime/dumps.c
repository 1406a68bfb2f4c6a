/* Writes the rings to a file when a signal arrives. The handler only notifies the control thread. */
#define _GNU_SOURCE
#include <signal.h>

#include "dumps.h"
#include "lifecycle.h"
#include "locks.h"
#include "syscall.h"
#include "text.h"
#include "warnings.h"

static int dump_signal; /* 0: none */
static uint32_t asked;

static void ask_for_dump(int signal)
{
	(void)signal;
	__atomic_store_n(&asked, 1, __ATOMIC_RELAXED);
}

/* Returns the number of a signal given as USR2, SIGUSR2, 12 or RTMIN+3. */
static int signal_number(const char *name)
{
	static const struct {
		const char *name;
		int number;
	} signals[] = {
		{"USR1", SIGUSR1}, {"USR2", SIGUSR2}, {"HUP", SIGHUP}, {"QUIT", SIGQUIT}, {"WINCH", SIGWINCH},
		{"URG", SIGURG}, {"IO", SIGIO}, {"PWR", SIGPWR}, {"CONT", SIGCONT},
	};
	uint64_t n;
	if (!xr_strncmp(name, "SIG", 3))
		name += 3;
	if (!xr_strncmp(name, "RTMIN+", 6))
		return xr_parse_number(name + 6, &n) && n <= (uint64_t)(SIGRTMAX - SIGRTMIN) ? (int)(SIGRTMIN + n) : 0;
	if (xr_equal(name, "RTMIN"))
		return SIGRTMIN;
	if (xr_parse_number(name, &n))
		return n < 65 ? n : 0;
	for (unsigned i = 0; i < sizeof signals / sizeof *signals; i++)
		if (xr_equal(name, signals[i].name))
			return signals[i].number;
	return 0;
}

const char *xr_dump_at(const char *name)
{
	struct sigaction now, ours = {.sa_handler = ask_for_dump, .sa_flags = SA_RESTART};
	int signal = signal_number(name);
	if (!signal || sigaction(signal, NULL, &now))
		return "dump= does not name a signal";
	if (now.sa_handler != SIG_DFL)
		return "the signal of dump= is handled or ignored by the program";
	if (sigaction(signal, &ours, NULL))
		return "dump= names a signal that cannot be handled";
	dump_signal = signal;
	return NULL;
}

int xr_dumps_on(void) { return dump_signal != 0; }

void xr_dumps_step(void)
{
	struct sigaction now;
	if (!dump_signal)
		return;
	if (__atomic_exchange_n(&asked, 0, __ATOMIC_RELAXED)) {
		xr_lock(XR_LOCK_CONTROL);
		xr_dump();
		xr_unlock(XR_LOCK_CONTROL);
	}
	if (!sigaction(dump_signal, NULL, &now) && now.sa_handler != ask_for_dump) {
		dump_signal = 0;
		xr_warn("the program handles the signal of dump= itself, so there will be no dumps", NULL);
	}
}
