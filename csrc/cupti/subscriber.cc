#include "cupti/subscriber.h"

#include <dlfcn.h>

#include <memory>

#include "cupti/forwarding.h"
#include "cupti/heard_memory.h"
#include "cupti/heard_streams.h"

namespace streamguard::cupti {
namespace {

// The outermost call of a thread. A subscription that ends in between never tells of its end, so
// it counts for its own subscription only.
struct OpenCall {
  uint64_t subscription = 0;
  uint32_t correlation = 0;
  bool is_open = false;
};
thread_local OpenCall outermost;

// A context's device never changes.
struct KnownContext {
  void* context = nullptr;
  int device = -1;
};
thread_local KnownContext newest_context;

}  // namespace

Subscriber& Subscriber::get() {
  static Subscriber& subscriber = *std::make_unique<Subscriber>().release();
  return subscriber;
}

std::string Subscriber::load(const std::string& library) {
  if (library_ != nullptr) return "";
  // torch is linked with it: the one that its wheels brought is loaded already.
  void* handle = dlopen(library.c_str(), RTLD_LAZY | RTLD_LOCAL);
  if (handle == nullptr) return "no " + library;
  subscribe_ = reinterpret_cast<Subscribe>(dlsym(handle, "cuptiSubscribe"));
  unsubscribe_ = reinterpret_cast<Unsubscribe>(dlsym(handle, "cuptiUnsubscribe"));
  enable_ = reinterpret_cast<EnableCallback>(dlsym(handle, "cuptiEnableCallback"));
  get_device_ = reinterpret_cast<GetDeviceId>(dlsym(handle, "cuptiGetDeviceId"));
  const bool is_complete = subscribe_ != nullptr && unsubscribe_ != nullptr && enable_ != nullptr &&
                           get_device_ != nullptr;
  if (!is_complete) return library + " has no callbacks";
  library_ = handle;
  return "";
}

std::string Subscriber::start(const std::string& library, const interposer::RuntimeCalls& calls) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (is_listening()) return "";
  if (std::string problem = load(library); !problem.empty()) return problem;
  Result result = subscribe_(&subscription_, &on_call, this);
  if (result == kMultipleSubscribers) return "a profiler holds CUPTI";
  if (result != kSuccess) return "CUPTI error " + std::to_string(result);
  // Allocations and streams that came and went unheard must not be mistaken for later ones.
  HeardMemory::get().clear();
  HeardStreams::get().clear();
  subscriptions_.fetch_add(1);
  calls_.store(&calls, std::memory_order_release);
  for (const Function function : kFunctions) {
    result = enable_(1, subscription_, kRuntimeDomain, static_cast<uint32_t>(function));
    if (result == kSuccess) continue;
    leave();
    return "CUPTI error " + std::to_string(result);
  }
  return "";
}

void Subscriber::stop() {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (is_listening()) leave();
}

void Subscriber::leave() {
  calls_.store(nullptr, std::memory_order_release);
  unsubscribe_(subscription_);
  subscription_ = nullptr;
}

int Subscriber::device_of(void* context) const {
  if (context == nullptr) return -1;
  if (newest_context.context != context) {
    uint32_t device = 0;
    if (get_device_(context, &device) != kSuccess) return -1;
    newest_context = {context, static_cast<int>(device)};
  }
  return newest_context.device;
}

void Subscriber::hear(Function function, const CallbackData& data) const {
  const uint64_t subscription = subscriptions_.load(std::memory_order_relaxed);
  if (outermost.subscription != subscription) outermost = {subscription, 0, false};
  if (data.site == Site::kEnter) {
    if (!outermost.is_open) outermost = {subscription, data.correlation, true};
    return;
  }
  if (outermost.is_open && outermost.correlation != data.correlation) return;
  outermost.is_open = false;
  const interposer::RuntimeCalls* calls = calls_.load(std::memory_order_acquire);
  if (calls == nullptr || data.status == nullptr) return;
  const int device = device_of(data.context);
  if (device < 0) return;
  forward(function, data.parameters, *static_cast<const int*>(data.status), device, *calls);
}

void Subscriber::on_call(void* user, int domain, uint32_t function, const CallbackData* data) {
  if (domain != kRuntimeDomain) return;
  static_cast<const Subscriber*>(user)->hear(static_cast<Function>(function), *data);
}

}  // namespace streamguard::cupti
