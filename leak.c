#include <stdlib.h>
#include <stdio.h>
#include <pthread.h>
#include <unistd.h>
pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER;
__attribute__((noinline)) void *leak(void) { return malloc(5000); }
__attribute__((noinline)) int lock(void) { return pthread_mutex_lock(&m); }
__attribute__((noinline)) int unlock(void) { return pthread_mutex_unlock(&m); }
__attribute__((noinline)) int rest(void) { return usleep(50); }
__attribute__((noinline)) int (*volatile ptr)(useconds_t) = usleep;
__attribute__((noinline)) int rest2(void) { return ptr(50); }
int main(void) { void *p[50]; for (int i = 0; i < 50; i++) { lock(); p[i] = leak(); unlock(); rest(); rest2(); } printf("%p\n", p[3] == p[4] ? p[3] : 0); }
