/* Callbacks of the runtime domain are real: the runtime replacement makes them. Activities are not:
   there is nothing to time, and the profiler gets empty buffers, not garbage. */
#include <stddef.h>
#include <stdint.h>

enum {
  kInvalidParameter = 1,
  kInvalidContext = 3,
  kMaxLimitReached = 12,
  kMultipleSubscribers = 39,
  kRuntimeDomain = 2,
  kDomains = 7, /* one more than the highest */
  kRuntimeIds = 523,
};

typedef void (*Callback)(void* user, int domain, uint32_t id, const void* data);

extern void* streamguard_vgpu_subscribe(Callback callback, void* user);
extern int streamguard_vgpu_unsubscribe(const void* subscriber);
extern int streamguard_vgpu_want_call(const void* subscriber, uint32_t id, int is_wanted);
extern int streamguard_vgpu_device_of_context(const void* context);

static void* newest_subscriber = NULL; /* only the runtime knows whether it still listens */

int cuptiSubscribe(void** subscriber, Callback callback, void* user) {
  if (subscriber == NULL || callback == NULL) return kInvalidParameter;
  *subscriber = streamguard_vgpu_subscribe(callback, user);
  if (*subscriber == NULL) return kMultipleSubscribers;
  newest_subscriber = *subscriber;
  return 0;
}

int cuptiUnsubscribe(void* subscriber) {
  return streamguard_vgpu_unsubscribe(subscriber) ? 0 : kInvalidParameter;
}

int cuptiFinalize(void) {
  streamguard_vgpu_unsubscribe(newest_subscriber);
  return 0;
}

/* Of the other domains nothing is ever told: enabling them succeeds. */
int cuptiEnableCallback(uint32_t enable, void* subscriber, int domain, uint32_t id) {
  if (domain <= 0 || domain >= kDomains) return kInvalidParameter;
  if (domain != kRuntimeDomain) return 0;
  return streamguard_vgpu_want_call(subscriber, id, enable != 0) ? 0 : kInvalidParameter;
}

int cuptiEnableDomain(uint32_t enable, void* subscriber, int domain) {
  if (domain <= 0 || domain >= kDomains) return kInvalidParameter;
  if (domain != kRuntimeDomain) return 0;
  for (uint32_t id = 1; id < kRuntimeIds; ++id) {
    if (!streamguard_vgpu_want_call(subscriber, id, enable != 0)) return kInvalidParameter;
  }
  return 0;
}

int cuptiGetDeviceId(void* context, uint32_t* device) {
  const int found = streamguard_vgpu_device_of_context(context);
  if (device == NULL) return kInvalidParameter;
  if (found < 0) return kInvalidContext;
  *device = (uint32_t)found;
  return 0;
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
  switch (result) {
    case 0:
      *text = "CUPTI_SUCCESS";
      return 0;
    case kInvalidParameter:
      *text = "CUPTI_ERROR_INVALID_PARAMETER";
      return 0;
    case kMultipleSubscribers:
      *text = "CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED";
      return 0;
    default:
      *text = "a result that the virtual GPU's CUPTI never gives";
      return 0;
  }
}
