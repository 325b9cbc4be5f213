#include "hooks/forward_sites.h"

#include <array>
#include <atomic>
#include <memory>

namespace streamguard::hooks {
namespace {

constexpr uint64_t kNodes = 1 << 14;
constexpr uint64_t kThreads = 4096;
constexpr uint64_t kNoNode =
    UINT64_MAX;  // AccumulateGrad carries this number, and is no forward op

struct Entry {
  std::atomic<uint64_t> sequence_number{kNoNode};
  std::atomic<StackId> stack{0};
};

using Ring = std::array<Entry, kNodes>;

// Rings outlive their threads: the autograd thread asks after a worker has ended.
std::array<std::atomic<Ring*>, kThreads> rings{};

}  // namespace

void ForwardSites::note(uint64_t thread_id, uint64_t sequence_number, StackId stack) {
  if (thread_id >= kThreads || sequence_number == kNoNode) return;
  Ring* ring = rings[thread_id].load(std::memory_order_acquire);
  if (ring == nullptr) {
    ring = std::make_unique<Ring>().release();
    rings[thread_id].store(ring, std::memory_order_release);
  }
  Entry& entry = (*ring)[sequence_number % kNodes];
  if (entry.sequence_number.load(std::memory_order_relaxed) == sequence_number) return;
  // A reader between the two stores must not pair the new stack with the old number.
  entry.sequence_number.store(kNoNode, std::memory_order_release);
  entry.stack.store(stack, std::memory_order_release);
  entry.sequence_number.store(sequence_number, std::memory_order_release);
}

StackId ForwardSites::find(uint64_t thread_id, uint64_t sequence_number) {
  if (thread_id >= kThreads || sequence_number == kNoNode) return 0;
  const Ring* ring = rings[thread_id].load(std::memory_order_acquire);
  if (ring == nullptr) return 0;
  const Entry& entry = (*ring)[sequence_number % kNodes];
  if (entry.sequence_number.load(std::memory_order_acquire) != sequence_number) return 0;
  return entry.stack.load(std::memory_order_acquire);
}

}  // namespace streamguard::hooks
