package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
)

// The holder takes the lock through functions that neither their names nor their records reveal
// as lock functions.
const wakersProgram = `
#include <pthread.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>
#include <semaphore.h>
#define RECORDED __attribute__((noinline, xray_always_instrument))
static pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER;
static sem_t held, done;
static volatile long now;
RECORDED void flush_log(void) {
	pthread_mutex_lock(&m);
	sem_post(&held);
	usleep(5000);
	pthread_mutex_unlock(&m);
	__asm__ volatile(""); // no tail call
}
__attribute__((noinline, xray_always_instrument, xray_log_args(1))) void mutex_lock(pthread_mutex_t *l) { pthread_mutex_lock(l); __asm__ volatile(""); }
__attribute__((noinline, xray_always_instrument, xray_log_args(1))) void mutex_unlock(pthread_mutex_t *l) { pthread_mutex_unlock(l); __asm__ volatile(""); }
__attribute__((noinline, xray_always_instrument, xray_log_args(1))) void request(long id) {
	now = id;
	sem_wait(&held);
	mutex_lock(&m);
	mutex_unlock(&m);
	sem_post(&done);
}
static void *serve(void *p) {
	for (long i = 1; i <= 30; i++) request(i);
	return p;
}
int main(void) {
	pthread_t t;
	sem_init(&held, 0, 0);
	sem_init(&done, 0, 0);
	pthread_create(&t, 0, serve, 0);
	for (int i = 0; i < 30; i++) { flush_log(); sem_wait(&done); }
	pthread_join(t, 0);
	return 0;
}
`

// locks and requests charge waits of a recorded program to the function that woke the waiter.
func TestWakersOfProgram(t *testing.T) {
	schedTest(t)
	dir := t.TempDir()
	program, trace := filepath.Join(dir, "prog"), filepath.Join(dir, "trace.xray")
	if err := os.WriteFile(program+".c", []byte(wakersProgram), 0o666); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("clang-22", "-O1", "-fxray-instrument", "-pthread", program+".c", "-o", program).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if out, err := exec.Command("xray", "record", "--sched", "-o", trace, program).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	read := func(v any, args ...string) string {
		out, err := exec.Command("xray", append(args, "-f", "json", trace)...).Output()
		if err != nil {
			t.Fatalf("%v: %v", args, err)
		}
		if err := json.Unmarshal(out, v); err != nil {
			t.Fatal(err)
		}
		return string(out)
	}
	var locks struct {
		Count uint64 `json:"woken_count"`
		Locks []struct {
			Blame []struct {
				Holder  []string `json:"holder_path"`
				ByWaker uint64   `json:"by_waker_ns"`
			}
		}
	}
	out := read(&locks, "locks")
	charged := uint64(0)
	for _, l := range locks.Locks {
		for _, b := range l.Blame {
			if slices.Contains(b.Holder, "flush_log") {
				charged += b.ByWaker
			}
		}
	}
	// On a busy machine the waiter may come too late to wait, any number of times.
	if locks.Count < 10 || charged < 20e6 {
		t.Errorf("got %d waits, %d ns charged: %s", locks.Count, charged, out)
	}
	var requests struct {
		Requests []struct {
			Blocked uint64 `json:"blocked_ns"`
		}
		Shown []struct {
			Sleeps []struct {
				In    string `json:"function"`
				By    string `json:"woken_by"`
				Waker string `json:"waker_function"`
			}
		}
	}
	out = read(&requests, "requests", "--id-func", "^request$", "--exemplars", "30")
	woken, blocked := 0, uint64(0)
	for _, r := range requests.Shown {
		for _, s := range r.Sleeps {
			if s.In == "mutex_lock" && s.By == "thread" && s.Waker == "flush_log" {
				woken++
			}
		}
	}
	for _, r := range requests.Requests {
		blocked += r.Blocked
	}
	if len(requests.Requests) != 30 || woken < 10 || blocked < 20e6 {
		t.Errorf("got %d requests, %d sleeps, %d ns blocked: %s", len(requests.Requests), woken, blocked, out)
	}
}
