// Any sequence of calls that the engine's preconditions allow: no crash, no leak, and the bounded
// history reports an op exactly when the full history does, with pairs of the full history only.
#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <set>
#include <tuple>
#include <vector>

#include "core/engine.h"
#include "fuzz/input_bytes.h"

namespace {

using namespace streamguard::core;
using streamguard::fuzz::InputBytes;

constexpr std::size_t kMostCalls = 400;
constexpr std::uint32_t kMostGraphs = 8;
constexpr std::uint32_t kStreams = 6;
constexpr Address kFirstByte = Address{1} << 40;

using Pair = std::tuple<std::uint64_t, int, std::uint64_t, int>;  // op and kind of both sides

// Two engines that are given the same calls.
class Program {
  // First, because its result type is deduced.
  template <typename Call>
  auto in_both(Call call) {
    call(engines_[1]);
    return call(engines_[0]);
  }

 public:
  explicit Program(InputBytes input)
      : input_(input),
        one_clock_(input_.flag()),
        engines_{Engine({History::kBounded, one_clock_}), Engine({History::kFull, one_clock_})} {
    const std::uint32_t threads = 1 + input_.below(3);
    for (std::uint32_t index = 0; index < threads; ++index) add_thread();
    for (std::uint32_t index = 0; index < kStreams; ++index) {
      const DeviceId device{index < 4 ? 0 : 1};
      const auto kind = static_cast<StreamKind>(index % 3);
      streams_.push_back(in_both([&](Engine& engine) { return engine.add_stream(device, kind); }));
    }
  }

  void run() {
    for (std::size_t call = 0; call < kMostCalls && !input_.has_ended(); ++call) {
      step();
      compare();
    }
  }

 private:
  HostThreadId thread() { return threads_[input_.below(threads_.size())]; }
  StreamId stream() { return streams_[input_.below(streams_.size())]; }
  EventId event() { return EventId{input_.below(4)}; }
  CommunicatorId communicator() { return CommunicatorId{input_.below(3)}; }
  // Ids that were never handed out are allowed: they mean unknown memory.
  AllocationId allocation() { return AllocationId{input_.below(32)}; }
  ByteRange range() {
    const Address begin = kFirstByte + input_.below(96);
    return {begin, begin + input_.below(48)};
  }
  Region region() {
    const ByteRange plain = range();
    if (input_.flag()) return Region::of_range(plain);
    return {plain.begin, input_.below(8), input_.below(12), input_.below(8)};
  }
  const std::vector<Access>& accesses() {
    accesses_.resize(input_.below(4));
    for (Access& access : accesses_) {
      const auto kind = input_.flag() ? AccessKind::kWrite : AccessKind::kRead;
      access = {region(), kind, input_.below(4) == 0 ? allocation() : kNoAllocation};
    }
    return accesses_;
  }
  void add_thread() {
    threads_.push_back(in_both([](Engine& engine) { return engine.add_host_thread(); }));
  }

  void step() {
    switch (input_.below(5)) {
      case 0:
      case 1:
        return access();
      case 2:
        return order();
      case 3:
        return memory();
      default:
        return graph();
    }
  }

  void access() {
    const HostThreadId by = thread();
    const StreamId on = stream();
    const std::uint32_t verb = input_.below(8);
    const auto mode = input_.flag() ? CopyMode::kSync : CopyMode::kAsync;
    const CommunicatorId group = communicator();
    const std::vector<Access>& all = accesses();
    in_both([&](Engine& engine) {
      switch (verb) {
        case 0:
          return engine.host_access(by, all, {});
        case 1:
          return engine.copy(by, on, all, mode, {});
        case 2:
          return engine.memset(by, on, all, mode, {});
        case 3:
          return engine.collective(by, on, group, all, {});
        default:
          return engine.launch(by, on, all, {});
      }
    });
  }

  void order() {
    const HostThreadId by = thread();
    const StreamId on = stream();
    const EventId marked = event();
    const MessageId message{marked.value};
    const std::uint32_t verb = input_.below(13);
    if (verb == 12 && threads_.size() < 5) return add_thread();
    in_both([&](Engine& engine) {
      switch (verb) {
        case 0:
        case 1:
        case 2:
          return engine.record_event(by, marked, on);
        case 3:
        case 4:
        case 5:
          return static_cast<void>(engine.wait_event(by, on, marked));
        case 6:
          return engine.sync_stream(by, on);
        case 7:
          return static_cast<void>(engine.sync_event(by, marked));
        case 8:
          return engine.sync_device(by, DeviceId{static_cast<std::int32_t>(on.value % 3)});
        case 9:
          return engine.destroy_event(marked);
        case 10:
          return engine.post(by, message);
        default:
          return engine.take(by, message);
      }
    });
  }

  void memory() {
    const HostThreadId by = thread();
    const StreamId on = stream();
    const ByteRange bytes = range();
    const AllocationId block = allocation();
    const auto kind = static_cast<MemoryKind>(input_.below(3));
    const std::uint32_t verb = input_.below(10);
    in_both([&](Engine& engine) {
      switch (verb) {
        case 0:
        case 1:
          engine.allocate(by, bytes, kind, on);
          return;
        case 2:
          engine.allocate(by, bytes, kind, kNoStream);
          return;
        case 3:
        case 4:
          engine.free(by, engine.allocation_at(bytes.begin), {});
          return;
        case 5:
          engine.free_synchronously(by, block, {});
          return;
        case 6:
          return engine.record_stream(engine.allocation_at(bytes.begin), on);
        case 7:
          return engine.forget(bytes);
        case 8:
          return engine.watch(bytes);
        default:
          return engine.unwatch(bytes);
      }
    });
  }

  void graph() {
    const HostThreadId by = thread();
    const StreamId on = stream();
    const GraphId named{input_.below(kMostGraphs)};
    const std::uint32_t verb = input_.below(4);
    const bool is_capturing = engines_[0].is_capturing(on);
    if (verb <= 1 && is_capturing) {
      const auto ended = in_both([&](Engine& engine) { return engine.end_capture(on); });
      graph_count_ += ended.has_value();
      return;
    }
    if (is_capturing) return;
    in_both([&](Engine& engine) {
      if (verb == 0 && graph_count_ < kMostGraphs) return engine.begin_capture(on);
      if (verb == 3) return engine.destroy_graph(named);
      static_cast<void>(engine.launch_graph(by, named, on));
    });
  }

  static std::set<Pair> pairs_of(Engine& engine) {
    std::set<Pair> pairs;
    for (const Race& race : engine.take_races()) {
      if (race.kind == Race::Kind::kUaf) continue;  // the full history remembers more freed blocks
      pairs.insert({race.second.op.value, static_cast<int>(race.second.kind), race.first.op.value,
                    static_cast<int>(race.first.kind)});
    }
    return pairs;
  }

  void compare() {
    const std::set<Pair> bounded = pairs_of(engines_[0]);
    const std::set<Pair> full = pairs_of(engines_[1]);
    engines_[0].take_watched();
    engines_[1].take_watched();
    if (!std::includes(full.begin(), full.end(), bounded.begin(), bounded.end())) {
      fail("bounded reports a pair that full does not have");
    }
    const auto ops_of = [](const std::set<Pair>& pairs) {
      std::set<std::uint64_t> ops;
      for (const Pair& pair : pairs) ops.insert(std::get<0>(pair));
      return ops;
    };
    if (ops_of(full) != ops_of(bounded)) fail("bounded misses a racing op");
    const EngineCounts kept = engines_[0].counts();
    if (kept.cells > 200) fail("more cells than bytes");
  }

  [[noreturn]] static void fail(const char* reason) {
    std::fprintf(stderr, "engine_fuzz: %s\n", reason);
    std::abort();
  }

  InputBytes input_;
  bool one_clock_;
  std::array<Engine, 2> engines_;  // bounded, full
  std::vector<HostThreadId> threads_;
  std::vector<StreamId> streams_;
  std::vector<Access> accesses_;
  std::uint32_t graph_count_ = 0;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  Program(InputBytes(data, size)).run();
  return 0;
}
