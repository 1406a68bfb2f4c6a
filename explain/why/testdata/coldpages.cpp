// Some requests read pages of a mapped file that are no longer in memory. If the file system has none
// that can be dropped, they rest instead.
#include "server.h"
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>

static const size_t page = 4096, pages = 8192, read_pages = 64;
static volatile unsigned char *map;
static int file;
static bool drops = true;

UNTRACED long major() {
  rusage u;
  getrusage(RUSAGE_THREAD, &u);
  return u.ru_majflt;
}
UNTRACED void drop() {
  madvise((void *)map, pages * page, MADV_DONTNEED);
  posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED);
}
TRACED void probe(uint64_t id) {
  spin(2000);
  if (!planted(id, 15)) return;
  if (!drops) return late(id);
  for (size_t i = 0; i < read_pages; i++) (void)map[(noise(id * 64 + i) % pages) * page];
}
void handleRequest(uint64_t id) {
  parse(id);
  probe(id);
  reply(id);
  if (planted(id + 1, 15)) drop();
}
UNTRACED int main() {
  char name[] = "coldpages.XXXXXX", data[page] = {1};
  if ((file = mkstemp(name)) < 0 || unlink(name) < 0) return 1;
  for (size_t i = 0; i < pages; i++)
    if (write(file, data, page) != long(page)) return 1;
  fsync(file);
  map = (volatile unsigned char *)mmap(nullptr, pages * page, PROT_READ, MAP_SHARED, file, 0);
  madvise((void *)map, pages * page, MADV_RANDOM);
  drop();
  long before = major();
  for (size_t i = 0; i < 64; i++) (void)map[i * page];
  drops = major() - before > 32;
  serve(1, 1000);
  printf("slower function=probe faults=%s\n", drops ? "yes" : "no");
}
