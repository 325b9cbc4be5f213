// Added time of the recorder per launch of two accesses.
//
// Usage: trace_cost     prints ns per launch of: the engine alone, with the recorder in front but
//                       off, with the recorder on (buffers taken every 50,000 rows and given back)
//
// Seven interleaved rounds; the median with its range. The engine's result is asserted first: the
// sequence has no race, whatever records it.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <utility>
#include <vector>

#include "trace/recorded_engine.h"

namespace {

using namespace streamguard;

constexpr int kRounds = 7;
constexpr int kLaunches = 400000;
constexpr int kStreams = 8;
constexpr core::Address kBase = core::Address{1} << 40;
constexpr std::uint64_t kBytes = 4096;
constexpr int kRegions = 1000;

core::StreamId add_stream(core::Engine& engine, int) {
  return engine.add_stream(core::DeviceId{0}, core::StreamKind::kNonBlocking);
}
core::StreamId add_stream(trace::RecordedEngine& engine, int number) {
  return engine.add_stream(core::DeviceId{0}, core::StreamKind::kNonBlocking,
                           static_cast<std::uint64_t>(number) + 1);
}

// Every stream reads and writes regions of its own, so that nothing races.
template <typename AnyEngine>
double ns_per_launch(AnyEngine& engine, trace::Recorder* recorder) {
  const core::HostThreadId thread = engine.add_host_thread();
  std::vector<core::StreamId> streams;
  for (int index = 0; index < kStreams; ++index) streams.push_back(add_stream(engine, index));
  for (int index = 0; index < kRegions; ++index) {
    const core::Address begin = kBase + static_cast<core::Address>(index) * kBytes;
    engine.allocate(thread, {begin, begin + kBytes}, core::MemoryKind::kDevice, streams[0]);
  }
  trace::Recorder::Chunk spare;
  const std::clock_t begin = std::clock();  // of this process: others may run beside it
  for (int launch = 0; launch < kLaunches; ++launch) {
    const int stream = launch % kStreams;
    const auto region_of = [&](int index) {
      const int region = (index % (kRegions / kStreams)) * kStreams + stream;
      return core::Region{kBase + static_cast<core::Address>(region) * kBytes, kBytes, kBytes, 1};
    };
    const core::Access accesses[] = {
        {region_of(launch / kStreams), core::AccessKind::kRead, {}},
        {region_of(launch / kStreams + 1), core::AccessKind::kWrite, {}}};
    engine.launch(thread, streams[static_cast<std::size_t>(stream)], accesses, {});
    if (recorder != nullptr && launch % 50000 == 0) spare = recorder->take(std::move(spare));
  }
  const double taken_ns = static_cast<double>(std::clock() - begin) * 1e9 / CLOCKS_PER_SEC;
  if (engine.has_races()) {
    std::fprintf(stderr, "trace_cost: the sequence has a race\n");
    std::exit(1);
  }
  return taken_ns / kLaunches;
}

void print(const char* name, std::vector<double> values) {
  std::sort(values.begin(), values.end());
  std::printf("%-14s %6.1f ns per launch (%.1f to %.1f)\n", name, values[values.size() / 2],
              values.front(), values.back());
}

}  // namespace

int main() {
  std::vector<double> alone, off, on;
  for (int round = 0; round < kRounds; ++round) {
    core::Engine engine;
    alone.push_back(ns_per_launch(engine, nullptr));
    trace::RecordedEngine silent;
    off.push_back(ns_per_launch(silent, nullptr));
    trace::RecordedEngine recorded;
    trace::Recorder recorder;
    recorded.record_to(&recorder);
    on.push_back(ns_per_launch(recorded, &recorder));
  }
  print("engine alone", alone);
  print("recorder off", off);
  print("recorder on", on);
  return 0;
}
