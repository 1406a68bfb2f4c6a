// Requests have a thread of a pool make a thumbnail and wait for the result, in a function
// whose name says nothing. For some pictures that takes long.
#include "server.h"
#include <semaphore.h>

struct Job {
  Job *next;
  bool large;
  sem_t ready;
};
Job *jobs;
pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER;
sem_t queued;

TRACED void resize() { spin(2000); }
TRACED void sharpen() { rest(10000); }
TRACED void makeThumbnail(Job *job) {
  resize();
  if (job->large) sharpen();
  asm volatile("");
}
UNTRACED void *helper(void *) {
  while (sem_wait(&queued), running()) {
    pthread_mutex_lock(&m);
    Job *job = jobs;
    jobs = job->next;
    pthread_mutex_unlock(&m);
    makeThumbnail(job);
    sem_post(&job->ready);
  }
  return nullptr;
}
TRACED void thumbnail(bool large) {
  Job job{nullptr, large, {}};
  sem_init(&job.ready, 0, 0);
  pthread_mutex_lock(&m);
  job.next = jobs;
  jobs = &job;
  pthread_mutex_unlock(&m);
  sem_post(&queued);
  sem_wait(&job.ready);
  asm volatile("");
}
void handleRequest(uint64_t id) {
  parse(id);
  spin(60000);
  thumbnail(planted(id, 60));
  reply(id);
}
UNTRACED int main() {
  sem_init(&queued, 0, 0);
  pthread_t helpers[4];
  for (auto &h : helpers) pthread_create(&h, nullptr, helper, nullptr);
  serve(4, 400, 4000);
  for (size_t i = 0; i < 4; i++) sem_post(&queued);
  for (auto &h : helpers) pthread_join(h, nullptr);
  puts("wait function=thumbnail holder=sharpen|makeThumbnail evidence=coincidence");
}
