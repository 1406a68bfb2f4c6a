/* Dumps on a signal. See dumps.c. */
#ifndef XRAY_RECORDER_DUMPS_H
#define XRAY_RECORDER_DUMPS_H

#pragma GCC visibility push(hidden)

/* Makes a signal, given by name or number, write the contents of the rings to a new file,
 * unless the program handles the signal. Returns null or the reason for a failure. */
const char *xr_dump_at(const char *signal);
/* Returns whether there is such a signal. */
int xr_dumps_on(void);
/* Dumps if the signal has arrived, and warns if the program has taken over the signal. */
void xr_dumps_step(void);

#pragma GCC visibility pop

#endif
