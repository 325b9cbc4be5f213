// Cost per launch of our engine on a sequence file. Usage: core_sequence FILE PASSES
#include "core_sequence.h"

#include <cstdlib>

#include "core/engine.h"

namespace {

using namespace streamguard::core;
using streamguard::bench::Sequence;

constexpr Address kFirstByte = std::uint64_t{1} << 40;

// Addresses alone, as in a running program: the engine finds the blocks itself.
class EngineDetector {
 public:
  explicit EngineDetector(const Sequence& sequence)
      : size_(sequence.region_bytes), thread_(engine_.add_host_thread()) {
    for (std::uint32_t stream = 0; stream < sequence.stream_count; ++stream) {
      streams_.push_back(engine_.add_stream(DeviceId{0}, StreamKind::kNonBlocking));
    }
    for (std::uint32_t index = 0; index < sequence.region_count; ++index) {
      const Region block = region(index);
      engine_.allocate(thread_, block.bounds(), MemoryKind::kDevice, streams_.front());
    }
  }

  void launch(std::uint32_t stream, std::uint32_t read, std::uint32_t written) {
    const Access accesses[] = {{region(read), AccessKind::kRead, kNoAllocation},
                               {region(written), AccessKind::kWrite, kNoAllocation}};
    engine_.launch(thread_, streams_[stream], accesses, {LabelId{1}, SiteId{2}});
  }
  void race(std::uint32_t stream, std::uint32_t written) {
    const Access accesses[] = {{region(written), AccessKind::kWrite, kNoAllocation}};
    engine_.launch(thread_, streams_[stream], accesses, {LabelId{1}, SiteId{2}});
  }
  void record(std::uint32_t stream) { engine_.record_event(thread_, EventId{1}, streams_[stream]); }
  void wait(std::uint32_t stream) { engine_.wait_event(thread_, streams_[stream], EventId{1}); }
  std::size_t race_count() { return engine_.take_races().size(); }

 private:
  Region region(std::uint32_t index) const { return {kFirstByte + index * size_, size_, size_, 1}; }

  Engine engine_;
  std::uint64_t size_;
  HostThreadId thread_;
  std::vector<StreamId> streams_;
};

}  // namespace

int main(int argument_count, char** arguments) {
  if (argument_count != 3) return 2;
  const Sequence sequence = streamguard::bench::read_sequence(arguments[1]);
  EngineDetector detector(sequence);
  return measure(sequence, detector, std::atoi(arguments[2]));
}
