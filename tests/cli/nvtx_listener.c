// What a profiler puts behind NVTX_INJECTION64_PATH: writes every mark of a domain as one line.
// The numbers are those of NVTX 3's injection interface (nvtxDetail/nvtxTypes.h).
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { kCallbacks = 1, kCore2 = 5, kDomainMarkEx = 1, kRegisterString = 10, kDomainCreate = 12 };

typedef struct {
  uint16_t version, size;
  uint32_t category;
  int32_t color_type;
  uint32_t color;
  int32_t payload_type, reserved;
  uint64_t payload;
  int32_t message_type;
  const char* message;
} Attributes;

typedef struct {
  size_t size;
  int (*functions_of)(int module, void**** table, unsigned* count);
} Callbacks;

static FILE* out;

static void mark(const char* domain, const Attributes* attributes) {
  fprintf(out, "%s %08x %s\n", domain, attributes->color, attributes->message);
  fflush(out);
}
static char* create_domain(const char* name) { return strdup(name); }
static char* register_string(const char* domain, const char* text) {
  (void)domain;
  return strdup(text);
}

int InitializeInjectionNvtx2(const void* (*export_table)(uint32_t)) {
  const Callbacks* callbacks = export_table(kCallbacks);
  void*** table = NULL;
  unsigned count = 0;
  out = fopen(getenv("NVTX_LISTENER_OUTPUT"), "w");
  if (out == NULL || !callbacks->functions_of(kCore2, &table, &count)) return 0;
  *table[kDomainMarkEx] = (void*)mark;
  *table[kRegisterString] = (void*)register_string;
  *table[kDomainCreate] = (void*)create_domain;
  return 1;
}
