// Calls of the runtime as CUPTI's callback interface reports them, to one subscriber.
//
// Thread safety: all of it may be used from any thread. Invariants: (1) one subscriber at most;
// (2) a call that is reported at its start is reported at its end, unless the subscriber leaves in
// between; (3) what a reported call calls itself is not reported. Cost where nobody subscribes: one
// relaxed load a call.
#ifndef STREAMGUARD_VGPU_RUNTIME_TRACED_CALL_H_
#define STREAMGUARD_VGPU_RUNTIME_TRACED_CALL_H_

#include <cuda_runtime_api.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace streamguard::vgpu {

// A function of the runtime; `id` is its number in CUPTI's runtime domain.
struct TracedFunction {
  unsigned id;
  const char* name;
};

// One more than the highest number, in the release whose soname the replacement has.
inline constexpr unsigned kTracedIds = 523;

class CallSubscriber;

// Null while nobody subscribes.
extern std::atomic<CallSubscriber*> call_subscriber;

// Arguments as the members of a C structure, in their order: so CUPTI hands them over.
template <class... Arguments>
class CallParameters {
 public:
  explicit CallParameters(const Arguments&... arguments) { (add(arguments), ...); }
  const void* data() const { return bytes_.data(); }

 private:
  template <class Argument>
  void add(const Argument& argument) {
    constexpr size_t kAlignment = alignof(Argument);
    end_ = (end_ + kAlignment - 1) / kAlignment * kAlignment;
    std::memcpy(bytes_.data() + end_, &argument, sizeof argument);
    end_ += sizeof argument;
  }

  // Room for each argument and for the gap before it.
  alignas(
      std::max_align_t) std::array<unsigned char, 8 + (0 + ... + (sizeof(Arguments) + 8))> bytes_{};
  size_t end_ = 0;
};

// One call that the subscriber wants to hear of, from its start to its end.
class TracedCall {
 public:
  TracedCall(CallSubscriber& subscriber, const TracedFunction& function, const void* parameters);
  cudaError_t end(cudaError_t status);

  static bool is_wanted(CallSubscriber& subscriber, unsigned id);

 private:
  void tell(int site, cudaError_t* status);

  CallSubscriber& subscriber_;
  const TracedFunction& function_;
  const void* parameters_;
  uint64_t shared_ = 0;  // the subscriber's own, between start and end
  uint32_t correlation_;
};

// Logs that the program calls the runtime from a callback: there a real CUDA may deadlock.
void log_call_in_callback(const char* function);

// Runs `body`, which answers cudaError_t, as the function that was called with `arguments`.
template <class Body, class... Arguments>
cudaError_t traced(const TracedFunction& function, Body body, const Arguments&... arguments) {
  if (call_subscriber.load(std::memory_order_relaxed) == nullptr) return body();
  CallSubscriber* subscriber = call_subscriber.load(std::memory_order_acquire);
  if (subscriber == nullptr || !TracedCall::is_wanted(*subscriber, function.id)) return body();
  const CallParameters<Arguments...> parameters(arguments...);
  TracedCall call(*subscriber, function, parameters.data());
  return call.end(body());
}

}  // namespace streamguard::vgpu

#endif  // STREAMGUARD_VGPU_RUNTIME_TRACED_CALL_H_
