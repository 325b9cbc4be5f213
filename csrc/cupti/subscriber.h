#pragma once

#include <atomic>
#include <mutex>
#include <string>

#include "cupti/abi.h"
#include "interposer/runtime_calls.h"

namespace streamguard::cupti {

/// Hears the runtime's calls through CUPTI and passes them on.
///
/// CUPTI has one subscriber in a process: whoever else holds it keeps it. Never destroyed, and the
/// library is never closed: a callback of another thread may be on its way.
///
/// Thread safety: `start` and `stop` from any thread, with no lock of ours held and without the
/// GIL: CUPTI may wait for callbacks that are under way. Invariants: (1) no CUDA call is made in a
/// callback; (2) of nested calls only the outermost is passed on.
class Subscriber {
 public:
  static Subscriber& get();

  /// Subscribes, and enables each function we want to hear of.
  ///
  /// Args:
  ///   library: File name of CUPTI, of the CUDA release that torch is built for.
  ///   calls: Who is told; valid until the process ends.
  /// Returns: why nothing is heard; empty where it is.
  std::string start(const std::string& library, const interposer::RuntimeCalls& calls);
  void stop();

  bool is_listening() const { return calls_.load(std::memory_order_relaxed) != nullptr; }

 private:
  std::string load(const std::string& library);
  void leave();
  int device_of(void* context) const;
  void hear(Function function, const CallbackData& data) const;
  static void on_call(void* user, int domain, uint32_t function, const CallbackData* data);

  std::mutex mutex_;
  void* library_ = nullptr;
  Subscribe subscribe_ = nullptr;
  Unsubscribe unsubscribe_ = nullptr;
  EnableCallback enable_ = nullptr;
  GetDeviceId get_device_ = nullptr;
  Subscription subscription_ = nullptr;
  std::atomic<const interposer::RuntimeCalls*> calls_{nullptr};
  std::atomic<uint64_t> subscriptions_{0};
};

}  // namespace streamguard::cupti
