// Keeps rows of an op trace until somebody writes them.
#ifndef STREAMGUARD_TRACE_RECORDER_H_
#define STREAMGUARD_TRACE_RECORDER_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "core/access.h"
#include "core/region.h"
#include "trace/row.h"

namespace streamguard::trace {

// Appended to under the engine's lock, emptied by whoever writes the file.
//
// Thread safety: none; whoever serialises the engine's calls serialises these.
// Invariants:
//   1. No row is lost: when more rows come than are taken, the chunk grows. `is_full` tells the
//      caller to have it emptied at the next point where it holds no lock.
//   2. The accesses of a chunk are those of its rows, in order.
//   3. A text keeps its number as long as the recorder lives.
// Cost: a row with two accesses is one write of 200 bytes into memory that is there already.
class Recorder {
 public:
  struct Chunk {
    std::vector<Row> rows;
    std::vector<core::Access> accesses;
    std::vector<std::string> new_texts;  // numbered on from the chunk before
  };

  // Rows that are kept in memory before the program is asked to wait for the writer.
  static constexpr std::size_t kMostRows = std::size_t{1} << 16;

  Recorder();

  void add(const Row& row) { chunk_.rows.push_back(row); }
  void add(Row row, core::AccessSpan accesses) {
    row.accesses = static_cast<std::uint32_t>(accesses.size());
    chunk_.rows.push_back(row);
    chunk_.accesses.insert(chunk_.accesses.end(), accesses.begin(), accesses.end());
  }
  void add_text(Row row, std::string_view text) {
    row.text = number_of(text);
    chunk_.rows.push_back(row);
  }

  bool is_full() const { return chunk_.rows.size() >= kMostRows; }
  // Everything since the last call. `spare` is a chunk that was taken earlier: its memory is used
  // again, so that a steady state allocates nothing.
  Chunk take(Chunk spare);

 private:
  std::uint32_t number_of(std::string_view text);

  Chunk chunk_;
  std::unordered_map<std::string, std::uint32_t> numbers_;
};

}  // namespace streamguard::trace

#endif  // STREAMGUARD_TRACE_RECORDER_H_
