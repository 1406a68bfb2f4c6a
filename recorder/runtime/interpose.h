/* The interface between interpose.c, interpose_amd64.S and the rest of the recorder. */
#ifndef XRAY_RECORDER_INTERPOSE_H
#define XRAY_RECORDER_INTERPOSE_H

#include "layout.h"

#pragma GCC visibility push(hidden)

/* Handles the system calls that the recorder notices. Others run as in libc. */
long xr_noticed_syscall(long number, long a, long b, long c, long d, long e);

/* dlopen and dlsym use their return address, so the recorder jumps to libc's functions. */
extern void *(*xr_real_dlopen)(const char *, int);
extern void *(*xr_real_dlsym)(void *, const char *);
void xr_find_real(void);
int xr_dlopen_for_any(const char *file, uint64_t caller);
void *xr_dlopen_watched(const char *file, int mode);
void xr_before_dlsym(void);

/* Defined where the program's calls reach that file. */
extern char xr_interposes __attribute__((weak));

#pragma GCC visibility pop

#endif
