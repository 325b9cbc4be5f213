#include "traced_call.h"

#include <bitset>
#include <memory>
#include <mutex>

#include "api_log.h"
#include "context_handle.h"
#include "export.h"
#include "runtime.h"

namespace streamguard::vgpu {

std::atomic<CallSubscriber*> call_subscriber{nullptr};

namespace {

constexpr int kRuntimeDomain = 2;
constexpr int kEnter = 0;
constexpr int kExit = 1;

// CUpti_CallbackData.
struct CallbackData {
  int site;
  const char* function;
  const void* parameters;
  void* status;
  const char* symbol;
  void* context;
  uint32_t context_number;
  uint64_t* shared;
  uint32_t correlation;
};

using Callback = void (*)(void* user, int domain, uint32_t id, const void* data);

std::mutex subscription_mutex;
std::atomic<uint32_t> newest_correlation{0};
thread_local bool is_inside_call = false;
thread_local bool is_in_callback = false;

}  // namespace

// Never destroyed: a call of another thread may be about to tell it.
class CallSubscriber {
 public:
  CallSubscriber(Callback callback, void* user) : callback_(callback), user_(user) {}

  bool wants(unsigned id) const { return ids_[id].load(std::memory_order_relaxed); }
  void set_wanted(unsigned id, bool is_wanted) { ids_[id].store(is_wanted); }
  void tell(unsigned id, const CallbackData& data) const {
    if (call_subscriber.load(std::memory_order_acquire) != this) return;
    is_in_callback = true;
    callback_(user_, kRuntimeDomain, id, &data);
    is_in_callback = false;
  }

 private:
  const Callback callback_;
  void* const user_;
  std::array<std::atomic<bool>, kTracedIds> ids_{};
};

void log_call_in_callback(const char* function) {
  if (is_in_callback) log_line("call_in_callback %s", function);
}

bool TracedCall::is_wanted(CallSubscriber& subscriber, unsigned id) {
  return !is_inside_call && subscriber.wants(id);
}

TracedCall::TracedCall(CallSubscriber& subscriber, const TracedFunction& function,
                       const void* parameters)
    : subscriber_(subscriber),
      function_(function),
      parameters_(parameters),
      correlation_(newest_correlation.fetch_add(1, std::memory_order_relaxed) + 1) {
  is_inside_call = true;
  tell(kEnter, nullptr);
}

cudaError_t TracedCall::end(cudaError_t status) {
  tell(kExit, &status);
  is_inside_call = false;
  return status;
}

void TracedCall::tell(int site, cudaError_t* status) {
  const int device = current_device();
  CallbackData data{};
  data.site = site;
  data.function = function_.name;
  data.parameters = parameters_;
  data.status = status;
  data.context = context_handle(device);
  data.context_number = static_cast<uint32_t>(device) + 1;
  data.shared = &shared_;
  data.correlation = correlation_;
  subscriber_.tell(function_.id, data);
}

}  // namespace streamguard::vgpu

using namespace streamguard::vgpu;

namespace {

CallSubscriber* current(const void* subscriber) {
  CallSubscriber* known = call_subscriber.load(std::memory_order_acquire);
  return known != nullptr && known == subscriber ? known : nullptr;
}

}  // namespace

VGPU_API void* streamguard_vgpu_subscribe(void (*callback)(void*, int, uint32_t, const void*),
                                          void* user) {
  const std::lock_guard<std::mutex> lock(subscription_mutex);
  if (call_subscriber.load() != nullptr) return nullptr;
  call_subscriber.store(std::make_unique<CallSubscriber>(callback, user).release());
  return call_subscriber.load();
}

VGPU_API int streamguard_vgpu_unsubscribe(const void* subscriber) {
  const std::lock_guard<std::mutex> lock(subscription_mutex);
  if (current(subscriber) == nullptr) return 0;
  call_subscriber.store(nullptr);
  return 1;
}

VGPU_API int streamguard_vgpu_want_call(const void* subscriber, uint32_t id, int is_wanted) {
  const std::lock_guard<std::mutex> lock(subscription_mutex);
  CallSubscriber* known = current(subscriber);
  if (known == nullptr || id == 0 || id >= kTracedIds) return 0;
  known->set_wanted(id, is_wanted != 0);
  return 1;
}

VGPU_API int streamguard_vgpu_device_of_context(const void* context) {
  const int device = device_of_context(context);
  return is_device(device) ? device : -1;
}
