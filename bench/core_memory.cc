// Resident memory of the engine over a steady training loop. Usage: core_memory OPS
//
// Each step takes blocks from a caching allocator, runs kernels on them, hands them to a
// communication stream with an event, frees them with record_stream, and waits once on the host.
#include <unistd.h>

#include <cinttypes>
#include <cstdio>
#include <cstdlib>

#include "core/engine.h"

namespace {

using namespace streamguard::core;

constexpr std::uint64_t kBlockBytes = 1 << 20;
constexpr std::uint64_t kLayers = 48;

std::uint64_t resident_kib() {
  unsigned long long pages = 0;
  unsigned long long resident = 0;
  std::FILE* file = std::fopen("/proc/self/statm", "r");
  if (file == nullptr || std::fscanf(file, "%llu %llu", &pages, &resident) != 2) std::exit(2);
  std::fclose(file);
  return resident * static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE)) / 1024;
}

class Training {
 public:
  Training() {
    thread_ = engine_.add_host_thread();
    compute_ = engine_.add_stream(DeviceId{0}, StreamKind::kLegacy);
    reduce_ = engine_.add_stream(DeviceId{0}, StreamKind::kNonBlocking);
    for (std::uint64_t layer = 0; layer < kLayers; ++layer) {
      engine_.allocate(thread_, weights(layer).bounds(), MemoryKind::kDevice, compute_);
    }
  }

  void step() {
    ++step_;
    for (std::uint64_t layer = 0; layer < kLayers; ++layer) {
      // Sizes vary, so that blocks are cut and joined as a caching allocator does.
      const std::uint64_t slot = (layer * 7 + step_ * 3) % kLayers;
      const Address begin = (std::uint64_t{1} << 40) + slot * kBlockBytes;
      const Region gradient = Region::of_range({begin, begin + kBlockBytes - 512 * (step_ % 5)});
      const AllocationId block =
          engine_.allocate(thread_, gradient.bounds(), MemoryKind::kDevice, compute_);
      launch(compute_, weights(layer), gradient);
      launch(compute_, gradient, gradient);
      const EventId filled{100 + layer};
      engine_.record_event(thread_, filled, compute_);
      engine_.wait_event(thread_, reduce_, filled);
      const Access accesses[] = {{gradient, AccessKind::kWrite, kNoAllocation}};
      engine_.collective(thread_, reduce_, CommunicatorId{1}, accesses, {});
      const EventId reduced{200 + step_ * kLayers + layer};
      engine_.record_event(thread_, reduced, reduce_);
      engine_.wait_event(thread_, compute_, reduced);
      engine_.destroy_event(reduced);
      launch(compute_, gradient, weights(layer));
      engine_.record_stream(block, reduce_);
      engine_.free(thread_, block, {});
    }
    engine_.sync_stream(thread_, compute_);
  }

  const Engine& engine() const { return engine_; }

 private:
  static Region weights(std::uint64_t layer) {
    const Address begin = (layer + 1) * kBlockBytes;
    return Region::of_range({begin, begin + kBlockBytes});
  }
  void launch(StreamId stream, const Region& read, const Region& written) {
    const Access accesses[] = {{read, AccessKind::kRead, kNoAllocation},
                               {written, AccessKind::kWrite, kNoAllocation}};
    engine_.launch(thread_, stream, accesses, {LabelId{1}, SiteId{2}});
  }

  Engine engine_;
  HostThreadId thread_;
  StreamId compute_;
  StreamId reduce_;
  std::uint64_t step_ = 0;
};

}  // namespace

int main(int argument_count, char** arguments) {
  const std::uint64_t ops =
      argument_count > 1 ? std::strtoull(arguments[1], nullptr, 10) : 10000000;
  Training training;
  const auto run_to = [&](std::uint64_t count) {
    while (training.engine().counts().ops < count) training.step();
    return resident_kib();
  };
  const std::uint64_t early = run_to(ops / 10);
  const std::uint64_t late = run_to(ops);
  if (training.engine().has_races()) {
    std::fputs("wrong: the loop races\n", stderr);
    return 1;
  }
  std::printf("{\"early_kib\": %" PRIu64 ", \"late_kib\": %" PRIu64 ", \"ops\": %" PRIu64
              ", \"cells\": %zu, \"entries\": %zu}\n",
              early, late, training.engine().counts().ops, training.engine().counts().cells,
              training.engine().counts().entries);
  return 0;
}
