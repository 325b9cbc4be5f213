// Any rows, as columns of any content: the replayer feeds what the engine allows and refuses the
// rest with a row, and whatever was found can be read. Never a crash.
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "detection/finding_facts.h"
#include "fuzz/input_bytes.h"
#include "replay/replayer.h"

namespace {

using streamguard::fuzz::InputBytes;
using namespace streamguard;
using replay::Batch;
using replay::Replayer;

constexpr std::size_t kMostRows = 200;

// Small numbers meet each other; the edges of their range meet the checks.
class Numbers {
 public:
  explicit Numbers(InputBytes& input) : input_(input) {}

  std::uint64_t wide() {
    const std::uint8_t choice = input_.byte();
    if (choice < 200) return choice % 8;
    if (choice < 225) return kBlocks + choice * std::uint64_t{64};
    if (choice < 235) return ~std::uint64_t{0} - choice % 4;
    std::uint64_t value = 0;
    for (int at = 0; at < 8; ++at) value = value << 8 | input_.byte();
    return value;
  }
  std::uint64_t address() {
    const std::uint8_t choice = input_.byte();
    return choice < 240 ? kBlocks + choice : wide();
  }
  std::uint32_t narrow() { return input_.byte() < 250 ? input_.below(5) : ~std::uint32_t{0}; }
  std::uint8_t byte(std::uint8_t count) {
    return input_.byte() < 250 ? static_cast<std::uint8_t>(input_.below(count)) : input_.byte();
  }
  bool flag() { return input_.flag(); }

 private:
  static constexpr std::uint64_t kBlocks = std::uint64_t{1} << 40;

  InputBytes& input_;
};

struct Rows {
  std::vector<std::uint8_t> verb, kind, is_write;
  std::vector<std::int32_t> device, offsets{0};
  std::vector<std::uint32_t> thread, stream, name, group, site, forward_site;
  std::vector<std::uint64_t> op, id, begin, end, access_begin, width, pitch, rows, allocation;

  void add(Numbers& numbers, std::uint64_t expected_op) {
    verb.push_back(numbers.byte(static_cast<std::uint8_t>(trace::kVerbNames.size())));
    kind.push_back(numbers.byte(static_cast<std::uint8_t>(trace::kKindNames.size())));
    device.push_back(static_cast<std::int32_t>(numbers.narrow() % 3));
    thread.push_back(numbers.narrow());
    stream.push_back(numbers.narrow());
    name.push_back(numbers.narrow());
    group.push_back(numbers.narrow());
    site.push_back(numbers.narrow());
    forward_site.push_back(numbers.narrow());
    op.push_back(numbers.flag() ? expected_op : numbers.wide());
    id.push_back(numbers.wide());
    begin.push_back(numbers.address());
    end.push_back(numbers.flag() ? begin.back() + numbers.byte(64) : numbers.address());
    for (std::uint8_t left = numbers.byte(4) % 4; left > 0; --left) {
      access_begin.push_back(numbers.address());
      width.push_back(numbers.wide());
      pitch.push_back(numbers.wide());
      rows.push_back(numbers.wide());
      is_write.push_back(numbers.byte(2));
      allocation.push_back(numbers.wide());
    }
    offsets.push_back(static_cast<std::int32_t>(access_begin.size()));
  }

  Batch batch() const {
    Batch result;
    result.rows = verb.size();
    result.accesses = access_begin.size();
    result.verb = verb.data();
    result.kind = kind.data();
    result.device = device.data();
    result.thread = thread.data();
    result.stream = stream.data();
    result.name = name.data();
    result.group = group.data();
    result.site = site.data();
    result.forward_site = forward_site.data();
    result.op = op.data();
    result.id = id.data();
    result.begin = begin.data();
    result.end = end.data();
    result.access_offsets = offsets.data();
    result.access_is_write = is_write.data();
    result.access_begin = access_begin.data();
    result.access_width = width.data();
    result.access_pitch = pitch.data();
    result.access_rows = rows.data();
    result.access_allocation = allocation.data();
    return result;
  }
};

[[noreturn]] void fail(const char* reason) {
  std::fprintf(stderr, "trace_fuzz: %s\n", reason);
  std::abort();
}

// Batches of one row: a row that is refused does not end the run.
void run(InputBytes input) {
  const bool is_full = input.flag();
  const bool one_host_clock = input.flag();
  Replayer replayer({is_full ? core::History::kFull : core::History::kBounded, one_host_clock});
  for (const char* text : {"aten::add_", "bucket", "group 0", "free"}) replayer.add_text(text);
  replayer.set_site_count(3);
  Numbers numbers(input);
  for (std::size_t row = 0; row < kMostRows && !input.has_ended(); ++row) {
    Rows rows;
    rows.add(numbers, replayer.state().engine.current_op().value + 1);
    const Replayer::Result result = replayer.feed(rows.batch(), 0);
    if (result.stop == Replayer::Stop::kError) {
      if (result.error.empty() || result.next_row != 0) fail("an error without reason or row");
      continue;
    }
    if (result.next_row != 1) fail("a row was neither fed nor refused");
    if (result.stop == Replayer::Stop::kAnnounced) replayer.take_unannounced();
  }
  const detection::DetectorState& state = replayer.state();
  for (const detection::FindingStore::Finding& finding : state.findings.all()) {
    detection::finding_facts(state, finding);
  }
  for (const detection::WatchLog::Entry& entry : state.watch_log.entries()) {
    detection::watched_facts(state, entry);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  run(InputBytes(data, size));
  return 0;
}
