// Feeds the rows of a trace to an engine of its own.
#ifndef STREAMGUARD_REPLAY_REPLAYER_H_
#define STREAMGUARD_REPLAY_REPLAYER_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "core/engine.h"
#include "detection/detector_state.h"
#include "trace/row.h"

namespace streamguard::replay {

// Rows as columns that somebody else owns; trace/columns.h says what they hold. `name` and `group`
// are numbers of texts told to the replayer, `site` and `forward_site` numbers of stacks from 1.
// REQUIRES: every column has `rows` values, every access column `accesses`, and `access_offsets`
// rows + 1 of them, growing, within 0 and `accesses`.
struct Batch {
  std::size_t rows = 0;
  std::size_t accesses = 0;
  const std::uint8_t* verb = nullptr;
  const std::uint8_t* kind = nullptr;
  const std::int32_t* device = nullptr;
  const std::uint32_t* thread = nullptr;
  const std::uint32_t* stream = nullptr;
  const std::uint32_t* name = nullptr;
  const std::uint32_t* group = nullptr;
  const std::uint32_t* site = nullptr;
  const std::uint32_t* forward_site = nullptr;
  const std::uint64_t* op = nullptr;
  const std::uint64_t* id = nullptr;
  const std::uint64_t* begin = nullptr;
  const std::uint64_t* end = nullptr;
  const std::int32_t* access_offsets = nullptr;
  const std::uint8_t* access_is_write = nullptr;
  const std::uint64_t* access_begin = nullptr;
  const std::uint64_t* access_width = nullptr;
  const std::uint64_t* access_pitch = nullptr;
  const std::uint64_t* access_rows = nullptr;
  const std::uint64_t* access_allocation = nullptr;
};

// Makes the calls that a trace holds, in their order, and checks that the engine answers as it did.
// Whatever the rows hold, the engine's preconditions are kept: a row that breaks one is an error.
//
// Thread safety: none.
// Invariant: a row at fault changes nothing but what its own call did; rows behind it can be fed,
//   though what they then find is another program's.
class Replayer {
 public:
  enum class Stop : std::uint8_t {
    kEnd,        // all rows were fed
    kAnnounced,  // findings were handed out here: read them with the names they have now
    kNamed,      // bytes have a new name: findings may have it too
    kNote,       // the row's text is for the caller
    kError,
  };
  struct Result {
    Stop stop = Stop::kEnd;
    std::size_t next_row = 0;  // first row that was not fed; of an error, the row at fault
    std::string error;         // what is wrong with it, as a part of a sentence
  };

  explicit Replayer(core::EngineOptions options, bool keeps_races = false)
      : state_(options), keeps_races_(keeps_races) {}

  void add_text(std::string text) { texts_.push_back(std::move(text)); }
  std::size_t text_count() const { return texts_.size(); }
  void set_site_count(std::size_t count) { site_count_ = count; }

  // Feeds rows from `first_row` on until the caller has something to do.
  Result feed(const Batch& batch, std::size_t first_row);

  const detection::DetectorState& state() const { return state_; }
  std::vector<int> take_unannounced() { return state_.take_unannounced(); }
  // Every race, also repeats of one finding. REQUIRES: `keeps_races` was set.
  std::vector<core::Race> take_races() { return std::exchange(races_, {}); }

 private:
  struct View;  // one row

  using Check = std::optional<std::string>;
  Check feed_row(const View& row);
  Check feed_memory(const View& row);
  Check feed_access(const View& row);
  Check feed_order(const View& row);
  Check feed_graph(const View& row);
  Check feed_naming(const View& row);
  Check add_stream(const View& row);
  Check check_op(const View& row, core::OpId op) const;
  Check check_ids(const View& row) const;
  Check read_accesses(const View& row);
  core::OpInfo info_of(const View& row);

  detection::DetectorState state_;
  std::vector<std::string> texts_;
  std::size_t site_count_ = 0;
  std::uint32_t stream_count_ = 0;
  std::uint32_t thread_count_ = 0;
  std::set<std::int32_t> legacy_devices_;
  std::map<std::tuple<std::uint32_t, std::uint32_t, bool, bool>, core::LabelId> labels_;
  std::vector<core::Access> accesses_;
  bool keeps_races_;
  std::vector<core::Race> races_;
};

}  // namespace streamguard::replay

#endif  // STREAMGUARD_REPLAY_REPLAYER_H_
