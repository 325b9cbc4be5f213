// One epoch per lane.
#ifndef STREAMGUARD_CORE_VECTOR_CLOCK_H_
#define STREAMGUARD_CORE_VECTOR_CLOCK_H_

#include <cstddef>
#include <vector>

#include "core/ids.h"

namespace streamguard::core {

// How far each lane is known: everything up to that epoch, inclusive, has happened before.
//
// Thread safety: none.
// Invariants:
//   1. Components never decrease. A component that was never raised is 0.
// Cost: at and raise O(1), join O(lanes).
class VectorClock {
 public:
  Epoch at(LaneId lane) const {
    return lane.value < epochs_.size() ? epochs_[lane.value] : Epoch{0};
  }
  bool knows(LaneId lane, Epoch epoch) const { return at(lane) >= epoch; }
  // Returns whether the component grew.
  bool raise(LaneId lane, Epoch epoch) {
    if (at(lane) >= epoch) return false;
    if (lane.value >= epochs_.size()) epochs_.resize(lane.value + 1, 0);
    epochs_[lane.value] = epoch;
    return true;
  }
  // Componentwise maximum. Calls raised(lane) for each component that grew.
  template <typename Raised>
  void join(const VectorClock& other, Raised raised) {
    if (other.epochs_.size() > epochs_.size()) epochs_.resize(other.epochs_.size(), 0);
    for (std::size_t lane = 0; lane < other.epochs_.size(); ++lane) {
      if (other.epochs_[lane] <= epochs_[lane]) continue;
      epochs_[lane] = other.epochs_[lane];
      raised(LaneId{static_cast<std::uint32_t>(lane)});
    }
  }
  void clear() { epochs_.assign(epochs_.size(), 0); }
  const std::vector<Epoch>& epochs() const { return epochs_; }

 private:
  std::vector<Epoch> epochs_;  // index: lane
};

}  // namespace streamguard::core

#endif  // STREAMGUARD_CORE_VECTOR_CLOCK_H_
