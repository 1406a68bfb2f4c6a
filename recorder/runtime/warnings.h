/* Prints warnings on standard error. */
#ifndef XRAY_RECORDER_WARNINGS_H
#define XRAY_RECORDER_WARNINGS_H

#pragma GCC visibility push(hidden)

/* Prints a warning after "xray recorder: ", once for each what. Keeps it for the status
 * command. */
void xr_warn(const char *what, const char *detail);
/* The warnings so far. Null follows the last one. */
#define XR_MAX_WARNINGS 16
extern const char *xr_warnings[XR_MAX_WARNINGS + 1];
/* Nonzero suppresses printing. */
extern int xr_quiet;

#pragma GCC visibility pop

#endif
