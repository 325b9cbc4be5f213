/* There is nothing to trace: the profiler gets no subscriber and empty buffers, not garbage. */
#include <stdint.h>

enum { kNotInitialized = 15, kMaxLimitReached = 12 };

int cuptiSubscribe(void** subscriber, void* callback, void* user) {
  (void)callback;
  (void)user;
  *subscriber = 0;
  return kNotInitialized;
}

int cuptiGetVersion(uint32_t* version) {
  *version = 130000;
  return 0;
}

int cuptiActivityGetNextRecord(uint8_t* buffer, uintptr_t valid, void** record) {
  (void)buffer;
  (void)valid;
  *record = 0;
  return kMaxLimitReached;
}

int cuptiActivityGetNumDroppedRecords(void* context, uint32_t stream, uintptr_t* dropped) {
  (void)context;
  (void)stream;
  *dropped = 0;
  return 0;
}

int cuptiActivityPopExternalCorrelationId(int kind, uint64_t* last) {
  (void)kind;
  if (last != 0) *last = 0;
  return 0;
}

int cuptiGetCallbackName(int domain, uint32_t id, const char** name) {
  (void)domain;
  (void)id;
  *name = "";
  return 0;
}

int cuptiGetResultString(int result, const char** text) {
  (void)result;
  *text = "the virtual GPU has no CUPTI";
  return 0;
}
