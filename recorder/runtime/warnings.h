/* Warnings on standard error. */
#ifndef XRAY_RECORDER_WARNINGS_H
#define XRAY_RECORDER_WARNINGS_H

#pragma GCC visibility push(hidden)

/* Writes a warning, once for each what, after "xray recorder: ". It is kept for status. */
void xr_warn(const char *what, const char *detail);
/* The warnings so far, null after the last. */
#define XR_MAX_WARNINGS 16
extern const char *xr_warnings[XR_MAX_WARNINGS + 1];
/* Set where they are not to be written. */
extern int xr_quiet;

#pragma GCC visibility pop

#endif
