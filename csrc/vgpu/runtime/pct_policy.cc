#include "pct_policy.h"

#include <cstdio>
#include <unordered_map>
#include <vector>

#include "mix.h"

namespace streamguard::vgpu {
namespace {

constexpr int kDefaultDepth = 3;
constexpr int kMaxDepth = 64;
// Changes fall among the first 2^17 ops.
constexpr uint64_t kScales = 17;
constexpr uint64_t kHighest = uint64_t{1} << 63;  // priorities not lowered yet lie above

// What the drawn numbers are for.
enum Purpose : uint64_t { kPriority = 1, kScale, kPlace, kVictim };
constexpr int kHost = -1;

class PctPolicy final : public SchedulePolicy {
 public:
  PctPolicy(uint64_t seed, int depth) : seed_(seed), depth_(depth) {
    for (int change = 1; change < depth; ++change) {
      const auto number = static_cast<uint64_t>(change);
      const uint64_t scale = uint64_t{1} << (mix(seed_, kScale, number) % kScales);
      changes_.push_back(scale + mix(seed_, kPlace, number) % scale);
    }
  }

  bool runs_at_issue(const Stream& stream, uint64_t sequence) override {
    for (size_t i = 0; i < changes_.size(); ++i) {
      if (changes_[i] != sequence) continue;
      const int victim = mix(seed_, kVictim, i) % 2 == 0 ? kHost : stream.index;
      lowered_[victim].push_back({sequence, static_cast<uint64_t>(changes_.size() - i)});
    }
    return priority(stream.index, sequence) > priority(kHost, sequence);
  }
  uint64_t rank(const Stream& stream, uint64_t sequence) override {
    return ~priority(stream.index, sequence);
  }
  bool has_ranks() const override { return true; }
  std::string token() const override {
    const std::string seed = "pct:" + std::to_string(seed_);
    return depth_ == kDefaultDepth ? seed : seed + "," + std::to_string(depth_);
  }

 private:
  struct Lowering {
    uint64_t from;  // op of this number and later ones
    uint64_t priority;
  };

  // Ops issued before a change keep the priority they had.
  uint64_t priority(int stream, uint64_t sequence) const {
    uint64_t result = mix(seed_, kPriority, static_cast<uint64_t>(stream + 1)) | kHighest;
    const auto lowerings = lowered_.find(stream);
    if (lowerings == lowered_.end()) return result;
    for (const Lowering& lowering : lowerings->second) {
      if (lowering.from <= sequence) result = lowering.priority;
    }
    return result;
  }

  const uint64_t seed_;
  const int depth_;
  std::vector<uint64_t> changes_;                           // sequence numbers of ops
  std::unordered_map<int, std::vector<Lowering>> lowered_;  // by stream index, or kHost
};

}  // namespace

std::unique_ptr<SchedulePolicy> make_pct_policy(const std::string& text) {
  unsigned long long seed = 0;
  int depth = kDefaultDepth;
  int length = 0;
  const int size = static_cast<int>(text.size());
  if (std::sscanf(text.c_str(), "pct:%llu%n", &seed, &length) != 1) return nullptr;
  if (length != size &&
      (std::sscanf(text.c_str(), "pct:%llu,%d%n", &seed, &depth, &length) != 2 || length != size)) {
    return nullptr;
  }
  if (depth < 1 || depth > kMaxDepth) return nullptr;
  return std::make_unique<PctPolicy>(seed, depth);
}

}  // namespace streamguard::vgpu
