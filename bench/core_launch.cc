// Cost of one launch with two accesses in the engine, by streams and live regions.
//
// Usage: core_launch [streams] [regions] [launches]
// Prints nanoseconds per launch as JSON, and the counts of shadow memory, which must not depend on
// the number of launches.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "core/engine.h"

namespace {

using namespace streamguard::core;

constexpr std::uint64_t kBlockBytes = 1 << 20;

class Loop {
 public:
  Loop(std::uint32_t stream_count, std::uint64_t region_count) {
    thread_ = engine_.add_host_thread();
    for (std::uint32_t index = 0; index < stream_count; ++index) {
      streams_.push_back(engine_.add_stream(
          DeviceId{0}, index == 0 ? StreamKind::kLegacy : StreamKind::kNonBlocking));
    }
    for (std::uint64_t index = 0; index < region_count; ++index) {
      const Address begin = (index + 1) * kBlockBytes;
      engine_.allocate(thread_, {begin, begin + kBlockBytes}, MemoryKind::kDevice, streams_[0]);
    }
    region_count_ = region_count;
  }

  // Afterwards memory has its final size: a read and a write are kept for each region.
  void touch_all() {
    const std::uint64_t per_stream = region_count_ / streams_.size();
    for (std::uint64_t index = 0; index < per_stream * streams_.size(); ++index) {
      for (const AccessKind kind : {AccessKind::kWrite, AccessKind::kRead}) {
        const Access accesses[] = {{region(index), kind, kNoAllocation}};
        engine_.launch(thread_, streams_[index / per_stream], accesses, {LabelId{1}, SiteId{2}});
      }
    }
  }

  // Each stream reads and writes regions of its own, in an order that caches cannot guess.
  void launch(std::uint64_t count) {
    const std::uint64_t streams = streams_.size();
    for (std::uint64_t index = 0; index < count; ++index) {
      state_ = state_ * 6364136223846793005ull + 1442695040888963407ull;
      const std::uint64_t stream = index % streams;
      const std::uint64_t per_stream = region_count_ / streams;
      const std::uint64_t read = stream * per_stream + (state_ >> 33) % per_stream;
      const std::uint64_t written = stream * per_stream + (state_ >> 13) % per_stream;
      const Access accesses[] = {{region(read), AccessKind::kRead, kNoAllocation},
                                 {region(written), AccessKind::kWrite, kNoAllocation}};
      engine_.launch(thread_, streams_[stream], accesses, {LabelId{1}, SiteId{2}});
      if (index % 64 == 63) {
        engine_.record_event(thread_, EventId{1}, streams_[stream]);
        engine_.wait_event(thread_, streams_[(stream + 1) % streams], EventId{1});
      }
    }
  }

  Engine& engine() { return engine_; }

 private:
  static Region region(std::uint64_t index) {
    return {(index + 1) * kBlockBytes, kBlockBytes, kBlockBytes, 1};
  }

  Engine engine_;
  HostThreadId thread_;
  std::vector<StreamId> streams_;
  std::uint64_t region_count_ = 0;
  std::uint64_t state_ = 1;
};

std::uint64_t argument(int count, char** values, int index, std::uint64_t standard) {
  return index < count ? std::strtoull(values[index], nullptr, 10) : standard;
}

}  // namespace

int main(int argument_count, char** arguments) {
  const auto streams = static_cast<std::uint32_t>(argument(argument_count, arguments, 1, 8));
  const std::uint64_t regions = argument(argument_count, arguments, 2, 1000);
  const std::uint64_t launches = argument(argument_count, arguments, 3, 300000);

  Loop loop(streams, regions);
  loop.touch_all();
  loop.launch(launches / 4);  // warm-up
  const auto begin = std::chrono::steady_clock::now();
  loop.launch(launches);
  const std::chrono::duration<double, std::nano> took = std::chrono::steady_clock::now() - begin;
  if (loop.engine().has_races()) {
    std::fputs("wrong: the loop races\n", stderr);
    return 1;
  }
  const EngineCounts counts = loop.engine().counts();
  std::printf("{\"ns\": %.2f, \"cells\": %zu, \"entries\": %zu}\n",
              took.count() / static_cast<double>(launches), counts.cells, counts.entries);
  return 0;
}
