#pragma once

#include "cupti/heard_memory.h"

namespace streamguard::cupti {

/// The call that CUPTI is telling the calling thread of, inside its callback. Meanwhile no CUDA,
/// c10 or Python function that may call CUDA may be called: what they would answer is here.
struct HeardCall {
  int device = 0;
  // What the direction of a copy says of its sides; allocations we know of go before it.
  Place target = Place::kUnknown;
  Place source = Place::kUnknown;

  Place target_at(uint64_t address) const { return resolved(address, target); }
  Place source_at(uint64_t address) const { return resolved(address, source); }

 private:
  static Place resolved(uint64_t address, Place by_direction) {
    const Place known = HeardMemory::get().at(address);
    return known == Place::kUnknown ? by_direction : known;
  }
};

/// Null outside of a callback. Cost: one thread-local read.
const HeardCall* heard_call();

/// Marks the callback while it lives.
class HearingCall {
 public:
  explicit HearingCall(const HeardCall& call);
  ~HearingCall();
  HearingCall(const HearingCall&) = delete;
  HearingCall& operator=(const HearingCall&) = delete;
};

}  // namespace streamguard::cupti
