#include "schedule.h"

#include <cstdio>

#include "mix.h"
#include "pct_policy.h"

namespace streamguard::vgpu {
namespace {

class EagerPolicy final : public SchedulePolicy {
 public:
  bool runs_at_issue(const Stream&, uint64_t) override { return true; }
  uint64_t rank(const Stream&, uint64_t) override { return 0; }
  bool has_ranks() const override { return false; }
  std::string token() const override { return "eager"; }
};

class LazyPolicy final : public SchedulePolicy {
 public:
  bool runs_at_issue(const Stream&, uint64_t) override { return false; }
  uint64_t rank(const Stream&, uint64_t) override { return 0; }
  bool has_ranks() const override { return false; }
  std::string token() const override { return "lazy"; }
};

// Of an unordered pair, one on each of two streams, the extreme with the one early and the other
// late runs the first before the second, and the swapped extreme the reverse. All other streams
// stay lazy: running them at issue would force what they depend on of the late one.
class ExtremePolicy final : public SchedulePolicy {
 public:
  ExtremePolicy(int early, int late) : early_(early), late_(late) {}
  bool runs_at_issue(const Stream& stream, uint64_t) override { return stream.index == early_; }
  uint64_t rank(const Stream& stream, uint64_t) override {
    return stream.index == early_ ? 0 : stream.index == late_ ? 2 : 1;
  }
  bool has_ranks() const override { return true; }
  std::string token() const override {
    return "extreme:" + std::to_string(early_) + "," + std::to_string(late_);
  }

 private:
  const int early_;
  const int late_;
};

class RandomPolicy final : public SchedulePolicy {
 public:
  explicit RandomPolicy(uint64_t seed) : seed_(seed) {}
  bool runs_at_issue(const Stream& stream, uint64_t sequence) override {
    return mixed(stream, sequence) % 2 == 0;
  }
  uint64_t rank(const Stream& stream, uint64_t sequence) override {
    return mixed(stream, sequence);
  }
  bool has_ranks() const override { return true; }
  std::string token() const override { return "random:" + std::to_string(seed_); }

 private:
  uint64_t mixed(const Stream& stream, uint64_t sequence) const {
    return mix(seed_, sequence, static_cast<uint64_t>(stream.index));
  }

  const uint64_t seed_;
};

}  // namespace

std::unique_ptr<SchedulePolicy> make_policy(const std::string& text) {
  if (text == "eager") return std::make_unique<EagerPolicy>();
  if (text == "lazy") return std::make_unique<LazyPolicy>();
  int early = -1;
  int late = -1;
  int length = 0;
  if (std::sscanf(text.c_str(), "extreme:%d,%d%n", &early, &late, &length) == 2 &&
      length == static_cast<int>(text.size()) && early >= 0 && late >= 0 && early != late) {
    return std::make_unique<ExtremePolicy>(early, late);
  }
  unsigned long long seed = 0;
  length = 0;
  if (std::sscanf(text.c_str(), "random:%llu%n", &seed, &length) == 1 &&
      length == static_cast<int>(text.size())) {
    return std::make_unique<RandomPolicy>(seed);
  }
  return make_pct_policy(text);
}

}  // namespace streamguard::vgpu
