// Bulk orders take long. What kind an order is only an event tells.
#include "server.h"
#include <xray/recorder.h>

TRACED void price(uint64_t id, bool bulk) {
  spin(1000);
  if (bulk) late(id);
}
void handleRequest(uint64_t id) {
  static const char *const kinds[] = {"order=retail", "order=gift", "order=return"};
  parse(id);
  bool bulk = planted(id, 80);
  const char *kind = bulk ? "order=bulk" : kinds[noise(id) % 3];
  xray_event(kind, __builtin_strlen(kind));
  price(id, bulk);
  reply(id);
}
UNTRACED int main() {
  serve(4, 600);
  puts("slower function=price event=order=bulk");
}
